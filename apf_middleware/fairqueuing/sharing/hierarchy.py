"""What levels are to each other beside their own limits: who has which parent, and who borrows first.

A *parent* takes no requests itself. Its min is promised to its children together, and they never use more than its max
together. For the pool it counts as one level does: for the larger of what its children count for and its min. A child
counts for its parent as a level without a parent counts for the pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.allocation import LevelLimits, LevelShares

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.level import SharedLevel

__all__ = ["MOST_PRIORITY", "NO_HIERARCHY", "Hierarchy", "Parent", "require_hierarchy"]

MOST_PRIORITY: Final = 1_000_000
"""A level's priority is no farther from 0 than this."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The limits of all parents, by name; whose parent is which; priorities that aren't 0; shares.

    The shares of a level or parent are its weight where several want the same seats. Nominal seats, which are shares
    rounded to whole seats, take their place where they are missing.
    """

    parents: Mapping[str, LevelLimits] = field(default_factory=dict)
    parent_of: Mapping[str, str] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, LevelShares] = field(default_factory=dict)

    def weight(self, name: str, limits: LevelLimits) -> int:
        """Return the weight of the level or parent of this name."""
        shares = self.shares.get(name)
        return limits.nominal if shares is None else shares.shares


NO_HIERARCHY: Final = Hierarchy()


class Parent:
    """A parent at work. ``least`` seats are promised to its children together, and they never get more than ``most``.

    ``total`` is what its children count for together, and ``counted`` what it counts for itself.
    """

    __slots__ = (
        "counted",
        "deserved",
        "entitled",
        "kept",
        "least",
        "limits",
        "most",
        "name",
        "promised",
        "total",
        "weight",
    )

    counted: int
    deserved: int
    entitled: int
    least: int
    most: int
    promised: int
    total: int

    def __init__(self, name: str, limits: LevelLimits, weight: int, kept: int) -> None:
        self.name: str = name
        self.limits: LevelLimits = limits
        self.weight: int = weight
        self.kept: int = kept  # of its min, while a level drains
        self.least = self.most = self.promised = self.total = self.counted = 0
        self.deserved = self.entitled = 0  # see `balance`

    def begin(self, promised: int, least: int) -> None:
        """Promise ``least`` seats, of which its children have ``promised`` each for its own; none is counted yet."""
        self.promised = promised
        self.least = max(least, promised)
        self.total = 0

    def count(self, change: int) -> int:
        """What its children count for changes; by how much that changes what it counts for itself."""
        self.total += change
        before, self.counted = self.counted, max(self.total, self.least)
        return self.counted - before

    def room(self, child: "SharedLevel", free: int) -> int:
        """How many seats ``child`` could use now, its own limits aside, where so many are free in the pool."""
        most = max(self.least, min(self.most, free + self.counted))
        return most - self.total + child.counted

    def promised_to(self, child: "SharedLevel") -> int:
        """How many seats ``child`` could use now that nobody but its siblings could have: they are promised here."""
        return max(child.least, min(child.most, self.least - self.total + child.counted))

    def room_within(self, child: "SharedLevel") -> int:
        """How many seats its own max leaves to ``child``."""
        return self.most - self.total + child.counted

    def __repr__(self) -> str:
        return f"<Parent {self.name!r}: {self.least} to {self.most} seats, {self.total} counted>"


def require_hierarchy(names: Mapping[str, object], hierarchy: Hierarchy) -> None:
    """InvalidValueError unless these levels can be kin in that way."""
    if not isinstance(hierarchy, Hierarchy):
        raise InvalidValueError("hierarchy", hierarchy, "it must be a Hierarchy")
    for child, parent in hierarchy.parent_of.items():
        if parent not in hierarchy.parents:
            raise InvalidValueError(f"parent of {child}", parent, "it must be one of the parents")
    for name, limits in hierarchy.parents.items():
        if not isinstance(limits, LevelLimits):
            raise InvalidValueError(f"limits of {name}", limits, "they must be LevelLimits")
        if name in names:
            raise InvalidValueError("parents", name, "a parent takes no requests, so it can't be one of the levels")
    for name, shares in hierarchy.shares.items():
        if not isinstance(shares, LevelShares):
            raise InvalidValueError(f"shares of {name}", shares, "they must be LevelShares")
    for name, priority in hierarchy.priorities.items():
        require_integer(f"priority of {name}", priority, least=-MOST_PRIORITY, most=MOST_PRIORITY)
