"""The controller of this project, as the benchmark drives it."""

from apf_middleware.adaptive import AdaptiveSettings, AdaptiveTotal, RequestOutcome

__all__ = ["Own"]

_CEILING = 400


class Own:
    """Calls `AdaptiveTotal` with nanoseconds."""

    def __init__(self, start: int) -> None:
        self._total = AdaptiveTotal(AdaptiveSettings(1, _CEILING, start))
        self.limit = start

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        self._total.observe(round(now * 1e9), route, round(duration * 1e9), outcome)

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:  # noqa: ARG002
        time = round(now * 1e9)
        self._total.note(time, in_use, waiting)
        self.limit = self._total.decide(time)
