"""What the members keep free of their seats for the mins of levels, in whole seats.

A min is divided among the members in proportion to their shares of the level (see `shares`). A member can't keep what
no request wants of its part while all its seats are in use: a remaining seat has moved on to another member, or too
many requests had begun before the seats were divided anew. If the other members used their new seats for any level,
long requests would take the whole min little by little. So members with seats to spare keep what others can't.

What a parent is promised beyond the mins of its children is for all of these, so it counts as another level, which uses
what the children use beyond their own promises.

A member leaves enough seats for a request of each level that demands more than it is promised, so with one seat it
keeps none.
"""

from collections.abc import Collection, Mapping

from apf_middleware.fleet.messages import LevelUsage
from apf_middleware.fleet.shares import MemberShare

__all__ = ["KeptSeats", "moved_promises"]


class KeptSeats:
    """What a member with this ``share`` keeps of its ``seats`` for each level and parent: the ``least`` seats.

    The ``families`` are the children of parents, and the ``maxes`` the member's parts of maxes.
    """

    __slots__ = ("_demand", "_families", "_free", "_in_use", "_maxes", "_needed", "_share", "_usages", "least", "seats")

    def __init__(
        self,
        share: MemberShare,
        seats: int,
        usages: Mapping[str, LevelUsage],
        maxes: Mapping[str, int],
        families: Mapping[str, Collection[str]],
    ) -> None:
        self._share = share
        self._families = families
        self.seats: int = seats
        self._usages = usages
        self._maxes = maxes
        self._in_use = {name: one.in_use for name, one in usages.items()}
        self._demand = {name: one.demand for name, one in usages.items()}
        self._free = max(0, seats - sum(self._in_use.values()))
        wanted = {name: max(1, one.widest) for name, one in usages.items() if one.demand and name in share.levels}
        self.least: dict[str, int] = _scaled_promises(share, seats)
        # What is left for one level reduces the promises of the others, which may then need seats, too.
        needed = 0
        while (more := max((one for name, one in wanted.items() if one > self.least[name]), default=0)) > needed:
            needed = more
            self.least = _scaled_promises(share, max(0, seats - needed))
        self._needed = needed

    def rest(self) -> dict[str, int]:
        """Return the promised seats that no request wants and that aren't free."""
        free, found = self._free, {}
        for name, share in self._share.levels.items():
            used = self._of(name, self._in_use)
            kept = min(max(0, self.least[name] - used), free)
            free -= kept
            demand = self._of(name, self._demand)
            if (rest := share.promised - max(used + kept, demand)) > 0:
                found[name] = rest
        return found

    def spare(self) -> int:
        """Return the free seats that no promise needs, nor a level that waits and uses none here."""
        hungry = max((one.widest for one in self._usages.values() if not one.in_use), default=0)
        unmet = sum(max(0, least - self._of(name, self._in_use)) for name, least in self.least.items())
        return max(0, min(self._free - hungry - unmet, self.seats - self._needed - sum(self.least.values())))

    def room(self, level: str) -> int:
        """Return how many more seats can be kept for ``level``: it may have a max, or no share here."""
        if level not in self.least:
            return 0
        return max(0, self._maxes.get(level, self.seats) - max(self.least[level], self._of(level, self._in_use)))

    def _of(self, name: str, amounts: Mapping[str, int]) -> int:
        """Return what ``name`` has of the levels' ``amounts``: a parent has those beyond its children's promises."""
        family = self._families.get(name)
        if family is None:
            return amounts.get(name, 0)
        return sum(max(0, amounts.get(one, 0) - self.least.get(one, 0)) for one in family)

    def __repr__(self) -> str:
        return f"<KeptSeats: {self.least} of {self.seats}>"


def moved_promises(members: Mapping[str, KeptSeats]) -> dict[str, dict[str, int]]:
    """Return by how much the ``least`` seats of members change, by level, because some keep what others can't."""
    rests = {name: rest for name, one in members.items() if (rest := one.rest())}
    changes: dict[str, dict[str, int]] = {}
    spare = {name: one.spare() for name, one in members.items()} if rests else {}
    for level in sorted({level for rest in rests.values() for level in rest}):
        missing = {name: rest[level] for name, rest in rests.items() if level in rest}
        rooms = {name: min(one, members[name].room(level)) for name, one in spare.items()}
        kept = _spread(sum(missing.values()), rooms)
        given = {name: min(one, members[name].least[level]) for name, one in missing.items()}
        for name, one in kept.items():
            spare[name] -= one
            changes.setdefault(name, {})[level] = one
        for name, one in _spread(sum(kept.values()), given).items():
            found = changes.setdefault(name, {})
            found[level] = found.get(level, 0) - one
    return changes


def _spread(amount: int, most: Mapping[str, int]) -> dict[str, int]:
    """Divide ``amount`` among the members, up to the ``most`` of each; those with the most come first."""
    found = {}
    for name in sorted(most, key=lambda one: (-most[one], one)):
        if part := min(amount, most[name]):
            found[name] = part
            amount -= part
    return found


def _scaled_promises(share: MemberShare, room: int) -> dict[str, int]:
    """Return the seats that a member's levels are promised, no more than ``room`` together."""
    total = max(1, room, sum(one.promised for one in share.levels.values()))
    return {name: one.promised * room // total for name, one in share.levels.items()}
