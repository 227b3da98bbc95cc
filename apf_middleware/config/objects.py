"""The content of a configuration, as frozen objects that are independent of the format of its documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from apf_middleware.classification import FlowSchema
from apf_middleware.config.estimation import EstimateSettings
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.streams import StreamSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.frozen import frozen

__all__ = ["FALLBACKS", "Configuration", "Level", "Metadata", "Queuing", "headroom_gate_name"]

FALLBACKS: Final[Mapping[str, tuple[str, str]]] = {
    "kubernetes": ("", "catch-all"),
    "kep": ("exempt-backstop", "non-top-backstop"),
}
"""The schemas for requests that no other accepts, by kind of backstops: for system:masters (if any), and for others."""


@frozen
class Queuing:
    """The queues of a level. A level without them (None) rejects requests that find no free seat.

    Up to ``exact`` flows have a queue each, and further flows share the ``queues``. For ``backfill`` rounds, other
    requests may pass one that waits for more seats than are free. Kubernetes has neither.
    """

    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50
    exact: int = 0
    backfill: int = 0

    @property
    def hand(self) -> int:
        """The number of queues that a flow may use at the same time."""
        return 1 if self.exact else self.hand_size


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level.

    ``shares`` are its proportions; ``min_seats`` and ``max_seats`` are absolute numbers that take precedence.
    Without ``wait_limit_ns``, the server's limit applies. ``deadline_ns`` after their arrival, its requests are not
    worth an answer. All of them pass its ``gates``, after those of their schema and route. An ``elastic`` level gets
    fewer seats while the event loop is late. If ``headroom_percent`` isn't 0, this part of its seats is kept for short
    requests.

    As a named queue, a level with a ``parent`` shares the min and max of its parent. Among borrowers, the highest
    ``priority`` comes first. Requests of a level that isn't ``reclaimable`` are not asked to give way. ``state`` is the
    initial state.
    """

    name: str
    shares: LevelShares
    queuing: Queuing | None = None
    min_seats: int | None = None
    max_seats: int | None = None
    wait_limit_ns: int | None = None
    deadline_ns: int | None = None
    gates: tuple[str, ...] = ()
    streams: StreamSettings = field(default_factory=StreamSettings)
    parent: str | None = None
    priority: int = 0
    reclaimable: bool = True
    dequeue_strategy: Literal["traverse", "fifo"] = "traverse"
    state: Literal["open", "paused", "closed"] = "open"
    elastic: bool = False
    headroom_percent: int = 0

    @property
    def exempt(self) -> bool:
        return self.shares.exempt


def headroom_gate_name(level: str) -> str:
    """Return the name of the gate of a level that keeps seats for short requests; no configured gate can have it."""
    return f"headroom:{level}"


@frozen
class Metadata:
    """Labels and annotations of an object, which are kept for other tools."""

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Levels by name, schemas in the order in which they are tried, and the server's settings.

    ``metadata`` has the labels and annotations of objects, by kind (``level``, ``schema``, ``server``) and name.
    """

    levels: Mapping[str, Level]
    schemas: tuple[FlowSchema, ...]
    server: ServerSettings = field(default_factory=ServerSettings)
    estimates: Mapping[str, EstimateSettings] = field(default_factory=dict, hash=False)  # by schema
    gates: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by schema, in the order of asking
    metadata: Mapping[tuple[str, str], Metadata] = field(default_factory=dict, hash=False)

    @property
    def fallback(self) -> FlowSchema:
        """The schema of requests that no other accepts: the mandatory catch-all, or the KEP's backstop."""
        return self._named(FALLBACKS[self.server.backstops][1])

    @property
    def masters_fallback(self) -> FlowSchema | None:
        """The schema of requests of system:masters that no other accepts, which only the KEP has."""
        name = FALLBACKS[self.server.backstops][0]
        return self._named(name) if name else None

    @property
    def parents(self) -> frozenset[str]:
        """The levels that take no requests themselves, because they are parents of others."""
        return frozenset(level.parent for level in self.levels.values() if level.parent is not None)

    @property
    def working_levels(self) -> dict[str, Level]:
        """The levels that take requests."""
        parents = self.parents
        return {name: level for name, level in self.levels.items() if name not in parents}

    @property
    def lets_name_queues(self) -> bool:
        """True if requests may name their queue, or a schema reads the name of a queue from requests."""
        return bool(self.server.queues.header) or any(schema.queue is not None for schema in self.schemas)

    @property
    def flowless_levels(self) -> frozenset[str]:
        """The levels that don't use flows: they have at most one queue, no gates and no limits of streams by flow."""
        if self.lets_name_queues:
            return frozenset()  # the level isn't known yet when the flow is computed
        gated = self.gated_levels  # a gate may use the flow
        return frozenset(
            name
            for name, level in self.levels.items()
            if name not in gated
            and (level.queuing is None or (level.queuing.queues == 1 and not level.queuing.exact))
            and level.streams.max_open_per_flow is None
        )

    @property
    def gated_levels(self) -> frozenset[str]:
        """The levels with requests that pass gates."""
        if any(route.gates for route in self.server.routes):
            return frozenset(self.levels)
        of_schemas = frozenset(schema.level for schema in self.schemas if self.gates.get(schema.name))
        return of_schemas.union(name for name, level in self.levels.items() if level.gates or level.headroom_percent)

    @property
    def has_gates(self) -> bool:
        """True if any gate is defined or named."""
        return bool(self.server.gates) or self.has_headroom or bool(self.named_gates)

    @property
    def named_gates(self) -> frozenset[str]:
        """The gates that schemas, routes and levels name, whether they are defined or not."""
        return frozenset(name for _, names in self.gates_by_owner() for name in names)

    @property
    def has_headroom(self) -> bool:
        """True if a level keeps seats for short requests."""
        return any(level.headroom_percent for level in self.levels.values())

    @property
    def has_deadlines(self) -> bool:
        """True if requests may have deadlines."""
        if self.server.deadlines is not None or self.schema_deadlines:
            return True
        return any(one.deadline_ns is not None for one in self.levels.values())

    @property
    def schema_deadlines(self) -> dict[str, int]:
        """The deadlines of the schemas that have their own, which take precedence over those of their levels."""
        return {one.name: one.deadline_ns for one in self.schemas if one.deadline_ns is not None}

    @property
    def learns_routes(self) -> bool:
        """True if something asks for the durations of routes, whatever the estimates of seats."""
        return self.has_deadlines or self.has_headroom or self.server.seat_bounds is not None

    @property
    def elastic_levels(self) -> frozenset[str]:
        """The levels that get fewer seats while the event loop is late."""
        return frozenset(name for name, level in self.levels.items() if level.elastic)

    def gates_by_owner(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield schemas, routes and levels, as messages call them, with the names of their gates, if any."""
        for schema, names in self.gates.items():
            yield f"the schema {schema!r}", names
        for route in self.server.routes:
            yield f"the route {route.path!r}", route.gates
        for level in self.levels.values():
            yield f"the level {level.name!r}", level.gates

    def _named(self, name: str) -> FlowSchema:
        if not self.schemas:
            raise InvalidValueError(
                "schemas", self.schemas, f"there must be one for all other requests, such as {name}"
            )
        return next((schema for schema in self.schemas if schema.name == name), self.schemas[-1])
