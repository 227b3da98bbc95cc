"""The document ``kind: Scenario`` of ``apf/v1``: tenants in front of simulated servers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError

from apf_middleware.config.scenario.arrivals import (
    MOST_CALLERS,
    SHORTEST_NS,
    AnyArrivals,
    CalledArrivals,
    ClosedArrivals,
)
from apf_middleware.config.scenario.durations import AnyDuration, ConstantDuration, Weight
from apf_middleware.config.scenario.members import AnyMembers
from apf_middleware.config.settings import Rules, Settings, Violation
from apf_middleware.config.values import DnsSubdomain, Nanoseconds, NonEmpty, TextSet
from apf_middleware.durations import written_duration
from apf_middleware.frozen import frozen

__all__ = ["Backend", "Retries", "Scenario", "ScenarioDocument", "Tenant", "TenantRequest", "WeightedSeats"]

_SECOND = 10**9


@frozen
class Backend(Settings):
    """The resource behind a server: it serves ``places`` requests at full speed, and more of them more slowly.

    With n requests in flight, each takes its service time * (n/places)^exponent, fixed when it begins, as databases do
    under contention. With an exponent of 1 it is like a shared processor; with 0 it never becomes slower.
    ``overhead_ns`` is the server's own time for a request: a third to read it, a third to start it and a third to
    respond. The server does one of these steps at a time. A rejected request is read, and its response takes two
    thirds.
    """

    renamed: ClassVar[Mapping[str, str]] = {"capacity": "places", "seats": "places", "cpu": "overhead"}

    places: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    exponent: Annotated[float, Field(ge=0, le=10)] = 1.5
    overhead_ns: Nanoseconds = 0


@frozen
class Retries(Settings):
    """Retries of a client: at most ``most``, after a back-off that grows by ``factor``.

    A ``jitter`` of 0.5 varies the back-off by half. With ``obey_retry_after`` the client waits at least as long as the
    header ``Retry-After`` says.
    """

    renamed: ClassVar[Mapping[str, str]] = {"max": "most", "retryAfter": "obeyRetryAfter", "backoff": "backOff"}

    most: Annotated[int, Field(ge=1, le=100)]
    back_off: AnyDuration = field(default_factory=lambda: ConstantDuration(100_000_000))
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5
    longest_ns: Nanoseconds = 30 * _SECOND
    on: Annotated[tuple[Literal["rejected", "timeout"], ...], Field(strict=False, min_length=1)] = (
        "rejected",
        "timeout",
    )
    obey_retry_after: bool = False


def _with_lower_names(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@frozen
class TenantRequest(Settings):
    """The requests of a tenant; ``{n}`` is replaced by the client's number."""

    renamed: ClassVar[Mapping[str, str]] = {"url": "path", "verb": "method"}

    method: NonEmpty = "GET"
    path: NonEmpty = "/"
    host: str = ""
    headers: Annotated[dict[str, str], AfterValidator(_with_lower_names)] = field(default_factory=dict, hash=False)
    client_address: str = ""

    def rules(self) -> Iterator[Violation]:
        if not self.path.startswith("/"):
            yield Violation(("path",), self.path, "it must begin with a slash")
        if self.method != self.method.upper():
            yield Violation(("method",), self.method, "it must be in upper case")


@frozen
class WeightedSeats(Settings):
    """The seats of some of the requests."""

    seats: Annotated[int, Field(ge=1, le=1_000_000)]
    weight: Weight = 1.0


def _listed(given: object) -> object:
    """Expand the short form: a number means the same seats for all requests."""
    return [{"seats": given}] if isinstance(given, int) else given


@frozen
class Tenant(Settings):
    """A group of ``count`` clients; ``{n}`` in their names and requests is the number of each, from 0.

    Without ``user``, the names of clients are made from the tenant's name. Without ``widths``, requests have the seats
    that the configuration estimates. A client gives up ``timeout_ns`` after its request; 0 means never. ``calls`` are
    names of tenants: after its own work, a request makes one request of each of them, one after the other, and keeps
    its seats meanwhile.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "clients": "count",
        "duration": "service",
        "deadline": "timeout",
        "width": "seats",
        "path": "Write it under request",
        "method": "Write it under request",
        "headers": "Write them under request",
    }

    name: DnsSubdomain
    arrivals: AnyArrivals
    service: AnyDuration
    count: Annotated[int, Field(ge=1, le=MOST_CALLERS)] = 1
    user: NonEmpty | None = None
    groups: TextSet = ()
    request: TenantRequest = field(default_factory=TenantRequest)
    widths: Annotated[tuple[WeightedSeats, ...], BeforeValidator(_listed), Field(alias="seats", strict=False)] = ()
    timeout_ns: Nanoseconds = 0
    retries: Retries | None = None
    begin_ns: Nanoseconds = 0
    end_ns: Nanoseconds | None = None
    calls: TextSet = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._time_rules, self._retry_rules)

    def _time_rules(self) -> Iterator[Violation]:
        if self.end_ns is not None and self.end_ns <= self.begin_ns:
            yield Violation(("end_ns",), self.end_ns, "it must be after begin")

    def _retry_rules(self) -> Iterator[Violation]:
        if self.retries is not None and isinstance(self.arrivals, ClosedArrivals):
            hint = "A closed loop sends further requests anyway, after its pause"
            yield Violation(("retries",), self.retries, "a closed loop doesn't take it", hint)

    @property
    def user_name(self) -> str:
        """The name of each client's user."""
        return self.user or (self.name if self.count == 1 else f"{self.name}-{{n}}")

    @property
    def callers(self) -> int:
        """The number of clients, or of the connections of all clients."""
        return self.count * (self.arrivals.connections if isinstance(self.arrivals, ClosedArrivals) else 1)


