"""Time limits in headers: how they are written, and how a front end writes when it received a request.

A limit is the time that the sender waits for the response. Most headers tell it as a duration, so the clocks of sender
and receiver need not agree. All times here are integers, in nanoseconds.
"""

import re
from contextlib import suppress
from typing import Final, Literal, get_args

from apf_middleware.baggage import add_member, find_members
from apf_middleware.durations import duration_ns

__all__ = ["BAGGAGE_KEY", "LIMIT_FORMATS", "NO_LIMIT", "LimitFormat", "elapsed_ns", "read_limit", "write_limit"]

LimitFormat = Literal["grpc", "milliseconds", "seconds", "duration", "timestamp", "baggage"]
"""How a header writes a limit.

grpc          an integer of at most 8 digits and a unit: ``H``, ``M``, ``S``, ``m`` (ms), ``u`` (us) or ``n`` (ns)
milliseconds  an integer; 0 means no limit, as Envoy has it
seconds       a number, perhaps with decimals
duration      as in Go and Kubernetes: ``1m30s``
timestamp     the time when the limit ends, in seconds since 1970, perhaps with decimals
baggage       a timestamp as the member `BAGGAGE_KEY` of W3C baggage
"""

BAGGAGE_KEY: Final = "apf.deadline"
"""The key of the member in W3C baggage."""

LIMIT_FORMATS: Final[tuple[LimitFormat, ...]] = get_args(LimitFormat)
"""All formats."""

NO_LIMIT: Final = 2**62
"""The limit of a request that may take any time."""

_SECOND: Final = 10**9
_MS: Final = 10**6
_GRPC: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_GRPC_UNITS: Final = {b"H": 3600 * _SECOND, b"M": 60 * _SECOND, b"S": _SECOND, b"m": _MS, b"u": 1000, b"n": 1}
_WRITTEN: Final = ((b"n", 1), (b"u", 1000), (b"m", _MS), (b"S", _SECOND), (b"M", 60 * _SECOND), (b"H", 3600 * _SECOND))
_MOST_GRPC: Final = 99_999_999
_INTEGER: Final = re.compile(rb"[0-9]{1,15}")
_DECIMAL: Final = re.compile(rb"([0-9]{1,19})(?:\.([0-9]{1,9})[0-9]{0,9})?")
_MOST_ELAPSED: Final = 60 * _SECOND  # a longer time in front of the server is a clock that is wrong
_YEAR_5138: Final = 10**11  # in seconds; greater numbers are milliseconds or microseconds
_FRACTION: Final = 9
_LONGEST: Final = 64  # characters of a duration
_DIGITS: Final = 10**9  # its numbers are less


def read_limit(written: LimitFormat, value: bytes, wall_ns: int) -> int:
    """Return the limit in a header's ``value``; ``wall_ns`` is the time since 1970.

    Raises:
        ValueError: the value doesn't have this format.
    """
    if written == "grpc":
        found = _GRPC.fullmatch(value)
        if found is None:
            raise ValueError("not an integer of at most 8 digits and one of the units H, M, S, m, u, n")
        return int(found[1]) * _GRPC_UNITS[found[2]]
    if written == "milliseconds":
        if not _INTEGER.fullmatch(value):
            raise ValueError("not an integer")
        return int(value) * _MS or NO_LIMIT
    if written == "duration":
        if len(value) > _LONGEST:
            raise ValueError("too long")
        return duration_ns(value.decode("latin-1"))
    if written == "baggage":
        return _earliest_ns(find_members(value, BAGGAGE_KEY), NO_LIMIT + wall_ns) - wall_ns
    number = _decimal_ns(value)
    return number if written == "seconds" else number - wall_ns


def elapsed_ns(value: bytes, wall_ns: int) -> int:
    """Return the time since a front end received the request, from ``X-Request-Start`` or ``X-Queue-Start``.

    The value is a time since 1970, with or without ``t=`` before it. Its unit, a second, a millisecond or a
    microsecond, follows from its size. A time in the future counts as now, and one of more than a minute ago, too,
    because clocks that differ so much tell nothing.

    Raises:
        ValueError: the value isn't a time.
    """
    since = _decimal_ns(value.removeprefix(b"t="))
    while since >= _YEAR_5138 * _SECOND:
        since //= 1000
    elapsed = wall_ns - since
    return elapsed if 0 < elapsed <= _MOST_ELAPSED else 0


def write_limit(written: LimitFormat, limit: int, wall_ns: int, before: str = "") -> str:
    """Return a header's value that says ``limit``, or a little less.

    A header that was there ``before`` keeps its other members of baggage.
    """
    limit = max(0, limit)
    if written == "grpc":
        unit, size = next(((unit, size) for unit, size in _WRITTEN if limit // size <= _MOST_GRPC), _WRITTEN[-1])
        return f"{min(limit // size, _MOST_GRPC)}{unit.decode()}"
    if written == "milliseconds":
        return str(max(1, limit // _MS))  # 0 would mean no limit
    if written == "duration":
        if limit // _MS < _DIGITS:
            return f"{limit // _MS}ms"
        return f"{min(limit // _SECOND, _DIGITS - 1)}s"
    milliseconds = (limit if written == "seconds" else wall_ns + limit) // _MS
    text = f"{milliseconds // 1000}.{milliseconds % 1000:03}"
    return add_member(before, BAGGAGE_KEY, text) if written == "baggage" else text


def _earliest_ns(values: list[bytes], default: int) -> int:
    """Return the earliest of these times; those that can't be read are ignored beside others."""
    found: list[int] = []
    for value in values:
        with suppress(ValueError):
            found.append(_decimal_ns(value))
    if values and not found:
        raise ValueError("not a number")
    return min(found, default=default)


def _decimal_ns(value: bytes) -> int:
    """Return a number of seconds as nanoseconds."""
    found = _DECIMAL.fullmatch(value)
    if found is None:
        raise ValueError("not a number")
    return int(found[1]) * _SECOND + int((found[2] or b"0").ljust(_FRACTION, b"0"))
