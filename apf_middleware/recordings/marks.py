"""The first and the last line of a recording.

They are JSON objects with the key ``recording``, which no request has. Readers that don't know them skip them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.recordings.lines import UnreadableLineError, nanoseconds_of, parse_fields, read_fields
from apf_middleware.recordings.request import RecordedRequest

__all__ = ["VERSION", "EndReason", "Footer", "Header", "Names", "parse_line", "parse_mark", "wall_time"]

VERSION: Final = 1
"""The version of the format: another one isn't read."""

_KEY: Final = "recording"
_BEGIN, _END = "begin", "end"

Names = Literal["hashed", "plain"]
"""Whether callers, flows and other names are hashed with a key."""

EndReason = Literal["time", "stopped", "shutdown", "interrupted", "incomplete"]
"""Why a recording has ended: its time was over, it was stopped, the server or the client ended, or workers got lost."""


@dataclass(frozen=True, slots=True)
class Header(Value):
    """The first line: ``start`` is the time of the clock in ISO 8601 from which the times of requests count.

    ``configuration`` is the digest of the configuration in force, ``mode`` the mode of the server. ``sample`` is the
    part of the flows that is recorded. ``workers`` is the number of the processes whose requests are in the recording.
    """

    start: str
    id: str = ""
    app: str = ""
    server: str = ""
    configuration: str = ""
    mode: str = "on"
    sample: float = 1.0
    names: Names = "hashed"
    seconds: float = 0.0
    workers: int = 1
    standing: int = 0
    version: int = VERSION

    @property
    def start_ns(self) -> int:
        """The start in nanoseconds since 1970."""
        return nanoseconds_of(datetime.fromisoformat(self.start))

    def line(self) -> str:
        """Return this as a line, without the line's end."""
        return json.dumps({_KEY: _BEGIN, **asdict(self)})


@dataclass(frozen=True, slots=True)
class Footer(Value):
    """The last line: the numbers of ``rows``, and of those that were ``lost`` because the client was too slow.

    ``is_settled`` is whether configuration and mode have been the same for the whole time.
    """

    rows: int
    lost: int = 0
    seconds: float = 0.0
    reason: EndReason = "time"
    is_settled: bool = True

    def line(self) -> str:
        """Return this as a line, without the line's end."""
        return json.dumps({_KEY: _END, **asdict(self)})


def wall_time(nanoseconds: int) -> str:
    """Return nanoseconds since 1970 in ISO 8601, to the microsecond."""
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC).isoformat(timespec="microseconds")


def parse_mark(fields: Mapping[str, Any]) -> Header | Footer | None:
    """Return the header or footer that a line of JSON has; None if it is a request.

    Raises:
        UnreadableLineError: it is neither.
        InvalidValueError: the recording has another version.
    """
    kind = fields.get(_KEY)
    if kind is None:
        return None
    if kind == _BEGIN and fields.get("version") != VERSION:
        rule = f"this version of apf_middleware reads the version {VERSION} of recordings"
        raise InvalidValueError("version", fields.get("version"), rule)
    known = _FIELDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise UnreadableLineError(f"recording is {kind!r}, but it must be {_BEGIN} or {_END}")
    made, types = known
    given = {name: value for name, value in fields.items() if name in types}
    wrong = [name for name, value in given.items() if not _is_of(name, value, types[name])]
    if wrong:
        raise UnreadableLineError(f"{wrong[0]} is {given[wrong[0]]!r}, which the {kind} of a recording can't have")
    try:
        found: Header | Footer = made(**given)
        if isinstance(found, Header):
            _ = found.start_ns
    except (TypeError, ValueError) as error:
        raise UnreadableLineError(f"the {kind} of a recording is wrong: {error}") from None
    return found


def parse_line(line: str) -> RecordedRequest | Header | Footer:
    """Return what a line of JSON has.

    Raises:
        UnreadableLineError: it has none of these.
        InvalidValueError: the recording has another version.
    """
    fields = read_fields(line)
    return parse_mark(fields) or parse_fields(fields)


def _is_of(name: str, value: object, kind: type) -> bool:
    """Return whether a field can have this value."""
    if kind not in {int, float}:
        return type(value) is kind
    if not isinstance(value, int | float) or type(value) not in {int, kind}:
        return False
    return _LEAST.get(name, 0) <= value <= _MOST.get(name, _MOST_SECONDS)


_MOST_SECONDS: Final = 10**7
_LEAST: Final[Mapping[str, float]] = {"sample": 1e-9, "workers": 1}
_MOST: Final[Mapping[str, float]] = {"sample": 1, "rows": 10**15, "lost": 10**15, "standing": 10**15}
_HEADER: Final[Mapping[str, type]] = {
    **dict.fromkeys(("start", "id", "app", "server", "configuration", "mode", "names"), str),
    **dict.fromkeys(("sample", "seconds"), float),
    **dict.fromkeys(("workers", "standing", "version"), int),
}
_FOOTER: Final[Mapping[str, type]] = {
    "rows": int,
    "lost": int,
    "seconds": float,
    "reason": str,
    "is_settled": bool,
}
_FIELDS: Final[Mapping[str, tuple[Any, Mapping[str, type]]]] = {_BEGIN: (Header, _HEADER), _END: (Footer, _FOOTER)}
