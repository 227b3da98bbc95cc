"""The numbers behind the metrics at one moment, which the runtime reads at each scrape.

Nothing here is computed or depends on Prometheus; `families` makes metrics from a reading. Work (the meters and the
`Bounds`) is in units of 1e-8 seat-seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apf_middleware.counters import Histogram, Times
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.metrics.schema_counters import SchemaCounters
from apf_middleware.snapshots import NamedQueueSnapshot

__all__ = [
    "AdjustmentReading",
    "Bounds",
    "GateReading",
    "Kind",
    "LevelReading",
    "SchemaReading",
    "ServerReading",
]

Kind = Literal["queue", "reject", "exempt"]
"""A level queues or rejects a request that doesn't fit; in an exempt level every request fits."""

Bounds = tuple[int, int]
"""The minimum and the maximum."""


@dataclass(frozen=True, slots=True)
class AdjustmentReading:
    """A level's demand in the last adjustment period, in seats, and the target for the next; NaN if unknown."""

    high_watermark: int
    average: float
    deviation: float
    smoothed: float
    target: float


@dataclass(frozen=True, slots=True)
class LevelReading:
    """The limits of one level, and how long its numbers had each value; the numbers themselves are in `LevelSnapshot`.

    ``waiting_capacity`` is the number of requests that all of its queues together can hold. Seats in use and demand are
    exposed as parts of ``denominator``; None means the current limit, or a tenth of the server's seats if that limit is
    0. ``next_s`` has the smallest and the largest virtual start of the requests at the heads of the queues.
    ``next_discounted_s`` is the same, after subtraction of the work that each queue's executing requests are expected
    to take. Both are None if no request waits.
    """

    name: str
    kind: Kind
    limits: LevelLimits
    current: int
    seats_in_use: Times = field(default_factory=dict)
    executing: Times = field(default_factory=dict)
    waiting: Times = field(default_factory=dict)
    demand: Times = field(default_factory=dict)
    waiting_capacity: int = 0
    denominator: int | None = None
    adjusted: AdjustmentReading | None = None
    meters: Mapping[str, int] = field(default_factory=dict)
    next_s: Bounds | None = None
    next_discounted_s: Bounds | None = None
    limits_streams: bool = False


@dataclass(frozen=True, slots=True)
class SchemaReading:
    """The counters of one schema at one level; there is one reading for each pair of names."""

    level: str
    schema: str
    counters: SchemaCounters
    lingering_seats: int = 0


@dataclass(frozen=True, slots=True)
class GateReading:
    """One gate: the number of requests that it holds now, and its counters; ``waits`` are in nanoseconds."""

    name: str
    parked: int
    evaluations: Mapping[str, int]
    events: int
    rescues: int
    rejected: int
    waits: Histogram


@dataclass(frozen=True, slots=True)
class ServerReading:
    """All numbers of a server.

    ``hang_ups`` counts clients that left, by the phase of their request (``waiting``, ``executing``). ``open_streams``
    are by level; a removed level is included as long as it has any. ``receiving`` are the requests without seats that
    wait for their bodies, by level, and ``body_bytes`` is the size of the buffered bodies. ``configuration_loads`` are
    by outcome (``success``, ``failure``), ``request_kinds`` by phase (``executing``, ``waiting``) and kind
    (``readOnly``, ``mutating``), ``revocations`` by named queue. ``has_legacy_names`` adds the legacy families.
    """

    levels: tuple[LevelReading, ...]
    schemas: tuple[SchemaReading, ...]
    seats: int
    fair_fraction: float | None = None
    authentication_failures: Mapping[str, int] = field(default_factory=dict)
    hang_ups: Mapping[str, int] = field(default_factory=dict)
    open_streams: Mapping[str, int] = field(default_factory=dict)
    receiving: Mapping[str, int] = field(default_factory=dict)
    body_bytes: int = 0
    receives_bodies: bool = False
    configuration_loads: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
    queues: tuple[NamedQueueSnapshot, ...] = ()
    revocations: Mapping[str, int] = field(default_factory=dict)
    live_changes: int = 0
    unknown_queues: Mapping[str, int] = field(default_factory=dict)
    gates: tuple[GateReading, ...] = ()
    request_kinds: Mapping[tuple[str, str], Times] = field(default_factory=dict)
    has_legacy_names: bool = False
