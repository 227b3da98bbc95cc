"""Integer counters and histograms, which Prometheus reads when it scrapes.

Counters are kept where the counted events happen. Counting takes no lock, looks no label up and allocates nothing.
Numbers that follow from others are not counted, but computed at scrape time.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import add
from typing import Final

__all__ = ["DURATION_BOUNDS_NS", "LENGTH_BOUNDS", "WATCH_BOUNDS", "WIDTH_BOUNDS", "Histogram", "Occupancy", "Times"]

_MS: Final = 10**6

DURATION_BOUNDS_NS: Final = tuple(
    ms * _MS for ms in (0, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000)
)
"""Kubernetes' buckets for durations, in nanoseconds."""

LENGTH_BOUNDS: Final = (0, 10, 25, 50, 100, 250, 500, 1000)
"""Kubernetes' buckets for the length of a queue."""

WATCH_BOUNDS: Final = (0, 1, 10, 100, 1000, 10_000)
"""Kubernetes' buckets for the number of watches that a write concerns."""

WIDTH_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
"""Kubernetes' buckets for the seats of a request."""

Times = Mapping[int, int]
"""The nanoseconds for which a number had each of its values."""

_MOST_COMBINED: Final = 512


class Histogram:
    """Observations by bucket, and their sum; the last bucket is for observations above all ``bounds``.

    ``total`` is an integer for as long as only integers are observed.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: int | float = 0

    @property
    def count(self) -> int:
        """Return the number of observations."""
        return sum(self.counts)

    def observe(self, value: int) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_many(self, value: float, number: int) -> None:
        """Count ``number`` observations of the same value."""
        self.counts[bisect_left(self.bounds, value)] += number
        self.total += value * number

    def quantile(self, part: float) -> float | None:
        """Return the value that the fraction ``part`` of observations doesn't exceed; None without observations.

        Within a bucket, values are taken to be equally distributed, as in Prometheus; above all bounds, the last one
        stands for all values.
        """
        rank, below = part * self.count, 0
        for place, count in enumerate(self.counts):
            if count and below + count >= rank:
                if place >= len(self.bounds):
                    return self.bounds[-1]
                least = self.bounds[place - 1] if place else min(0, self.bounds[0])
                return least + (self.bounds[place] - least) * (rank - below) / count
            below += count
        return None

    def copy(self) -> "Histogram":
        """Return a histogram of the same observations, which does not change with this one."""
        copy = Histogram(self.bounds)
        copy.counts, copy.total = self.counts.copy(), self.total
        return copy

    def plus(self, other: "Histogram") -> "Histogram":
        """Return a new histogram with the sum of both."""
        both = Histogram(self.bounds)
        both.counts = list(map(add, self.counts, other.counts))
        both.total = self.total + other.total
        return both

    def __repr__(self) -> str:
        return f"<Histogram: {self.count} observations>"


class Occupancy:
    """The time for which several numbers had each of their values since ``now``; the numbers change together, in steps.

    Time is added up by combination of values, which costs one look-up a step. The combinations are taken apart when the
    times are read, or when there are too many of them.
    """

    __slots__ = ("_combined", "_elapsed", "_since", "_times", "values")

    def __init__(self, now: int, values: tuple[int, ...]) -> None:
        self._since = now
        self._elapsed = [0]  # the time of the present combination, as the only element
        self._combined: dict[tuple[int, ...], list[int]] = {values: self._elapsed}
        self._times: tuple[dict[int, int], ...] = tuple({} for _ in values)
        self.values: tuple[int, ...] = values

    def set(self, now: int, values: tuple[int, ...]) -> None:
        """Set the numbers to ``values`` from ``now`` on."""
        self._elapsed[0] += now - self._since
        self._since = now
        self.values = values
        self._elapsed = self._combined.get(values) or self._elapsed_with(values)

    def _elapsed_with(self, values: tuple[int, ...]) -> list[int]:
        """Return the list with the time of a combination."""
        found = self._combined.get(values)
        if found is None:
            if len(self._combined) >= _MOST_COMBINED:
                self._take_apart()
            found = self._combined.setdefault(values, [0])
        return found

    def move(self, values: tuple[int, ...], others: tuple[int, ...], duration_ns: int) -> None:
        """Count ``duration_ns`` for the combination ``others`` instead of ``values``."""
        self._elapsed_with(values)[0] -= duration_ns
        self._elapsed_with(others)[0] += duration_ns

    def times(self, now: int) -> tuple[Times, ...]:
        """Return for each number a mapping of its values to the nanoseconds that they lasted, up to ``now``."""
        self.set(now, self.values)
        self._take_apart()
        return tuple(map(dict, self._times))

    def _take_apart(self) -> None:
        for combination, [elapsed] in self._combined.items():
            for times, value in zip(self._times, combination, strict=True):
                times[value] = times.get(value, 0) + elapsed
        self._elapsed = [0]
        self._combined = {self.values: self._elapsed}

    def __repr__(self) -> str:
        return f"<Occupancy: {self.values}>"
