"""Quantiles of any number of durations in bounded memory: counts in buckets that grow by one percent."""

from collections.abc import Iterable
from math import exp, log
from typing import Final

from apf_middleware.exceptions import InvalidValueError

__all__ = ["QuantileSketch"]

_GROWTH: Final = log(1.01)
_PER_STEP: Final = 1 / _GROWTH


class QuantileSketch:
    """Counts of durations, with quantiles to within half a percent. Durations below a microsecond count as one."""

    __slots__ = ("_counts", "count", "most", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count: int = 0
        self.total: int = 0
        self.most: int = 0

    def add(self, duration_ns: int) -> None:
        """Count one more duration."""
        bucket = int(log(duration_ns if duration_ns > 1000 else 1000) * _PER_STEP)  # noqa: FURB136 - quicker than max()
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + 1
        self.count += 1
        self.total += duration_ns
        if duration_ns > self.most:  # noqa: PLR1730 - as above
            self.most = duration_ns

    def merge(self, other: "QuantileSketch") -> None:
        """Add the counts of ``other``."""
        counts = self._counts
        for bucket, count in other.buckets():
            counts[bucket] = counts.get(bucket, 0) + count
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)

    def buckets(self) -> Iterable[tuple[int, int]]:
        """Return the number of durations in each bucket that has any."""
        return self._counts.items()

    def quantile(self, part: float) -> float | None:
        """Return the duration that the fraction ``part`` doesn't exceed, in nanoseconds; None if there are none."""
        if not 0 <= part <= 1:
            raise InvalidValueError("part", part, "it must be from 0 to 1")
        if not self.count:
            return None
        # The rank of the value in ascending order, rounded up; -int(-x // 1) is the ceiling.
        rank, seen = max(1, -int(-part * self.count // 1)), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(float(self.most), exp((bucket + 0.5) * _GROWTH))
        raise AssertionError("a rank is at most the count")

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"<QuantileSketch of {self.count}>"
