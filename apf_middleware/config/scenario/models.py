"""The document ``kind: Scenario`` of ``apf/v1``: its shape, and the rules that its fields break together."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from apf_middleware.config.model import Model
from apf_middleware.config.problems import Absent
from apf_middleware.config.scenario.arrivals import (
    AnyArrivals,
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    PoissonArrivals,
    ReplayedArrivals,
    SteadyArrivals,
)
from apf_middleware.config.scenario.durations import (
    AnyDuration,
    ConstantDuration,
    ExponentialDuration,
    LognormalDuration,
    MixedDuration,
    ParetoDuration,
    UniformDuration,
)
from apf_middleware.config.scenario.objects import Backend, Retries, Scenario, Tenant
from apf_middleware.config.settings import Violation
from apf_middleware.config.values import DnsSubdomain, Duration, NonEmpty, TextSet, duration_ns, rule_error
from apf_middleware.exceptions import InvalidValueError

__all__ = ["MOST_CALLERS", "ScenarioModel"]

MOST_CALLERS: Final = 20_000
"""Callers, or connections of closed loops, of one scenario: each has dice of its own."""

_SHORTEST_NS: Final = 1_000
"""On average: what takes less takes nothing."""

_Trouble = Literal["rejected", "timeout"]
_Rate = Annotated[float, Field(gt=0, le=1_000_000)]
_Keys = Mapping[str, tuple[frozenset[str], frozenset[str]]]  # by type: keys that it requires, and others that it takes

_DURATIONS: Final[_Keys] = {
    "constant": (frozenset({"value"}), frozenset()),
    "uniform": (frozenset({"least", "most"}), frozenset()),
    "exponential": (frozenset({"mean"}), frozenset()),
    "lognormal": (frozenset({"median", "sigma"}), frozenset()),
    "pareto": (frozenset({"least", "shape", "most"}), frozenset()),
    "mixture": (frozenset({"of"}), frozenset()),
}
_ARRIVALS: Final[_Keys] = {
    "poisson": (frozenset({"rate"}), frozenset()),
    "constant": (frozenset({"rate"}), frozenset()),
    "bursts": (frozenset({"rate", "on", "off"}), frozenset({"idle_rate"})),
    "closed": (frozenset({"connections"}), frozenset({"think", "pause"})),
    "replay": (frozenset({"file"}), frozenset()),
    "called": (frozenset(), frozenset()),
}


def _typed_rules(model: Model, kind: str, keys: _Keys) -> Iterator[Violation]:
    """Each type requires some keys, and takes no others than its own."""
    required, more = keys[kind]
    given = model.model_fields_set - {"type"}
    for key in sorted(required - given):
        yield Violation((to_camel(key),), Absent.ABSENT, f"the type {kind} requires it")
    for key in sorted(given - required - more):
        taken = ", ".join(sorted(map(to_camel, required | more))) or "no other key"
        yield Violation((to_camel(key),), getattr(model, key), f"the type {kind} doesn't take it", f"It takes {taken}")


class _Part(Model):
    weight: Annotated[float, Field(gt=0)] = 1.0
    duration: "_Duration"


class _Duration(Model):
    """A duration as text is constant; a mapping says by its ``type`` how it is drawn."""

    renamed: ClassVar[dict[str, str]] = {
        "average": "mean",
        "min": "least",
        "max": "most",
        "alpha": "shape",
        "distribution": "type",
    }

    type: Literal["constant", "uniform", "exponential", "lognormal", "pareto", "mixture"]
    value: Duration = "0s"
    least: Duration = "0s"
    most: Duration = "0s"
    mean: Duration = "0s"
    median: Duration = "0s"
    sigma: Annotated[float, Field(gt=0, le=5)] = 1.0
    shape: Annotated[float, Field(gt=0, le=100)] = 1.0
    of: Annotated[list[_Part], Field(min_length=1)] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _written_short(cls, given: object) -> object:
        if isinstance(given, int | float):
            raise rule_error("it must be a duration, or a mapping with a type", "Write it like 20ms")
        return {"type": "constant", "value": given} if isinstance(given, str) else given

    def rules(self) -> Iterator[Violation]:
        found = list(_typed_rules(self, self.type, _DURATIONS))
        yield from found
        if self.type == "pareto" and not found and duration_ns(self.least) == 0:
            yield Violation(("least",), self.least, "it must be more than nothing")
        elif not found:
            try:
                self.built()
            except InvalidValueError as error:
                yield Violation((error.name,), getattr(self, error.name), error.rule)

    def built(self) -> AnyDuration:
        least, most = duration_ns(self.least), duration_ns(self.most)
        if self.type == "uniform":
            return UniformDuration(least, most)
        if self.type == "exponential":
            return ExponentialDuration(duration_ns(self.mean))
        if self.type == "lognormal":
            return LognormalDuration(duration_ns(self.median), self.sigma)
        if self.type == "pareto":
            return ParetoDuration(least, self.shape, most)
        if self.type == "mixture":
            return MixedDuration(tuple((part.weight, part.duration.built()) for part in self.of))
        return ConstantDuration(duration_ns(self.value))


def _constant(text: str) -> _Duration:
    return _Duration.model_validate({"type": "constant", "value": text})


class _Arrivals(Model):
    renamed: ClassVar[dict[str, str]] = {
        "rps": "rate",
        "threads": "connections",
        "users": "connections",
        "thinkTime": "think",
    }

    type: Literal["poisson", "constant", "bursts", "closed", "replay", "called"]
    rate: _Rate = 1.0
    idle_rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    on: _Duration = Field(default_factory=lambda: _constant("1s"))
    off: _Duration = Field(default_factory=lambda: _constant("1s"))
    connections: Annotated[int, Field(ge=1, le=MOST_CALLERS)] = 1
    think: _Duration = Field(default_factory=lambda: _constant("0s"))
    pause: _Duration = Field(default_factory=lambda: _constant("100ms"))
    file: NonEmpty = "-"

    def rules(self) -> Iterator[Violation]:
        yield from _typed_rules(self, self.type, _ARRIVALS)
        for key in ("on", "off"):
            if self.type == "bursts" and getattr(self, key).built().mean_ns < _SHORTEST_NS:
                yield Violation((key,), "0s", "it must be more than nothing")

    def built(self) -> AnyArrivals:
        if self.type == "poisson":
            return PoissonArrivals(self.rate)
        if self.type == "constant":
            return SteadyArrivals(self.rate)
        if self.type == "bursts":
            return BurstArrivals(self.rate, self.on.built(), self.off.built(), self.idle_rate)
        if self.type == "closed":
            return ClosedArrivals(self.connections, self.think.built(), self.pause.built())
        if self.type == "replay":
            return ReplayedArrivals(self.file)
        return CalledArrivals()


def _any_trouble() -> list[_Trouble]:
    return ["rejected", "timeout"]


class _Retries(Model):
    renamed: ClassVar[dict[str, str]] = {"max": "most", "retryAfter": "obeyRetryAfter", "backoff": "backOff"}

    most: Annotated[int, Field(ge=1, le=100)]
    back_off: _Duration = Field(default_factory=lambda: _constant("100ms"))
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.5
    longest: Duration = "30s"
    on: Annotated[list[_Trouble], Field(min_length=1)] = Field(default_factory=_any_trouble)
    obey_retry_after: bool = False

    def built(self) -> Retries:
        return Retries(
            self.most,
            self.back_off.built(),
            self.factor,
            self.jitter,
            duration_ns(self.longest),
            tuple(self.on),
            self.obey_retry_after,
        )


class _Request(Model):
    renamed: ClassVar[dict[str, str]] = {"url": "path", "verb": "method"}

    method: NonEmpty = "GET"
    path: NonEmpty = "/"
    host: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    client_address: str = ""

    def rules(self) -> Iterator[Violation]:
        if not self.path.startswith("/"):
            yield Violation(("path",), self.path, "it must begin with a slash")
        if self.method != self.method.upper():
            yield Violation(("method",), self.method, "it must be in upper case")


class _Width(Model):
    weight: Annotated[float, Field(gt=0)] = 1.0
    seats: Annotated[int, Field(ge=1, le=1_000_000)]


class _Tenant(Model):
    renamed: ClassVar[dict[str, str]] = {
        "clients": "count",
        "duration": "service",
        "deadline": "timeout",
        "width": "seats",
        "path": "Write it under request",
        "method": "Write it under request",
        "headers": "Write them under request",
    }

    name: DnsSubdomain
    count: Annotated[int, Field(ge=1, le=MOST_CALLERS)] = 1
    user: NonEmpty | None = None
    groups: TextSet = ()
    request: _Request = Field(default_factory=_Request)
    arrivals: _Arrivals
    service: _Duration
    seats: list[_Width] = Field(default_factory=list)
    timeout: Duration | None = None
    retries: _Retries | None = None
    begin: Duration = "0s"
    end: Duration | None = None
    calls: TextSet = ()

    @model_validator(mode="before")
    @classmethod
    def _written_short(cls, given: object) -> object:
        """Seats as a number are always so many."""
        if isinstance(given, Mapping) and isinstance(given.get("seats"), int):
            return {**given, "seats": [{"seats": given["seats"]}]}
        return given

    @property
    def callers(self) -> int:
        return self.count * (self.arrivals.connections if self.arrivals.type == "closed" else 1)

    def rules(self) -> Iterator[Violation]:
        if self.end is not None and duration_ns(self.end) <= duration_ns(self.begin):
            yield Violation(("end",), self.end, "it must be after begin")
        if self.retries is not None and self.arrivals.type == "closed":
            hint = "A closed loop asks again anyway, after its pause"
            yield Violation(("retries",), "retries", "a closed loop doesn't take it", hint)

    def built(self) -> Tenant:
        numbered = self.name if self.count == 1 else f"{self.name}-{{n}}"
        return Tenant(
            name=self.name,
            arrivals=self.arrivals.built(),
            service=self.service.built(),
            count=self.count,
            user=numbered if self.user is None else self.user,
            groups=tuple(self.groups),
            method=self.request.method,
            path=self.request.path,
            host=self.request.host,
            headers={name.lower(): value for name, value in self.request.headers.items()},
            client_address=self.request.client_address,
            widths=tuple((one.weight, one.seats) for one in self.seats),
            timeout_ns=0 if self.timeout is None else duration_ns(self.timeout),
            retries=self.retries.built() if self.retries else None,
            begin_ns=duration_ns(self.begin),
            end_ns=None if self.end is None else duration_ns(self.end),
            calls=tuple(self.calls),
        )


class _Backend(Model):
    renamed: ClassVar[dict[str, str]] = {"capacity": "places", "seats": "places", "cpu": "overhead"}

    places: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    exponent: Annotated[float, Field(ge=0, le=10)] = 1.5
    overhead: Duration = "0s"


class _Metadata(Model):
    name: DnsSubdomain = "scenario"


class _Spec(Model):
    renamed: ClassVar[dict[str, str]] = {
        "clients": "tenants",
        "config": "configuration",
        "length": "duration",
        "warmup": "warmUp",
    }

    about: str = ""
    duration: Duration = "1m"
    warm_up: Duration = "0s"
    seed: Annotated[int, Field(ge=0)] = 1
    servers: Annotated[int, Field(ge=1, le=1_000)] = 1
    balancing: Literal["random", "round-robin"] = "random"
    backend: _Backend = Field(default_factory=_Backend)
    configuration: TextSet = ()
    tenants: list[_Tenant] = Field(default_factory=list)

    def rules(self) -> Iterator[Violation]:
        if duration_ns(self.duration) <= duration_ns(self.warm_up):
            yield Violation(("duration",), self.duration, "it must be longer than warmUp")
        callers = sum(tenant.callers for tenant in self.tenants)
        if callers > MOST_CALLERS:
            yield Violation(("tenants",), callers, f"there must be at most {MOST_CALLERS} callers and connections")
        yield from self._name_rules()
        if duration_ns(self.backend.overhead) < _SHORTEST_NS:
            yield from self._loop_rules()

    def _loop_rules(self) -> Iterator[Violation]:
        """Where the server itself takes no time, something else in a closed loop must, or time would stand still."""
        for place, tenant in enumerate(self.tenants):
            arrivals = tenant.arrivals
            if arrivals.type != "closed":
                continue
            rule = "it must be more than nothing, unless backend.overhead is"
            if tenant.service.built().mean_ns + arrivals.think.built().mean_ns < _SHORTEST_NS:
                yield Violation(("tenants", place, "service"), "0s", rule, "Or let the tenant think")
            if arrivals.pause.built().mean_ns < _SHORTEST_NS:
                yield Violation(("tenants", place, "arrivals", "pause"), "0s", rule)

    def _name_rules(self) -> Iterator[Violation]:
        names = Counter(tenant.name for tenant in self.tenants)
        called = {tenant.name for tenant in self.tenants if tenant.arrivals.type == "called"}
        before: set[str] = set()
        for place, tenant in enumerate(self.tenants):
            if names[tenant.name] > 1:
                yield Violation(("tenants", place, "name"), tenant.name, "another tenant has the same")
            for number, name in enumerate(tenant.calls):
                path = ("tenants", place, "calls", number)
                if name not in called:
                    yield Violation(path, name, "it must be a tenant with arrivals {type: called}")
                elif name in before or name == tenant.name:
                    hint = "So that nobody calls in a circle"
                    yield Violation(path, name, "it must stand below the tenant that calls it", hint)
            before.add(tenant.name)


class ScenarioModel(Model):
    """A scenario as it is written."""

    api_version: Literal["apf/v1"]
    kind: Literal["Scenario"]
    metadata: _Metadata = Field(default_factory=_Metadata)
    spec: _Spec

    def built(self, folder: str) -> Scenario:
        """Return the scenario; files that it names are looked for in ``folder``."""
        spec = self.spec
        return Scenario(
            name=self.metadata.name,
            about=spec.about,
            duration_ns=duration_ns(spec.duration),
            warm_up_ns=duration_ns(spec.warm_up),
            seed=spec.seed,
            servers=spec.servers,
            balancing=spec.balancing,
            backend=Backend(spec.backend.places, spec.backend.exponent, duration_ns(spec.backend.overhead)),
            tenants=tuple(tenant.built() for tenant in spec.tenants),
            configuration=tuple(spec.configuration),
            folder=folder,
        )


def _rebuilt(*models: Any) -> None:  # noqa: ANN401 (a class)
    for model in models:
        model.model_rebuild()


_rebuilt(_Part, _Duration)
