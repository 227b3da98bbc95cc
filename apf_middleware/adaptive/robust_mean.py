"""A mean and its spread for which a sample that is far away counts as one at a bounded distance.

This is Huber's estimator of location: the value from which the samples' deviations, each limited to ``MOST_DEVIATION``,
add up to nothing. If all samples move by the same, it moves by as much. (The mean of samples limited to a fixed range
doesn't: those out of the range before and after don't move it.)
"""

from math import sqrt
from typing import Final

__all__ = ["BINS", "MOST_DEVIATION", "RobustMean"]

MOST_DEVIATION: Final = 1.0
BINS: Final = 64
_PER_UNIT: Final = 8  # bins
_ROUNDS: Final = 8
_CLOSE: Final = 1e-4
_LEAST_NEAR: Final = 0.25


class RobustMean:
    """Collects samples in bins about ``center``; each bin has the exact sum of its own."""

    __slots__ = ("_counts", "_estimated", "_origin", "_sums", "count", "mean", "spread")

    def __init__(self, center: float = 0.0) -> None:
        self.restart(center)

    def restart(self, center: float) -> None:
        """Forget all samples; the next ones are around ``center``."""
        self.count: float = 0.0
        self.mean: float = center
        self.spread: float = 0.0
        self._estimated = 0.0  # samples that both rest on
        self._origin = center - BINS / 2 / _PER_UNIT
        self._counts = [0.0] * BINS
        self._sums = [0.0] * BINS

    def bin(self, sample: float) -> int:
        """Return the number of the bin for a sample."""
        index = int((sample - self._origin) * _PER_UNIT)
        return 0 if index < 0 else BINS - 1 if index >= BINS else index

    def add(self, sample: float, weight: float = 1.0) -> None:
        index = self.bin(sample)
        self.count += weight
        self._counts[index] += weight
        self._sums[index] += weight * sample

    def estimate(self) -> None:
        """Renew ``mean``, and ``spread``, whose quotient with the root of ``count`` is the standard error of it."""
        count = self.count
        if count == self._estimated:
            return
        self._estimated = count
        bins = [(number, total) for number, total in zip(self._counts, self._sums, strict=True) if number]
        mean = sum(total for _, total in bins) / count
        for _ in range(_ROUNDS):
            excess, near = _excess(bins, mean)
            change = excess / max(near, _LEAST_NEAR * count)
            mean += change
            if abs(change) < _CLOSE:
                break
        self.mean = mean
        self.spread = self._spread(bins, mean)

    def _spread(self, bins: list[tuple[float, float]], mean: float) -> float:
        squares = near = 0.0
        for number, total in bins:
            deviation = total / number - mean
            if -MOST_DEVIATION <= deviation <= MOST_DEVIATION:
                squares += number * deviation * deviation
                near += number
            else:
                squares += number * MOST_DEVIATION * MOST_DEVIATION
        return sqrt(squares * self.count) / max(near, _LEAST_NEAR * self.count) if self.count else 0.0

    def __repr__(self) -> str:
        return f"<RobustMean: {self.count:g} samples>"


def _excess(bins: list[tuple[float, float]], mean: float) -> tuple[float, float]:
    """Return the sum of the limited deviations from ``mean``, and the number of those that aren't limited."""
    excess = near = 0.0
    for number, total in bins:
        deviation = total - number * mean
        if deviation > number * MOST_DEVIATION:
            excess += number * MOST_DEVIATION
        elif deviation < -number * MOST_DEVIATION:
            excess -= number * MOST_DEVIATION
        else:
            excess += deviation
            near += number
    return excess, near
