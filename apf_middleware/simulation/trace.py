"""Recorded traffic: recordings, other lines of JSON, and access logs.

A JSON line has ``time`` (seconds, or ISO 8601) and ``duration`` (seconds), and may have the other fields of a recorded
request. For logs see `access_logs`.

Rows are sorted within a bounded look-ahead, because servers write them when they have responded. Times in whole seconds
are spread over their second; otherwise all requests of a second would arrive at once.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import IO, Final

from apf_middleware.exceptions import InvalidValueError, TraceFormatError
from apf_middleware.recordings import (
    MOST_ROWS_HELD,
    Footer,
    Header,
    RecordedRequest,
    UnreadableLineError,
    damage_errors,
    open_recording,
)
from apf_middleware.recordings.lines import parse_fields, read_fields
from apf_middleware.recordings.marks import parse_mark
from apf_middleware.simulation.access_logs import NoRequestError, is_access_log, parse_access_log, parse_log_line
from apf_middleware.simulation.recorded_durations import RecordedDurations
from apf_middleware.simulation.row_times import RowTimes

__all__ = ["MOST_NAMES", "RequestTrace", "TraceSurvey"]

MOST_NAMES: Final = 10_000
"""The number of names that are counted; further names are not."""

_SECOND: Final = 10**9
_MOST_UNREADABLE: Final = 0.01
_ENOUGH: Final = 20
_MEASURED: Final = frozenset({"", "served", "failed"})  # recordings have no durations of requests with other outcomes


@dataclass(slots=True)
class TraceSurvey:
    """Figures of a trace, from one pass over it.

    ``begin_ns`` is the time of the first row, ``span_ns`` the time from the first to the last, at least one second,
    ``work_ns`` the sum of durations times seats, ``counts`` the number of rows of each user, address, path and flow.
    ``unmeasured`` rows should have a duration and don't. A recording has a ``header``, and a ``footer`` unless it was
    cut off. ``last_worker`` is the largest number of a process.
    """

    rows: int = 0
    unreadable: int = 0
    unmeasured: int = 0
    begin_ns: int = 0
    span_ns: int = 0
    work_ns: int = 0
    longest_ns: int = 0
    last_worker: int = 0
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {"user": Counter(), "address": Counter(), "path": Counter(), "flow": Counter()}
    )
    header: Header | None = None
    footer: Footer | None = None
    is_cut_off: bool = False
    durations: RecordedDurations = field(default_factory=RecordedDurations)
    times: RowTimes = field(default_factory=RowTimes)

    @property
    def busy(self) -> float:
        """The average number of requests under way (Little's law)."""
        return self.work_ns / self.span_ns if self.span_ns else 0.0

    @property
    def has_lost_header(self) -> bool:
        """Whether this is a recording without its first line."""
        return self.header is None and (self.footer is not None or self.last_worker > 0)

    def add(self, row: RecordedRequest) -> None:
        """Count a row."""
        duration = row.duration_ns or 0
        self.durations.add(row)
        self.times.add(row.time_ns)
        self.unmeasured += row.duration_ns is None and row.outcome in _MEASURED
        self.work_ns += duration * max(1, row.seats)
        self.longest_ns = max(self.longest_ns, duration)
        self.last_worker = max(self.last_worker, row.worker)
        for by, counter in self.counts.items():
            name = row.listed_as(by)
            count = counter.get(name, 0)
            if count or len(counter) < MOST_NAMES:
                counter[name] = count + 1


class RequestTrace:
    """A file of recorded requests, plain or compressed, of which at most ``most`` rows are read.

    Rows that come more than ``look_ahead`` rows too late are moved.
    """

    def __init__(self, path: Path, most: int | None = None, look_ahead: int = MOST_ROWS_HELD) -> None:
        self.path = path
        self.most = most
        self.look_ahead = look_ahead
        self._survey: TraceSurvey | None = None

    def survey(self) -> TraceSurvey:
        """Read the file once for its figures; raise TraceFormatError if it has no known format."""
        if self._survey is not None:
            return self._survey
        found = TraceSurvey()
        begin, end = math.inf, -math.inf
        for row in self._parsed(found, self.most):
            begin = min(begin, row.time_ns)
            end = max(end, row.time_ns + (_SECOND - 1 if row.is_whole_second else 0))
            found.add(row)
        if not found.rows:
            skipped = f", in {found.unreadable} lines about other things" if found.unreadable else ""
            raise TraceFormatError(f"{self.path}: there is no request in it{skipped}")
        if found.header is not None:
            begin = min(0, begin)  # the recording has begun before its first request
        if found.footer is not None:
            end = max(end, begin + round(found.footer.seconds * _SECOND) - 1)
        found.begin_ns, found.span_ns = int(begin), max(_SECOND, int(end - begin) + 1)
        self._survey = found
        return found

    def rows(self, seed: int = 1) -> Iterator[RecordedRequest]:
        """Yield the rows in order of time, counted from the first one."""
        begin = self.survey().begin_ns
        dice = Random(f"{seed}/trace")  # noqa: S311 - a simulation
        held: list[tuple[int, int, RecordedRequest]] = []
        last = 0
        for number, row in enumerate(self._rows_as_surveyed(self.survey().rows)):
            time = row.time_ns - begin + (dice.randrange(_SECOND) if row.is_whole_second else 0)
            heappush(held, (time, number, row))
            if len(held) > self.look_ahead:
                last, earliest = _first(held, last)
                yield earliest
        while held:
            last, earliest = _first(held, last)
            yield earliest

    def _rows_as_surveyed(self, count: int) -> Iterator[RecordedRequest]:
        """Yield the first rows, as many as the survey found: the log of a live server has grown since."""
        again = TraceSurvey()
        yield from self._parsed(again, count)
        if again.rows < count:
            raise TraceFormatError(f"{self.path}: it had {count} requests and now has {again.rows}. Read a copy of it")

    def _parsed(self, survey: TraceSurvey, most: int | None) -> Iterator[RecordedRequest]:
        try:
            self._require_regular()
            with open_recording(self.path) as lines:
                yield from self._parsed_lines(lines, survey, most)
        except EOFError as error:
            survey.is_cut_off = True
            if not survey.rows:
                raise TraceFormatError(f"{self.path}: it ends before the first request") from error
        except InvalidValueError as error:
            raise TraceFormatError(f"{self.path}: {error}") from error
        except damage_errors(self.path) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TraceFormatError(f"{self.path}: it can't be read: {reason}") from error

    def _require_regular(self) -> None:
        if self.path.exists() and not self.path.is_file():
            raise TraceFormatError(f"{self.path}: it must be a regular file, because it is read twice")

    def _parsed_lines(self, lines: IO[str], survey: TraceSurvey, most: int | None) -> Iterator[RecordedRequest]:
        taken = strange = last_strange = number = 0
        first = ""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if most is not None and taken >= most:
                break
            try:
                row = _parse(line)
                if not isinstance(row, RecordedRequest):
                    self._note(row, number, survey)
                    continue
            except NoRequestError:
                survey.unreadable += 1
                continue
            except UnreadableLineError as error:
                survey.unreadable += 1
                strange += 1
                last_strange = number
                first = first or f"{self.path}:{number}: {error}"
                if strange > max(_ENOUGH, taken):
                    break
                continue
            taken += 1
            survey.rows += 1
            yield row
        if survey.header is not None and survey.footer is None and (most is None or taken < most):
            survey.is_cut_off = True
            strange -= last_strange == number  # the line in which it was cut off
        # A few bad lines are normal; more mean that the file has another format.
        if strange and (not taken or strange > _MOST_UNREADABLE * taken):
            raise TraceFormatError(f"{first} ({strange} of {taken + strange} lines can't be read)")

    def _note(self, mark: Header | Footer, number: int, survey: TraceSurvey) -> None:
        """Note the beginning or the end of the recording, and refuse the beginning of another one."""
        if isinstance(mark, Footer):
            survey.footer = mark
        elif survey.header is None and not survey.rows:
            survey.header = mark
        else:
            rule = "another recording begins here, but the times of each count from its own start"
            raise TraceFormatError(f"{self.path}:{number}: {rule}. Simulate each recording by itself")


def _first(held: list[tuple[int, int, RecordedRequest]], last: int) -> tuple[int, RecordedRequest]:
    """Return the earliest row that is held; if it is earlier than the last one, it gets the time of that row."""
    time, _, row = heappop(held)
    row.time_ns, row.is_whole_second = max(time, last), False
    return row.time_ns, row


def _parse(line: str) -> RecordedRequest | Header | Footer:
    if not line.startswith("{"):
        return parse_log_line(line)
    fields = read_fields(line)
    return parse_access_log(fields) if is_access_log(fields) else parse_mark(fields) or parse_fields(fields)
