"""The solver, which divides a total among claims, each with a lower bound, an upper bound and a target.

All get the same fraction p of their target, unless a bound applies:

    amount(p) = clamp(p · target, lower, upper),    Σ amount(p) = total.

The sum is a piecewise linear function of p and never decreases. Its knots are the ratios lower/target, where an amount
begins to grow, and upper/target, where it stops. So the solution is found by a sweep over the sorted knots and one
division on the piece between two of them: O(n log n). Divisions and sums have upstream's order, and knots of equal
ratio the order in which Go's sort leaves them, so the results are bit by bit the same as in Kubernetes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from apf_middleware.exceptions import InfeasibleError, InvalidValueError, require_amount
from apf_middleware.fairqueuing.sharing.pdqsort import pdqsort

__all__ = ["Allocation", "SeatClaim", "solve"]

_SLACK: Final = 1e-7  # allowed difference of the total and a sum of bounds, because of rounding
_LEAST_TARGET: Final = 1e-3  # a target of zero would have no ratio to its bounds


class SeatClaim(NamedTuple):
    """One level's part in an allocation problem; `solve` checks it."""

    lower: float
    upper: float
    target: float


class Allocation(NamedTuple):
    """The solution: the fraction of its target that each claim gets unless a bound applies, and all amounts."""

    fair_fraction: float
    amounts: tuple[float, ...]


def solve(total: float, claims: Sequence[SeatClaim]) -> Allocation:
    """Divide ``total`` among ``claims``; raise InfeasibleError if their bounds don't allow it.

    Upper bound and target must not be below the lower bound. Targets below 0.001 count as 0.001.
    """
    require_amount("total", total)
    floored = [_checked(place, claim) for place, claim in enumerate(claims)]
    # Added up as in upstream's loop, because sum() and fsum() round differently.
    lowest = highest = wanted = 0.0
    for lower, upper, target in floored:
        lowest += lower
        highest += upper
        wanted += target
    if lowest - total > _SLACK:
        raise InfeasibleError("sum of lower bounds", lowest, f"it must not exceed the total of {total:g}")
    if total - highest > _SLACK:
        raise InfeasibleError("sum of upper bounds", highest, f"it must reach the total of {total:g}")
    if not total or not floored:
        return Allocation(0.0, (0.0,) * len(floored))
    if total - lowest < _SLACK:
        return Allocation(min(lower / target for lower, _, target in floored), tuple(lower for lower, _, _ in floored))
    if highest - total < _SLACK:
        return Allocation(max(upper / target for _, upper, target in floored), tuple(upper for _, upper, _ in floored))
    fraction = total / wanted
    if all(lower / target <= fraction <= upper / target for lower, upper, target in floored):
        return Allocation(fraction, tuple(target * fraction for _, _, target in floored))
    fraction = _sweep(total, lowest, floored)
    return Allocation(fraction, tuple(min(max(lower, fraction * target), upper) for lower, upper, target in floored))


def _checked(place: int, claim: SeatClaim) -> SeatClaim:
    name = f"claims[{place}]"
    lower = require_amount(f"{name}.lower", claim.lower)
    for part, value in (("target", claim.target), ("upper", claim.upper)):
        if require_amount(f"{name}.{part}", value) < lower:
            raise InvalidValueError(f"{name}.{part}", value, f"it must not be below the lower bound of {lower}")
    return SeatClaim(lower, claim.upper, max(claim.target, _LEAST_TARGET))


def _sweep(total: float, lowest: float, claims: Sequence[SeatClaim]) -> float:
    """Return the fraction at which the amounts add up to ``total``, strictly between the sums of the bounds.

    Between two knots the sum grows with the slope of the claims that are at neither bound. The slope is a running sum
    with rounding errors, so ``growing`` counts these claims: if there are none, the slope is really 0.
    """
    knots: list[tuple[float, float, int]] = [
        knot for lower, upper, target in claims for knot in ((lower / target, target, 1), (upper / target, -target, -1))
    ]
    pdqsort(knots)
    reached, slope, growing = lowest, 0.0, 0
    fraction = knots[0][0]
    for knot, change, count in knots:
        if knot > fraction:
            if growing and slope > 0:
                answer = fraction + (total - reached) / slope
                if answer <= knot:
                    return answer
                reached += (knot - fraction) * slope
                if reached >= total:
                    return knot
            fraction = knot
        slope += change
        growing += count
    return fraction
