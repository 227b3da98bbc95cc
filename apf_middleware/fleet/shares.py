"""The fair shares of a fleet's members, computed from their reports: a pure function.

**Levels first.** The demand of a level is the sum of the demands of its flows, each of which counts for at most the
whole budget. The seats are divided among the levels as one process divides them: each level gets its min, and then what
it demands in proportion to its shares, up to its max (see `proportion`). If priorities differ, each level first gets at
most its part of a server on which all levels are busy; the rest goes to the highest priority.

**Then flows.** The seats of a level are divided among its flows by max-min fairness: flow f gets

    a(f) = min(demand(f), weight(f) · λ),    Σ a(f) = the seats of the level.

The demand of a flow is summed over all members, so a flow that spreads its requests over many members gets no more than
one that doesn't. The flows that reports don't list count as flows of average demand.

**Then members.** A member gets the part a(f) · demand(f, m) / demand(f) of each flow. These parts add up to the share
of the member, but a member that divided its share equally among its own flows would not reproduce them. So a flow that
is held back, and that has requests at several members, has a *factor*: at each member its weight is multiplied by its
part of the demand, demand(f, m) / demand(f).

**Seats that no flow wants.** The seats that a level, or a parent, is promised and doesn't demand go to the members
where its requests have arrived recently. Of the seats that remain, a quarter is kept at the allocator for members that
ask for more, if there are several; each member without a whole seat is raised to one; the rest is divided in proportion
to recent arrivals.

Amounts are integers, in units of 2**-20 seats (`SEAT`), and rounded down.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apf_middleware.copying import Value
from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand, deserved_by_name
from apf_middleware.fairqueuing.work import WEIGHT_BITS, WEIGHT_ONE
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.flow_sums import sum_flows
from apf_middleware.fleet.level_max import KEPT
from apf_middleware.fleet.messages import LevelUsage

__all__ = ["FleetShares", "LevelAmounts", "LevelShare", "MemberShare", "divide_budget", "promise_mins"]

Usages = Mapping[str, Mapping[str, LevelUsage]]
"""The demand of each member at each level."""


class LevelShare:
    """One member's share at one level: its ``amount``, whole seats that are ``promised``, and factors of flows."""

    __slots__ = ("amount", "factors", "promised")

    def __init__(self) -> None:
        self.amount: int = 0
        self.promised: int = 0
        self.factors: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<LevelShare: {self.amount / SEAT:.2f} seats, {len(self.factors)} factors>"


class MemberShare:
    """One member's share: by ``levels``, and its part of the seats that no level has (``spare``).

    What a parent is promised beyond the mins of its children has a share of its own. The ``reserve`` is the part of all
    these seats that no flow demands.
    """

    __slots__ = ("levels", "reserve", "spare")

    def __init__(self) -> None:
        self.levels: dict[str, LevelShare] = {}
        self.reserve: int = 0
        self.spare: int = 0

    @property
    def amount(self) -> int:
        """The sum of all parts."""
        return self.spare + sum(one.amount for one in self.levels.values())

    def amount_of(self, level: str) -> int:
        """Return the share of one level."""
        found = self.levels.get(level)
        return 0 if found is None else found.amount

    def at(self, level: str) -> LevelShare:
        """Return the share of one level, which may be a new one."""
        found = self.levels.get(level)
        if found is None:
            found = self.levels[level] = LevelShare()
        return found

    def __repr__(self) -> str:
        return f"<MemberShare: {self.amount / SEAT:.2f} seats>"


@dataclass(frozen=True, slots=True)
class FleetShares(Value):
    """The share of each member, and whether the fleet ``is_contended``: whether more is demanded than there is.

    The ``families`` are the children of parents.
    """

    members: Mapping[str, MemberShare]
    levels: Mapping[str, int]
    is_contended: bool
    families: Mapping[str, Collection[str]] = field(default_factory=dict)


class LevelAmounts:
    """The seats of each level, in units of 2**-20 seats; they are computed anew for another budget or other demands.

    A demand counts for at most the whole budget. So while more is wanted than there is, they seldom change.
    """

    __slots__ = ("_amounts", "_known")

    def __init__(self) -> None:
        self._known: tuple[Budget, Mapping[str, int]] | None = None
        self._amounts: Mapping[str, int] = {}

    def divide(self, budget: Budget, demands: Mapping[str, int]) -> Mapping[str, int]:
        """Return the seats of the levels with these ``demands``."""
        wanted = budget, {name: min(demand, budget.seats) for name, demand in demands.items()}
        if wanted != self._known:
            self._known, self._amounts = wanted, _divide_among_levels(*wanted)
        return self._amounts

    def __repr__(self) -> str:
        return f"<LevelAmounts {self._amounts}>"


