"""The max of one level, or of a parent of levels, divided among the members of a fleet.

Each member gets its fair share of the level, in whole seats (see `rotation`). What the fair shares leave of the max
goes where requests of the level arrive; a quarter of it stays at the allocator for members that ask for more.

While the max is enough for all, a member keeps its part as long as it is enough, so that parts don't move for nothing.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.debt import Debt, grantable
from apf_middleware.fleet.rotation import MemberDemand, Rotation

__all__ = ["CALM_TURNS", "KEPT", "LevelMax", "MaxDemand"]

CALM_TURNS: Final = 20
"""Without contention, seats are divided anew after this number of turns."""

KEPT: Final = 4
"""One part in this many of the seats that no flow wants stays at the allocator."""


class MaxDemand(NamedTuple):
    """What one member wants of a max: its fair ``share`` in units of 2**-20 seats, ``wanted``, and recent arrivals."""

    share: int = 0
    wanted: MemberDemand = MemberDemand()
    arrivals: int = 0


class LevelMax:
    """One max of ``most`` seats; each member should have its ``targets``, and has the seats that are ``granted``.

    The max ``is_scarce`` if more is demanded. A seat stays with a member for ``turn_ns``.
    """

    __slots__ = ("_divided_at", "_reported", "_rotation", "_turn_ns", "granted", "is_scarce", "most", "targets")

    def __init__(self, turn_ns: int, now: int) -> None:
        self.most: int = 0
        self.targets: dict[str, int] = {}
        self.granted: dict[str, int] = {}
        self.is_scarce: bool = False
        self._turn_ns = turn_ns
        self._divided_at = now
        self._rotation = Rotation(turn_ns, now)
        self._reported = 0  # the seats that members could use when they reported for the first time

    def open(self, debt: Debt) -> None:
        """Take the debt of a member that has reported for the first time."""
        self._reported += debt.owed

    def rest(self, now: int, most: int, debts: Mapping[str, Debt]) -> bool:
        """Keep all parts, because no request wants any; return False if it is time to divide them anew."""
        if not self._is_calm(now, most, debts):
            return False
        self.most, self.is_scarce = most, False
        self.targets = self.granted = {name: debt.seats for name, debt in debts.items()}
        return True

    def _is_calm(self, now: int, most: int, debts: Mapping[str, Debt]) -> bool:
        is_time = now - self._divided_at >= CALM_TURNS * self._turn_ns
        return not is_time and sum(debt.owed for debt in debts.values()) <= most

    def divide(
        self, now: int, most: int, demands: Mapping[str, MaxDemand], debts: Mapping[str, Debt], *, is_learning: bool
    ) -> None:
        """Divide ``most`` seats; an allocator that ``is_learning`` moves only what members have reported to have."""
        self.most = most
        self.is_scarce = sum(one.wanted.seats for one in demands.values()) > most
        self.targets = self._targets(now, demands, debts)
        owed = sum(debt.owed for debt in debts.values())
        free = most - owed
        self.granted = grantable(self.targets, debts, min(free, self._reported - owed) if is_learning else free)

    def _targets(self, now: int, demands: Mapping[str, MaxDemand], debts: Mapping[str, Debt]) -> dict[str, int]:
        """Return the seats that each member should have."""
        is_enough = all(debts[name].seats >= one.wanted.seats for name, one in demands.items())
        if is_enough and self._is_calm(now, self.most, debts):
            return {name: debt.seats for name, debt in debts.items()}
        self._divided_at = now
        wanted = {name: one.wanted for name, one in demands.items()}
        return self._rotation.divide(now, self._shares(demands), self.most, wanted)

    def _shares(self, demands: Mapping[str, MaxDemand]) -> dict[str, int]:
        """Return the members' shares of the max in units of 2**-20 seats, with what the fair ones leave of it."""
        most, fair = self.most * SEAT, sum(one.share for one in demands.values())
        if fair > most:  # members have got what doesn't fit in others' parts of the parent's max
            return {name: one.share * most // fair for name, one in demands.items()}
        rest = most - fair
        if len(demands) > 1:
            rest -= rest // KEPT
        total = sum(1 + one.arrivals for one in demands.values())
        return {name: one.share + rest * (1 + one.arrivals) // total for name, one in demands.items()}

    def __repr__(self) -> str:
        return f"<LevelMax of {self.most} seats for {len(self.targets)} members>"
