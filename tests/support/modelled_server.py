"""A server by formula: what a controller of the total of seats would see, in steps of 50 ms, without an event loop."""

from collections.abc import Callable
from random import Random

from apf_middleware.adaptive import AdaptiveTotal, RequestOutcome, SeatUse

__all__ = ["STEP_NS", "ModelledServer", "sharing"]

STEP_NS = 50_000_000

Slowdown = Callable[[float], float]
"""From the requests in service to how many times as long as alone each of them takes."""

Usable = Callable[[int], int]
"""From the total to the seats of it that aren't promised to idle levels."""


def sharing(capacity: float) -> Slowdown:
    """Return the slowdown of processor sharing."""
    return lambda running: max(1.0, running / capacity)


class ModelledServer:
    """Runs as many of ``demand`` requests as the controller allows; ``routes`` are names and durations in seconds.

    Requests of the ``steady`` durations take as long as alone, however many others run.
    """

    def __init__(self, total: AdaptiveTotal, slowdown: Slowdown, demand: int = 1000, seed: int = 1) -> None:
        self.total = total
        self.slowdown = slowdown
        self.usable: Usable = lambda total: total
        self.demand = demand
        self.routes: list[tuple[str, float]] = [("all", 0.05)]
        self.steady: set[float] = set()
        self.outcome = RequestOutcome.SUCCESS
        self.sigma = 0.5  # of the logarithms of durations
        self.failing = 0.0  # the part of requests that end with ``outcome``
        self.lag = 0
        self.now = 0
        self.limits: list[int] = []
        self.reasons: list[str] = []
        self._random = Random(seed)
        self._owed = 0.0

    def run(self, seconds: float) -> list[int]:
        """Go on for so long; return the limits of this time, one for each step."""
        begin = len(self.limits)
        steady_s = sum(alone for _, alone in self.routes if alone in self.steady)
        other_s = sum(alone for _, alone in self.routes) - steady_s
        for _ in range(round(seconds * 1e9 / STEP_NS)):
            self._step(steady_s, other_s)
        return self.limits[begin:]

    def _step(self, steady_s: float, other_s: float) -> None:
        self.now += STEP_NS
        total = self.total.limit
        usable = self.usable(total)
        running = min(self.demand, usable)
        slowdown = self.slowdown(running)
        self._owed += running * STEP_NS / 1e9 * len(self.routes) / (steady_s + other_s * slowdown)
        while self._owed >= 1:
            self._owed -= 1
            route, alone = self.routes[self._random.randrange(len(self.routes))]
            duration = alone if alone in self.steady else alone * slowdown
            taken = round(1e9 * duration * self._random.lognormvariate(-(self.sigma**2) / 2, self.sigma))
            outcome = self.outcome if self._random.random() < self.failing else RequestOutcome.SUCCESS
            self.total.observe(self.now, route, taken, outcome)
        use = SeatUse.of(total, [(running, 0), (0, total - usable)])
        self.total.note(self.now, use.occupied, self.demand - running, self.lag, use.usable)
        self.limits.append(self.total.decide(self.now))
        self.reasons.append(self.total.reason)
