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
_DIGIT: Final = 15  # in bits: the compiled build calculates with integers of 62 bits without making objects
_UNKNOWN: Final = -1


class Histogram:
    """Observations by bucket, and their sum; the last bucket is for observations above all ``bounds``.

    ``observed`` is the sum of the integers that were observed one by one. Most of these belong to the second bucket,
    which is found without a search; ``usual`` is their number. Many others belong to the same bucket as the last one
    that was searched for.
    """

    __slots__ = (
        "_above",
        "_counts",
        "_found_above",
        "_found_at",
        "_found_up_to",
        "_more",
        "_repeated",
        "_up_to",
        "bounds",
        "observed",
        "usual",
    )

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Sequence[float] = bounds
        self._counts: list[int] = [0] * (len(bounds) + 1)  # without the usual and the repeated ones
        self._above, self._up_to = (int(bounds[0]), int(bounds[1])) if len(bounds) > 1 else (0, 0)
        self._found_at = self._found_above = self._found_up_to = 0  # the bucket that was searched for, and its bounds
        self._repeated = 0  # observations in that bucket since; apart, as the usual ones are
        self.usual: int = 0  # apart, because the compiled build counts in a list with objects
        self.observed: int = 0
        self._more: int | float = 0  # apart, because the compiled build adds integers without making objects

    @property
    def counts(self) -> list[int]:
        """The number of observations in each bucket."""
        counts = self._counts.copy()
        if self.usual:
            counts[1] += self.usual
        counts[self._found_at] += self._repeated
        return counts

    @counts.setter
    def counts(self, counts: list[int]) -> None:
        self._counts, self.usual, self._repeated = counts, 0, 0

    @property
    def total(self) -> int | float:
        """The sum of all observations, which is an integer for as long as only integers are observed."""
        return self.observed + self._more

    @total.setter
    def total(self, total: int | float) -> None:  # noqa: PYI041 - a float would hide an integer
        self.observed, self._more = 0, total

    @property
    def count(self) -> int:
        """Return the number of observations."""
        return sum(self._counts) + self.usual + self._repeated

    def observe(self, value: int) -> None:
        """Count one observation."""
        if self._above < value <= self._up_to:
            self.usual += 1
        elif self._found_above < value <= self._found_up_to:
            self._repeated += 1
        else:
            self._search(value)
        self.observed += value

    def _search(self, value: int) -> None:
        """Count one observation in the bucket that a search finds, and remember the bucket if it has two bounds."""
        bounds, found = self.bounds, bisect_left(self.bounds, value)
        self._counts[found] += 1
        if 0 < found < len(bounds):
            self._counts[self._found_at] += self._repeated
            self._found_at, self._repeated = found, 0
            self._found_above, self._found_up_to = int(bounds[found - 1]), int(bounds[found])

    def observe_many(self, value: float, number: int) -> None:
        """Count ``number`` observations of the same value."""
        self._counts[bisect_left(self.bounds, value)] += number
        self._more += value * number

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
        copy.counts, copy.total = self.counts, self.total
        return copy

    def plus(self, other: "Histogram") -> "Histogram":
        """Return a new histogram with the sum of both."""
        both = Histogram(self.bounds)
        both.counts = list(map(add, self.counts, other.counts))
        both.total = self.total + other.total
        return both

    def __repr__(self) -> str:
        return f"<Histogram: {self.count} observations>"


class _Combination:
    """Values that several numbers have at the same time, and the time for which they ``lasted``."""

    __slots__ = ("lasted", "values")

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values: tuple[int, ...] = values
        self.lasted: int = 0

    def __repr__(self) -> str:
        return f"<Combination: {self.values} for {self.lasted} ns>"


class Occupancy:
    """The time for which several numbers had each of their values since ``now``; the numbers change together, in steps.

    Time is added up by combination of values, which costs one look-up a step. The combinations are taken apart when the
    times are read, or when there are too many of them. A combination is found by its values, or by one integer that
    has the values of four numbers as its digits; if it is found by both, it has two entries, and its time is their sum.
    """

    __slots__ = ("_combined", "_digits", "_present", "_since", "_times")

    def __init__(self, now: int, values: tuple[int, ...]) -> None:
        self._since = now
        self._present = _Combination(values)
        self._digits = _UNKNOWN  # those of the present values
        self._combined: dict[object, _Combination] = {values: self._present}
        self._times: tuple[dict[int, int], ...] = tuple({} for _ in values)

    @property
    def values(self) -> tuple[int, ...]:
        """The numbers now."""
        return self._present.values

    def set(self, now: int, values: tuple[int, ...]) -> None:
        """Set the numbers to ``values`` from ``now`` on."""
        found = self._find(values, values)
        self._present.lasted += now - self._since
        self._since, self._present, self._digits = now, found, _UNKNOWN

    def set_four(self, now: int, first: int, second: int, third: int, fourth: int) -> None:
        """Set four numbers that aren't negative, as `set` does in several times the time."""
        if (first | second | third | fourth) >> _DIGIT:
            self.set(now, (first, second, third, fourth))
            return
        digits = ((first << _DIGIT | second) << _DIGIT | third) << _DIGIT | fourth
        if digits != self._digits:
            found = self._combined.get(digits)
            if found is None:
                found = self._find(digits, (first, second, third, fourth))
            self._present.lasted += now - self._since
            self._since, self._present, self._digits = now, found, digits

    def _find(self, key: object, values: tuple[int, ...]) -> _Combination:
        """Return a combination; create it on the first call."""
        found = self._combined.get(key)
        if found is None:
            if len(self._combined) >= _MOST_COMBINED:
                self._take_apart()
            found = self._combined.setdefault(key, _Combination(values))
        return found

    def move(self, values: tuple[int, ...], others: tuple[int, ...], duration_ns: int) -> None:
        """Count ``duration_ns`` for the combination ``others`` instead of ``values``."""
        self._find(values, values).lasted -= duration_ns
        self._find(others, others).lasted += duration_ns

    def times(self, now: int) -> tuple[Times, ...]:
        """Return for each number a mapping of its values to the nanoseconds that they lasted, up to ``now``."""
        self.set(now, self.values)
        self._take_apart()
        return tuple(map(dict, self._times))

    def time_at(self, now: int, index: int, value: int) -> int:
        """Return the nanoseconds for which the number at ``index`` was ``value``, up to ``now``."""
        self.set(now, self.values)
        self._take_apart()
        return self._times[index].get(value, 0)

    def integral(self, now: int, index: int) -> int:
        """Return the sum over time, in nanoseconds, of the number at ``index``, up to ``now``."""
        self.set(now, self.values)
        self._take_apart()
        total = 0
        for value, lasted in self._times[index].items():
            total += value * lasted
        return total

    def _take_apart(self) -> None:
        for combination in self._combined.values():
            for times, value in zip(self._times, combination.values, strict=True):
                times[value] = times.get(value, 0) + combination.lasted
        present = self._present
        present.lasted, self._digits = 0, _UNKNOWN
        self._combined = {present.values: present}

    def __repr__(self) -> str:
        return f"<Occupancy: {self.values}>"
