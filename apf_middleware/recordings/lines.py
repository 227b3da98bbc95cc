"""Recorded requests as lines of JSON. Fields that have their usual value are left out."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeGuard

from apf_middleware.recordings.request import OUTCOMES, RecordedRequest

__all__ = ["LONGEST_S", "UnreadableLineError", "nanoseconds_of", "parse_fields", "read_fields", "request_line"]

LONGEST_S: Final = 1e7
"""No request lasts so long, in seconds."""

_decode: Final = json.JSONDecoder().raw_decode  # json.loads also looks for blanks, which takes as long again
_SECOND: Final = 10**9
_LATEST_S: Final = 1e12
_MOST_SEATS: Final = 1_000_000
_MOST_WEIGHT: Final = 1e9
_TIMES: Final = {
    "duration": "duration_ns",
    "linger": "linger_ns",
    "wait": "wait_ns",
    "deadline": "deadline_ns",
}
_TEXTS: Final = {
    "user": "user",
    "host": "host",
    "clientAddress": "address",
    "route": "route",
    "schema": "schema",
    "level": "level",
    "flow": "flow",
    "outcome": "outcome",
    "reason": "reason",
    "criticality": "criticality",
}
_NUMBERS: Final = {"seats": "seats", "finalSeats": "final_seats", "status": "status", "worker": "worker"}
_FLAGS: Final = {"stream": "is_stream", "standing": "is_standing"}


class UnreadableLineError(Exception):
    """A line has no known format."""


def request_line(request: RecordedRequest) -> str:
    """Return a request as one line of JSON, without the line's end."""
    fields: dict[str, object] = {"time": request.time_ns / _SECOND}
    for name, attribute in _TIMES.items():
        value = getattr(request, attribute)
        if value:
            fields[name] = value / _SECOND
        elif value == 0 and attribute != "linger_ns":
            fields[name] = 0
    fields["method"], fields["path"] = request.method, request.path
    for name, attribute in (*_TEXTS.items(), *_NUMBERS.items(), *_FLAGS.items()):
        if value := getattr(request, attribute):
            fields[name] = value
    if request.groups:
        fields["groups"] = request.groups
    if request.headers:
        fields["headers"] = request.headers
    if request.weight != 1:
        fields["weight"] = request.weight
    return json.dumps(fields, separators=(",", ":"))


def read_fields(line: str) -> dict[str, Any]:
    """Return the fields in a line; raise UnreadableLineError if it isn't an object of JSON."""
    try:
        fields, end = _decode(line)
        if end < len(line) and line[end:].strip():
            fields = json.loads(line)  # which says what is wrong
    except (ValueError, RecursionError) as error:
        raise UnreadableLineError(f"a line that begins with a brace must be JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UnreadableLineError("a line of JSON must be an object")
    return fields


def parse_fields(fields: Mapping[str, Any]) -> RecordedRequest:
    """Return the request with these fields; raise UnreadableLineError if one has a wrong value.

    Unknown fields are ignored, and null is the usual value.
    """
    if fields.get("time") is None:
        raise _wrong_value("time", None, _READERS["time"].rule)
    found = RecordedRequest(0, None)
    for name, value in fields.items():
        reader = _READERS.get(name)
        if reader is None or value is None:
            continue
        try:
            setattr(found, reader.attribute, reader.read(value))
        except ValueError:
            raise _wrong_value(name, value, reader.rule) from None
    return found


def _wrong_value(name: str, value: object, rule: str) -> UnreadableLineError:
    return UnreadableLineError(f"{name} is {value!r}, but it must {rule}")


def nanoseconds_of(time: datetime) -> int:
    """Return a time in nanoseconds since 1970; a time without a zone is taken as UTC."""
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def _read_time(value: object) -> int:
    if isinstance(value, str):
        return nanoseconds_of(datetime.fromisoformat(value))
    return _scaled(value, -_LATEST_S, _LATEST_S)


def _read_duration(value: object) -> int:
    return _scaled(value, 0, LONGEST_S)


def _scaled(seconds: object, least: float, below: float) -> int:
    """Return a number of seconds in nanoseconds."""
    if not _is_number(seconds) or not least <= seconds < below:
        raise ValueError
    return round(seconds * _SECOND)


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - the caller turns it into an UnreadableLineError
    return value


def _read_path(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError
    return value


def _read_outcome(value: object) -> str:
    text = _read_text(value)
    return text if text in OUTCOMES else ""  # a log's own word


def _read_count(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST_SEATS:
        raise ValueError
    return value


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - as in `_read_text`
    return value


def _read_groups(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError  # noqa: TRY004 - as in `_read_text`
    return tuple(map(_read_text, value))


def _read_headers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - as in `_read_text`
    return {name.lower(): _read_text(text) for name, text in value.items()}


def _read_weight(value: object) -> float:
    if not _is_number(value) or not 0 < value < _MOST_WEIGHT:
        raise ValueError
    return value


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in {int, float}


class _Reader(NamedTuple):
    """Reads one field: ``read`` raises ValueError for a value that breaks the ``rule``."""

    attribute: str
    read: Callable[[object], object]
    rule: str


_READERS: Final[Mapping[str, _Reader]] = {
    "time": _Reader("time_ns", _read_time, "be seconds or ISO 8601"),
    **{
        name: _Reader(attribute, _read_duration, f"be a number of seconds, from 0 to {LONGEST_S:,.0f}")
        for name, attribute in _TIMES.items()
    },
    **{name: _Reader(attribute, _read_text, "be text") for name, attribute in _TEXTS.items()},
    **{name: _Reader(attribute, _read_count, "be a whole number") for name, attribute in _NUMBERS.items()},
    **{name: _Reader(attribute, _read_flag, "be true or false") for name, attribute in _FLAGS.items()},
    "method": _Reader("method", _read_text, "be text"),
    "path": _Reader("path", _read_path, "begin with a slash"),
    "outcome": _Reader("outcome", _read_outcome, "be text"),
    "groups": _Reader("groups", _read_groups, "be a list of names"),
    "headers": _Reader("headers", _read_headers, "be names and values"),
    "weight": _Reader("weight", _read_weight, "be a number above 0"),
}
"""By the names of the fields, how they are read."""
