"""The total of a fleet's seats, where it adapts: the allocator learns it from what all members report.

One controller decides for all. If each member tried more and fewer seats by itself, each would measure the effect of
the others' tries.
"""

from collections.abc import Iterable
from typing import Final

from apf_middleware.adaptive import AdaptiveSettings, AdaptiveTotal, RequestOutcome, SeatUse
from apf_middleware.compilation import mypyc_attr
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.messages import Report
from apf_middleware.fleet.samples import DurationSamples

__all__ = ["FleetTotal"]

_OUTCOMES: Final = tuple(RequestOutcome)


@mypyc_attr(allow_interpreted_subclasses=True)
class FleetTotal:
    """The total within ``bounds``, which begins with ``seats``; ``decisions`` are counted by their reasons."""

    def __init__(self, bounds: SeatRange, seats: int, now: int) -> None:
        self.bounds: SeatRange = bounds
        self.controller: AdaptiveTotal = AdaptiveTotal(
            AdaptiveSettings(bounds.least, bounds.most, bounds.clamp(seats)), now
        )
        self.decisions: dict[str, int] = {}
        self._rejected = 0

    @property
    def seats(self) -> int:
        """The present total."""
        return self.controller.limit

    def observe(self, now: int, samples: DurationSamples) -> None:
        """Learn from the requests of a report that has arrived."""
        self._rejected += samples.rejected
        observe = self.controller.observe
        for route, duration, age, outcome in zip(
            samples.routes, samples.durations, samples.ages, samples.outcomes, strict=True
        ):
            observe(now - age, str(route), duration, _OUTCOMES[outcome])

    def decide(self, now: int, budget: Budget, reports: Iterable[Report]) -> int:
        """Return the total from now on; ``reports`` are the last ones of all members."""
        controller = self.controller
        waiting, leaves = 0, set(budget.leaves)
        in_use = dict.fromkeys(leaves, 0)
        for report in reports:
            for name, usage in report.levels.items():
                waiting += max(0, usage.demand - usage.in_use)
                in_use[name] = in_use.get(name, 0) + usage.in_use
        levels = [(used, budget.claims[name].least if name in leaves else 0) for name, used in in_use.items()]
        use = SeatUse.of(controller.limit, levels)
        controller.note(now, use.occupied, waiting + self._rejected, usable=use.usable)
        self._rejected = 0
        begin = controller.window.begin
        seats = controller.decide(now)
        if controller.window.begin != begin:
            self.decisions[controller.reason] = self.decisions.get(controller.reason, 0) + 1
        return seats

    def __repr__(self) -> str:
        return f"<FleetTotal: {self.controller!r}>"
