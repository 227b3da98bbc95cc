"""Netflix's Gradient2, as in com.netflix.concurrency.limits.limit.Gradient2Limit."""

from apf_middleware.adaptive import RequestOutcome

__all__ = ["Gradient2"]

_QUEUE = 4
_MOST = 200
_SMOOTHING = 0.2
_TOLERANCE = 1.5
_WINDOW = 600
_WARM_UP = 10


class Gradient2:
    """Follows the quotient of a long and a short average of durations; updated by each request."""

    def __init__(self, start: int = 20) -> None:
        self._least = start
        self._limit = float(start)
        self._long = 0.0
        self._count = 0
        self._sum = 0.0

    @property
    def limit(self) -> int:
        return int(self._limit)

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        self._average(duration)
        if self._long / duration > 2:
            self._long *= 0.95
        if in_flight < self._limit / 2:
            return
        gradient = max(0.5, min(1.0, _TOLERANCE * self._long / duration))
        wanted = self._limit * gradient + _QUEUE
        smoothed = self._limit * (1 - _SMOOTHING) + wanted * _SMOOTHING
        self._limit = max(float(self._least), min(float(_MOST), smoothed))

    def _average(self, duration: float) -> None:
        if self._count < _WARM_UP:
            self._count += 1
            self._sum += duration
            self._long = self._sum / self._count
        else:
            factor = 2 / (_WINDOW + 1)
            self._long += factor * (duration - self._long)

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        pass
