"""Settings of the whole server, rather than of a level or a schema: the ``spec`` of a Server document."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from apf_middleware.classification import RouteTable
from apf_middleware.config.adaptive_seats import AdaptiveSeats, SeatBounds, SeatNumber
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.authentication import AnyAuthenticator, TrustedProxySettings
from apf_middleware.config.bodies import BodySettings
from apf_middleware.config.criticality import CriticalitySettings
from apf_middleware.config.deadlines import DeadlineSettings
from apf_middleware.config.estimation import AnyEstimate, EstimationSettings
from apf_middleware.config.event_loop import EventLoopSettings
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.config.gates import GateSettings
from apf_middleware.config.http_rules import method_rules, path_rule
from apf_middleware.config.load_reports import LoadReportSettings, ReadinessSettings
from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.config.queues import NamingSettings
from apf_middleware.config.responses import ResponseSettings
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.shadow import ShadowSettings
from apf_middleware.config.streams import ServerStreamSettings
from apf_middleware.config.telemetry import TelemetrySettings
from apf_middleware.config.values import DEPENDS, GateNames, Nanoseconds, NonEmpty, Size, TextSet
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen
from apf_middleware.mode import Mode

__all__ = ["OF_LEVEL", "Route", "ServerSettings"]

OF_LEVEL: Final = "Write it in a document of kind PriorityLevel"


@frozen
class Route(Settings):
    """An ordinary web app's path as a resource: a template like ``/tenants/{namespace}/orders/{name}``.

    The parameters ``namespace`` and ``name`` are those of the resource; others are only for distinguishers. A route
    without ``methods`` is for all methods. ``gates`` are asked after those of the schema.
    """

    path: NonEmpty
    resource: NonEmpty
    subresource: str = ""
    methods: TextSet = ()
    gates: Annotated[GateNames, Field(description="The gates of its requests, asked after those of the schema.")] = ()
    estimate: AnyEstimate | None = None

    def rules(self) -> Iterator[Violation]:
        rule = path_rule(self.path)
        if rule:
            yield Violation(("path",), self.path, rule)
        yield from method_rules(self.methods)


@frozen
class ServerSettings(Settings):
    """The settings of the whole server.

    ``defaults`` chooses the suggested objects, ``backstops`` the mandatory objects that are added if they are missing;
    the defaults of both, and of ``resolver``, depend on the other documents. No ``authentication`` at all means
    ``scope["user"]``.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "concurrencyLimit": "seats",
        "timeout": "requestTimeout",
        "requestTimeOut": "requestTimeout",
        "levels": "Write a document of kind PriorityLevel for each",
        **dict.fromkeys(("shares", "queuing", "waitLimit", "minSeats", "maxSeats", "lendablePercent"), OF_LEVEL),
    }
    always_written: ClassVar[frozenset[str]] = frozenset(
        {"seats", "max_waiting_memory", "request_timeout_ns", "borrowing", "discipline", "strict_upstream"}
        | {"defaults", "backstops", "resolver", "streams", "bodies"}
    )

    seats: SeatNumber = 100
    mode: Mode = "on"
    max_waiting_memory: Size = 32 * 2**20
    request_timeout_ns: Nanoseconds = 60 * 10**9
    borrowing: Literal["immediate", "periodic"] = "immediate"
    discipline: Literal["equal-serial", "max-min-serial", "max-min-concurrent"] = "equal-serial"
    strict_upstream: bool = False
    defaults: Annotated[Literal["web", "kubernetes", "none"], DEPENDS] = "web"
    defaults_version: Annotated[int, Field(ge=1)] = 1
    backstops: Annotated[Literal["kubernetes", "kep"], DEPENDS] = "kubernetes"
    resolver: Annotated[Literal["web", "kubernetes"], DEPENDS] = "web"
    routes: Annotated[tuple[Route, ...], Field(strict=False)] = ()
    authentication: Annotated[tuple[AnyAuthenticator, ...], Field(strict=False)] = ()
    trusted_proxies: TrustedProxySettings = field(default_factory=TrustedProxySettings)
    estimation: EstimationSettings = field(default_factory=EstimationSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    responses: ResponseSettings = field(default_factory=ResponseSettings)
    admin: AdminSettings = field(default_factory=AdminSettings)
    gates: Annotated[tuple[GateSettings, ...], Field(strict=False)] = ()
    queues: NamingSettings = field(default_factory=NamingSettings)
    streams: ServerStreamSettings = field(default_factory=ServerStreamSettings)
    bodies: BodySettings = field(default_factory=BodySettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    fleet: FleetSettings | None = None
    deadlines: DeadlineSettings | None = None
    criticality: CriticalitySettings | None = None
    load_reports: LoadReportSettings | None = None
    readiness: ReadinessSettings | None = None
    event_loop: EventLoopSettings | None = None
    shadow: ShadowSettings | None = None

    @property
    def total(self) -> int:
        """The number of seats at the start."""
        return self.seats if isinstance(self.seats, int) else self.seats.adaptive.first

    @property
    def least_total(self) -> int:
        """The smallest number of seats that there may ever be."""
        return self.seats if isinstance(self.seats, int) else self.seats.adaptive.min

    @property
    def largest_total(self) -> int:
        """The largest number of seats that there may ever be."""
        return self.seats if isinstance(self.seats, int) else self.seats.adaptive.max

    @property
    def seat_bounds(self) -> SeatBounds | None:
        """The bounds of an adaptive number of seats; None if the number is fixed."""
        return self.seats.adaptive if isinstance(self.seats, AdaptiveSeats) else None

    def rules(self) -> Iterator[Violation]:
        for name in ("max_waiting_memory", "request_timeout_ns"):
            if not getattr(self, name):
                yield Violation((name,), getattr(self, name), "it must be more than zero")
        yield from self._fleet_rules()
        names = [gate.name for gate in self.gates]
        for place, name in enumerate(names):
            if name in names[:place]:
                rule, hint = "there is a gate of this name already", "Rename one of them"
                yield Violation(("gates", place, "name"), name, rule, hint)
        try:
            RouteTable(list(self.routes))
        except InvalidValueError as error:  # two routes for one path
            yield Violation(("routes",), error.value, error.rule, "Remove one of them")
        yield from self._path_rules()

    def _path_rules(self) -> Iterator[Violation]:
        """Yield paths that no request can have, and those of which only one could be served."""
        admin, taken = (self.admin.path if self.admin.is_on else ""), dict[str, str]()
        paths = {
            "admin": admin,
            "metrics": self.metrics.served_path,
            "loadReports": self.load_reports.path if self.load_reports else "",
            "readiness": self.readiness.path if self.readiness else "",
        }
        for name, path in paths.items():
            if not path:
                continue
            if rule := path_rule(path):
                yield Violation((name, "path"), path, rule)
            elif admin and name != "admin" and f"{path}/".startswith(f"{admin}/"):
                rule = f"it must not be at or below admin.path, {admin!r}, where the admin answers all requests"
                yield Violation((name, "path"), path, rule, "Change one of the two paths")
            elif path in taken:
                yield Violation(
                    (name, "path"), path, f"it is {taken[path]}, too", "Choose another path for one of them"
                )
            taken.setdefault(path, f"{name}.path")

    def _fleet_rules(self) -> Iterator[Violation]:
        if self.fleet is not None and (self.borrowing != "immediate" or self.strict_upstream):
            name = "strict_upstream" if self.strict_upstream else "borrowing"
            rule = "a fleet's seats are lent at each dispatch, and not as Kubernetes does"
            yield Violation((name,), getattr(self, name), rule, "Remove this field, or fleet")
