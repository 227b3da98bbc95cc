"""Arrivals of requests, as frozen objects. `apf_middleware.simulation.arrivals` makes requests of them."""

from dataclasses import dataclass, field

from apf_middleware.config.scenario.durations import AnyDuration, ConstantDuration

__all__ = [
    "AnyArrivals",
    "BurstArrivals",
    "CalledArrivals",
    "ClosedArrivals",
    "PoissonArrivals",
    "ReplayedArrivals",
    "SteadyArrivals",
]


@dataclass(frozen=True, slots=True)
class PoissonArrivals:
    """Random arrivals, ``rate`` per second on average, independent of the responses."""

    rate: float


@dataclass(frozen=True, slots=True)
class SteadyArrivals:
    """Evenly spaced arrivals, ``rate`` per second; each client starts at a random time in its first interval."""

    rate: float


@dataclass(frozen=True, slots=True)
class BurstArrivals:
    """Random arrivals, at ``rate`` in phases that are on and at ``idle_rate`` in between."""

    rate: float
    on: AnyDuration
    off: AnyDuration
    idle_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class ClosedArrivals:
    """A number of connections, each of which makes its next request some time after its last response.

    After a rejection the pause is a different one. A closed loop sends fewer requests to a slow server, unlike open
    arrivals.
    """

    connections: int = 1
    think: AnyDuration = field(default_factory=lambda: ConstantDuration(0))
    pause: AnyDuration = field(default_factory=lambda: ConstantDuration(100_000_000))


@dataclass(frozen=True, slots=True)
class ReplayedArrivals:
    """Arrivals at the times of a recorded trace, whose first row comes at the start of the tenant."""

    file: str


@dataclass(frozen=True, slots=True)
class CalledArrivals:
    """No arrivals but the calls of other tenants' requests."""


AnyArrivals = PoissonArrivals | SteadyArrivals | BurstArrivals | ClosedArrivals | ReplayedArrivals | CalledArrivals
"""Any kind of arrivals."""