def divide_budget(budget: Budget, usages: Usages, levels: LevelAmounts | None = None) -> FleetShares:
    """Return the fair shares of all members; ``levels`` may know the seats of the levels from an earlier division."""
    shares = {member: MemberShare() for member in usages}
    by_level = {name: _LevelDemand(budget.seats, name, usages) for name in budget.leaves}
    amounts = (levels or LevelAmounts()).divide(budget, {name: one.demand for name, one in by_level.items()})
    for name, one in by_level.items():
        one.divide(amounts[name], shares)
        _reserve(amounts[name] - one.demand * SEAT, name, [name], shares, usages)
    families = budget.families
    for parent, family in families.items():
        # Children without shares leave what their parent has, although they demand it.
        _reserve(amounts[parent] - sum(amounts[name] for name in family), parent, family, shares, usages)
    spare = budget.seats * SEAT - sum(amounts[name] for name, claim in budget.claims.items() if claim.parent is None)
    _spread(spare, shares, usages)
    is_contended = any(one.total * SEAT > amounts[name] for name, one in by_level.items())
    found = FleetShares(shares, {name: amounts[name] for name in by_level}, is_contended, families)
    promise_mins(budget, found)
    return found


# Levels


def _divide_among_levels(budget: Budget, demands: Mapping[str, int]) -> dict[str, int]:
    """Return the seats of each level and parent, in units of 2**-20 seats."""
    total = budget.seats * SEAT
    claims = {name: _in_units(claim, demands.get(name, 0)) for name, claim in budget.claims.items()}
    if len({budget.priorities.get(name, 0) for name in demands}) > 1:
        claims = _in_order_of_priority(total, budget, claims)
    found = deserved_by_name(total, claims)
    return {name: int(one) for name, one in found.items()}


def _in_units(claim: SeatDemand, demand: int) -> SeatDemand:
    """Return the claim with this demand, in units of 2**-20 seats: a level's part may be less than a seat."""
    most = None if claim.most is None else claim.most * SEAT
    return replace(claim, demand=demand * SEAT, least=claim.least * SEAT, most=most)


def _in_order_of_priority(total: int, budget: Budget, claims: Mapping[str, SeatDemand]) -> dict[str, SeatDemand]:
    """Return the claims with demands that are limited so that the highest priorities get what the others leave."""
    busy = {name: replace(claim, demand=total) for name, claim in claims.items()}
    entitled = deserved_by_name(total, busy)
    found = {name: replace(claim, demand=min(claim.demand, int(entitled[name]))) for name, claim in claims.items()}
    leaves = budget.leaves
    for priority in sorted({budget.priorities.get(name, 0) for name in leaves}, reverse=True):
        # what the levels have already is their min in this step, in which those of one priority raise their demands
        reached = deserved_by_name(total, found)
        raised = {name: _with_least(one, int(reached[name])) for name, one in found.items()}
        for name in leaves:
            if budget.priorities.get(name, 0) == priority:
                raised[name] = replace(raised[name], demand=claims[name].demand)
        reached = deserved_by_name(total, raised)
        for name in leaves:
            if budget.priorities.get(name, 0) == priority:
                found[name] = replace(found[name], demand=max(found[name].demand, int(reached[name])))
    return found


def _with_least(claim: SeatDemand, least: int) -> SeatDemand:
    """Return the claim with this min, if it is higher; a parent whose children have mins may have more than its max."""
    most = least if claim.most is None else claim.most
    return replace(claim, least=max(claim.least, min(least, most)))


