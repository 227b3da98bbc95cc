"""Numbers and sizes of objects of each kind, for estimates of lists.

The storage of the objects reports them from time to time. A report that is too old is no longer used: a list of unknown
length counts as a long one. Times are arguments.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apf_middleware.classification import Resource
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.frozen import frozen

__all__ = ["UNCERTAIN", "Inventory", "ObjectCounts", "ObjectCountsSnapshot", "ObjectStats"]

_MINUTE: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """The number of objects of one kind and their average size; an ``average_bytes`` of 0 means unknown."""

    count: int
    average_bytes: int = 0
    is_certain: bool = True

    def __post_init__(self) -> None:
        require_integer("count", self.count, least=0)
        require_integer("average_bytes", self.average_bytes, least=0)


UNCERTAIN: Final = ObjectStats(0, 0, is_certain=False)
"""The number of objects is unknown."""

Inventory = Callable[[Resource], ObjectStats | None]
"""A function from a resource to the statistics of its objects; None if they were never reported."""


@frozen
class ObjectCountsSnapshot:
    """The latest report and its time, by API group and resource."""

    entries: tuple[tuple[tuple[str, str], ObjectStats, int], ...]


class ObjectCounts:
    """The latest reports of at most ``most`` kinds; beyond that, the oldest ones are removed."""

    __slots__ = ("_entries", "_most", "_stale_after_ns")

    def __init__(self, most: int = 4096, *, stale_after_ns: int = 3 * _MINUTE) -> None:
        self._most = require_integer("most", most, least=1)
        self._stale_after_ns = require_integer("stale_after_ns", stale_after_ns, least=0)
        self._entries: OrderedDict[tuple[str, str], tuple[ObjectStats, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def observe(self, now: int, resource: Resource, count: int, average_bytes: int = 0) -> None:
        """Note the number of objects and their average size."""
        key = (resource.api_group, resource.resource)
        self._entries[key] = ObjectStats(count, average_bytes), now
        self._entries.move_to_end(key)  # the oldest report stays first
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def look(self, now: int, resource: Resource) -> ObjectStats | None:
        """Return the number of objects, or UNCERTAIN when it is out of date."""
        entry = self._entries.get((resource.api_group, resource.resource))
        if entry is None:
            return None
        stats, at = entry
        return stats if now - at <= self._stale_after_ns else UNCERTAIN

    def inventory(self, now: Callable[[], int]) -> Inventory:
        """Return the function that an estimator calls, with this clock."""
        return lambda resource: self.look(now(), resource)

    def snapshot(self) -> ObjectCountsSnapshot:
        return ObjectCountsSnapshot(tuple((key, *entry) for key, entry in self._entries.items()))

    def check(self) -> None:
        """Check that the bounds hold and that the oldest entries come first."""
        times = [at for _, at in self._entries.values()]
        if len(times) > self._most or times != sorted(times):
            raise InvalidValueError("entries", len(times), f"they must be in order of time, at most {self._most}")

    def __repr__(self) -> str:
        return f"<ObjectCounts: {len(self)} kinds of at most {self._most}>"
