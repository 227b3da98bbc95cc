"""Durations of a window, each of which weighs as much as its request contributes to the seats in use.

Otherwise many short requests, say from a cache, would hide that the others become slower, also if both are of one
route. So a sample weighs in proportion to its duration, up to a quarter of what is typical: half of the time in which
seats are in use is that of longer requests. Beyond that all samples count alike, or a few very long ones would count
for all.
"""

from math import exp, inf
from typing import Final

from apf_middleware.adaptive.robust_mean import BINS, RobustMean

__all__ = ["SeatSamples"]

_FULL: Final = 0.25  # the part of the typical duration from which on a sample counts in full
_PER_UNIT: Final = 8  # rows for each factor e
_MOST_CHANGE: Final = 0.5  # of the logarithm of what is typical: after a pause of the server, all requests look long


class SeatSamples:
    """Collects logarithms of durations above the references of their routes, around a center.

    What is typical is known at the end of a window, and with it the weights. Until then samples of about the same
    duration, and as far above their references, are counted together in a cell.
    """

    def __init__(self) -> None:
        self._mean = RobustMean()
        self._typical = inf  # the logarithm of a duration
        self._center = 0.0
        self._full = 0.0
        self._added = self._estimated = 0
        self._times: dict[int, float] = {}  # by row, which is a class of durations
        self._cells: dict[int, list[float]] = {}  # the number of samples, and the sums of them and of their durations

    def restart(self, center: float) -> None:
        """Learn what was typical, and forget all samples; the next ones are around ``center``."""
        if self._times:
            self._typical = self._median()
            self._full = _FULL * exp(self._typical)
        self._mean.restart(center)
        self._center = center
        self._added = self._estimated = 0
        self._times = {}
        self._cells = {}

    def weight(self, duration: float) -> float:
        """Return how much a sample weighs if durations are as in the last window, or in this one if it is the first."""
        full = self._full or _FULL * exp(self._median())
        return min(1.0, duration / full)

    def spend(self, duration: float, logarithm: float) -> None:
        """Note how long a seat was in use, also if the request had begun before the window and is no sample."""
        row = int(_PER_UNIT * logarithm)
        self._times[row] = self._times.get(row, 0.0) + duration

    def add(self, sample: float, duration: float, logarithm: float) -> None:
        self._added += 1
        key = int(_PER_UNIT * logarithm) * BINS + self._mean.bin(sample)
        cell = self._cells.get(key)
        if cell is None:
            self._cells[key] = [1.0, sample, duration]
        else:
            cell[0] += 1.0
            cell[1] += sample
            cell[2] += duration

    def estimate(self) -> RobustMean:
        """Return the mean of the weighed samples."""
        if self._added != self._estimated:
            self._estimated = self._added
            full = _FULL * exp(self._present())
            self._mean.restart(self._center)
            for number, samples, durations in self._cells.values():
                self._mean.add(samples / number, number * min(1.0, durations / number / full))
            self._mean.estimate()
        return self._mean

    def _present(self) -> float:
        """Return the logarithm of the duration that is typical now."""
        return min(self._median(), self._typical + _MOST_CHANGE)

    def _median(self) -> float:
        """Return the logarithm of a duration: requests that are shorter took half of the time."""
        before, half = 0.0, sum(self._times.values()) / 2
        row, time = 0, 1.0
        for row, time in sorted(self._times.items()):  # noqa: B007
            before += time
            if before >= half:
                break
        return (row + 1 - (before - half) / time) / _PER_UNIT

    def __repr__(self) -> str:
        return f"<SeatSamples: {self._added} samples>"
