"""Settings of how many seats requests take: ``estimate`` of a route or a schema, ``estimation`` of a Server document.

Each kind of estimate knows how to become an estimator; what several of them share on a live server (objects, watches,
what was learned) comes in as `Sources`. `derive_estimation` puts together what routes, schemas and the server say.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol

from pydantic import Field
from pydantic.alias_generators import to_camel

from apf_middleware.classification import Classification
from apf_middleware.config.authentication import network
from apf_middleware.config.model import BuiltFrom, Model
from apf_middleware.config.problems import Absent, Path
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import (
    Duration,
    NonEmpty,
    StringSet,
    callable_name,
    duration_ns,
    load_callable,
    written_duration,
)
from apf_middleware.estimation import (
    MOST_SEATS,
    AnyEstimator,
    Computed,
    Constant,
    Declared,
    Estimation,
    Inventory,
    KubernetesEstimator,
    Learned,
    LearnedCosts,
    ListSettings,
    MutatingSettings,
    RouteEstimator,
    Trust,
    Watchers,
    WatchTracker,
    seat_cap,
)
from apf_middleware.estimation.declared import require_seats
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work
from apf_middleware.fairqueuing.allocation import LevelLimits

__all__ = [
    "AnyEstimate",
    "ComputedEstimate",
    "ConstantEstimate",
    "DeclaredEstimate",
    "EstimateModel",
    "EstimateSettings",
    "EstimationSettings",
    "KubernetesEstimate",
    "LearnedEstimate",
    "LearningSettings",
    "Sources",
    "derive_caps",
    "derive_estimation",
    "estimate_part",
]

_LONGEST_LINGER_NS: Final = 60 * 10**9


_Count = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class LearningSettings(Settings):
    """The table of the source ``learned``."""

    renamed: ClassVar[Mapping[str, str]] = {"routes": "mostRoutes", "observations": "span"}

    most_routes: Annotated[_Count, Field(description="How many routes are remembered.")] = 1024
    span: Annotated[_Count, Field(description="How many observations an average remembers.")] = 50
    enough: Annotated[_Count, Field(description="After how many observations it is believed.")] = 3

    def costs(self) -> LearnedCosts:
        """Return the table, empty."""
        return LearnedCosts(self.most_routes, span=self.span, enough=self.enough)


@dataclass(frozen=True, slots=True)
class Sources:
    """What estimators ask on a live server. They outlive a change of configuration.

    ``on_watchers`` is told how many watches a request that writes concerns.
    """

    costs: LearnedCosts = field(default_factory=LearnedCosts)
    inventory: Inventory = lambda _: None
    watchers: Watchers = field(default_factory=lambda: WatchTracker().interested)
    on_watchers: Callable[[Classification, int], None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class ConstantEstimate:
    """Always the same."""

    seats: int = 1
    final_seats: int = 0
    linger_ns: int = 0

    def __post_init__(self) -> None:
        require_seats("seats", self.seats)
        require_integer("final_seats", self.final_seats, least=0, most=MOST_SEATS)
        require_integer("linger_ns", self.linger_ns, least=0)
        if self.linger_ns > _LONGEST_LINGER_NS:
            raise InvalidValueError("linger_ns", self.linger_ns, "it must be at most a minute")
        if (self.final_seats == 0) != (self.linger_ns == 0):
            missing = "final_seats" if self.final_seats == 0 else "linger_ns"
            rule = "finalSeats and linger only mean something together"
            raise InvalidValueError(missing, 0, rule, "Give both or neither")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Constant(Work(self.seats, self.final_seats, self.linger_ns))


@dataclass(frozen=True, slots=True)
class DeclaredEstimate:
    """By a number in a header, query parameter or body of a trusted caller; ``seats`` for all others.

    A number stands for one seat per ``per_seat``. Whoever is in one of ``users``, ``groups`` and ``networks`` is
    believed.
    """

    place: Literal["header", "query", "body"]
    name: str
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    per_seat: int = 1
    most_seats: int = 10
    seats: int = 1

    def __post_init__(self) -> None:
        require_seats("seats", self.seats)
        require_seats("most_seats", self.most_seats)
        require_integer("per_seat", self.per_seat, least=1)
        for name, values in (("users", self.users), ("groups", self.groups)):
            if "" in values:
                raise InvalidValueError(name, values, "a name must not be empty")
        Declared(self.place, self.name, self._trust())

    def _trust(self) -> Trust:
        networks = tuple(network(f"networks[{place}]", one) for place, one in enumerate(self.networks))
        return Trust(frozenset(self.users), frozenset(self.groups), networks)

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Declared(
            self.place,
            self.name,
            self._trust(),
            per_seat=self.per_seat,
            most_seats=self.most_seats,
            otherwise=Work(self.seats),
        )


@dataclass(frozen=True, slots=True)
class ComputedEstimate:
    """By a function of the app's own, from digest and classification; ``seats`` where it answers None."""

    function: Callable[..., Any]
    most_seats: int = 10
    seats: int = 1

    def __post_init__(self) -> None:
        require_seats("seats", self.seats)
        require_seats("most_seats", self.most_seats)
        if not callable(self.function):
            raise InvalidValueError("function", self.function, "it must be callable")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Computed(self.function, most_seats=self.most_seats, otherwise=Work(self.seats))


