"""Netflix's AIMD, as in com.netflix.concurrency.limits.limit.AIMDLimit."""

from apf_middleware.adaptive import RequestOutcome

__all__ = ["AIMD"]

_LEAST = 20
_MOST = 200
_SLOW = 5.0
_BACK_OFF = 0.9


class AIMD:
    """Grows by one with each request while at least half used; falls by a tenth when one is dropped or too slow."""

    def __init__(self, start: int = _LEAST) -> None:
        self._least = min(start, _LEAST)
        self.limit = start

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:  # noqa: ARG002
        if outcome in (RequestOutcome.TIMED_OUT, RequestOutcome.REFUSED) or duration > _SLOW:
            self.limit = int(self.limit * _BACK_OFF)
        elif in_flight * 2 >= self.limit:
            self.limit += 1
        self.limit = max(self._least, min(_MOST, self.limit))

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        pass
