"""Histograms of parts of a whole over time, made from the time for which a number had each of its values.

Each nanosecond counts as one observation of value/denominator. Denominators change, because a level's limit grows and
shrinks. So each span of time is put into a bucket once, when it is read, by the denominator of that moment, and stays
there. Dividing all past time again at each reading would move old observations from bucket to bucket, and Prometheus
takes a counter that falls for one that was reset. For the same reason, time that is moved to another value afterwards
raises buckets but never lowers one. And where a level is made anew, because it becomes exempt for example, its times
are added to those of the level before it.

A ledger belongs to one reader, and forgets the histograms of levels that are gone.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from threading import Lock

from apf_middleware.counters import Histogram, Times

__all__ = ["RatioLedger"]

Key = tuple[str, ...]


class _Ratio:
    """One histogram, and the time by value that it already contains."""

    __slots__ = ("_found", "_seen", "_shown", "_shown_total", "duration")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._found = Histogram(bounds)
        self._seen: dict[int, int] = {}
        self._shown = [0] * (len(bounds) + 1)  # cumulative, and never falls
        self._shown_total = 0.0
        self.duration = 0

    def advance(self, times: Times, duration: int, denominator: float) -> None:
        """Put the new part of ``times`` into its buckets; ``duration`` is the sum of all ``times``."""
        if duration < self.duration:  # another level has taken the place of the one that was read before
            self._seen = {}
        found, seen = self._found, self._seen
        for value, elapsed in times.items():
            # Negative where time was moved to another value. Then ``found`` falls, and ``shown`` doesn't follow.
            new = elapsed - seen.get(value, 0)
            if new:
                found.observe_many(value / denominator, new)
                seen[value] = elapsed
        self.duration = duration
        self._shown = list(map(max, self._shown, accumulate(found.counts)))
        self._shown_total = max(self._shown_total, found.total)

    def histogram(self) -> Histogram:
        shown = Histogram(self._found.bounds)
        shown.counts = [high - low for low, high in pairwise((0, *self._shown))]
        shown.total = self._shown_total
        return shown


class RatioLedger:
    """The histograms of one reader, by key; several threads may use it."""

    __slots__ = ("_lock", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[Key, _Ratio] = {}
        self._lock = Lock()

    def read(self, key: Key, times: Times, denominator: float, bounds: Sequence[float]) -> Histogram:
        """Return the histogram of ``key`` up to now; it goes on with times that count from 0 again."""
        duration = sum(times.values())
        with self._lock:
            ratio = self._ratios.get(key)
            if ratio is None:
                ratio = self._ratios[key] = _Ratio(bounds)
            # a level may have no seats at this moment
            ratio.advance(times, duration, denominator or 1)
            return ratio.histogram()

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all histograms but these."""
        with self._lock:
            for key in self._ratios.keys() - set(keys):
                del self._ratios[key]

    def __repr__(self) -> str:
        return f"<RatioLedger of {len(self._ratios)} histograms>"
