"""Parents, priorities and shares of levels.

A *parent* takes no requests itself. Its min is promised to its children together, and together they never use more than
its max. In the ledger a parent is like one level: it counts for its min or for the sum of its children's counts,
whichever is larger. Its children count within the parent as levels without a parent count in the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares

__all__ = ["MOST_PRIORITY", "NO_HIERARCHY", "Hierarchy", "Parent", "require_hierarchy"]

MOST_PRIORITY: Final = 1_000_000
"""The largest absolute value of a level's priority."""


@dataclass(frozen=True, slots=True)
class Hierarchy(Value):
    """The limits of parents, the parents and priorities of levels, and the shares of both, by name.

    Priorities that are missing are 0. The shares of a level or parent are its weight when several want the same seats;
    without shares, the weight is the number of its nominal seats.
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
    """A parent's seats: ``least`` are promised to its children together, and they never get more than ``most``.

    ``total`` is the sum of the children's counts (see `ledger`), and ``counted`` is the parent's own count. While a
    level drains, no more than ``kept`` is promised: the min that the parent had before. `Balance` sets ``entitled`` and
    ``deserved``.
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
        self.kept: int = kept
        self.least = self.most = self.promised = self.total = self.counted = 0
        self.deserved = self.entitled = 0

    @property
    def kept_least(self) -> int:
        """Return what is promised to the children together while a level drains."""
        return min(self.limits.min, self.kept)

    def begin(self, promised: int, least: int) -> None:
        """Promise ``least`` seats, or if it is more, ``promised``, the sum of the children's. Reset the count."""
        self.promised = promised
        self.least = max(least, promised)
        self.total = 0

    def count(self, change: int) -> int:
        """Add ``change`` to the count of the children, and return the change of the parent's own count."""
        # While the children's sum is within the parent's min, the parent's own count stays the same.
        self.total += change
        before, self.counted = self.counted, max(self.total, self.least)
        return self.counted - before

    # The seats that one child may use. ``child_counted`` is the child's own count, which ``total`` includes.

    def room(self, child_counted: int, free: int) -> int:
        """Return the seats that a child could use without limits of its own, if ``free`` are free in the ledger."""
        # the parent's own count has been taken from ``free`` already
        most = max(self.least, min(self.most, free + self.counted))
        return most - self.total + child_counted

    def room_in_min(self, child_counted: int) -> int:
        """Return the seats that a child could use within the parent's min."""
        return self.least - self.total + child_counted

    def room_in_max(self, child_counted: int) -> int:
        """Return the seats that a child could use within the parent's max."""
        return self.most - self.total + child_counted

    def __repr__(self) -> str:
        return f"<Parent {self.name!r}: {self.least} to {self.most} seats, {self.total} counted>"


def require_hierarchy(names: Mapping[str, object], hierarchy: Hierarchy) -> None:
    """Raise InvalidValueError unless ``hierarchy`` fits levels of these ``names``."""
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
