"""How far the wall clock is ahead of the clock of the server."""

import time
from collections.abc import Callable
from typing import Final

__all__ = ["WallOffset"]

_SET_NS: Final = 10_000_000  # a smaller difference is a pause of the process between two readings of the clocks


class WallOffset:
    """The nanoseconds by which a wall clock is ahead of the monotonic clock ``now``.

    Two readings of the clocks are some hundred nanoseconds apart. So the offset of the first reading stays in force
    until the wall clock is set, and all dumps show one moment as the same time.
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
