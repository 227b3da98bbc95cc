"""The demo as a person starts it: into a pipe, in a terminal, and stopped with Ctrl-C."""

import errno
import os
import pty
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "examples.elephant"]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-256color",
    "COLUMNS": "80",
    "LINES": "24",
}
CURSOR_OFF, CURSOR_ON = "\x1b[?25l", "\x1b[?25h"


class Terminal:
    """A process in a pseudo-terminal, and what it has written there."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self._written = b""

    @property
    def text(self) -> str:
        return self._written.decode(errors="ignore")

    def read_until(self, text: str) -> None:
        while text not in self.text:
            assert self._read(), f"it ended before it wrote {text!r}: {self.text}"

    def read_to_end(self) -> int:
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        try:
            chunk = os.read(self._screen, 65536)
        except OSError as error:  # how Linux says that the other side is closed
            if error.errno != errno.EIO:
                raise
            return False
        self._written += chunk
        return bool(chunk)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    screen, keyboard = pty.openpty()
    try:
        process = subprocess.Popen(
            [*DEMO, *arguments], cwd=ROOT, env=ENVIRONMENT, stdin=keyboard, stdout=keyboard, stderr=keyboard
        )
    finally:
        os.close(keyboard)
    try:
        yield Terminal(process, screen)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(screen)


@pytest.fixture
def _heeded_sigint() -> Iterator[None]:
    """A process started in a shell's background would pass on that it ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pipe(*arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [*DEMO, *arguments], cwd=ROOT, env=environment, capture_output=True, encoding=encoding, check=False
    )


def test_into_a_pipe_it_writes_plain_text() -> None:
    done = pipe("--fast")
    assert (done.returncode, done.stderr) == (0, "")
    assert {character for character in done.stdout if unicodedata.category(character) == "Cc"} == {"\n"}
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("without fairness", "with apf_middleware", "latency, p99", "goodput", "Jain's index", "apf --help"):
        assert words in done.stdout


def test_where_nothing_but_ascii_can_be_written_it_still_ends_well() -> None:
    done = pipe(encoding="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "latency, p99" in done.stdout
    assert "?" not in done.stdout


def test_in_a_terminal_it_draws_and_ends_by_itself() -> None:
    with terminal("--fast") as shown:
        assert shown.read_to_end() == 0
    assert shown.text.count("64 queues") > 10
    assert "10.0 of 10 s" in shown.text
    assert "goodput" in shown.text
    assert shown.text.count(CURSOR_OFF) == shown.text.count(CURSOR_ON) == 1


@pytest.mark.usefixtures("_heeded_sigint")
def test_ctrl_c_ends_it_cleanly() -> None:
    with terminal() as shown:
        shown.read_until("of 10 s")
        shown.process.send_signal(signal.SIGINT)
        assert shown.read_to_end() == 130
    assert "Traceback" not in shown.text
    assert "goodput" not in shown.text
    assert shown.text.rindex(CURSOR_ON) > shown.text.rindex(CURSOR_OFF)
