"""What the runtime hands over when somebody asks: a frozen picture of one moment, made of the numbers that it keeps.

Nothing here is computed and nothing knows Prometheus; what the numbers come to as metrics is said in `families`. Work
(the meters, and what lies between two bounds) is in units of 1e-8 seat-seconds, as the core counts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apf_middleware.counters import Histogram, Times
from apf_middleware.metrics.tally import Tally

__all__ = [
    "Bounds",
    "DemandPicture",
    "GatePicture",
    "Kind",
    "LevelPicture",
    "QueuePicture",
    "SchemaPicture",
    "ServerPicture",
]

Kind = Literal["queue", "reject", "exempt"]
"""What a level does with a request that doesn't fit: it waits, it is rejected, or everything fits."""

Bounds = tuple[int, int]
"""The least and the most."""


@dataclass(frozen=True, slots=True)
class DemandPicture:
    """A level's demand in the last adjustment period, in seats, and what it is aimed at; NaN where nobody knows."""

    high_watermark: int
    average: float
    deviation: float
    smoothed: float
    target: float


@dataclass(frozen=True, slots=True)
class LevelPicture:
    """One level.

    ``waiting_capacity`` is how many requests its queues hold together. Seats in use and demand are told as parts of
    ``denominator``; None means the current limit, or a tenth of the server's seats where that is 0. ``next_s`` are the
    least and the most R at which a queue's oldest waiting request begins, ``next_discounted_s`` the same less what the
    queue is already using; None where nothing waits.
    """

    name: str
    kind: Kind
    nominal: int
    min: int
    max: int
    current: int
    seats_in_use: Times = field(default_factory=dict)
    executing: Times = field(default_factory=dict)
    waiting: Times = field(default_factory=dict)
    demand: Times = field(default_factory=dict)
    waiting_capacity: int = 0
    denominator: int | None = None
    adjusted: DemandPicture | None = None
    meters: Mapping[str, int] = field(default_factory=dict)
    next_s: Bounds | None = None
    next_discounted_s: Bounds | None = None
    limits_streams: bool = False


@dataclass(frozen=True, slots=True)
class SchemaPicture:
    """What became of one schema's requests at one level; there is one of these per pair of names."""

    level: str
    schema: str
    tally: Tally
    lingering_seats: int = 0


@dataclass(frozen=True, slots=True)
class GatePicture:
    """One gate: who waits for it now, and what has been counted; ``waits`` in ns."""

    name: str
    parked: int
    evaluations: Mapping[str, int]
    events: int
    rescues: int
    rejected: int
    waits: Histogram


@dataclass(frozen=True, slots=True)
class QueuePicture:
    """A named queue, which is a level or a parent of levels; ``state`` is as people are shown it."""

    name: str
    state: str
    weight: int
    min: int
    max: int
    deserved: float
    used: int
    share: float
    inqueue: int = 0
    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    aborted: int = 0
    revocations: int = 0


@dataclass(frozen=True, slots=True)
class ServerPicture:
    """Everything.

    ``hang_ups`` counts clients that left, by where that met their request (``waiting``, ``executing``);
    ``open_streams`` are by level, one that has gone included as long as it has any;
    ``receiving`` are the requests without seats whose bodies are on their way, by level, and ``body_bytes`` what is
    kept of those; ``configuration_loads`` by how they ended (``success``, ``failure``).
    ``request_kinds`` are by phase (``executing``, ``waiting``) and kind (``readOnly``, ``mutating``).
    ``has_legacy_names`` adds the names of legacy families.
    """

    levels: tuple[LevelPicture, ...]
    schemas: tuple[SchemaPicture, ...]
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
    queues: tuple[QueuePicture, ...] = ()
    live_changes: int = 0
    unknown_queues: Mapping[str, int] = field(default_factory=dict)
    gates: tuple[GatePicture, ...] = ()
    request_kinds: Mapping[tuple[str, str], Times] = field(default_factory=dict)
    has_legacy_names: bool = False
