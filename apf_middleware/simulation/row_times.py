"""The times of a trace's rows, to find one that stretches the trace: a wrong time, or one in another unit."""

from random import Random
from typing import Final

from apf_middleware.simulation.sample import Sample

__all__ = ["RowTimes"]

_SECOND: Final = 10**9
_STRETCHED: Final = 1_000
_FEW: Final = 20
"""The number of rows that are too few to tell which of them is out of place."""


class RowTimes:
    """The first and the last time of the rows, and a sample of all times."""

    __slots__ = ("_dice", "_first", "_last", "_sample")

    def __init__(self) -> None:
        self._first = self._last = 0
        self._sample = Sample()
        self._dice = Random("times")  # noqa: S311 - a simulation

    def add(self, time_ns: int) -> None:
        """Add the time of a row."""
        if time_ns < self._first or not self._sample.added:
            self._first = time_ns
        if time_ns > self._last or not self._sample.added:
            self._last = time_ns
        self._sample.add(time_ns, self._dice)

    @property
    def stray_ns(self) -> int | None:
        """The time that is farthest from the others, if all times span a thousand times as long as 98 % of them."""
        if self._sample.added < _FEW:
            return None
        ordered = sorted(self._sample.values)
        aside = max(1, len(ordered) // 100)
        low, high = ordered[aside], ordered[-1 - aside]
        if self._last - self._first <= _STRETCHED * max(_SECOND, high - low):
            return None
        return self._first if low - self._first > self._last - high else self._last

    def __repr__(self) -> str:
        return f"<RowTimes: from {self._first} to {self._last} ns>"
