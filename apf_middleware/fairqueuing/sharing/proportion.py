"""The seats that each queue deserves, in proportion to weights, within guarantees and demands.

*Weighted max-min.* All queues get the same number of seats for each unit of weight, unless a bound applies:

    deserved = clamp(height · weight, lower, upper),    Σ deserved = the total, or all that is wanted.

``lower`` is the min; ``upper`` is the demand, at most the max, but never below ``lower``. The sum is a piecewise linear
function of the height and never decreases, so one sweep over its sorted knots finds the height exactly, without
rounding or iteration, whatever the weights are. A queue with weight 0 deserves only its min, and can use what the
others leave.

If the sum of the mins exceeds the total, all mins are reduced in the same proportion, so that the sum is the total.
Queues with a parent divide among themselves what the parent deserves.

`with_surplus` also divides the seats that no queue asks for, in the same way, up to each max. So an idle queue, too,
deserves the seats that it could claim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apf_middleware.copying import Value
from apf_middleware.exceptions import require_integer

__all__ = ["SeatDemand", "deserved_by_name", "divide", "whole_parts", "with_surplus"]


@dataclass(frozen=True, slots=True)
class SeatDemand(Value):
    """The demand of one queue; ``most`` None means that there is no limit, and ``parent`` names another queue."""

    weight: int
    demand: int
    least: int = 0
    most: int | None = None
    parent: str | None = None

    def __post_init__(self) -> None:
        for name in ("weight", "demand", "least"):
            require_integer(name, getattr(self, name), least=0)
        if self.most is not None:
            require_integer("most", self.most, least=self.least)

    @property
    def upper(self) -> int:
        """The most seats that the queue can use."""
        wanted = self.demand if self.most is None else min(self.demand, self.most)
        return max(self.least, wanted)


def deserved_by_name(total: int, demands: Mapping[str, SeatDemand]) -> dict[str, Fraction]:
    """Return how many of ``total`` seats each queue deserves; children divide what their parent deserves.

    A parent's demand is that of its children, and its ``least`` is at least the sum of theirs.
    """
    require_integer("total", total, least=0)
    families: dict[str, list[str]] = {}
    for name, demand in demands.items():
        if demand.parent is not None:
            families.setdefault(demand.parent, []).append(name)
    top = {name: _bounds(name, demands, families) for name, demand in demands.items() if demand.parent is None}
    found = dict(zip(top, divide(Fraction(total), list(top.values())), strict=True))
    for parent, children in families.items():
        parts = divide(found[parent], [_bounds(child, demands, {}) for child in children])
        found |= zip(children, parts, strict=True)
    return {name: found[name] for name in demands}


def with_surplus(total: int, demands: Mapping[str, SeatDemand]) -> dict[str, Fraction]:
    """Return what each queue deserves, with its part of the seats that no queue asks for."""
    found = deserved_by_name(total, demands)
    return _add_surplus(Fraction(total), None, found, demands)


def _add_surplus(
    total: Fraction, parent: str | None, found: Mapping[str, Fraction], demands: Mapping[str, SeatDemand]
) -> dict[str, Fraction]:
    """Divide ``total`` among the queues with this ``parent``, and what each of them gets among its children."""
    claims = {}
    for name, demand in demands.items():
        if demand.parent == parent:
            most = total if demand.most is None else Fraction(demand.most)
            claims[name] = demand.weight, found[name], max(found[name], most)
    amounts = dict(zip(claims, divide(total, list(claims.values())), strict=True))
    added = dict(amounts)
    for name in claims if parent is None else ():
        added |= _add_surplus(amounts[name], name, found, demands)
    return added


def whole_parts(amounts: Mapping[str, Fraction], total: int) -> dict[str, int]:
    """Round the ``amounts`` down, and add 1 to those with the largest remainders until their sum is ``total``."""
    parts = {name: int(amount) for name, amount in amounts.items()}
    by_remainder = sorted(amounts, key=lambda name: (parts[name] - amounts[name], name))
    for name in by_remainder[: max(0, total - sum(parts.values()))]:
        parts[name] += 1
    return parts


def _bounds(
    name: str, demands: Mapping[str, SeatDemand], families: Mapping[str, Sequence[str]]
) -> tuple[int, int, int]:
    """Return weight, lower and upper bound of a queue, which may be a parent."""
    own = demands[name]
    children = [demands[child] for child in families.get(name, ())]
    if not children:
        return own.weight, own.least, own.upper
    least = max(own.least, sum(child.least for child in children))
    wanted = sum(child.upper for child in children)
    return own.weight, least, max(least, wanted if own.most is None else min(wanted, own.most))


def divide(total: Fraction, claims: Sequence[tuple[int, int | Fraction, int | Fraction]]) -> tuple[Fraction, ...]:
    """Return the seats of each claim (weight, lower, upper), by raising the height from knot to knot."""
    lowest = sum(lower for _, lower, _ in claims)
    if lowest >= total:
        return tuple(Fraction(lower) * total / lowest if lowest else Fraction(0) for _, lower, _ in claims)
    knots = sorted(
        knot
        for weight, lower, upper in claims
        if weight and upper > lower
        for knot in ((Fraction(lower, weight), weight), (Fraction(upper, weight), -weight))
    )
    reached, height, slope = Fraction(lowest), Fraction(0), 0
    for knot, change in knots:
        step = slope * (knot - height)
        if reached + step >= total:
            height += (total - reached) / slope
            break
        reached += step
        height, slope = knot, slope + change
    return tuple(min(max(Fraction(lower), height * weight), Fraction(upper)) for weight, lower, upper in claims)
