"""Counts of watches by the objects that they cover, so that a write can be charged for the events that it causes.

A watch covers one object, a namespace, or a whole resource. A write concerns the watches of all three kinds that cover
its object: three look-ups, however many watches there are. When an object is created, its name isn't known yet, so
watches of this name aren't counted; upstream does the same. Watches of other servers are not known here.
"""

import re
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from apf_middleware.classification import RequestDigest, Resource
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.frozen import frozen

__all__ = ["Watch", "WatchKey", "WatchTracker", "WatchTrackerSnapshot", "watch_of"]

_READING: Final = frozenset({"get", "list", "watch", "proxy"})
_ON_NODE: Final = re.compile(r"(?:^|,)\s*spec\.nodeName\s*==?\s*[^\s,=]")


class WatchKey(NamedTuple):
    """The objects that are watched: without a name a whole namespace, without both the whole resource."""

    api_group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(slots=True, repr=False, eq=False)
class Watch:
    """One watch, from `WatchTracker.register` to `WatchTracker.forget`."""

    key: WatchKey
    _: KW_ONLY
    is_counted: bool

    def __repr__(self) -> str:
        return f"<Watch {self.key}{'' if self.is_counted else ', not counted'}>"


@frozen
class WatchTrackerSnapshot:
    """The number of watches by key, the largest first, and the number of watches that a full tracker didn't count."""

    watches: tuple[tuple[WatchKey, int], ...]
    uncounted: int


def watch_of(digest: RequestDigest) -> Resource | None:
    """Return the resource for which a watch is counted; None if few writes concern the watch.

    Few writes concern a watch for the pods of one node: each node has such a watch, and a write concerns one of them.
    """
    resource = digest.resource
    if resource is None:
        return None
    pods = resource.resource == "pods" and not resource.api_group
    return None if pods and _ON_NODE.search(digest.query.get("fieldSelector", "")) else resource


class WatchTracker:
    """Counts the watches of at most ``most`` different keys; watches of further keys aren't counted."""

    __slots__ = ("_counts", "_most", "total", "uncounted")

    def __init__(self, most: int = 100_000) -> None:
        self._most = require_integer("most", most, least=1)
        self._counts: dict[WatchKey, int] = {}
        self.total: int = 0
        self.uncounted: int = 0

    def register(self, resource: Resource | None) -> Watch:
        """Count a watch that begins; None isn't counted."""
        if resource is None:
            return Watch(WatchKey("", ""), is_counted=False)
        key = WatchKey(resource.api_group, resource.resource, resource.namespace, resource.name)
        count = self._counts.get(key, 0)
        # A full tracker still counts the keys that it knows.
        if not count and len(self._counts) >= self._most:
            self.uncounted += 1
            return Watch(key, is_counted=False)
        self._counts[key] = count + 1
        self.total += 1
        return Watch(key, is_counted=True)

    def forget(self, watch: Watch) -> None:
        """Count the end of a watch, once."""
        if not watch.is_counted:
            return
        watch.is_counted = False  # a second call must not count the end again
        left = self._counts[watch.key] - 1
        self.total -= 1
        if left:
            self._counts[watch.key] = left
        else:
            del self._counts[watch.key]

    def interested(self, verb: str, resource: Resource) -> int:
        """Return the number of watches that a request of this verb concerns; 0 if it only reads."""
        counts = self._counts
        if verb in _READING or not counts:
            return 0
        group, kind, namespace, name = resource.api_group, resource.resource, resource.namespace, resource.name
        # The three keys are disjoint, so no watch is counted twice.
        concerned = counts.get(WatchKey(group, kind), 0)
        if namespace:
            concerned += counts.get(WatchKey(group, kind, namespace), 0)
        if name:
            concerned += counts.get(WatchKey(group, kind, namespace, name), 0)
        return concerned

    def snapshot(self) -> WatchTrackerSnapshot:
        ordered = sorted(self._counts.items(), key=lambda one: (-one[1], one[0]))
        return WatchTrackerSnapshot(tuple(ordered), self.uncounted)

    def check(self) -> None:
        """Check that the sum is right and that the bounds hold."""
        counted = self._counts.values()
        if sum(counted) != self.total or not all(counted) or len(counted) > self._most:
            rule = f"it must be the sum of at most {self._most} counts of at least 1"
            raise InvalidValueError("total", self.total, rule)

    def __repr__(self) -> str:
        return f"<WatchTracker: {self.total} watches of {len(self._counts)} kinds>"
