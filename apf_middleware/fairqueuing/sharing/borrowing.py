"""The limits of levels until the next adjustment: Kubernetes' periodic computation of borrowing, as a pure function.

An adjustment begins with the demand of every level since the last one. An *exempt* level isn't limited: it has its
maximum demand, at least its min, and these seats are subtracted from the sum of all nominal seats. A *limited* level is
entitled to its maximum demand, at least its min and at most its nominal seats, because it gets back at once what it has
lent; this is its ``min_current``. Its target is its smoothed demand, at least ``min_current``. The seats that remain
for the limited levels are

1. no more than the sum of the mins: each level gets its min, because that is promised;
2. more, but no more than the sum of the ``min_current``: each level gets its min, and the same fraction of the
   difference between the two; or
3. still more: the solver (`allocation.solve`) divides seats in proportion to the targets, between min_current and max.

The smoothed demand rises at once and falls slowly. The envelope is the average plus one deviation; if the smoothed
demand is above it, half of the difference is left after 30 adjustments (five minutes, with one in ten seconds). The
caller decides when to adjust. Limits are rounded one by one, so their sum may differ from the divided seats by a few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from apf_middleware.copying import Value
from apf_middleware.exceptions import InfeasibleError, InvalidValueError, require_amount, require_flag, require_integer
from apf_middleware.fairqueuing.demand import DemandStatistics
from apf_middleware.fairqueuing.sharing.allocation import SeatClaim, solve
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.work import round_half_away

__all__ = ["Adjustment", "LevelAdjustment", "LevelDemand", "adjust_limits", "forget_demand", "smooth_demand"]

_KEPT: Final = 0.977  # the part of a lead over the envelope that one adjustment leaves, however long its period was
_LOST: Final = 0.023  # the rest; as a double, 1 - 0.977 is a different number


@dataclass(frozen=True, slots=True)
class LevelDemand(Value):
    """The demand of one level before an adjustment, and its limits.

    ``demand`` is that of the period since the last adjustment; ``smoothed`` and ``current`` are the results of that
    adjustment, and 0 for a level that is new.
    """

    limits: LevelLimits
    demand: DemandStatistics
    smoothed: float = 0.0
    current: int = 0
    exempt: bool = False

    def __post_init__(self) -> None:
        for name, value, kind in (("limits", self.limits, LevelLimits), ("demand", self.demand, DemandStatistics)):
            if not isinstance(value, kind):
                raise InvalidValueError(name, value, f"it must be {kind.__name__}")
        require_amount("smoothed", self.smoothed)
        require_integer("current", self.current, least=0)
        require_flag("exempt", self.exempt)


class LevelAdjustment(NamedTuple):
    """The result of an adjustment for one level: its ``current`` limit, and how that was found."""

    current: int
    smoothed: float
    target: float
    min_current: int


class Adjustment(NamedTuple):
    """The result of an adjustment for all levels.

    ``fair_fraction`` is the fraction of its target that each level gets unless a bound applies; 0 if the solver wasn't
    needed or failed. If it failed, ``failure`` is its error, and the limited levels keep their limits.
    """

    levels: Mapping[str, LevelAdjustment]
    fair_fraction: float
    failure: InfeasibleError | None = None


def smooth_demand(smoothed: float, demand: DemandStatistics) -> float:
    """Return the smoothed demand after one more period; a period without duration changes nothing."""
    require_amount("smoothed", smoothed)
    if not demand.duration_ns:
        return smoothed
    envelope = demand.average + demand.deviation
    return max(envelope, _KEPT * smoothed + _LOST * envelope)


def forget_demand(smoothed: float, steady: int, periods: int) -> float:
    """Return the smoothed demand after this number of ``periods`` with a ``steady`` demand, except for rounding."""
    require_amount("smoothed", smoothed)
    return max(float(steady), steady + (smoothed - steady) * _KEPT ** require_integer("periods", periods, least=0))


def adjust_limits(levels: Mapping[str, LevelDemand], *, deduct_exempt: bool = False) -> Adjustment:
    """Return the current limits of all ``levels`` until the next adjustment.

    In the third case Kubernetes divides the nominal seats of all levels, as if exempt levels used none. By its design,
    only the seats that remain should be divided; ``deduct_exempt`` follows the design.
    """
    found = {name: _observe(level) for name, level in levels.items()}
    # Sums of doubles depend on their order; sorted by name, the same levels always get the same limits.
    limited = {name: level.limits for name, level in sorted(levels.items()) if not level.exempt}
    nominal = sum(level.limits.nominal for level in levels.values())
    remaining = nominal - sum(found[name].current for name, level in levels.items() if level.exempt)
    try:
        currents, fair_fraction = _divide(limited, found, remaining, remaining if deduct_exempt else nominal)
    except InfeasibleError as failure:
        return Adjustment(found, 0.0, failure)
    for name, current in currents.items():
        found[name] = found[name]._replace(current=current)
    return Adjustment(found, fair_fraction)


def _observe(level: LevelDemand) -> LevelAdjustment:
    """Return what one level needs. An exempt one gets this; a limited one keeps its limit until seats are divided."""
    limits, peak = level.limits, level.demand.maximum
    min_current = max(limits.min, peak if level.exempt else min(limits.nominal, peak))
    smoothed = smooth_demand(level.smoothed, level.demand)
    return LevelAdjustment(
        current=min_current if level.exempt else level.current,
        smoothed=smoothed,
        target=max(float(min_current), smoothed),
        min_current=min_current,
    )


def _divide(
    limited: Mapping[str, LevelLimits], found: Mapping[str, LevelAdjustment], remaining: int, total: int
) -> tuple[dict[str, int], float]:
    """Return the current limits of limited levels and the fair fraction; the solver divides ``total``."""
    least = sum(limits.min for limits in limited.values())
    needed = sum(found[name].min_current for name in limited)
    if remaining <= least:
        return {name: limits.min for name, limits in limited.items()}, 0.0
    if remaining <= needed:
        part = (remaining - least) / (needed - least)
        return {
            name: limits.min + round_half_away((found[name].min_current - limits.min) * part)
            for name, limits in limited.items()
        }, 0.0
    claims = [SeatClaim(found[name].min_current, limits.max, found[name].target) for name, limits in limited.items()]
    allocation = solve(total, claims)
    return dict(zip(limited, map(round_half_away, allocation.amounts), strict=True)), allocation.fair_fraction
