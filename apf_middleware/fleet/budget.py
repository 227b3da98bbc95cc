"""The seats of a fleet, and what its levels claim of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand

__all__ = ["Budget", "SeatRange", "key_of", "level_of"]

_FORMER: Final = "/former"  # no name of a level has a slash


@dataclass(frozen=True, slots=True)
class SeatRange(Value):
    """The bounds of a number of seats that adapts."""

    least: int
    most: int

    def __post_init__(self) -> None:
        require_integer("most", self.most, least=require_integer("least", self.least, least=1))

    def clamp(self, seats: int) -> int:
        """Return the number within the bounds that is closest to ``seats``."""
        return max(self.least, min(self.most, seats))


@dataclass(frozen=True, slots=True)
class Budget(Value):
    """The seats of the fleet, and the claims of its levels and their parents; their ``demand`` is not used.

    If the number of seats adapts within ``bounds``, the claims are those that the levels have at this number. The
    ``floor`` is the number of seats that each member keeps without a lease.
    """

    seats: int
    claims: Mapping[str, SeatDemand] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    bounds: SeatRange | None = None
    floor: int = 0

    def __post_init__(self) -> None:
        require_integer("seats", self.seats, least=0)
        require_integer("floor", self.floor, least=0)
        for name, claim in self.claims.items():
            parent = claim.parent
            if parent is not None and (parent not in self.claims or self.claims[parent].parent is not None):
                raise InvalidValueError(f"the parent of {name!r}", parent, "it must have a claim, and no parent itself")

    @property
    def parents(self) -> set[str | None]:
        """The names of the parents, and None if a level has none."""
        return {claim.parent for claim in self.claims.values()}

    @property
    def families(self) -> dict[str, list[str]]:
        """The children of each parent."""
        found: dict[str, list[str]] = {}
        for name, claim in self.claims.items():
            if claim.parent is not None:
                found.setdefault(claim.parent, []).append(name)
        return found

    @property
    def leaves(self) -> list[str]:
        """The names of the levels that aren't parents of others."""
        parents = self.parents
        return [name for name in self.claims if name not in parents]

    @property
    def maxes(self) -> dict[str, int]:
        """The maxes of levels and parents that are smaller than the number of seats; mins count if they are larger."""
        promised = _promised(self.claims)
        found = {
            name: max(claim.most, promised.get(name, 0))
            for name, claim in self.claims.items()
            if claim.most is not None
        }
        return {name: most for name, most in found.items() if most < self.seats}

    def including(self, former: Mapping[str, SeatDemand]) -> "Budget":
        """Return the budget with those ``former`` levels whose names it lacks, because they still have requests.

        Their parents are those of this budget. A level that is a parent at some members and none at others counts as a
        child of itself, within its max. The mins of all children of a parent are reduced if they would exceed its max
        otherwise.
        """
        own = {name: self.claims[name] for name in self.leaves}
        added = {name: claim for name, claim in former.items() if name not in own}
        if not added:
            return self
        most, claims, priorities = self.maxes, dict(self.claims), dict(self.priorities)
        alone = {name for name, claim in claims.items() if claim.parent is None}
        parents = (self.parents | {claim.parent for claim in added.values()}) & alone
        for name, claim in {**own, **added}.items():
            if name in parents:
                key = key_of(name, parents)
                claims[key] = replace(claim, parent=name, most=None)
                priorities[key] = priorities.get(name, 0)
            elif name in added:
                claims[name] = claim if claim.parent in parents else replace(claim, parent=None)
        for parent in parents:
            family = {name: claim for name, claim in claims.items() if claim.parent == parent}
            claims |= _within(most.get(parent or "", self.seats), family)
        return replace(self, claims=claims, priorities=priorities)


def _within(room: int, family: Mapping[str, SeatDemand]) -> dict[str, SeatDemand]:
    """Return claims with smaller mins if they exceed ``room`` together: at least one seat each, if there are as many.

    Those that fit are left out.
    """
    needed = sum(claim.least for claim in family.values())
    if needed <= room:
        return {}
    kept = sum(claim.least > 0 for claim in family.values())
    kept = kept if kept <= room else 0
    mins = {name: min(claim.least, 1) if kept else 0 for name, claim in family.items()}
    return {
        name: replace(claim, least=mins[name] + (claim.least - mins[name]) * (room - kept) // max(1, needed - kept))
        for name, claim in family.items()
    }


def key_of(level: str, parents: Collection[str | None]) -> str:
    """Return the key of a member's ``level`` in the claims: not its name, if that is a parent's."""
    return level + _FORMER if level in parents else level


def level_of(key: str) -> str:
    """Return the name that members have for a level, from its key in the claims."""
    return key.removesuffix(_FORMER)


def _promised(claims: Mapping[str, SeatDemand]) -> dict[str | None, int]:
    """Return the sum of the mins of each parent's children, and of the levels without a parent."""
    found: dict[str | None, int] = {}
    for claim in claims.values():
        found[claim.parent] = found.get(claim.parent, 0) + claim.least
    return found
