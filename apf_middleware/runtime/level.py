"""One level while the server works: its queues and seats, how long one may wait there, and what has been counted."""

from collections.abc import Container, Mapping
from typing import Final

from apf_middleware.config.objects import Level
from apf_middleware.counters import Occupancy
from apf_middleware.fairqueuing import SharedLevel
from apf_middleware.metrics.tally import Tally
from apf_middleware.runtime.drain import DrainMeter
from apf_middleware.runtime.request_kinds import RequestKinds
from apf_middleware.runtime.streams import OpenStreams

__all__ = ["LONGEST_WAIT_NS", "LevelRuntime"]

LONGEST_WAIT_NS: Final = 60 * 10**9
"""Nobody waits longer, unless a level says so itself."""


_NOBODY: Final = (0, 0, 0, 0)
_ONE: Final = (1, 1, 0, 1)  # is alone


class LevelRuntime:
    """A level of the configuration, its share of the seats, and its counters."""

    __slots__ = (
        "_alone_ns",
        "_tallies",
        "_writes",
        "drain",
        "generation",
        "level",
        "occupancy",
        "shared",
        "streams",
        "wait_limit_ns",
    )

    streams: OpenStreams
    """Told by the controller's `StreamBook`, for open streams outlive a level."""

    def __init__(
        self, level: Level, shared: SharedLevel, *, request_timeout_ns: int, now: int, generation: int = 0
    ) -> None:
        self.shared: SharedLevel = shared
        self.generation: int = generation  # another one for each level that was ever made
        self.adopt(level, request_timeout_ns=request_timeout_ns)
        self.drain: DrainMeter = DrainMeter(now)
        self._alone_ns = 0
        self._tallies: dict[str, Tally] = {}
        self._writes: dict[str, Tally] = {}  # of requests that write, by schemas that are in `_tallies`, too
        self.occupancy: Occupancy = Occupancy(now, _NOBODY)  # seats in use, requests executing, waiting, demand

    def adopt(self, level: Level, *, request_timeout_ns: int) -> None:
        """From now on the configuration says this; who waits already, waits as long as it was told."""
        self.level: Level = level
        limit_ns = level.wait_limit_ns
        self.wait_limit_ns: int = min(request_timeout_ns // 4, LONGEST_WAIT_NS) if limit_ns is None else limit_ns

    def count_on(self, before: "LevelRuntime", now: int) -> None:
        """Go on with the counters of the level that had this name ``before``, which counts there too until it ends."""
        self._tallies, self._writes = before._tallies, before._writes  # noqa: SLF001 - one of its own kind
        self.drain = DrainMeter(now, self.dispatched)

    def forget_schemas(self, kept: Container[str], now: int) -> bool:
        """Let go the counters of schemas that are not ``kept`` and have no requests; whether that were all of them."""
        others = {schema: tally for schema, tally in self.tallies.items() if schema not in kept}
        gone = [schema for schema, tally in others.items() if not (tally.waiting or tally.executing)]
        for schema in gone:
            del self._tallies[schema]
            self._writes.pop(schema, None)
        if gone:
            self.drain = DrainMeter(now, self.dispatched)  # or it would seem that requests were taken back
        return len(gone) == len(others)

    @property
    def name(self) -> str:
        return self.level.name

    @property
    def dispatched(self) -> int:
        """How many requests have been given seats."""
        return sum(tally.dispatched for tally in (*self._tallies.values(), *self._writes.values()))

    @property
    def tallies(self) -> Mapping[str, Tally]:
        """The counters by schema; those of schemas that have had requests which write are sums of this moment."""
        if not self._writes:
            return self._tallies
        return {
            schema: tally if (writes := self._writes.get(schema)) is None else tally.plus(writes)
            for schema, tally in self._tallies.items()
        }

    def tally(self, schema: str, *, writes: bool = False) -> Tally:
        """The counters for the requests of this schema that read, or for those that write."""
        tally = self._tallies.get(schema)
        if tally is None:
            tally = self._tallies[schema] = Tally(self.level.name, schema)
        if writes:
            tally = self._writes.get(schema)
            if tally is None:
                tally = self._writes[schema] = Tally(self.level.name, schema)
        return tally

    def count_kinds(self) -> RequestKinds:
        """How many of the requests read and write now."""
        reads, writes = self._tallies.values(), self._writes.values()
        return RequestKinds(
            sum(tally.executing for tally in reads),
            sum(tally.executing for tally in writes),
            sum(tally.waiting for tally in reads),
            sum(tally.waiting for tally in writes),
        )

    # For how long how many were there. Who comes and goes alone is told by the level in sums, so only what else happens
    # has to be observed, and that costs a request that is alone nothing.

    def note_alone(self) -> None:
        """The one that is alone will not be so any more: from its beginning on, somebody was there."""
        alone = self.shared.alone
        if alone is not None:
            self._add_alone()
            self.occupancy.set(alone.seated_at, _ONE)

    def observe(self, now: int) -> None:
        """Something has changed in the queue set."""
        if self.shared.alone_ns != self._alone_ns:
            self._add_alone()
        queueset = self.shared.queueset
        used, waiting = queueset.seats_in_use, queueset.waiting
        there = (used, queueset.executing, waiting, used + queueset.seats_waiting if waiting else used)
        if there != self.occupancy.values:
            self.occupancy.set(now, there)

    def look(self, now: int) -> None:
        """Somebody wants to see everything as it is."""
        self.note_alone()
        self.shared.wake()
        self.observe(now)

    def _add_alone(self) -> None:
        """The time of those that came and went alone was counted as nobody's; every one of them had one seat."""
        alone_ns, self._alone_ns = self.shared.alone_ns - self._alone_ns, self.shared.alone_ns
        self.occupancy.move(_NOBODY, _ONE, alone_ns)

    def __repr__(self) -> str:
        return f"<LevelRuntime {self.name}: {self.shared.queueset!r}>"
