"""Recorded requests as lines of JSON. Fields that have their usual value are left out."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from apf_middleware.recordings.request import OUTCOMES, RecordedRequest

__all__ = ["UnreadableLineError", "nanoseconds_of", "parse_fields", "read_fields", "request_line"]

_SECOND: Final = 10**9
_LONGEST_S: Final = 1e7
_MOST_SEATS: Final = 1_000_000
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
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableLineError(f"a line that begins with a brace must be JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UnreadableLineError("a line of JSON must be an object")
    return fields


def parse_fields(fields: Mapping[str, Any]) -> RecordedRequest:
    """Return the request with these fields; raise UnreadableLineError if one has a wrong value."""
    groups = _valid(fields, "groups", [], lambda one: isinstance(one, list) and _are_texts(one), "be a list of names")
    headers = _valid(
        fields, "headers", {}, lambda one: isinstance(one, dict) and _are_texts(one.values()), "be names and values"
    )
    found: dict[str, Any] = {attribute: _duration(fields, name) for name, attribute in _TIMES.items()}
    found["linger_ns"] = found["linger_ns"] or 0
    found |= {attribute: _text(fields, name) for name, attribute in _TEXTS.items()}
    found |= {attribute: _number(fields, name) for name, attribute in _NUMBERS.items()}
    for name, attribute in _FLAGS.items():
        found[attribute] = _valid(fields, name, False, lambda one: isinstance(one, bool), "be true or false")  # noqa: FBT003
    if found["outcome"] not in OUTCOMES:
        found["outcome"] = ""  # a log's own word
    return RecordedRequest(
        time_ns=_time_of(fields.get("time")),
        groups=tuple(groups),
        method=_text(fields, "method", "GET"),
        path=_valid(fields, "path", "/", lambda one: isinstance(one, str) and one[:1] == "/", "begin with a slash"),
        headers={name.lower(): value for name, value in headers.items()},
        weight=_valid(fields, "weight", 1, lambda one: _is_number(one) and 0 < one < 1e9, "be a number above 0"),
        **found,
    )


def nanoseconds_of(time: datetime) -> int:
    """Return a time in nanoseconds since 1970; a time without a zone is taken as UTC."""
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def _valid(fields: Mapping[str, Any], name: str, default: Any, test: Callable[[Any], bool], rule: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field, or ``default`` if it is absent or null."""
    value = fields.get(name)
    if value is None:
        return default
    if test(value):
        return value
    raise UnreadableLineError(f"{name} is {value!r}, but it must {rule}")


def _text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    text: str = _valid(fields, name, default, lambda one: isinstance(one, str), "be text")
    return text


def _number(fields: Mapping[str, Any], name: str) -> int:
    number: int = _valid(fields, name, 0, lambda one: type(one) is int and 0 <= one < _MOST_SEATS, "be a whole number")
    return number


def _duration(fields: Mapping[str, Any], name: str) -> int | None:
    seconds = _valid(
        fields, name, None, lambda one: _is_number(one) and 0 <= one < _LONGEST_S, "be a number of seconds"
    )
    return None if seconds is None else round(seconds * _SECOND)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def _time_of(value: object) -> int:
    if _is_number(value) and abs(value) < 1e12:
        return round(value * _SECOND)
    if isinstance(value, str):
        with suppress(ValueError):
            return nanoseconds_of(datetime.fromisoformat(value))
    raise UnreadableLineError(f"time is {value!r}, but it must be seconds or ISO 8601")
