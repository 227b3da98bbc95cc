"""A plain twin of the shares of a fleet: exact fractions, and progressive filling.

It follows the description of `apf_middleware.fleet.shares`, and looks at all flows again in each step.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.messages import LevelUsage

Key = TypeVar("Key", bound=Hashable)

__all__ = ["TwinShares", "fill", "twin_shares"]

Usages = Mapping[str, Mapping[str, LevelUsage]]


@dataclass
class TwinShares:
    """The seats of each level, and of each member by level; ``flows`` are those of each flow at each member."""

    levels: dict[str, Fraction]
    members: dict[str, dict[str, Fraction]]
    spare: dict[str, Fraction]
    flows: dict[tuple[str, str, int], Fraction] = field(default_factory=dict)

    def amount(self, member: str) -> Fraction:
        """Return all seats of a member."""
        return self.spare[member] + sum(self.members[member].values(), Fraction(0))


def fill(
    total: Fraction, claims: Mapping[Key, tuple[Fraction | int, Fraction | int, Fraction | int]]
) -> dict[Key, Fraction]:
    """Divide ``total`` among claims (weight, least, most): raise those with the least for their weight together."""
    got = {key: Fraction(least) for key, (_, least, _) in claims.items()}
    left = total - sum(got.values(), Fraction(0))
    if left <= 0:
        given = sum(got.values(), Fraction(0))
        return {key: one * total / given if given else one for key, one in got.items()}
    while left:
        heights = {key: got[key] / weight for key, (weight, _, most) in claims.items() if weight and got[key] < most}
        if not heights:
            return got
        height = min(heights.values())
        lowest = [key for key, one in heights.items() if one == height]
        weights = sum((Fraction(claims[key][0]) for key in lowest), Fraction(0))
        stops = [one for one in heights.values() if one > height]
        stops += [Fraction(claims[key][2]) / claims[key][0] for key in lowest]
        step = min(min(stops) - height, left / weights)
        for key in lowest:
            got[key] += step * claims[key][0]
        left -= step * weights
    return got


def twin_shares(seats: int, claims: Mapping[str, SeatDemand], usages: Usages) -> TwinShares:
    """Return the shares of all members; the levels have no priorities."""
    parents = {claim.parent for claim in claims.values()}
    leaves = [name for name in claims if name not in parents]
    demands = {name: _demand_of_level(seats, name, usages) for name in leaves}
    amounts = _levels(seats, claims, demands)
    levels = {name: amounts[name] for name in leaves}
    found = TwinShares(levels, {member: {} for member in usages}, dict.fromkeys(usages, Fraction(0)))
    for name in leaves:
        _divide_level(found, name, demands[name], usages)
    for parent in parents - {None}:
        _reserve(found, parent, amounts, claims, usages)
    top = (amounts[name] for name, claim in claims.items() if claim.parent is None)
    _spread(found, Fraction(seats) - sum(top, Fraction(0)), usages)
    return found


def _reserve(
    found: TwinShares,
    parent: str | None,
    amounts: Mapping[str, Fraction],
    claims: Mapping[str, SeatDemand],
    usages: Usages,
) -> None:
    """Divide what a parent deserves and its children don't, in proportion to the arrivals of these."""
    assert parent is not None
    children = [name for name, claim in claims.items() if claim.parent == parent]
    rest = amounts[parent] - sum((amounts[name] for name in children), Fraction(0))
    arrivals = {
        member: sum(levels[name].arrivals for name in children if name in levels) for member, levels in usages.items()
    }
    for member, part in _in_proportion(rest, arrivals).items():
        found.members[member][parent] = part


def _demand_of_level(seats: int, level: str, usages: Usages) -> int:
    flows, rest = _flows_of_level(level, usages)
    return sum(min(seats, demand) for demand, _ in flows.values()) + sum(demand for demand, _ in rest.values())


def _flows_of_level(
    level: str, usages: Usages
) -> tuple[dict[int, tuple[int, Fraction]], dict[str, tuple[int, Fraction]]]:
    """Return demand and weight of each flow that is listed, and of each member's other flows together."""
    flows: dict[int, tuple[int, Fraction]] = {}
    rest = {}
    for member, levels in usages.items():
        usage = levels.get(level, LevelUsage())
        for flow, seats, its_weight in usage.flows.rows():
            demand, weight = flows.get(flow, (0, Fraction(0)))
            flows[flow] = demand + seats, max(weight, Fraction(its_weight, 2**16))
        if usage.rest_flows:
            rest[member] = usage.rest_seats, Fraction(usage.rest_flows)
    return {flow: (demand, weight or Fraction(1)) for flow, (demand, weight) in flows.items()}, rest


def _levels(seats: int, claims: Mapping[str, SeatDemand], demands: Mapping[str, int]) -> dict[str, Fraction]:
    """Divide the seats among the families, and the seats of each family among its children; return those of both."""

    def bounds(name: str) -> tuple[int, int, int]:
        children = [bounds(child) for child, claim in claims.items() if claim.parent == name]
        claim = claims[name]
        least = max(claim.least, sum(one[1] for one in children))
        wanted = sum(one[2] for one in children) if children else demands[name]
        return claim.weight, least, max(least, wanted if claim.most is None else min(wanted, claim.most))

    top = {name: bounds(name) for name, claim in claims.items() if claim.parent is None}
    found = fill(Fraction(seats), top)
    for parent in list(found):
        children = {name: bounds(name) for name, claim in claims.items() if claim.parent == parent}
        found |= fill(found[parent], children)
    return found


def _divide_level(found: TwinShares, level: str, demand: int, usages: Usages) -> None:
    flows, rest = _flows_of_level(level, usages)
    asked: dict[tuple[str, int | str], tuple[Fraction | int, Fraction | int, Fraction | int]] = {}
    asked |= {("flow", key): (weight, 0, seats) for key, (seats, weight) in flows.items()}
    asked |= {("rest", member): (weight, 0, seats) for member, (seats, weight) in rest.items()}
    got = fill(found.levels[level], asked)
    for member, levels in usages.items():
        usage = levels.get(level)
        if usage is None:
            continue
        amount = got.get(("rest", member), Fraction(0))
        for flow, seats, _ in usage.flows.rows():
            part = got["flow", flow] * seats / flows[flow][0] if seats else Fraction(0)
            found.flows[member, level, flow] = part
            amount += part
        found.members[member][level] = amount
    reserve = found.levels[level] - demand
    if reserve > 0:
        arrivals = {member: levels.get(level, LevelUsage()).arrivals for member, levels in usages.items()}
        for member, part in _in_proportion(reserve, arrivals).items():
            found.members[member][level] = found.members[member].get(level, Fraction(0)) + part


def _spread(found: TwinShares, spare: Fraction, usages: Usages) -> None:
    """Divide three quarters of the spare seats, or all if there is one member: up to a seat each, then by arrivals."""
    left = spare * Fraction(3, 4) if len(usages) > 1 else spare
    missing = {member: max(Fraction(0), 1 - found.amount(member)) for member in usages}
    needed = sum(missing.values(), Fraction(0))
    raised = min(left, needed)
    arrivals = {member: 1 + sum(one.arrivals for one in levels.values()) for member, levels in usages.items()}
    for member, part in _in_proportion(left - raised, arrivals).items():
        found.spare[member] += part + (missing[member] * raised / needed if needed else 0)


def _in_proportion(amount: Fraction, parts: Mapping[str, int]) -> dict[str, Fraction]:
    total = sum(parts.values())
    return {key: amount * one / total if total else amount / len(parts) for key, one in parts.items()}
