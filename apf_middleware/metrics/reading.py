"""The numbers behind the metrics at one moment, which the runtime reads at each scrape.

Nothing here is computed or depends on Prometheus; `families` makes metrics from a reading. Work (the meters and the
`Bounds`) is in units of 1e-8 seat-seconds.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from apf_middleware.counters import Histogram, Times
from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.metrics.schema_counters import SchemaCounters
from apf_middleware.mode import Mode
from apf_middleware.snapshots import NamedQueueSnapshot

__all__ = [
    "AdaptiveReading",
    "AdjustmentReading",
    "Bounds",
    "ElasticReading",
    "EventLoopReading",
    "FleetReading",
    "GateReading",
    "LevelKind",
    "LevelReading",
    "PredictionReading",
    "SchemaReading",
    "ServerReading",
    "ShadowReading",
]

LevelKind = Literal["queue", "reject", "exempt"]
"""A level queues or rejects a request that doesn't fit; in an exempt level every request fits."""

Bounds = tuple[int, int]
"""The minimum and the maximum."""

_NONE: Final[Mapping[Any, int]] = MappingProxyType({})


class AdjustmentReading(NamedTuple):
    """A level's demand in the last adjustment period, in seats, and the target for the next; NaN if unknown."""

    high_watermark: int
    average: float
    deviation: float
    smoothed: float
    target: float


class LevelReading(NamedTuple):
    """The limits of one level, and how long its numbers had each value; the numbers themselves are in `LevelSnapshot`.

    ``waiting_capacity`` is the number of requests that all of its queues together can hold. Seats in use and demand are
    exposed as parts of ``denominator``; None means the current limit, or a tenth of the server's seats if that limit is
    0. ``next_s`` has the smallest and the largest virtual start of the requests at the heads of the queues.
    ``next_discounted_s`` is the same, after subtraction of the work that each queue's executing requests are expected
    to take. Both are None if no request waits. ``expected`` are the reasons for which the level may reject requests in
    this configuration.
    """

    name: str
    kind: LevelKind
    limits: LevelLimits
    current: int
    seats_in_use: Times = _NONE
    executing: Times = _NONE
    waiting: Times = _NONE
    demand: Times = _NONE
    waiting_capacity: int = 0
    denominator: int | None = None
    adjusted: AdjustmentReading | None = None
    meters: Mapping[str, int] = _NONE
    next_s: Bounds | None = None
    next_discounted_s: Bounds | None = None
    expected: tuple[Reason, ...] = ()


class SchemaReading(NamedTuple):
    """The counters of one schema at one level; there is one reading for each pair of names."""

    level: str
    schema: str
    counters: SchemaCounters
    lingering_seats: int = 0


class GateReading(NamedTuple):
    """One gate: the number of requests that it keeps waiting now, and its counters; ``waits`` are in nanoseconds.

    It ``is_held`` while an operator keeps it closed.
    """

    name: str
    parked: int
    evaluations: Mapping[str, int]
    events: int
    rescues: int
    rejected: int
    waits: Histogram
    is_held: bool


class ElasticReading(NamedTuple):
    """An elastic level: the seats of its cap, or else its max, the reason, and the changes of the cap by reason."""

    name: str
    cap: int
    reason: str
    changes: Mapping[str, int]


class EventLoopReading(NamedTuple):
    """The ``lag`` of the event loop in nanoseconds, by quantile, and the elastic levels."""

    lag: Mapping[str, int]
    levels: tuple[ElasticReading, ...] = ()


class FleetReading(NamedTuple):
    """This process as a member of a fleet.

    ``seats`` are those of the fleet, ``granted`` those that this member may use, and ``in_use`` those that it uses.
    ``members`` is the number of members that the last grant names. ``exchanges`` is the time from a report to its
    answer, and ``age_ns`` the time since the last answer, or None if there was none. ``fallback_ns`` is the time
    without a lease. ``epochs`` counts how often this process became the allocator, and ``overshoot`` is the excess that
    it has seen in these epochs, in seat-nanoseconds. A member ``is_outdated`` if the seats are divided by a newer
    configuration. The process that allocates has ``adaptive`` if the total of seats adapts.
    """

    seats: int
    granted: int
    in_use: int
    members: int
    exchanges: Histogram
    age_ns: int | None
    fallback_ns: int
    is_allocator: bool
    epochs: int
    overshoot: int
    is_outdated: bool
    adaptive: "AdaptiveReading | None" = None


