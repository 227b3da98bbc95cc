"""Scenarios as frozen objects, independent of YAML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apf_middleware.config.scenario.arrivals import AnyArrivals
from apf_middleware.config.scenario.durations import AnyDuration, ConstantDuration

__all__ = ["Backend", "Retries", "Scenario", "Tenant", "Widths"]

_SECOND = 10**9

Widths = tuple[tuple[float, int], ...]
"""Weights and seats of requests. Empty: as the configuration estimates."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The resource behind a server: it serves ``places`` requests at full speed, and more of them more slowly.

    With n requests in flight, each takes its service time * (n/places)^exponent, fixed when it begins, as databases do
    under contention. An exponent of 1 is a shared processor, 0 never becomes slower. ``overhead_ns`` is the server's
    own time for a request, one step after the other: a third to read it, a third to start it, a third to respond. A
    rejected request is read, and its response takes two thirds.
    """

    places: int | None = None
    exponent: float = 1.5
    overhead_ns: int = 0


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries of a client: at most ``most``, after a back-off that grows by ``factor``.

    A ``jitter`` of 0.5 varies the back-off by half. With ``obey`` the client waits at least as long as ``Retry-After``.
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
    """A group of ``count`` clients; ``{n}`` in their names and requests is the number of each, from 0.

    A client gives up ``timeout_ns`` after its request; 0 means never. After its own work a request makes its ``calls``
    one after the other, as requests of the tenants of these names, and keeps its seats meanwhile.
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
    """Tenants in front of ``servers`` equal servers, for ``duration_ns``.

    Requests that are due before ``warm_up_ns`` aren't counted. Files are relative to ``folder``.
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
