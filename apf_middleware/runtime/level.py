"""A level at run time: its queues and seats, how long requests may wait there, and its counters."""

from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from apf_middleware.config.objects import Level
from apf_middleware.counters import Occupancy
from apf_middleware.fairqueuing import SharedLevel
from apf_middleware.metrics.schema_counters import SchemaCounters
from apf_middleware.runtime.open_streams import OpenStreams
from apf_middleware.runtime.retry_after import Served, ServiceRateMeter

__all__ = ["LONGEST_WAIT_NS", "LevelRuntime", "RequestKinds"]

LONGEST_WAIT_NS: Final = 60 * 10**9
"""The longest wait, unless a level's configuration sets a different one."""

_NO_FACTORS: Final[Mapping[int, int]] = {}
_EMPTY: Final = (0, 0, 0, 0)
_ALONE: Final = (1, 1, 0, 1)
_RATE_VALID_NS: Final = 50_000_000
_DEMANDED: Final = 3
_EXECUTING: Final = 1  # the places of these numbers in the occupancy
_WAITING: Final = 2


class RequestKinds(NamedTuple):
    """Numbers of requests at one moment."""

    reads_executing: int
    writes_executing: int
    reads_waiting: int
    writes_waiting: int


class LevelRuntime:
    """A ``level`` of the configuration with its ``shared`` seats, its open ``streams``, and its counters.

    ``occupancy`` records for how long each number of seats in use, of executing requests, of waiting requests and of
    demanded seats lasted. No two levels that are ever made have the same ``generation``. In a fleet, ``factors`` reduce
    the weights of flows that also have requests at other members, in units of 2**-16.
    """

    __slots__ = (
        "_alone_ns",
        "_rate",
        "_rate_meter",
        "_rate_until",
        "_schema_counters",
        "_writes",
        "deadline_ns",
        "factors",
        "forgotten",
        "generation",
        "level",
        "occupancy",
        "shared",
        "streams",
        "wait_limit_ns",
    )

    def __init__(
        self,
        level: Level,
        shared: SharedLevel,
        streams: OpenStreams,
        *,
        request_timeout_ns: int,
        now: int,
        generation: int = 0,
    ) -> None:
        self.shared: SharedLevel = shared
        self.generation: int = generation
        self.adopt(level, streams, request_timeout_ns=request_timeout_ns)
        self.factors: Mapping[int, int] = _NO_FACTORS
        self._alone_ns = 0
        self._schema_counters: dict[str, SchemaCounters] = {}
        self.forgotten: SchemaCounters = SchemaCounters(level.name, "")  # the sums of those that were forgotten
        self._writes: dict[str, SchemaCounters] = {}  # of requests that write; their schemas are keys above, too
        self.occupancy: Occupancy = Occupancy(now, _EMPTY)
        self._rate_meter = ServiceRateMeter(now, Served(0, 0, 0, 0))
        self._rate: float | None = None
        self._rate_until = now

    def adopt(self, level: Level, streams: OpenStreams, *, request_timeout_ns: int) -> None:
        """Put another configuration in force; requests that wait keep their deadlines."""
        self.level: Level = level
        self.streams: OpenStreams = streams
        limit_ns = level.wait_limit_ns
        # as upstream: a quarter of the request timeout, and at most a minute
        self.wait_limit_ns: int = min(request_timeout_ns // 4, LONGEST_WAIT_NS) if limit_ns is None else limit_ns
        self.deadline_ns: int | None = level.deadline_ns

    def count_on(self, before: "LevelRuntime", now: int) -> None:
        """Share the counters of ``before``, an earlier level of this name, which still counts while it drains."""
        # Both use the same dictionaries, so that counters of this name don't fall while requests of ``before`` end.
        self._schema_counters, self._writes = before._schema_counters, before._writes  # noqa: SLF001 - of the same class
        self.forgotten = before.forgotten
        self._rate_meter = ServiceRateMeter(now, self._served(now))

    def forget_schemas(self, current: Container[str], now: int) -> bool:
        """Forget the counters of schemas that aren't ``current`` and have no requests.

        Return False if any schema that isn't ``current`` still has requests.
        """
        others = {schema: counters for schema, counters in self.schema_counters.items() if schema not in current}
        # A request holds its counters through its destination. If they were forgotten earlier, its end would be counted
        # where no metric looks.
        gone = [schema for schema, counters in others.items() if not _has_requests(counters)]
        for schema in gone:
            self.forgotten = self.forgotten.plus(others[schema])
            del self._schema_counters[schema]
            self._writes.pop(schema, None)
        if gone:
            self._rate_meter = ServiceRateMeter(now, self._served(now))  # counts are smaller; a rate can't be negative
        return len(gone) == len(others)

    @property
    def name(self) -> str:
        """The name of the level."""
        return self.level.name

    @property
    def dispatched(self) -> int:
        """The number of requests that have been given seats."""
        dispatched = 0
        for counters in self._schema_counters.values():
            dispatched += counters.at_once + counters.after_wait
        for counters in self._writes.values():
            dispatched += counters.at_once + counters.after_wait
        return dispatched

    def service_rate(self, now: int) -> float | None:
        """Return the requests per second that the level serves while requests wait; None if too little is known."""
        if now >= self._rate_until:  # many requests may be rejected at once, and measuring takes some microseconds
            self.look(now)
            self._rate = self._rate_meter.sample(now, self._served(now), self.shared.queueset.executing)
            self._rate_until = now + _RATE_VALID_NS
        return self._rate

    def _served(self, now: int) -> Served:
        after_wait = 0
        for counters in self._schema_counters.values():
            after_wait += counters.after_wait
        for counters in self._writes.values():
            after_wait += counters.after_wait
        occupancy = self.occupancy
        unwaited_ns, executing_ns = occupancy.time_at(now, _WAITING, 0), occupancy.integral(now, _EXECUTING)
        return Served(self.dispatched, after_wait, unwaited_ns, executing_ns)

    def demanded_ns(self, now: int) -> int:
        """Return the sum over time of the seats in use and waited for, in seat-nanoseconds."""
        self.look(now)
        return self.occupancy.integral(now, _DEMANDED)

    @property
    def schema_counters(self) -> Mapping[str, SchemaCounters]:
        """The counters by schema; those of a schema that has had requests that write are sums made for this call."""
        if not self._writes:
            return self._schema_counters
        return {
            schema: counters if (writes := self._writes.get(schema)) is None else counters.plus(writes)
            for schema, counters in self._schema_counters.items()
        }

    def counters_of(self, schema: str, *, writes: bool = False) -> SchemaCounters:
        """Return the counters for the requests of this schema that read, or for those that write."""
        counters = self._schema_counters.get(schema)
        if counters is None:
            counters = self._schema_counters[schema] = SchemaCounters(self.level.name, schema)
        if writes:
            counters = self._writes.get(schema)
            if counters is None:
                counters = self._writes[schema] = SchemaCounters(self.level.name, schema)
        return counters

    def add_kinds(self, others: RequestKinds) -> RequestKinds:
        """Return how many of the ``others`` and of the present requests read and write."""
        # Plain loops, because this runs many times a second: generators take several times as long.
        reading, writing, waiting_to_read, waiting_to_write = others
        for counters in self._schema_counters.values():
            reading += counters.executing
            waiting_to_read += counters.waiting
        for counters in self._writes.values():
            writing += counters.executing
            waiting_to_write += counters.waiting
        return RequestKinds(reading, writing, waiting_to_read, waiting_to_write)

    # Occupancy. The `SharedLevel` sums up the time of requests that come and go alone, so only other changes have to be
    # observed. This costs a lone request nothing.

    def note_alone(self) -> None:
        """Count the request that is alone from its beginning on, because it will not be alone any more."""
        alone = self.shared.alone
        if alone is not None:
            self._add_alone()
            # This time has passed, but the level was idle before it, so nothing has been recorded since.
            self.occupancy.set(alone.seated_at, _ALONE)

    def observe(self, now: int) -> None:
        """Count what the queue set holds from ``now`` on."""
        if self.shared.alone_ns != self._alone_ns:
            self._add_alone()
        queueset = self.shared.queueset
        used, waiting = queueset.seats_in_use, queueset.waiting
        demanded = used + queueset.seats_waiting if waiting else used
        self.occupancy.set_four(now, used, queueset.executing, waiting, demanded)

    def look(self, now: int) -> None:
        """Bring all counters up to ``now``."""
        # first, because the next call moves the request into the queue set, and then it isn't known as alone any more
        self.note_alone()
        self.shared.settle_alone()
        self.observe(now)

    def _add_alone(self) -> None:
        """Move the time of requests that came and went alone from the empty level to one with one seat in use."""
        alone_ns, self._alone_ns = self.shared.alone_ns - self._alone_ns, self.shared.alone_ns
        self.occupancy.move(_EMPTY, _ALONE, alone_ns)

    def __repr__(self) -> str:
        return f"<LevelRuntime {self.name}: {self.shared.queueset!r}>"


def _has_requests(counters: SchemaCounters) -> bool:
    return bool(counters.waiting or counters.executing or counters.suspended)
