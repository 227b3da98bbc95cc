"""How dumps write times, durations, work and names: as Go writes them, because upstream's dumps are Go's.

Whoever has a program that reads Kubernetes' dumps reads these with it. Names come from clients, who may put anything
into them; what isn't printable is shown escaped, so that no name can start a line of its own or speak to a terminal.
"""

import time
from collections.abc import Callable
from typing import Final

from apf_middleware.classification.text import printable

__all__ = ["NEVER", "Clock", "WallOffset", "printable", "written_duration"]

NEVER: Final = "0001-01-01T00:00:00Z"
"""Go's zero time."""

_SECOND: Final = 10**9
_SET_NS: Final = 10_000_000  # by less the wall clock hasn't been set: the process was paused between two readings


class WallOffset:
    """How many nanoseconds a wall clock is ahead of the monotonic clock ``now``.

    Two readings of the clocks are some hundred nanoseconds apart, so the offset of the first reading stays in force,
    and one moment is written alike in every dump, until the wall clock is set.
    """

    __slots__ = ("_now", "_offset", "_wall_ns")

    def __init__(self, now: Callable[[], int], wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._wall_ns = wall_ns
        self._offset = wall_ns() - now()

    def __call__(self) -> int:
        found = self._wall_ns() - self._now()
        if abs(found - self._offset) > _SET_NS:
            self._offset = found
        return self._offset

    def __repr__(self) -> str:
        return f"<WallOffset of {self._offset} ns>"


class Clock:
    """Tells times of the monotonic clock as those of a wall clock, which is ``offset`` nanoseconds ahead of it."""

    __slots__ = ("_offset", "_seconds")

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._seconds: dict[int, str] = {}

    def written(self, at: int) -> str:
        """RFC 3339 in UTC; of the nanoseconds only as many digits as there are, as with Go's RFC3339Nano."""
        seconds, rest = divmod(at + self._offset, _SECOND)
        text = self._seconds.get(seconds)
        if text is None:
            text = self._seconds[seconds] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def written_duration(duration_ns: int) -> str:
    """As Go writes durations: ``1h0m0.5s``, ``250ms``, ``0s``."""
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