class AdaptiveReading(NamedTuple):
    """The controller that finds the total of seats: its bounds, its ``decisions`` by reason, and its last measurements.

    ``elasticity`` is by which power of the seats in use durations grow: 0 with room, 1 beyond the capacity; None before
    the first measurement. ``duration_ns`` is the mean of the recent requests.
    """

    least: int
    largest: int
    reason: str
    decisions: Mapping[str, int]
    elasticity: float | None
    duration_ns: float


class PredictionReading(NamedTuple):
    """The predicted waits of one level: the ``outcomes`` (see `runtime.late_arrivals`), and sums of waits."""

    outcomes: Mapping[str, int]
    predicted_ns: int
    waited_ns: int


class ShadowReading(NamedTuple):
    """A configuration that is tried: its ``server`` as it would be, and how it compares with the one in force.

    ``otherwise`` are the requests that are classified otherwise, by level and schema, and ``decisions`` those about
    which both have decided, by both decisions.
    """

    server: "ServerReading"
    requests: int
    otherwise: Mapping[tuple[str, ...], int]
    decisions: Mapping[tuple[str, ...], int]
    assumed: int
    lag_ns: int
    has_failed: bool


class ServerReading(NamedTuple):
    """All numbers of a server.

    ``hang_ups`` counts clients that left, by the phase of their request, which is ``waiting``. ``open_streams`` are by
    level; a removed level is included as long as it has any. ``receiving`` are the requests without seats that wait for
    their bodies, by level, and ``body_bytes`` is the size of the buffered bodies. ``failing_sources`` are the files and
    URLs of tokens or keys that could not be read the last time, by kind. ``configuration_loads`` are by outcome
    (``success``, ``failure``); if the last one was a failure, the server ``has_broken_configuration``.
    ``request_kinds`` are by phase (``executing``, ``waiting``) and kind (``readOnly``, ``mutating``), and
    ``revocations`` by named queue. ``invalid_headers`` are the time limits that can't be read, by header.
    ``invalid_criticality`` are the claims that can't be read, by header, and ``lowered_criticality`` those of
    callers that may not claim so much, by what they claimed.
    ``predictions`` are by level. ``passed`` are the requests that the ``mode`` has let pass, by mode.
    ``shadow`` is there while a second configuration is tried. ``has_legacy_names`` adds the legacy families.
    """

    levels: tuple[LevelReading, ...]
    schemas: tuple[SchemaReading, ...]
    seats: int
    fair_fraction: float | None = None
    authentication_failures: Mapping[str, int] = _NONE
    failing_sources: Mapping[str, int] = _NONE
    hang_ups: Mapping[str, int] = _NONE
    open_streams: Mapping[str, int] = _NONE
    receiving: Mapping[str, int] = _NONE
    body_bytes: int = 0
    configuration_loads: Mapping[str, int] = _NONE
    has_broken_configuration: bool = False
    version: str = ""
    queues: tuple[NamedQueueSnapshot, ...] = ()
    revocations: Mapping[str, int] = _NONE
    live_changes: int = 0
    unknown_queues: Mapping[str, int] = _NONE
    predictions: Mapping[str, PredictionReading] = MappingProxyType({})
    invalid_headers: Mapping[str, int] = _NONE
    invalid_criticality: Mapping[str, int] = _NONE
    lowered_criticality: Mapping[str, int] = _NONE
    gates: tuple[GateReading, ...] = ()
    request_kinds: Mapping[tuple[str, str], Times] = MappingProxyType({})
    has_legacy_names: bool = False
    fleet: FleetReading | None = None
    adaptive: AdaptiveReading | None = None
    event_loop: EventLoopReading | None = None
    mode: Mode = "on"
    passed: Mapping[str, int] = _NONE
    shadow: ShadowReading | None = None

    @property
    def members(self) -> int:
        """Return the number of processes that share the nominal limits: 1 without a fleet."""
        return max(1, self.fleet.members) if self.fleet is not None else 1
