"""What the benchmark asks of a limiter, and the limiter that never changes."""

from typing import Protocol

from apf_middleware.adaptive import RequestOutcome

__all__ = ["Limiter", "Static"]


class Limiter(Protocol):
    """Decides how many requests may run; times are seconds."""

    @property
    def limit(self) -> int:
        """The requests that may run now."""

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:
        """Learn from a request that ended now; ``in_flight`` counts it, too."""

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        """Learn the state, 20 times a second; ``utilisation`` is the part of the backend that is busy."""


class Static:
    """A limit that was known beforehand."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def observe(self, now: float, route: str, in_flight: int, duration: float, outcome: RequestOutcome) -> None:
        pass

    def tick(self, now: float, in_use: int, waiting: int, utilisation: float) -> None:
        pass
