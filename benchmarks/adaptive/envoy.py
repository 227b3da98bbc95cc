"""Envoy's adaptive concurrency, as in controller/gradient_controller.cc, with the constants of its example."""

from math import floor, inf, sqrt
from random import Random
from statistics import median_low

from apf_middleware.adaptive import RequestOutcome

__all__ = ["EnvoyGradient"]

_WINDOW = 0.1
_INTERVAL = 60.0
_JITTER = 0.15
_REQUESTS = 50
_LEAST = 3
_MOST = 1000
_BUFFER = 0.25
_AT_LEAST_IN_A_ROW = 5
_ROUNDING = 1e-6  # of ticks


class EnvoyGradient:
    """Follows the quotient of the shortest and the present median; measures the shortest with three at a time."""

    def __init__(self, start: int = _LEAST, seed: int = 1) -> None:  # noqa: ARG002 - it starts with the least
        self._random = Random(seed)
        self._next_measurement = inf
        self._next_window = _WINDOW
        self._samples: list[float] = []
        self._shortest = 0.0
        self._least_in_a_row = 0
        self._measuring_since: float | None = 0.0
        self._deferred = _LEAST
        self.limit = _LEAST

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        since = self._measuring_since
        if since is None:
            self._samples.append(duration)
        elif now - duration >= since:  # older ones ran beside more than three
            self._samples.append(duration)
            if len(self._samples) >= _REQUESTS:
                self._shortest = median_low(self._samples)
                self._samples.clear()
                self._measuring_since = None
                self.limit = self._deferred
                self._next_window = now + _WINDOW
                self._next_measurement = now + _INTERVAL * (1 + _JITTER * self._random.random())

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:  # noqa: ARG002
        if self._measuring_since is not None:
            return
        if now >= self._next_measurement:
            self._measure(now)
        elif now >= self._next_window - _ROUNDING:
            self._next_window = now + _WINDOW
            if self._samples:
                self._update(now)

    def _measure(self, now: float) -> None:
        self._deferred = self.limit
        self.limit = _LEAST
        self._least_in_a_row = 0
        self._samples.clear()
        self._measuring_since = now

    def _update(self, now: float) -> None:
        sample = median_low(self._samples)
        self._samples.clear()
        gradient = max(0.5, min(2.0, self._shortest * (1 + _BUFFER) / sample))
        wanted = self.limit * gradient
        self.limit = max(_LEAST, min(_MOST, floor(wanted + sqrt(wanted))))
        self._least_in_a_row = self._least_in_a_row + 1 if self.limit == _LEAST else 0
        if self._least_in_a_row >= _AT_LEAST_IN_A_ROW:
            self._measure(now)
