"""Arrival processes of a scenario. `apf_middleware.simulation.arrivals` creates the requests."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from apf_middleware.config.model import TaggedUnion
from apf_middleware.config.scenario.durations import AnyDuration, ConstantDuration
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import NonEmpty
from apf_middleware.frozen import frozen

__all__ = [
    "MOST_CALLERS",
    "SHORTEST_NS",
    "AnyArrivals",
    "BurstArrivals",
    "CalledArrivals",
    "ClosedArrivals",
    "PoissonArrivals",
    "ReplayedArrivals",
    "SteadyArrivals",
]

MOST_CALLERS: Final = 20_000
"""The limit of clients, or connections of closed loops, of one scenario, because each has its own random generator."""

SHORTEST_NS: Final = 1_000
"""Durations that are shorter on average count as zero."""

_Rate = Annotated[float, Field(gt=0, le=1_000_000)]
_RENAMED: Final[Mapping[str, str]] = {
    "rps": "rate",
    "threads": "connections",
    "users": "connections",
    "thinkTime": "think",
}


@frozen
class PoissonArrivals(Settings):
    """Random arrivals, ``rate`` per second on average, independent of the responses."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["poisson"] = field(default="poisson", kw_only=True)
    rate: _Rate


@frozen
class SteadyArrivals(Settings):
    """Evenly spaced arrivals, ``rate`` per second; each client starts at a random time in its first interval."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["constant"] = field(default="constant", kw_only=True)
    rate: _Rate


@frozen
class BurstArrivals(Settings):
    """Random arrivals, at ``rate`` in phases of the duration ``on``, and at ``idle_rate`` in phases of ``off``."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["bursts"] = field(default="bursts", kw_only=True)
    rate: _Rate
    on: AnyDuration
    off: AnyDuration
    idle_rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0

    def rules(self) -> Iterator[Violation]:
        for key in ("on", "off"):
            if getattr(self, key).mean_ns < SHORTEST_NS:
                yield Violation((key,), "0s", "it must be more than zero")


@frozen
class ClosedArrivals(Settings):
    """A number of connections, each of which makes its next request some time after its last response.

    This time is ``pause`` after a rejection, otherwise ``think``. A closed loop sends fewer requests to a slow server,
    unlike open arrivals.
    """

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["closed"] = field(default="closed", kw_only=True)
    connections: Annotated[int, Field(ge=1, le=MOST_CALLERS)]
    think: AnyDuration = field(default_factory=lambda: ConstantDuration(0))
    pause: AnyDuration = field(default_factory=lambda: ConstantDuration(100_000_000))


@frozen
class ReplayedArrivals(Settings):
    """Arrivals at the times of a recorded trace, from its first row at the start of the tenant."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["replay"] = field(default="replay", kw_only=True)
    file: NonEmpty


@frozen
class CalledArrivals(Settings):
    """No arrivals of its own: requests of other tenants make all requests of this tenant (see `Tenant.calls`)."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["called"] = field(default="called", kw_only=True)


AnyArrivals = Annotated[
    PoissonArrivals | SteadyArrivals | BurstArrivals | ClosedArrivals | ReplayedArrivals | CalledArrivals,
    TaggedUnion(
        "ArrivalsModel",
        "type",
        *(PoissonArrivals, SteadyArrivals, BurstArrivals, ClosedArrivals, ReplayedArrivals, CalledArrivals),
    ),
]
"""Any kind of arrivals."""
