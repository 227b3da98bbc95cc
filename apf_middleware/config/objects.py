"""What a configuration says, as plain frozen objects: nothing here knows YAML, pydantic or where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apf_middleware.classification import FlowSchema
from apf_middleware.fairqueuing.allocation import LevelShares

__all__ = ["Configuration", "Level", "Queuing", "Route", "ServerSettings"]


@dataclass(frozen=True, slots=True)
class Queuing:
    """The queues of a level. None instead of this means that who doesn't fit is rejected."""

    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level.

    ``shares`` are its proportions; ``min_seats`` and ``max_seats``, where set, are absolute and go before what the
    proportions come to. ``wait_limit_ns`` None means the server's.
    """

    name: str
    shares: LevelShares
    queuing: Queuing | None = None
    min_seats: int | None = None
    max_seats: int | None = None
    wait_limit_ns: int | None = None

    @property
    def exempt(self) -> bool:
        return self.shares.exempt


@dataclass(frozen=True, slots=True)
class Route:
    """An ordinary web app's path as a resource: a template like ``/tenants/{namespace}/orders/{name}``.

    The parameters ``namespace`` and ``name`` have their meanings; others are there for distinguishers.
    """

    path: str
    resource: str
    methods: tuple[str, ...] = ()
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What holds for the whole server."""

    seats: int = 100
    request_timeout_ns: int = 60 * 10**9
    borrowing: Literal["immediate", "periodic"] = "immediate"
    discipline: str = "equal-serial"
    strict_upstream: bool = False
    defaults: Literal["web", "kubernetes", "none"] = "web"
    resolver: Literal["web", "kubernetes"] = "web"
    routes: tuple[Route, ...] = ()
    metrics: Mapping[str, object] = field(default_factory=dict, hash=False)
    authentication: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    admin: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything: levels by name, schemas in the order in which they are tried, and the server's settings."""

    levels: Mapping[str, Level]
    schemas: tuple[FlowSchema, ...]
    server: ServerSettings = field(default_factory=ServerSettings)
