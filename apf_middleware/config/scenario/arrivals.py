"""When requests come: as plain objects. What they mean in virtual time is the simulation's to know."""

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
    """At random, ``rate`` a second on average, whatever becomes of those before."""

    rate: float


@dataclass(frozen=True, slots=True)
class SteadyArrivals:
    """Evenly spaced, ``rate`` a second; each member begins somewhere within its first interval."""

    rate: float


@dataclass(frozen=True, slots=True)
class BurstArrivals:
    """At random, at ``rate`` while it is on and at ``idle_rate`` in between."""

    rate: float
    on: AnyDuration
    off: AnyDuration
    idle_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class ClosedArrivals:
    """So many connections, each of which asks again when it has its answer and has thought for a while.

    After a rejection, or a time-out, it pauses instead. Nobody waits in a closed loop while its server is slow: what a
    slow server is spared here, open arrivals would send.
    """

    connections: int = 1
    think: AnyDuration = field(default_factory=lambda: ConstantDuration(0))
    pause: AnyDuration = field(default_factory=lambda: ConstantDuration(100_000_000))


@dataclass(frozen=True, slots=True)
class ReplayedArrivals:
    """When the rows of a recorded trace came, the first one at the begin."""

    file: str


@dataclass(frozen=True, slots=True)
class CalledArrivals:
    """Only when requests of other tenants call them while they are served."""


AnyArrivals = PoissonArrivals | SteadyArrivals | BurstArrivals | ClosedArrivals | ReplayedArrivals | CalledArrivals
"""When requests come."""
