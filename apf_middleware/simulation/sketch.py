"""Durations counted in buckets that grow by one percent: quantiles of any number of them in bounded memory."""

from collections.abc import Iterable
from math import exp, log
from typing import Final

from apf_middleware.exceptions import InvalidValueError

__all__ = ["Sketch"]

_GROWTH: Final = log(1.01)
_PER_STEP: Final = 1 / _GROWTH


class Sketch:
    """Of how many durations which quantile was how long, within half a percent. A microsecond is the least."""

    __slots__ = ("_counts", "count", "most", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count: int = 0
        self.total: int = 0
        self.most: int = 0

    def add(self, duration_ns: int) -> None:
        """One more."""
        bucket = int(log(duration_ns if duration_ns > 1000 else 1000) * _PER_STEP)  # noqa: FURB136 - quicker than max()
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + 1
        self.count += 1
        self.total += duration_ns
        if duration_ns > self.most:  # noqa: PLR1730 - as above
            self.most = duration_ns

    def merge(self, other: "Sketch") -> None:
        """Those of another one too."""
        counts = self._counts
        for bucket, count in other.buckets():
            counts[bucket] = counts.get(bucket, 0) + count
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)

    def buckets(self) -> Iterable[tuple[int, int]]:
        """How many are in which bucket."""
        return self._counts.items()

    def quantile(self, part: float) -> float | None:
        """So much of them was no longer, in nanoseconds; None if there are none."""
        if not 0 <= part <= 1:
            raise InvalidValueError("part", part, "it must be from 0 to 1")
        if not self.count:
            return None
        rank, seen = max(1, -int(-part * self.count // 1)), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(float(self.most), exp((bucket + 0.5) * _GROWTH))
        raise AssertionError("a rank is among those counted")

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"<Sketch of {self.count}>"
