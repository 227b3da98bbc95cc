"""Netflix's Vegas, as in com.netflix.concurrency.limits.limit.VegasLimit."""

from math import ceil, log10
from random import Random

from apf_middleware.adaptive import RequestOutcome

__all__ = ["Vegas"]

_MOST = 1000
_PROBE = 30


class Vegas:
    """Keeps an estimated queue between three and six requests, per power of ten of the limit."""

    def __init__(self, start: int = 20, seed: int = 1) -> None:
        self._limit = float(start)
        self._random = Random(seed)
        self._no_load = 0.0
        self._count = 0
        self._jitter = self._random.uniform(0.5, 1.0)

    @property
    def limit(self) -> int:
        return int(self._limit)

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        self._count += 1
        if self._jitter * _PROBE * self._limit <= self._count:
            self._jitter = self._random.uniform(0.5, 1.0)
            self._count = 0
            self._no_load = duration
        elif self._no_load == 0 or duration < self._no_load:
            self._no_load = duration
        else:
            self._update(in_flight, duration, dropped=outcome in (RequestOutcome.TIMED_OUT, RequestOutcome.REFUSED))

    def _update(self, in_flight: int, duration: float, *, dropped: bool) -> None:
        limit = self._limit
        step = max(1, int(log10(limit)))
        queue = ceil(limit * (1 - self._no_load / duration))
        if dropped:
            limit -= step
        elif in_flight * 2 < limit:
            return
        elif queue <= step:
            limit += 6 * step
        elif queue < 3 * step:
            limit += step
        elif queue > 6 * step:
            limit -= step
        self._limit = max(1.0, min(float(_MOST), limit))

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        pass