@dataclass(frozen=True, slots=True)
class KubernetesEstimate:
    """By verb, as Kubernetes does."""

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:
        return KubernetesEstimator(
            sources.inventory, sources.watchers, settings.listing, settings.mutating, sources.on_watchers
        )


@dataclass(frozen=True, slots=True)
class LearnedEstimate:
    """By what requests of the same route took; ``seats`` while that isn't known."""

    duration_per_seat_ns: int | None = None
    most_seats: int = 10
    seats: int = 1

    def __post_init__(self) -> None:
        require_seats("seats", self.seats)
        require_seats("most_seats", self.most_seats)
        if self.duration_per_seat_ns is not None and self.duration_per_seat_ns < 1:
            raise InvalidValueError("duration_per_seat_ns", self.duration_per_seat_ns, "it must be more than nothing")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Learned(
            sources.costs,
            duration_per_seat_ns=self.duration_per_seat_ns,
            most_seats=self.most_seats,
            otherwise=Work(self.seats),
        )


EstimateSettings = ConstantEstimate | DeclaredEstimate | ComputedEstimate | KubernetesEstimate | LearnedEstimate
"""Any of them."""


_DECLARED: Final = frozenset({"seats", "most_seats", "name", "per_seat", "users", "groups", "networks"})
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    "constant": frozenset({"seats", "final_seats", "linger"}),
    "header": _DECLARED,
    "query": _DECLARED,
    "body": _DECLARED,
    "callable": frozenset({"seats", "most_seats", "callable"}),
    "kubernetes": frozenset(),
    "learned": frozenset({"seats", "most_seats", "duration_per_seat"}),
}
"""The keys that a source takes."""

