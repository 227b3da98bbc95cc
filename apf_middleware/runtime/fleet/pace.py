"""The pace of an allocator: its divisions take at most a fifth of one core, so that its process can serve requests.

A single long division isn't followed by a rest. Something else has made it long, for example a garbage collection, and
seats would be idle for four times as long as that took.
"""

import time
from collections.abc import Callable
from typing import Final

__all__ = ["Pace"]

_REST: Final = 4  # times as long as the work
_FREE_NS: Final = 2_000_000  # divisions of small fleets never have to wait


class Pace:
    """A context manager for work, which tells how long to rest afterwards, by the processor time that it took.

    What counts is the shorter one of the last two times. ``now`` is the clock, and ``spent`` that of the processor time
    of this thread, both in nanoseconds.
    """

    __slots__ = ("_before", "_last", "_next_at", "_now", "_spent")

    def __init__(self, now: Callable[[], int], spent: Callable[[], int] = time.thread_time_ns) -> None:
        self._now = now
        self._spent = spent
        self._next_at = now()
        self._before = self._last = 0

    def __enter__(self) -> None:
        self._before = self._spent()

    def __exit__(self, *error: object) -> None:
        last, self._last = self._last, self._spent() - self._before
        took = min(last, self._last)
        if took > _FREE_NS:
            self._next_at = self._now() + _REST * took

    @property
    def rest_s(self) -> float:
        """The time until the next work may begin, in seconds."""
        return max(0, self._next_at - self._now()) / 10**9

    def __repr__(self) -> str:
        return f"<Pace: {self.rest_s:.3f} s of rest>"
