"""How many objects of a kind there are, and how large they are: what the estimate of a list stands on.

Whoever stores the objects says so from time to time. What was said too long ago is no longer believed: a list of
unknown length is taken for a long one. Times come in as arguments.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from apf_middleware.classification import Resource
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["UNCERTAIN", "Inventory", "ObjectCounts", "ObjectCountsSnapshot", "ObjectStats"]

_MINUTE: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """Objects of one kind and their average size; an ``average_bytes`` of 0 is not known."""

    count: int
    average_bytes: int = 0
    is_certain: bool = True

    def __post_init__(self) -> None:
        require_integer("count", self.count, least=0)
        require_integer("average_bytes", self.average_bytes, least=0)


UNCERTAIN: Final = ObjectStats(0, 0, is_certain=False)
"""There may be any number."""

Inventory = Callable[[Resource], ObjectStats | None]
"""From a resource to its objects; None where nothing was ever known about such a resource."""


class _Entry(NamedTuple):
    stats: ObjectStats
    at: int


@dataclass(frozen=True, slots=True)
class ObjectCountsSnapshot:
    """What was said last, and when, by API group and resource."""

    entries: tuple[tuple[tuple[str, str], ObjectStats, int], ...]


class ObjectCounts:
    """Remembers what was said about at most ``most`` kinds; of more, those that were spoken of last."""

    __slots__ = ("_entries", "_forget_after_ns", "_most", "_stale_after_ns")

    def __init__(
        self, most: int = 4096, *, stale_after_ns: int = 3 * _MINUTE, forget_after_ns: int = 60 * _MINUTE
    ) -> None:
        self._most = require_integer("most", most, least=1)
        self._stale_after_ns = require_integer("stale_after_ns", stale_after_ns, least=0)
        self._forget_after_ns = require_integer("forget_after_ns", forget_after_ns, least=stale_after_ns)
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def observe(self, now: int, resource: Resource, count: int, average_bytes: int = 0) -> None:
        """There are so many objects now."""
        key = (resource.api_group, resource.resource)
        self._entries[key] = _Entry(ObjectStats(count, average_bytes), now)
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def look(self, now: int, resource: Resource) -> ObjectStats | None:
        """Return the number of objects, or UNCERTAIN when it is out of date."""
        entry = self._entries.get((resource.api_group, resource.resource))
        if entry is None:
            return None
        return entry.stats if now - entry.at <= self._stale_after_ns else UNCERTAIN

    def forget_old(self, now: int) -> int:
        """Forget kinds of which nothing was heard for long; how many those were."""
        forgotten = 0
        while self._entries:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest].at < self._forget_after_ns:
                break
            del self._entries[oldest]
            forgotten += 1
        return forgotten

    def inventory(self, now: Callable[[], int]) -> Inventory:
        """Return the function that an estimator calls, with this clock."""
        return lambda resource: self.look(now(), resource)

    def snapshot(self) -> ObjectCountsSnapshot:
        return ObjectCountsSnapshot(tuple((key, entry.stats, entry.at) for key, entry in self._entries.items()))

    def check(self) -> None:
        """Check that the bounds hold and that the oldest entries come first."""
        times = [entry.at for entry in self._entries.values()]
        if len(times) > self._most or times != sorted(times):
            raise InvalidValueError("entries", len(times), f"they must be in order of time, at most {self._most}")

    def __repr__(self) -> str:
        return f"<ObjectCounts: {len(self)} kinds of at most {self._most}>"