def _refuse_key(_: object) -> object:
    raise PydanticKnownError("unexpected_keyword_argument")


_FromReader = Annotated[str, Field(init=False), BeforeValidator(_refuse_key)]
"""A field that is not a key of the spec: the reader sets it."""


@frozen
class Scenario(Settings):
    """Tenants in front of ``servers`` equal servers, for ``duration_ns``.

    Each server has a backend of its own. ``members`` are processes in front of one backend, and take the place of the
    servers.

    Requests that are due before ``warm_up_ns`` aren't counted. ``name`` comes from the metadata. Paths of files are
    relative to ``folder``, the folder of the document.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "clients": "tenants",
        "config": "configuration",
        "length": "duration",
        "warmup": "warmUp",
        "balancer": "balancing",
        "fleet": "members",
        "name": "Write it under metadata",
    }

    name: _FromReader = "scenario"
    about: str = ""
    duration_ns: Nanoseconds = 60 * _SECOND
    warm_up_ns: Nanoseconds = 0
    seed: Annotated[int, Field(ge=0)] = 1
    servers: Annotated[int, Field(ge=1, le=1_000)] = 1
    members: AnyMembers | None = None
    balancing: Literal["random", "round-robin", "least-requests", "sticky"] = "random"
    backend: Backend = field(default_factory=Backend)
    tenants: Annotated[tuple[Tenant, ...], Field(strict=False)] = ()
    configuration: TextSet = ()
    folder: _FromReader = "."

    def rule_sets(self) -> Iterable[Rules]:
        return (self._time_rules, self._server_rules, self._caller_rules, self._name_rules, self._loop_rules)

    def _time_rules(self) -> Iterator[Violation]:
        if not self.duration_ns:
            yield Violation(("duration_ns",), self.duration_ns, "it must be more than zero")
        elif self.warm_up_ns >= self.duration_ns:
            rule = f"it must be shorter than duration, which is {written_duration(self.duration_ns)}"
            yield Violation(("warm_up_ns",), self.warm_up_ns, rule)

    def _server_rules(self) -> Iterator[Violation]:
        if self.members is not None and self.servers != 1:
            yield Violation(("servers",), self.servers, "members take the place of servers", "Remove one of them")

    def _caller_rules(self) -> Iterator[Violation]:
        callers = sum(tenant.callers for tenant in self.tenants)
        if callers > MOST_CALLERS:
            rule = f"there must be at most {MOST_CALLERS} clients and connections, and there are {callers}"
            yield Violation(("tenants",), self.tenants, rule)

    def _name_rules(self) -> Iterator[Violation]:
        names = Counter(tenant.name for tenant in self.tenants)
        called = {tenant.name for tenant in self.tenants if isinstance(tenant.arrivals, CalledArrivals)}
        before: set[str] = set()
        for place, tenant in enumerate(self.tenants):
            if names[tenant.name] > 1:
                yield Violation(("tenants", place, "name"), tenant.name, "another tenant has the same")
            for number, name in enumerate(tenant.calls):
                path = ("tenants", place, "calls", number)
                if name not in called:
                    yield Violation(path, name, "it must be a tenant with arrivals {type: called}")
                elif name in before or name == tenant.name:
                    hint = "This order prevents cycles of calls"
                    yield Violation(path, name, "it must stand below the tenant that calls it", hint)
            before.add(tenant.name)

    def _loop_rules(self) -> Iterator[Violation]:
        """Yield closed loops in which nothing takes any time, so that the simulated time would not advance."""
        for place, tenant in enumerate(self.tenants):
            arrivals = tenant.arrivals
            if self.backend.overhead_ns >= SHORTEST_NS or not isinstance(arrivals, ClosedArrivals):
                continue
            rule = "it must be more than zero, unless backend.overhead is"
            if tenant.service.mean_ns + arrivals.think.mean_ns < SHORTEST_NS:
                yield Violation(("tenants", place, "service"), "0s", rule, "Or set think in arrivals")
            if arrivals.pause.mean_ns < SHORTEST_NS:
                yield Violation(("tenants", place, "arrivals", "pause"), "0s", rule)


@frozen
class _ScenarioMetadata(Settings):
    """The name of a scenario."""

    name: DnsSubdomain = "scenario"


@frozen
class ScenarioDocument(Settings):
    """A scenario as a document."""

    api_version: Literal["apf/v1"]
    kind: Literal["Scenario"]
    spec: Scenario
    metadata: _ScenarioMetadata = field(default_factory=_ScenarioMetadata)
