"""What a scenario says, as plain frozen objects: nothing here knows YAML or where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apf_middleware.config.scenario.arrivals import AnyArrivals
from apf_middleware.config.scenario.durations import AnyDuration, ConstantDuration

__all__ = ["Backend", "Retries", "Scenario", "Tenant", "Widths"]

_SECOND = 10**9

Widths = tuple[tuple[float, int], ...]
"""Seats of a request and how often it has so many, as weights. Empty: as the configuration estimates."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What requests are served by: so many ``places``, and beyond them everything becomes slower.

    With n calls in flight, each takes its service time * (n/places)^exponent, known when it begins. So do databases
    under contention; exponent 1 is a processor that is shared, 0 never slows down. ``overhead_ns`` is what the server
    itself takes for a request, half before and half after, one thing after the other; who is rejected takes one half.
    """

    places: int | None = None
    exponent: float = 1.5
    overhead_ns: int = 0


@dataclass(frozen=True, slots=True)
class Retries:
    """A client that asks again: at most ``most`` times, after a back-off that grows by ``factor`` and is jittered.

    ``jitter`` 0.5 is half more or half less. With ``obey`` it waits at least as long as ``Retry-After`` says.
    """

    most: int
    back_off: AnyDuration = field(default_factory=lambda: ConstantDuration(100_000_000))
    factor: float = 2.0
    jitter: float = 0.5
    longest_ns: int = 30 * _SECOND
    on: tuple[Literal["rejected", "timeout"], ...] = ("rejected", "timeout")
    obey: bool = False


@dataclass(frozen=True, slots=True)
class Tenant:
    """``count`` callers of one kind; ``{n}`` in their names and requests is each one's number, from 0.

    ``timeout_ns`` is when a client gives up, from the moment when it asked; 0 is never. A request of theirs is served,
    then makes its ``calls``, one after the other, as requests of the tenants of these names, and keeps its seats
    meanwhile.
    """

    name: str
    arrivals: AnyArrivals
    service: AnyDuration
    count: int = 1
    user: str = ""
    groups: tuple[str, ...] = ()
    method: str = "GET"
    path: str = "/"
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    client_address: str = ""
    widths: Widths = ()
    timeout_ns: int = 0
    retries: Retries | None = None
    begin_ns: int = 0
    end_ns: int | None = None
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Tenants before ``servers`` equal servers, watched for ``duration_ns``.

    Requests that are due before ``warm_up_ns`` aren't counted. ``folder`` is where the files that it names are.
    """

    name: str = "scenario"
    about: str = ""
    duration_ns: int = 60 * _SECOND
    warm_up_ns: int = 0
    seed: int = 1
    servers: int = 1
    balancing: Literal["random", "round-robin"] = "random"
    backend: Backend = field(default_factory=Backend)
    tenants: tuple[Tenant, ...] = ()
    configuration: tuple[str, ...] = ()
    folder: str = "."