_WANTED: Final = {"header": "name", "query": "name", "body": "name", "callable": "callable"}
"""The key that a source requires."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_Source = Literal["constant", "header", "query", "body", "callable", "kubernetes", "learned"]


class EstimateModel(Model):
    """How many seats requests take; with ``seats`` alone, always so many."""

    renamed: ClassVar[dict[str, str]] = {
        "type": "source",
        "width": "seats",
        "header": "Write source: header and name: the header's",
        "parameter": "name",
        "function": "callable",
        "initialSeats": "seats",
        "additionalLatency": "linger",
        "unitsPerSeat": "perSeat",
        "maxSeats": "mostSeats",
        "trusted": "users, groups or networks",
        "secondsPerSeat": "durationPerSeat",
    }

    source: _Source = "constant"
    seats: int = Field(default=1, ge=1, description="Of a constant; of other sources, where they tell none.")
    final_seats: int = Field(default=0, ge=0, description="Taken after the reply, for as long as linger says.")
    linger: Duration = "0s"
    name: NonEmpty | None = Field(default=None, description="Of the header, query parameter or field of the body.")
    per_seat: int = Field(default=1, ge=1, description="How much of what is told one seat stands for.")
    most_seats: int = Field(default=10, ge=1)
    users: StringSet = Field(default_factory=list, description="Who is believed; '*' is everybody.")
    groups: StringSet = Field(default_factory=list)
    networks: StringSet = Field(default_factory=list, description="Of the clients that are believed.")
    callable: NonEmpty | None = Field(default=None, description="package.module:function")
    duration_per_seat: Duration | None = None

    def rules(self) -> Iterator[Violation]:
        source, taken = self.source, _TAKEN[self.source]
        wanted = _WANTED.get(source)
        if wanted is not None and getattr(self, wanted) is None:
            yield Violation((wanted,), Absent.ABSENT, f"the source {source} requires it")
            return
        for key in sorted(self.model_fields_set - taken - {"source"}):
            yield Violation((to_camel(key),), getattr(self, key), f"the source {source} doesn't take it")
        if source == "header" and not _TOKEN.fullmatch(self.name or ""):
            yield Violation(("name",), self.name, "it must be a header's name")
        if source == "callable":
            yield from self._callable_rules()
        else:
            yield from _rules_of(self)

    def _callable_rules(self) -> Iterator[Violation]:
        try:
            load_callable(self.callable or "")
        except ValueError as error:
            yield Violation(("callable",), self.callable, str(error), "Write package.module:function")
        else:
            yield from _rules_of(self)

    def built(self) -> EstimateSettings:
        """Return the estimate's settings; a header's name is in lower case there."""
        if self.source == "constant":
            return ConstantEstimate(self.seats, self.final_seats, duration_ns(self.linger))
        if self.source in ("header", "query", "body"):
            return self._declared(self.source)
        if self.source == "callable":
            return ComputedEstimate(load_callable(self.callable or ""), self.most_seats, self.seats)
        if self.source == "learned":
            per_seat = None if self.duration_per_seat is None else duration_ns(self.duration_per_seat)
            return LearnedEstimate(per_seat, self.most_seats, self.seats)
        return KubernetesEstimate()

    def _declared(self, place: Literal["header", "query", "body"]) -> DeclaredEstimate:
        name = self.name or ""
        return DeclaredEstimate(
            place,
            name.lower() if place == "header" else name,
            tuple(self.users),
            tuple(self.groups),
            tuple(self.networks),
            self.per_seat,
            self.most_seats,
            self.seats,
        )


class _Lists(Model):
    by_size: bool = Field(default=True, description="By their size in bytes, or else by number of objects alone.")
    watch_list: bool = True
    consistent_reads: bool = Field(default=False, description="Whether lists without a version come from a cache.")
    most_seats: int | None = Field(default=None, description="100 by size, 10 by number.")
    objects_per_seat: int = 100
    bytes_per_seat: int = 100_000
    most_cache_bytes: int = 1_000_000
    largest_object: int = 1_500_000

    def rules(self) -> Iterator[Violation]:
        yield from _rules_of(self)

    def built(self) -> ListSettings:
        return ListSettings(**self.model_dump())


class _Writes(Model):
    enabled: bool = True
    watches_per_seat: float = Field(default=10.0, description="How many watches one seat serves after a write.")
    event: Duration = "5ms"
    most_seats: int = 10

    def rules(self) -> Iterator[Violation]:
        yield from _rules_of(self)

    def built(self) -> MutatingSettings:
        return MutatingSettings(self.enabled, self.watches_per_seat, duration_ns(self.event), self.most_seats)


def _rules_of(model: EstimateModel | _Lists | _Writes) -> Iterator[Violation]:
    """Yield the rules of the object that the model becomes, by the model's keys."""
    try:
        model.built()
    except InvalidValueError as error:
        yield Violation(_path(error.name), error.value, error.rule, error.hint)


