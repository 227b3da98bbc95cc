"""Histograms of parts of a whole over time, made from how long a number had each of its values.

Each nanosecond counts as one observation of value/denominator. Denominators change: a level's limit grows and shrinks.
So time is put into its bucket once, when it is read, by the denominator of that moment, and stays there. To divide the
whole past anew at each reading would move what was counted long ago from bucket to bucket, and Prometheus takes a
counter that falls for one that was reset. For the same reason time that is moved to another value afterwards raises
buckets but never lowers one.

A ledger belongs to one reader; what it remembers of a level is forgotten with the level.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from threading import Lock
from typing import NamedTuple

from apf_middleware.metrics.picture import Times

__all__ = ["RatioLedger", "Spread"]

Key = tuple[str, ...]


class Spread(NamedTuple):
    """A histogram's content: observations by bucket, the last beyond all bounds, and the sum of what was observed."""

    counts: Sequence[int]
    total: float


class _Ratio:
    """One histogram: what is in its buckets, and what of the time by value is in there."""

    __slots__ = ("_bounds", "_counts", "_seen", "_shown", "_shown_total", "_total", "duration")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._seen: dict[int, int] = {}
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._shown = [0] * (len(bounds) + 1)  # cumulative
        self._shown_total = 0.0
        self.duration = 0

    def advance(self, times: Times, duration: int, denominator: int) -> None:
        """Puts what is new in ``times``, which lasted ``duration`` in all, into its buckets."""
        bounds, counts, seen = self._bounds, self._counts, self._seen
        for value, elapsed in times.items():
            new = elapsed - seen.get(value, 0)
            if new:
                ratio = value / denominator
                counts[bisect_left(bounds, ratio)] += new
                self._total += ratio * new
                seen[value] = elapsed
        self.duration = duration
        self._shown = list(map(max, self._shown, accumulate(counts)))
        self._shown_total = max(self._shown_total, self._total)

    def spread(self) -> Spread:
        return Spread([high - low for low, high in pairwise((0, *self._shown))], self._shown_total)


class RatioLedger:
    """The histograms of one reader, by key. Readers may come from several threads."""

    __slots__ = ("_lock", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[Key, _Ratio] = {}
        self._lock = Lock()

    def read(self, key: Key, times: Times, denominator: int, bounds: Sequence[float]) -> Spread:
        """The histogram of ``key`` up to now. One whose time has become shorter is another of the same name."""
        duration = sum(times.values())
        with self._lock:
            ratio = self._ratios.get(key)
            if ratio is None or duration < ratio.duration:
                ratio = self._ratios[key] = _Ratio(bounds)
            ratio.advance(times, duration, max(1, denominator))
            return ratio.spread()

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all histograms but these."""
        with self._lock:
            for key in self._ratios.keys() - set(keys):
                del self._ratios[key]

    def __repr__(self) -> str:
        return f"<RatioLedger of {len(self._ratios)} histograms>"
