"""The maxes of the levels of a fleet, and of their parents: each member may use a part of them.

Without this, each member could use the whole max of a level, from seats that no other level wants. The parts are kept
as the seats are (see `debt`): one is raised only when another has certainly become smaller.

**Without a lease** a member may use its fallback seats for any level, because the maxes are not divided then.
"""

from collections.abc import Collection, Iterable, Mapping

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.fitting import fit_shares
from apf_middleware.fleet.level_max import LevelMax, MaxDemand
from apf_middleware.fleet.member_account import MemberAccount
from apf_middleware.fleet.messages import LevelUsage
from apf_middleware.fleet.rotation import MemberDemand
from apf_middleware.fleet.shares import FleetShares, MemberShare, promise_mins

__all__ = ["LevelMaxes"]


class LevelMaxes:
    """The divided maxes, by the name of a level or parent; a seat stays with a member for ``turn_ns``."""

    __slots__ = ("_budget", "_families", "_maxes", "_most", "_parents", "_turn_ns", "_within")

    def __init__(self, turn_ns: int) -> None:
        self._turn_ns = turn_ns
        self._maxes: dict[str, LevelMax] = {}
        self._budget: Budget | None = None
        self._most: dict[str, int] = {}
        self._families: dict[str, tuple[str, ...]] = {}  # the levels within each max
        self._parents: dict[str, str] = {}
        self._within: dict[str, list[str]] = {}  # the maxes of each level, that of its parent first

    @property
    def are_divided(self) -> bool:
        """Whether any max is divided, as it is if it is smaller than the number of seats."""
        return bool(self._maxes)

    @property
    def scarce(self) -> tuple[str, ...]:
        """The maxes of which more is demanded than there is."""
        return tuple(name for name, one in self._maxes.items() if one.is_scarce)

    def granted(self, member: str) -> dict[str, int]:
        """Return the parts that a member can be granted now."""
        return {name: one.granted[member] for name, one in self._maxes.items()}

    def leave_room(self, member: str, usages: Mapping[str, LevelUsage], least: dict[str, int]) -> None:
        """Reduce what levels are promised (``least``) where a part of their parent's max must suffice for a request.

        That is the widest one of the levels that demand more than they are promised, if it fits in the part.
        """
        for name in self._maxes.keys() & self._parents.values():
            part, most = self._maxes[name].granted[member], self._most[name]
            family = [level for level in self._families[name] if level in least]
            hungry = [level for level in family if level in usages and usages[level].demand]
            wanted = {level: max(1, usages[level].widest) for level in hungry}
            needed = max((min(one, most) for level, one in wanted.items() if one > least[level]), default=0)
            promised = sum(least[level] for level in family)
            if needed <= part < needed + promised:
                for level in family:
                    least[level] = least[level] * (part - needed) // promised

    def usable(self, member: str, usages: Mapping[str, LevelUsage]) -> MemberDemand:
        """Return what a member can use with the parts that it should have."""
        found = [(name, self._usable(member, usage, self._within.get(name, ()))) for name, usage in usages.items()]
        seats: dict[str, int] = {}
        for name, one in found:
            parent = self._parents.get(name, name)
            seats[parent] = seats.get(parent, 0) + one.seats
        for name in seats.keys() & self._maxes.keys():
            in_use = sum(usages[one].in_use for one in self._families[name] if one in usages)
            seats[name] = min(seats[name], max(in_use, self._maxes[name].targets[member]))
        in_use = sum(one.in_use for _, one in found)
        turns = sum(usage.turns for usage in usages.values())
        return MemberDemand(sum(seats.values()), in_use, max((one.widest for _, one in found), default=0), turns)

    def _usable(self, member: str, usage: LevelUsage, maxes: Iterable[str]) -> MemberDemand:
        """Return what a member can use of a level with its parts of these ``maxes``.

        A request that must wait for a part of a max needs no seats yet, and none of other maxes.
        """
        demand, widest = usage.demand, usage.widest
        for name in maxes:
            one = self._maxes[name]
            part = one.targets[member]
            if min(widest, one.most) > part:
                demand, widest = usage.in_use, 0
            demand = min(demand, max(usage.in_use, part))
        return MemberDemand(demand, usage.in_use, widest)

    def divide(
        self, now: int, budget: Budget, accounts: Mapping[str, MemberAccount], shares: FleetShares, *, is_learning: bool
    ) -> None:
        """Divide all maxes, and let the ``shares`` fit into their parts.

        Those of parents come first, so that members with a part of these get the parts of the children.
        """
        self._adopt(now, budget, accounts)
        for account in accounts.values():
            for name in self._maxes.keys() - account.maxes.keys():
                self._maxes[name].open(account.open_max(name))
        usages = {member: account.usages for member, account in accounts.items()}
        used = set().union(*usages.values())
        divided: list[str] = []
        has_moved = False
        for name, one in self._maxes.items():
            family, most = self._families[name], self._most[name]
            debts = {member: account.maxes[name] for member, account in accounts.items()}
            if used.isdisjoint(family) and one.rest(now, most, debts):
                continue
            demands = {
                member: self._demand(name, account, shares.members[member]) for member, account in accounts.items()
            }
            one.divide(now, most, demands, debts, is_learning=is_learning)
            parts = {member: part * SEAT for member, part in one.targets.items()}
            divided.append(name)
            if fit_shares(shares.members, family, parts, usages):
                has_moved = True
                self._fit_siblings(name, divided, shares.members, usages)
        if has_moved:
            promise_mins(budget, shares)

    def _fit_siblings(
        self,
        name: str,
        divided: Collection[str],
        shares: Mapping[str, MemberShare],
        usages: Mapping[str, Mapping[str, LevelUsage]],
    ) -> None:
        """Let the siblings of a level have what it leaves of the members' parts of their parent's max.

        Otherwise the parts of all of them would be at the same members, and no level could use the parent's other ones.
        """
        parent = self._parents.get(name, "")
        if parent not in self._maxes:
            return
        family = self._families[parent]
        known = [level for level in family if level in divided]
        others = [level for level in family if level not in divided and _is_demanded(level, usages)]
        rooms = {
            member: max(0, part * SEAT - sum(map(shares[member].amount_of, known)))
            for member, part in self._maxes[parent].targets.items()
        }
        fit_shares(shares, others, rooms, usages)

    def _demand(self, name: str, account: MemberAccount, share: MemberShare) -> MaxDemand:
        """Return what a member wants of a max, as far as its part of the parent's max allows."""
        family, maxes = self._families[name], [one for one in self._within[name] if one != name]
        member, usages = account.report.member, account.usages
        found = [(usages[level], self._usable(member, usages[level], maxes)) for level in family if level in usages]
        wanted = MemberDemand(
            sum(one.seats for _, one in found),
            sum(one.in_use for _, one in found),
            min(max((one.widest for _, one in found), default=0), self._most[name]),
            sum(usage.turns for usage, _ in found),
            account.maxes[name].seats,
        )
        return MaxDemand(sum(map(share.amount_of, family)), wanted, sum(usage.arrivals for usage, _ in found))

    def _adopt(self, now: int, budget: Budget, accounts: Mapping[str, MemberAccount]) -> None:
        """Take the names of the maxes of ``budget``, if these have changed."""
        if budget == self._budget:
            return
        self._budget = budget
        self._parents = {name: claim.parent for name, claim in budget.claims.items() if claim.parent is not None}
        leaves = set(budget.leaves)
        self._most = dict(sorted(budget.maxes.items(), key=lambda one: one[0] in leaves))
        self._families = {
            name: (name,) if name in leaves else tuple(one for one in leaves if self._parents.get(one) == name)
            for name in self._most
        }
        self._within = {
            name: [one for one in (self._parents.get(name), name) if one in self._most] for name in budget.claims
        }
        self._maxes = {name: self._maxes.get(name) or LevelMax(self._turn_ns, now) for name in self._most}
        for account in accounts.values():
            for name in account.maxes.keys() - self._maxes.keys():
                del account.maxes[name]

    def __repr__(self) -> str:
        return f"<LevelMaxes {self._maxes}>"


def _is_demanded(level: str, usages: Mapping[str, Mapping[str, LevelUsage]]) -> bool:
    return any(level in found and found[level].demand for found in usages.values())
