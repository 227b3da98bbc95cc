"""``apf record``: record the traffic of a running server into a file, without the names of its callers."""

import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Final

import typer

from apf_middleware.asgi.admin.documents import RecordingDocument
from apf_middleware.cli.control.line_streams import LineStreams
from apf_middleware.cli.control.merged_recording import MergedRecording
from apf_middleware.cli.control.options import parse_duration
from apf_middleware.cli.control.outcomes import Exit, fail, note, require_success
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.workers import ask_all, page
from apf_middleware.cli.output import require_folder
from apf_middleware.cli.progress import show_progress
from apf_middleware.exceptions import MissingExtraError, reason_of
from apf_middleware.recordings import open_recording, require_compression
from apf_middleware.recordings.marks import Names
from apf_middleware.wording import plural

__all__ = ["record"]

_STANDARD_OUTPUT: Final = Path("-")
_PATIENCE_S: Final = 10.0  # for the end of a recording that has been stopped
_LEAST_TIMEOUT_S: Final = 15.0  # between two parts: a worker without requests sends an empty line more often


_Seconds = Annotated[str, typer.Option("--seconds", metavar="DURATION", help="How long, like 600 or 10m.")]
_File = Annotated[
    Path, typer.Option("--output", "-o", help="The file: .jsonl, .jsonl.gz, .jsonl.zst, or - for standard output.")
]
_Sample = Annotated[float, typer.Option(min=0.0001, max=1, help="The part of the flows to record, each of them whole.")]
_Names = Annotated[Names, typer.Option(help="Whether callers and flows are hashed, with a key that isn't kept.")]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]


@for_server
def record(
    server: Server,
    *,
    output: _File,
    seconds: _Seconds = "60",
    sample: _Sample = 1.0,
    names: _Names = "hashed",
    force: _Force = False,
) -> None:
    """Record the traffic of all workers of a server into one file, for apf simulate --trace and apf recommend.

    Ctrl-C ends the recording early; the file is complete then, too.
    """
    duration = parse_duration(seconds, "--seconds")
    _require_file(output, force=force)
    body = {"seconds": duration, "sample": sample, "names": names, "key": secrets.token_hex(32)}
    streams = LineStreams(server.workers, page("recordings"), body, max(server.timeout, _LEAST_TIMEOUT_S))
    require_success(streams.replies)
    try:
        with _opened(output, force=force) as file:
            status = _Recording(streams, file, duration).run()
    except OSError as error:
        if output == _STANDARD_OUTPUT:  # its reader may have left, as head does
            raise
        fail(f"{output} can't be written: {reason_of(error)}; the recording has ended early", Exit.REFUSED)
    finally:
        streams.close()
    if status is not Exit.DONE or not all(reply.is_done for reply in streams.replies):
        raise typer.Exit(Exit.PARTIAL)


def _require_file(path: Path, *, force: bool) -> None:
    """End with status 2 before anything is recorded if the file can't be written."""
    if path == _STANDARD_OUTPUT:
        return
    require_folder("output", path)
    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists; --force overwrites it", param_hint="--output")
    try:
        require_compression(path)
    except MissingExtraError as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--output") from None


@contextmanager
def _opened(path: Path, *, force: bool) -> Iterator[IO[str]]:
    if path == _STANDARD_OUTPUT:
        yield sys.stdout
        return
    try:
        opened = open_recording(path, "w" if force else "x")
    except OSError as error:
        raise typer.BadParameter(f"{path}: {reason_of(error)}", param_hint="--output") from None
    with opened as file:
        yield file


class _Recording:
    """One recording of ``streams`` into ``file``."""

    def __init__(self, streams: LineStreams, file: IO[str], duration: float) -> None:
        self._streams = streams
        self._merged = MergedRecording(len(streams.workers), file)
        self._duration = duration
        self._began = time.monotonic()
        self._interrupts = 0
        self._asked_end: float | None = None
        self._status = Exit.DONE
        self._ended: set[int] = set()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> Exit:
        """Record until all streams have ended, and write what has come in the end."""
        with _interruptible(self._interrupt), show_progress("recording", self._duration) as show:
            while self._streams.is_open and not self._is_late():
                self._read()
                show(min(self._seconds, self._duration), self._merged.rows)
        self._streams.close()
        if self._merged.header is None:
            note("no worker has sent anything")
            return Exit.PARTIAL
        footer = self._merged.finish(self._seconds, "interrupted" if self._interrupts else "time")
        lost = f"; lost, because they came faster than they could be written: {footer.lost:,}"
        note(f"{plural(footer.rows, 'request')} in {footer.seconds:.1f} s{lost if footer.lost else ''}")
        if self._merged.unreadable:
            lines = plural(self._merged.unreadable, "line")
            note(f"{lines} could not be read: do the workers run another version?")
        return self._status

    def _read(self) -> None:
        merged, streams = self._merged, self._streams
        for event in streams.read():
            merged.add(event)
            if event.line is None:
                self._ended.add(event.stream)
                end = merged.end_of(event.stream)
                if end is None or end == "shutdown":
                    self._status = Exit.PARTIAL
                    why = event.trouble or ("it was shut down" if end else "the connection has ended")
                    note(f"worker {streams.workers[event.stream].name} went away: {why}; the others go on")
        if merged.header is None and any(map(merged.header_of, range(len(streams.workers)))):
            is_known = [
                number in self._ended or merged.header_of(number) is not None for number in range(len(streams.workers))
            ]
            if all(is_known):
                merged.begin()
        if merged.header is not None:
            merged.write()

    def _interrupt(self) -> None:
        """Ask all workers to end the recording; the second time, don't wait for them."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._asked_end = time.monotonic() + _PATIENCE_S
        for number, worker in enumerate(self._streams.workers):
            header = self._merged.header_of(number)
            if header is not None and number not in self._ended:
                ask_all([worker], "DELETE", page("recordings", header.id), RecordingDocument, timeout=2.0)

    def _is_late(self) -> bool:
        """Return whether a worker goes on long after it should have stopped."""
        if self._asked_end is not None:
            return time.monotonic() > self._asked_end
        return self._seconds > self._duration + 2 * _PATIENCE_S


@contextmanager
def _interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call ``interrupt`` at Ctrl-C and when the process is asked to end."""

    def call(_number: int, _frame: FrameType | None) -> None:
        interrupt()

    before = {one: signal.signal(one, call) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
