"""Recorded traffic: JSON lines, or an access log in the common or combined form with a duration at the end of a line.

A JSON line has ``time`` (seconds, or ISO 8601) and ``duration`` (seconds), and may have ``user``, ``groups``,
``method``, ``path``, ``host``, ``headers``, ``clientAddress`` and ``seats``. The last field of a log line is the
duration: in seconds if it has a decimal point (nginx's ``$request_time``), otherwise in microseconds (Apache's ``%D``).

Rows are sorted within a bounded look-ahead, because servers write them when they have responded. Times in whole seconds
are spread over their second; otherwise all requests of a second would arrive at once.
"""

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import IO, Any, Final, TypeGuard

from apf_middleware.classification.text import printable
from apf_middleware.exceptions import TraceFormatError

__all__ = ["LOOK_AHEAD", "MOST_NAMES", "RecordedRequest", "RequestTrace", "TraceSurvey"]

LOOK_AHEAD: Final = 65_536
"""The number of rows that are held for sorting."""

MOST_NAMES: Final = 10_000
"""The number of names that are counted; further names are not."""

_SECOND: Final = 10**9
_MOST_UNREADABLE: Final = 0.01
_ENOUGH: Final = 20
_LOG: Final = re.compile(
    r'(?P<address>\S+) \S+ (?P<user>.+?) \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+)[^"]*"'
    r' \d{3} \S+(?: "(?:[^"\\]|\\.)*")*(?: [\w-]+=\S+)*? (?:[\w-]+=)?"?(?P<duration>\d+(?:\.\d+)?)"?\s*$'
)
_LOG_OF_NO_REQUEST: Final = re.compile(
    r'\S+ \S+ .+? \[[^\]]+\] "(?:[^"\\]|\\.)*" \d{3} \S+(?: "(?:[^"\\]|\\.)*")*(?: [\w-]+=\S+)*?'
    r' (?:[\w-]+=)?"?\d+(?:\.\d+)?"?\s*$'
)
_LOG_WITHOUT: Final = re.compile(r'\S+ \S+ .+? \[[^\]]+\] "[^"]*" \d{3} \S+(?: "(?:[^"\\]|\\.)*")*\s*$')


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One recorded request; ``time_ns`` counts from the first one, and ``seats`` is 0 where it isn't known."""

    time_ns: int
    duration_ns: int | None
    user: str = ""
    groups: tuple[str, ...] = ()
    method: str = "GET"
    path: str = "/"
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    address: str = ""
    seats: int = 0
    is_whole_second: bool = False

    def listed_as(self, by: str) -> str:
        """Return user, client address, or path without the query; made printable, because logs hold any bytes."""
        if by == "user":
            return printable(self.user) or "(anonymous)"
        return printable(self.address) or "(unknown)" if by == "address" else printable(self.path.partition("?")[0])


@dataclass(slots=True)
class TraceSurvey:
    """Figures of a trace, from one pass over it.

    ``begin_ns`` is the time of the first row, ``span_ns`` the time from the first to the last, at least one second,
    ``work_ns`` the sum of durations times seats, ``counts`` the number of rows of each user, address and path.
    """

    rows: int = 0
    unreadable: int = 0
    begin_ns: int = 0
    span_ns: int = 0
    work_ns: int = 0
    longest_ns: int = 0
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {"user": Counter(), "address": Counter(), "path": Counter()}
    )

    @property
    def busy(self) -> float:
        """The average number of requests under way (Little's law)."""
        return self.work_ns / self.span_ns if self.span_ns else 0.0


class _UnreadableError(Exception):
    """A line has no known format."""


class _NoRequestError(_UnreadableError):
    """A log line records something other than an HTTP request, which never reached the application."""


