"""The limiter of kratos (aegis/ratelimit/bbr), as in bbr.go."""

from collections import deque
from math import ceil, floor

from apf_middleware.adaptive import RequestOutcome

__all__ = ["KratosBBR"]

_BUCKET = 0.1
_BUCKETS = 100
_CPU_TICK = 0.5
_CPU_DECAY = 0.95
_CPU_THRESHOLD = 0.8
_NO_LIMIT = 10_000
_ROUNDING = 1e-6


class KratosBBR:
    """Allows the most passes of a bucket times the shortest average duration while the processor is busy.

    The utilisation of the backend stands for the processor's. A request that the limit keeps waiting stands for one
    that it drops.
    """

    def __init__(self, start: int = 0) -> None:  # noqa: ARG002 - it has none
        self._buckets: deque[tuple[int, float]] = deque(maxlen=_BUCKETS - 1)  # passes, average in milliseconds
        self._passes = 0
        self._sum = 0.0
        self._next_bucket = _BUCKET
        self._next_cpu = _CPU_TICK
        self._cpu = 0.0
        self._dropped_at: float | None = None
        self._most = 1
        self.limit = _NO_LIMIT

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        if outcome is RequestOutcome.SUCCESS:
            self._passes += 1
            self._sum += duration

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        if now >= self._next_cpu - _ROUNDING:
            self._next_cpu += _CPU_TICK
            self._cpu = _CPU_DECAY * self._cpu + (1 - _CPU_DECAY) * utilisation
        if now >= self._next_bucket - _ROUNDING:
            self._next_bucket += _BUCKET
            self._close_bucket()
        over = in_use > 1 and (in_use > self._most or (waiting > 0 and in_use >= self._most))
        if self._cpu >= _CPU_THRESHOLD:
            if over and self._dropped_at is None:
                self._dropped_at = now
            self.limit = max(2, self._most)
        elif self._dropped_at is not None and now - self._dropped_at <= 1:
            self.limit = max(2, self._most)
        else:
            self._dropped_at = None
            self.limit = _NO_LIMIT

    def _close_bucket(self) -> None:
        self._buckets.append((self._passes, 1000 * self._sum / self._passes if self._passes else 0.0))
        self._passes, self._sum = 0, 0.0
        passes = max((one for one, _ in self._buckets), default=0)
        shortest = min((ceil(average) for one, average in self._buckets if one), default=1)
        self._most = floor(max(1, passes) * shortest / (_BUCKET * 1000) + 0.5)