def _path(name: str) -> Path:
    """``networks[0]`` and ``linger_ns`` as the way to their keys."""
    steps = re.findall(r"\w+", name)
    return tuple(int(step) if step.isdigit() else to_camel(step.removesuffix("_ns")) for step in steps)


# The way back: what has its default isn't written.

_SOURCES: Final[Mapping[type, str]] = {
    ComputedEstimate: "callable",
    KubernetesEstimate: "kubernetes",
    LearnedEstimate: "learned",
}


def estimate_part(settings: EstimateSettings) -> dict[str, Any]:
    """Return an ``estimate`` as documents have it; the name of a function that can't be imported is None."""
    part = _changed(settings)
    if isinstance(settings, ConstantEstimate):
        return part
    if isinstance(settings, DeclaredEstimate):
        return {"source": part.pop("place")} | part
    if isinstance(settings, ComputedEstimate):
        del part["function"]
        part["callable"] = callable_name(settings.function)
    return {"source": _SOURCES[type(settings)]} | part


def _changed(settings: EstimateSettings | ListSettings | MutatingSettings) -> dict[str, Any]:
    part: dict[str, Any] = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value == one.default:  # a field without one has MISSING there, which nothing equals
            continue
        if one.name.endswith("_ns"):
            value = written_duration(value)
        part[to_camel(one.name.removesuffix("_ns"))] = list(value) if isinstance(value, tuple) else value
    return part


AnyEstimate = Annotated[EstimateSettings, BuiltFrom(EstimateModel, EstimateModel.built, estimate_part)]
"""An estimate as a field of settings."""


@dataclass(frozen=True, slots=True)
class EstimationSettings(Settings):
    """What holds for the whole server.

    ``default`` estimates where neither a route nor a schema says anything. ``listing`` and ``mutating`` are the
    constants of the source ``kubernetes``. Without ``cap``, a request has as many seats as were estimated, however few
    its level has.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "list": "lists",
        "mutating": "writes",
        "learned": "learning",
        "estimate": "default",
    }

    default: AnyEstimate = field(default_factory=ConstantEstimate)
    learning: LearningSettings = field(default_factory=LearningSettings)
    listing: Annotated[ListSettings, BuiltFrom(_Lists, _Lists.built, _changed), Field(alias="lists")] = field(
        default_factory=ListSettings
    )
    mutating: Annotated[MutatingSettings, BuiltFrom(_Writes, _Writes.built, _changed), Field(alias="writes")] = field(
        default_factory=MutatingSettings
    )
    cap: Annotated[bool, Field(description="Whether a level's size bounds the seats of one request.")] = True


class _Route(Protocol):
    """A route of the server; no methods means all."""

    @property
    def path(self) -> str: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def estimate(self) -> EstimateSettings | None: ...


def derive_caps(hands: Mapping[str, int | None], limits: Mapping[str, LevelLimits]) -> dict[str, int]:
    """Return the most seats of one request, by level; 0 where nothing queues, for which ``hands`` has None."""
    return {name: 0 if hand is None else seat_cap(limits[name].nominal, hand) for name, hand in hands.items()}


def derive_estimation(
    settings: EstimationSettings,
    *,
    schemas: Mapping[str, EstimateSettings],
    routes: Iterable[_Route],
    caps: Mapping[str, int],
    sources: Sources,
) -> Estimation:
    """Return the estimation of a server: by route, by schema, otherwise by default."""
    return Estimation(
        settings.default.estimator(sources, settings),
        by_schema={name: one.estimator(sources, settings) for name, one in schemas.items()},
        routes=[
            RouteEstimator(
                route.path,
                route.methods,
                None if route.estimate is None else route.estimate.estimator(sources, settings),
            )
            for route in routes
        ],
        caps=caps if settings.cap else {},
    )
