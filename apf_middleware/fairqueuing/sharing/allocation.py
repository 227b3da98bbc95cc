"""Seats divided among levels: limits that follow from shares, and the solver that divides a total by targets.

*Limits* follow from shares once and for all: nominal seats in proportion to the shares, of which a level may lend some
and to which it may borrow some. Everything there is a fraction of integers, and computed as one.

*The solver* divides a total among claims, each with a lower bound, an upper bound and a target. All get the same
fraction p of their target, except where a bound forbids it:

    amount(p) = clamp(p · target, lower, upper),    Σ amount(p) = total.

The sum is a polyline in p that never falls. Its knots are the ratios lower/target, where an amount begins to grow, and
upper/target, where it stops. So the solution is found by a sweep over the sorted knots and one division on the piece
between two of them: O(n log n). Divisions and sums happen in upstream's order, and knots of equal ratio stand in the
order in which Go's sort leaves them, so results equal Kubernetes' to the bit.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from apf_middleware.exceptions import MOST_AMOUNT, InfeasibleError, InvalidValueError, require_amount, require_integer
from apf_middleware.fairqueuing.sharing.pdqsort import pdqsort

__all__ = [
    "Allocation",
    "LevelLimits",
    "LevelShares",
    "SeatClaim",
    "limits_from_shares",
    "solve",
]

Level = TypeVar("Level", bound=Hashable)

_SLACK: Final = 1e-7  # how far the total may miss the bounds' sum, as rounding does
_LEAST_TARGET: Final = 1e-3  # a target of zero would have no ratio to its bounds


# Limits


@dataclass(frozen=True, slots=True)
class LevelShares:
    """The configuration of a level's seats, in proportions.

    ``borrowing_percent`` None means that borrowing has no limit of its own. An exempt level isn't held to any limit, so
    it has none to borrow beyond.
    """

    shares: int
    lendable_percent: int = 0
    borrowing_percent: int | None = None
    exempt: bool = False

    def __post_init__(self) -> None:
        require_integer("shares", self.shares, least=0)
        require_integer("lendable_percent", self.lendable_percent, least=0, most=100)
        if self.borrowing_percent is not None:
            require_integer("borrowing_percent", self.borrowing_percent, least=0)
        if not isinstance(self.exempt, bool):
            raise InvalidValueError("exempt", self.exempt, "it must be True or False")
        if self.exempt and self.borrowing_percent is not None:
            raise InvalidValueError("borrowing_percent", self.borrowing_percent, "an exempt level has none")


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """The seats that the proportions come to: a level's current limit stays between ``min`` and ``max``."""

    nominal: int
    min: int
    max: int

    def __post_init__(self) -> None:
        require_integer("nominal", self.nominal, least=0, most=MOST_AMOUNT)
        require_integer("min", self.min, least=0, most=self.nominal)
        require_integer("max", self.max, least=self.nominal, most=MOST_AMOUNT)

    @property
    def lendable(self) -> int:
        return self.nominal - self.min

    @property
    def borrowing(self) -> int:
        return self.max - self.nominal


def limits_from_shares(
    seats: int, levels: Mapping[Level, LevelShares], *, strict_upstream: bool = False
) -> dict[Level, LevelLimits]:
    """Return the limits of all ``levels`` of a server that has so many ``seats``.

    Nominal seats are rounded up, so a level with any shares has a seat, and together they may be more than ``seats``.
    Zero shares mean zero seats; ``strict_upstream`` lets such a level borrow all the same, as Kubernetes does.
    """
    require_integer("seats", seats, least=0)
    total = sum(level.shares for level in levels.values())
    return {
        name: LevelLimits(0, 0, 0)
        if not (level.shares or level.exempt or strict_upstream)
        else _limits(seats, level, total)
        for name, level in levels.items()
    }


def _limits(seats: int, level: LevelShares, total: int) -> LevelLimits:
    nominal = -(-seats * level.shares // total) if total else 0
    percent = level.borrowing_percent
    borrowing = seats if percent is None else _percent_of(nominal, percent)
    return LevelLimits(nominal, nominal - _percent_of(nominal, level.lendable_percent), nominal + borrowing)


def _percent_of(seats: int, percent: int) -> int:
    """Return a percentage of ``seats``, rounded to whole seats, half a seat up."""
    return (seats * percent + 50) // 100


# The solver


class SeatClaim(NamedTuple):
    """One level's part in an allocation problem; `solve` checks it."""

    lower: float
    upper: float
    target: float


@dataclass(frozen=True, slots=True)
class Allocation:
    """The solution: the common fraction of their targets that all get, and the amount of each within its bounds."""

    fair_fraction: float
    amounts: tuple[float, ...]


def solve(total: float, claims: Sequence[SeatClaim]) -> Allocation:
    """Divide ``total`` among ``claims``; raise InfeasibleError if their bounds don't allow it.

    Upper bound and target must not be below the lower bound. Targets below 0.001 count as 0.001.
    """
    require_amount("total", total)
    floored = [_checked(place, claim) for place, claim in enumerate(claims)]
    # Sums are taken one by one, in order: sum() and fsum() round otherwise than upstream's loop.
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

    Between two knots the sum grows with the slope of the claims that are at neither bound. The slope is a running sum,
    so a rounding error stays in it: ``growing`` counts the claims, and tells a slope of zero from such an error.
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
