"""Results of a simulation as frozen values: by tenant, by level, and over time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from apf_middleware.copying import Value

__all__ = ["QUANTILES", "FleetResult", "LevelResult", "MemberResult", "Result", "TenantResult", "Window"]

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""The quantiles that are reported for each level."""


@dataclass(frozen=True, slots=True)
class TenantResult(Value):
    """The results of a tenant. Latencies are in milliseconds, from the moment when a request was due to its response.

    ``requests`` counts requests, each with all its tries: ``served`` ones got a response in time for the client to see
    it, ``failed`` ones never did, and the rest were under way when the simulation ended. ``rejected`` counts tries by
    reason, ``timeouts`` those that the client gave up. ``seats`` is the useful work, as an average number of seats.
    ``worst_ms`` is the longest latency, ``fairness`` the part of its fair share that the tenant's clients got.
    """

    name: str
    requests: int
    served: int
    failed: int
    tries: int
    rejected: Mapping[str, int]
    timeouts: int
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    worst_ms: float | None
    rate: float
    seats: float
    fairness: float | None

    @property
    def served_part(self) -> float | None:
        return self.served / self.requests if self.requests else None

    @property
    def rejections(self) -> int:
        return sum(self.rejected.values())


@dataclass(frozen=True, slots=True)
class LevelResult(Value):
    """The results of a level, summed over all servers: its average, largest and nominal seats.

    For the tries that count: the numbers dispatched, and rejected or given up while they waited, and the quantiles of
    their waits and of their whole latencies.
    """

    name: str
    nominal: int
    exempt: bool
    seats: float
    most_seats: float
    dispatched: int
    rejected: int
    wait_p50_ms: float | None
    wait_p99_ms: float | None
    quantiles_ms: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class MemberResult(Value):
    """The results of one member of a fleet: its average seats, and as in `LevelResult` its tries that count."""

    number: int
    seats: float
    dispatched: int
    rejected: int
    wait_p50_ms: float | None
    wait_p99_ms: float | None


@dataclass(frozen=True, slots=True)
class FleetResult(Value):
    """The results of processes in front of one backend, which may together use the seats of their ``budget``.

    ``most_in_use`` is the largest number of seats in use at one moment, and ``excess_seat_s`` what was used beyond the
    budget, in seat-seconds. ``epochs`` counts allocators; of the ``messages``, some were ``lost``.
    """

    budget: int
    most_in_use: int
    excess_seat_s: float
    epochs: int
    messages: int
    lost: int
    members: tuple[MemberResult, ...]


@dataclass(frozen=True, slots=True)
class Window(Value):
    """One part of the time, by tenant and by level, in the order in which a result lists them.

    ``turned_away`` counts tries that were rejected or timed out. ``fairness`` covers all the time so far, from the
    start or from the end of the warm-up. ``total`` are the seats of all servers at the end, if these are adaptive.
    """

    begin_s: float
    p50_ms: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]
    served: tuple[int, ...]
    turned_away: tuple[int, ...]
    seats: tuple[float, ...]
    waiting: tuple[int, ...]
    fairness: float | None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Result(Value):
    """The result of one simulation. ``fairness`` is Jain's index of the parts that clients got of their fair shares.

    ``goodput`` is the part of the backend's capacity that went into responses for which a client still waited,
    ``wasted`` the part of its work for responses that came too late. ``fleet`` has the results of members.
    """

    scenario: str
    configuration: str
    seconds: float
    window_s: float
    tenants: tuple[TenantResult, ...]
    levels: tuple[LevelResult, ...]
    windows: tuple[Window, ...]
    fairness: float | None
    goodput: float
    wasted: float
    requests: int
    events: int
    fleet: FleetResult | None = None

    def tenant(self, name: str) -> TenantResult:
        """Return the tenant of this name."""
        return next(tenant for tenant in self.tenants if tenant.name == name)

    def level(self, name: str) -> LevelResult:
        """Return the level of this name."""
        return next(level for level in self.levels if level.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return all values as JSON types."""
        return asdict(self)
