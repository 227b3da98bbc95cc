"""The maxes of the levels of a fleet, and of their parents: each member may use a part of them.

Without this, each member could use the whole max of a level, from seats that no other level wants. The parts are kept
as the seats are (see `debt`): one is raised only when another has certainly become smaller.

**Without a lease** a member may use its fallback seats for any level, because nobody divides the maxes then.
"""

from collections.abc import Mapping, Sequence

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.accounts import MemberAccount
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.debt import Debt
from apf_middleware.fleet.fitting import fit_shares
from apf_middleware.fleet.level_max import LevelMax, MaxDemand
from apf_middleware.fleet.rotation import MemberDemand
from apf_middleware.fleet.shares import FleetShares, MemberShare, promise

__all__ = ["LevelMaxes"]


class LevelMaxes:
    """The divided maxes, by the name of a level or parent; a seat stays with a member for ``turn_ns``."""

    __slots__ = ("_budget", "_families", "_maxes", "_turn_ns")

    def __init__(self, turn_ns: int) -> None:
        self._turn_ns = turn_ns
        self._maxes: dict[str, LevelMax] = {}
        self._budget: Budget | None = None
        self._families: dict[str, tuple[str, ...]] = {}  # the levels within each max

    @property
    def scarce(self) -> tuple[str, ...]:
        """The maxes of which more is demanded than there is."""
        return tuple(name for name, one in self._maxes.items() if one.is_scarce)

    def granted(self, member: str) -> dict[str, int]:
        """Return the parts that a member can be granted now."""
        return {name: one.granted[member] for name, one in self._maxes.items()}

    def allows(self, member: str, level: str, width: int) -> bool:
        """Return whether the member should have enough of the maxes for a request of ``level`` of this ``width``."""
        return all(
            one.targets[member] >= min(width, one.most)
            for name, one in self._maxes.items()
            if level in self._families[name]
        )

    def divide(
        self, now: int, budget: Budget, accounts: Mapping[str, MemberAccount], shares: FleetShares, *, is_learning: bool
    ) -> None:
        """Divide all maxes, and let the ``shares`` fit into their parts."""
        self._adopt(now, budget, accounts)
        usages = {member: account.report.levels for member, account in accounts.items()}
        for name, one in self._maxes.items():
            family, most = self._families[name], budget.maxes[name]
            for account in accounts.values():
                if name not in account.maxes:
                    # what it says nothing about, it may use as it likes
                    seats = account.report.maxes.get(name, account.debt.owed)
                    account.maxes[name] = one.open(Debt(seats, 0))
            demands = {
                member: _demand(shares.members[member], account, family, most) for member, account in accounts.items()
            }
            debts = {member: account.maxes[name] for member, account in accounts.items()}
            one.divide(now, most, demands, debts, is_learning=is_learning)
            fit_shares(shares.members, family, one.targets, usages)
            for level in family:
                promise(budget.claims[level].least * SEAT, shares.levels[level], level, shares.members.values())

    def _adopt(self, now: int, budget: Budget, accounts: Mapping[str, MemberAccount]) -> None:
        """Take the names of the maxes of ``budget``, if these have changed."""
        if budget == self._budget:
            return
        self._budget = budget
        leaves = set(budget.leaves)
        self._families = {
            name: (name,) if name in leaves else tuple(one for one in leaves if budget.claims[one].parent == name)
            for name in budget.maxes
        }
        self._maxes = {name: self._maxes.get(name) or LevelMax(self._turn_ns, now) for name in budget.maxes}
        for account in accounts.values():
            for name in account.maxes.keys() - self._maxes.keys():
                del account.maxes[name]

    def __repr__(self) -> str:
        return f"<LevelMaxes {self._maxes}>"


def _demand(share: MemberShare, account: MemberAccount, family: Sequence[str], most: int) -> MaxDemand:
    """Return what a member wants of the max of these levels."""
    amount = sum(map(share.amount_of, family))
    usages = [account.report.levels[name] for name in family if name in account.report.levels]
    wanted = MemberDemand(
        sum(usage.demand for usage in usages),
        sum(usage.in_use for usage in usages),
        min(max((usage.widest for usage in usages), default=0), most),
        sum(usage.turns for usage in usages),
    )
    return MaxDemand(amount, wanted, sum(usage.arrivals for usage in usages))
