"""The Server document of ``apf/v1``: what holds for the whole server rather than for a level or a schema.

Authentication, metrics and responses have modules of their own beside this one. Admin and gates are rooms of their own;
what they want is theirs to know, and here it is checked only as far as it is plain data.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from apf_middleware.classification import RouteTable
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.authentication import AnyAuthenticator, TrustedProxySettings
from apf_middleware.config.bodies import BodySettings
from apf_middleware.config.dialects.estimation import EstimateModel, EstimationModel
from apf_middleware.config.dialects.gates import GateModel
from apf_middleware.config.dialects.http import path_rule
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.config.naming import NamingSettings
from apf_middleware.config.objects import Route, ServerSettings
from apf_middleware.config.responses import ResponseSettings
from apf_middleware.config.settings import Violation
from apf_middleware.config.streams import ServerStreamSettings
from apf_middleware.config.telemetry import TelemetrySettings
from apf_middleware.config.values import (
    DnsSubdomain,
    Duration,
    NonEmpty,
    Size,
    StringSet,
    duration_ns,
    written_size,
)
from apf_middleware.exceptions import InvalidValueError

__all__ = ["ServerModel"]


class _Metadata(CamelModel):
    name: DnsSubdomain = "server"
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class _Route(CamelModel):
    path: NonEmpty
    resource: NonEmpty
    subresource: str = ""
    methods: StringSet = Field(default_factory=list)
    estimate: EstimateModel | None = None
    gates: list[NonEmpty] = Field(default_factory=list, description="Beside those of the schema, and asked after them.")

    def rules(self) -> Iterator[Violation]:
        rule = path_rule(self.path)
        if rule:
            yield Violation(("path",), self.path, rule)
        for place, method in enumerate(self.methods):
            if not method.isalpha() or method != method.upper():
                yield Violation(("methods", place), method, "it must be an HTTP method in upper case")

    def built(self) -> Route:
        estimate = self.estimate.built() if self.estimate else None
        return Route(self.path, self.resource, tuple(self.methods), self.subresource, estimate, tuple(self.gates))


class _ServerSpec(CamelModel):
    renamed: ClassVar[dict[str, str]] = {
        "concurrencyLimit": "seats",
        "timeout": "requestTimeout",
        "requestTimeOut": "requestTimeout",
    }

    seats: int = Field(default=100, ge=1, le=10_000_000)
    max_waiting_memory: Size = 32 * 2**20
    request_timeout: Duration = "1m"
    borrowing: Literal["immediate", "periodic"] = "immediate"
    discipline: Literal["equal-serial", "max-min-serial", "max-min-concurrent"] = "equal-serial"
    strict_upstream: bool = False
    defaults: Literal["web", "kubernetes", "none"] | None = None
    backstops: Literal["kubernetes", "kep"] | None = None
    resolver: Literal["web", "kubernetes"] | None = None
    routes: list[_Route] = Field(default_factory=list)
    authentication: list[AnyAuthenticator] = Field(default_factory=list)
    trusted_proxies: TrustedProxySettings = Field(default_factory=TrustedProxySettings)
    estimation: EstimationModel = Field(default_factory=EstimationModel)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    responses: ResponseSettings = Field(default_factory=ResponseSettings)
    admin: AdminSettings = Field(default_factory=AdminSettings)
    gates: list[GateModel] = Field(default_factory=list)
    queues: NamingSettings = Field(default_factory=NamingSettings)
    streams: ServerStreamSettings = Field(default_factory=ServerStreamSettings)
    bodies: BodySettings = Field(default_factory=BodySettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    def rules(self) -> Iterator[Violation]:
        if not self.max_waiting_memory:
            yield Violation(
                ("maxWaitingMemory",), written_size(self.max_waiting_memory), "it must be more than nothing"
            )
        if duration_ns(self.request_timeout) == 0:
            yield Violation(("requestTimeout",), self.request_timeout, "it must be more than nothing")
        names = [gate.name for gate in self.gates]
        for place, name in enumerate(names):
            if name in names[:place]:
                yield Violation(
                    ("gates", place, "name"), name, "there is a gate of this name already", "Rename one of them"
                )
        try:
            RouteTable([route.built() for route in self.routes])
        except InvalidValueError as error:  # two routes for one path
            yield Violation(("routes",), error.value, error.rule, "Remove one of them")
        if self.admin.groups and self.metrics.enabled and f"{self.metrics.path}/".startswith(f"{self.admin.path}/"):
            rule = f"it must not be at or below admin.path, {self.admin.path!r}: all there is the admin's"
            yield Violation(("metrics", "path"), self.metrics.path, rule, "Move one of them, say metrics to /metrics")


class ServerModel(CamelModel):
    """The server's settings; ``defaults``, ``backstops`` and ``resolver`` follow the other documents if not given."""

    api_version: Literal["apf/v1"]
    kind: Literal["Server"]
    metadata: _Metadata = Field(default_factory=_Metadata)
    spec: _ServerSpec

    def built(self) -> ServerSettings:
        """The domain's object; what isn't given has its default, to be settled when all documents are known."""
        spec = self.spec
        return ServerSettings(
            seats=spec.seats,
            max_waiting_memory=spec.max_waiting_memory,
            request_timeout_ns=duration_ns(spec.request_timeout),
            borrowing=spec.borrowing,
            discipline=spec.discipline,
            strict_upstream=spec.strict_upstream,
            defaults=spec.defaults or "web",
            backstops=spec.backstops or "kubernetes",
            resolver=spec.resolver or "web",
            routes=tuple(route.built() for route in spec.routes),
            estimation=spec.estimation.built(),
            metrics=spec.metrics,
            responses=spec.responses,
            authentication=tuple(spec.authentication),
            trusted_proxies=spec.trusted_proxies,
            admin=spec.admin,
            gates=tuple(gate.built() for gate in spec.gates),
            queues=spec.queues,
            streams=spec.streams,
            bodies=spec.bodies,
            telemetry=spec.telemetry,
        )
