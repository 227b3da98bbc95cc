"""Recordings of several workers, merged into one in the order of time."""

from dataclasses import replace
from heapq import heappop, heappush
from typing import IO, Final

from apf_middleware.cli.control.line_streams import StreamEvent
from apf_middleware.recordings import (
    MOST_ROWS_HELD,
    Footer,
    Header,
    RecordedRequest,
    UnreadableLineError,
    parse_line,
    request_line,
)
from apf_middleware.recordings.marks import EndReason

__all__ = ["MergedRecording"]

_HOLD_NS: Final = 5 * 10**9
"""Rows are held for this time, because a worker sends a request when it has ended."""


class MergedRecording:
    """Merges recordings of ``workers`` into ``file``; the times of all count from the first start.

    ``header`` is the one that has been written.

    A request that lasts longer than rows are held is written out of order, and readers sort it in.
    """

    def __init__(self, workers: int, file: IO[str]) -> None:
        self._file = file
        self._headers: dict[int, Header] = {}
        self._footers: dict[int, Footer] = {}
        self._early: list[tuple[int, RecordedRequest]] = []
        self._workers = workers
        self.header: Header | None = None
        self._held: list[tuple[int, int, RecordedRequest]] = []
        self._number = 0
        self._newest = 0
        self.rows: int = 0
        self.unreadable: int = 0

    @property
    def lost(self) -> int:
        """The rows that workers have dropped, as far as they have said so."""
        return sum(one.lost for one in self._footers.values())

    def header_of(self, stream: int) -> Header | None:
        """Return the header of one worker, if it has come."""
        return self._headers.get(stream)

    def end_of(self, stream: int) -> EndReason | None:
        """Return why the recording of a worker has ended; None if its end hasn't come."""
        footer = self._footers.get(stream)
        return None if footer is None else footer.reason

    def add(self, event: StreamEvent) -> None:
        """Take a line of one worker."""
        line = (event.line or "").strip()
        if not line:
            return
        try:
            found = parse_line(line)
        except UnreadableLineError:
            self.unreadable += 1
            return
        if isinstance(found, Header):
            self._headers[event.stream] = found
        elif isinstance(found, Footer):
            self._footers[event.stream] = found
        elif self.header is None:
            self._early.append((event.stream, found))
        else:
            self._hold(event.stream, found)

    def begin(self) -> None:
        """Write the header, when those of all workers have come that will ever come."""
        base = min(self._headers.values(), key=lambda one: one.start_ns)
        standing = sum(one.standing for one in self._headers.values())
        is_same = len({one.configuration for one in self._headers.values()}) == 1
        configuration = base.configuration if is_same else ""
        self.header = replace(base, workers=self._workers, standing=standing, configuration=configuration)
        self._file.write(f"{self.header.line()}\n")
        early, self._early = self._early, []
        for stream, row in early:
            self._hold(stream, row)

    def _hold(self, stream: int, row: RecordedRequest) -> None:
        header = self._headers.get(stream)
        if header is None or self.header is None:
            self.unreadable += 1
            return
        time = row.time_ns + header.start_ns - self.header.start_ns
        self._newest = max(self._newest, time)
        self._number += 1
        heappush(self._held, (time, self._number, replace(row, time_ns=time, worker=stream)))
        if len(self._held) > MOST_ROWS_HELD:
            self._write_first()

    def write(self) -> None:
        """Write the rows that no earlier one is expected before."""
        while self._held and self._held[0][0] < self._newest - _HOLD_NS:
            self._write_first()
        self._file.flush()

    def finish(self, seconds: float, reason: EndReason) -> Footer:
        """Write everything that is left, and the footer."""
        while self._held:
            self._write_first()
        footers = self._footers.values()
        said = dict.fromkeys(one.reason for one in footers)
        ended: EndReason = reason if reason != "time" or len(said) != 1 else next(iter(said))
        if len(self._footers) < self._workers or (len(said) > 1 and "shutdown" in said):
            ended = "incomplete"
        is_settled = all(one.is_settled for one in footers)
        footer = Footer(self.rows, self.lost, round(seconds, 6), ended, is_settled)
        self._file.write(f"{footer.line()}\n")
        self._file.flush()
        return footer

    def _write_first(self) -> None:
        self._file.write(f"{request_line(heappop(self._held)[2])}\n")
        self.rows += 1
