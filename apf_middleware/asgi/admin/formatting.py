"""The formats of times, durations, work and names in the admin: those of Go, because upstream's dumps are Go's.

So programs that read Kubernetes' dumps can read these, too. Names come from clients and may contain anything;
unprintable characters are escaped, so that no name can begin a line of its own or control a terminal.
"""

import time
from collections.abc import Hashable
from typing import Final

from apf_middleware.classification.text import abridge, printable
from apf_middleware.fairqueuing import format_seat_seconds

__all__ = ["LONGEST_NAME", "NEVER", "Formatter", "format_duration", "printable", "short_name"]

NEVER: Final = "0001-01-01T00:00:00Z"
"""Go's zero time."""

LONGEST_NAME: Final = 120
"""The most characters of a name that `short_name` returns."""

_DIGEST_BYTES: Final = 8
_SECOND: Final = 10**9


class Formatter:
    """Writes the fields of snapshots; a wall clock is ``offset`` nanoseconds ahead of the server's clock.

    The `JSONForm` of a field names the method that writes it.
    """

    __slots__ = ("_offset", "_seconds")

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._seconds: dict[int, str] = {}

    def time(self, at: int) -> str:
        """Return the time in UTC by RFC 3339, without zeros at the end of the fraction, as Go's RFC3339Nano does."""
        seconds, rest = divmod(at + self._offset, _SECOND)
        text = self._seconds.get(seconds)
        if text is None:
            text = self._seconds[seconds] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"

    @staticmethod
    def seconds(duration_ns: int) -> float:
        """Return a duration in seconds."""
        return duration_ns / _SECOND

    @staticmethod
    def work(work: int) -> str:
        """Return work in seat-seconds."""
        return format_seat_seconds(work)

    @staticmethod
    def key(key: Hashable) -> str | None:
        """Return the key of a gate as text; None where a gate has no keys."""
        return None if key is None else str(key) or None


def short_name(name: str) -> str:
    """Return a name of bounded length that stands for ``name``: its beginning, and a digest of all of it."""
    return abridge(name, LONGEST_NAME, "…", _DIGEST_BYTES)


def format_duration(duration_ns: int) -> str:
    """Return a duration as Go writes it: ``1h0m0.5s``, ``250ms``, ``0s``."""
    if not duration_ns:
        return "0s"
    if duration_ns < _SECOND:
        unit, size = ("ms", 10**6) if duration_ns >= 10**6 else ("µs", 10**3) if duration_ns >= 10**3 else ("ns", 1)
        return _fraction(duration_ns, size) + unit
    minutes, rest = divmod(duration_ns, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h" if hours else ""
    if hours or minutes:
        text += f"{minutes}m"
    return f"{text}{_fraction(rest, _SECOND)}s"


def _fraction(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