class _LevelDemand:
    """The demand of one level: by flow, and by member.

    ``total`` is the sum of all demands; in ``demand``, each flow counts for at most all seats.
    """

    __slots__ = ("_flows", "_name", "_usages", "demand", "total")

    def __init__(self, seats: int, name: str, usages: Usages) -> None:
        self._name = name
        self._usages = [(member, levels[name]) for member, levels in usages.items() if name in levels]
        self._flows = flows = sum_flows(usage.flows for _, usage in self._usages)
        rests = sum(usage.rest_seats for _, usage in self._usages)
        self.total: int = rests + sum(demand for demand, _ in flows.values())
        self.demand: int = rests + sum(min(demand, seats) for demand, _ in flows.values())

    def divide(self, amount: int, shares: Mapping[str, MemberShare]) -> None:
        """Add the part of each member in the ``amount`` of this level to ``shares``."""
        if self.total * SEAT <= amount:
            for member, usage in self._usages:
                if demand := usage.demand:
                    shares[member].at(self._name).amount += demand * SEAT
            return
        claims = [(demand, weight) for demand, weight in self._flows.values()]
        claims += [(usage.rest_seats, WEIGHT_ONE * usage.rest_flows) for _, usage in self._usages if usage.rest_seats]
        free, weights = _water_level(amount, claims)
        for member, usage in self._usages:
            if usage.flows or usage.rest_seats:
                share = shares[member].at(self._name)
                share.amount += self._part_of(usage, free, weights, share.factors)

    def _part_of(self, usage: LevelUsage, free: int, weights: int, factors: dict[int, int]) -> int:
        """Return the part of one member, and note the factors of its flows that are held back."""
        part = 0
        if usage.rest_seats:
            limit = free * WEIGHT_ONE * usage.rest_flows // weights if weights else usage.rest_seats * SEAT
            part = min(usage.rest_seats * SEAT, limit)
        for flow, seats, _ in usage.flows.rows():
            demand, weight = self._flows[flow]
            if not weights or demand * SEAT * weights <= free * weight:
                part += seats * SEAT
            elif demand:
                part += free * weight * seats // (weights * demand)
                if seats != demand:
                    factors[flow] = max(1, ((seats << WEIGHT_BITS) + demand // 2) // demand)
        return part


def _water_level(amount: int, claims: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return what the claims that get all their demand leave for the others, and the sum of the others' weights.

    A claim is a demand in seats and a weight; for several flows, both are sums.
    """
    free, weights = amount, sum(weight for _, weight in claims)
    for demand, weight in sorted(claims, key=lambda claim: claim[0] / claim[1] if claim[1] else 0.0):
        if demand * SEAT * weights > free * weight:
            break
        free -= demand * SEAT
        weights -= weight
    return free, weights


# Seats that no flow wants


def promise_mins(budget: Budget, shares: FleetShares) -> None:
    """Divide the mins of levels, and what parents are promised beyond those of their children, among the members."""
    claims = budget.claims
    for name in shares.levels:
        _promise(claims[name].least, name, [name], shares)
    for parent, family in shares.families.items():
        _promise(claims[parent].least - sum(claims[name].least for name in family), parent, [parent, *family], shares)


def _promise(least: int, name: str, levels: Sequence[str], shares: FleetShares) -> None:
    """Divide a min in whole seats, in proportion to the members' shares of these ``levels``."""
    if least <= 0:
        return
    owned = [(share, sum(map(share.amount_of, levels))) for share in shares.members.values()]
    amount = max(1, sum(own for _, own in owned))
    exact, promised = SEAT // 2, 0
    for share, own in owned:
        if own or name in share.levels:
            exact += own * min(least * SEAT, amount) // amount
            found = share.at(name)
            found.promised = exact // SEAT - promised
            promised += found.promised


def _reserve(
    amount: int, name: str, levels: Collection[str], shares: Mapping[str, MemberShare], usages: Usages
) -> None:
    """Divide what a level or parent has and no flow of these ``levels`` demands."""
    if amount <= 0:
        return
    arrivals = {
        member: sum(found[level].arrivals for level in levels if level in found) for member, found in usages.items()
    }
    for member, part in _by_arrivals(amount, arrivals).items():
        shares[member].at(name).amount += part
        shares[member].reserve += part


def _by_arrivals(amount: int, arrivals: Mapping[str, int]) -> dict[str, int]:
    """Divide ``amount`` in proportion to recent arrivals, or equally if there were none."""
    total = sum(arrivals.values())
    if not total:
        return {member: amount // len(arrivals) for member in arrivals}
    return {member: amount * one // total for member, one in arrivals.items()}


def _spread(amount: int, shares: Mapping[str, MemberShare], usages: Usages) -> None:
    """Divide the seats that no level has."""
    rest = amount - amount // KEPT if len(shares) > 1 else amount
    if rest <= 0 or not shares:
        return
    missing = {member: SEAT - share.amount for member, share in shares.items() if share.amount < SEAT}
    needed = sum(missing.values())
    if needed:
        given = min(rest, needed)
        for member, one in missing.items():
            shares[member].spare += one * given // needed
        rest -= given
    totals = {member: 1 + sum(usage.arrivals for usage in levels.values()) for member, levels in usages.items()}
    for member, part in _by_arrivals(rest, totals).items():
        shares[member].spare += part