class RequestTrace:
    """A file of recorded requests, plain or compressed with gzip, of which at most ``most`` rows are read."""

    def __init__(self, path: Path, most: int | None = None) -> None:
        self.path = path
        self.most = most
        self._survey: TraceSurvey | None = None

    def survey(self) -> TraceSurvey:
        """Read the file once for its figures; raise TraceFormatError if it has no known format."""
        if self._survey is not None:
            return self._survey
        found = TraceSurvey()
        begin, end = math.inf, -math.inf
        for row in self._parsed(found):
            found.rows += 1
            spread = _SECOND - 1 if row.is_whole_second else 0
            begin, end = min(begin, row.time_ns), max(end, row.time_ns + spread)
            duration = row.duration_ns or 0
            found.work_ns += duration * max(1, row.seats)
            found.longest_ns = max(found.longest_ns, duration)
            for by, counter in found.counts.items():
                name = row.listed_as(by)
                if name in counter or len(counter) < MOST_NAMES:
                    counter[name] += 1
        if not found.rows:
            raise TraceFormatError(f"{self.path}: there is no request in it")
        found.begin_ns, found.span_ns = int(begin), max(_SECOND, int(end - begin) + 1)
        self._survey = found
        return found

    def rows(self, seed: int = 1) -> Iterator[RecordedRequest]:
        """Yield the rows in order of time, counted from the first one."""
        begin = self.survey().begin_ns
        dice = Random(f"{seed}/trace")  # noqa: S311 - a simulation
        held: list[tuple[int, int, RecordedRequest]] = []
        last = 0
        for number, row in enumerate(self._parsed(TraceSurvey())):
            time = row.time_ns - begin + (dice.randrange(_SECOND) if row.is_whole_second else 0)
            heappush(held, (time, number, row))
            # Rows come out in order unless one is more than LOOK_AHEAD rows too late in the file.
            if len(held) > LOOK_AHEAD:
                last, earliest = _first(held, last)
                yield earliest
        while held:
            last, earliest = _first(held, last)
            yield earliest

    def _parsed(self, survey: TraceSurvey) -> Iterator[RecordedRequest]:
        try:
            with self._open() as lines:
                yield from self._parsed_lines(lines, survey)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TraceFormatError(f"{self.path}: it can't be read: {reason}") from error

    def _open(self) -> IO[str]:
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding="utf-8", errors="replace")
        return self.path.open(encoding="utf-8", errors="replace")

    def _parsed_lines(self, lines: IO[str], survey: TraceSurvey) -> Iterator[RecordedRequest]:
        taken = strange = 0
        first = ""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if self.most is not None and taken >= self.most:
                break
            try:
                row = _of_json(line) if line.startswith("{") else _of_log(line)
            except _NoRequestError:
                survey.unreadable += 1
                continue
            except _UnreadableError as error:
                survey.unreadable += 1
                strange += 1
                first = first or f"{self.path}:{number}: {error}"
                if strange > max(_ENOUGH, taken):
                    break
                continue
            taken += 1
            yield row
        # A few bad lines are normal; more mean that the file has another format.
        if strange and (not taken or strange > _MOST_UNREADABLE * taken):
            raise TraceFormatError(f"{first} ({strange} of {taken + strange} lines can't be read)")


def _first(held: list[tuple[int, int, RecordedRequest]], last: int) -> tuple[int, RecordedRequest]:
    """Return the earliest row that is held; if it is earlier than the last one, it gets the time of that row."""
    time, _, row = heappop(held)
    time = max(time, last)
    return time, replace(row, time_ns=time, is_whole_second=False)


def _of_json(line: str) -> RecordedRequest:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise _UnreadableError(f"a line that begins with a brace must be JSON: {error}") from None
    groups = _valid(fields, "groups", [], lambda one: isinstance(one, list) and _are_texts(one), "be a list of names")
    headers = _valid(
        fields, "headers", {}, lambda one: isinstance(one, dict) and _are_texts(one.values()), "be names and values"
    )
    duration = _valid(
        fields, "duration", None, lambda one: _is_number(one) and 0 <= one < 1e7, "be a number of seconds"
    )
    return RecordedRequest(
        time_ns=_time_of(fields.get("time")),
        duration_ns=None if duration is None else round(duration * _SECOND),
        user=_text(fields, "user"),
        groups=tuple(groups),
        method=_text(fields, "method", "GET"),
        path=_valid(fields, "path", "/", lambda one: str(one)[:1] == "/", "begin with a slash"),
        host=_text(fields, "host"),
        headers={name.lower(): value for name, value in headers.items()},
        address=_text(fields, "clientAddress"),
        seats=_valid(fields, "seats", 0, lambda one: type(one) is int and 0 <= one < 1_000_000, "be a whole number"),
    )


def _valid(fields: Mapping[str, Any], name: str, default: Any, test: Callable[[Any], bool], rule: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field, or ``default`` if it is absent or null."""
    value = fields.get(name)
    if value is None:
        return default
    if test(value):
        return value
    raise _UnreadableError(f"{name} is {value!r}, but it must {rule}")


def _text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    text: str = _valid(fields, name, default, lambda one: isinstance(one, str), "be text")
    return text


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def _time_of(value: object) -> int:
    if _is_number(value) and abs(value) < 1e12:
        return round(value * _SECOND)
    if isinstance(value, str):
        with suppress(ValueError):
            return _nanoseconds(datetime.fromisoformat(value))
    raise _UnreadableError(f"time is {value!r}, but it must be seconds or ISO 8601")


def _nanoseconds(time: datetime) -> int:
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def _of_log(line: str) -> RecordedRequest:
    found = _LOG.match(line)
    if found is None:
        if _LOG_WITHOUT.match(line):
            hint = "with nginx add $request_time to log_format, with Apache %D to LogFormat"
            raise _UnreadableError(f"a line must end with the duration of the request: {hint}")
        if _LOG_OF_NO_REQUEST.match(line):
            raise _NoRequestError
        raise _UnreadableError("a line must be JSON, or of the common or combined log form with a duration at its end")
    time, user, duration, path = found["time"], found["user"], found["duration"], found["path"]
    return RecordedRequest(
        time_ns=_log_time(time),
        duration_ns=round(float(duration) * _SECOND) if "." in duration else int(duration) * 1000,
        user="" if user == "-" else user,
        method=found["method"],
        path=path if path.startswith("/") else "/",
        address=found["address"],
        is_whole_second=True,
    )


@lru_cache(maxsize=64)
def _log_time(text: str) -> int:
    try:
        return _nanoseconds(datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z"))
    except ValueError:
        raise _UnreadableError(f"the time is {text!r}, but it must be like 10/Oct/2026:13:55:36 +0000") from None
