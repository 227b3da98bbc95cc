"""Settings of the seats that requests take: ``estimate`` of a route or a schema, ``estimation`` of a Server document.

Each kind of estimate creates its estimator. Data that several estimators share on a live server (numbers of objects and
watches, learned costs) is passed as `Sources`. `derive_estimation` combines the estimates of routes, schemas and the
server.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal, Protocol

from pydantic import Field

from apf_middleware.classification import Classification
from apf_middleware.config.authentication import network_rules
from apf_middleware.config.model import BuiltFrom, TaggedUnion
from apf_middleware.config.settings import Rules, Settings, Violation
from apf_middleware.config.values import Function, Nanoseconds, NonEmpty, TextSet, TrustedGroups, is_token, network
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
)
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from apf_middleware.frozen import frozen

__all__ = [
    "AnyEstimate",
    "ComputedEstimate",
    "ConstantEstimate",
    "DeclaredEstimate",
    "EstimateSettings",
    "EstimationSettings",
    "KubernetesEstimate",
    "LearnedEstimate",
    "LearningSettings",
    "Sources",
    "derive_estimation",
]

_LONGEST_LINGER_NS: Final = 60 * 10**9

_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Positive = Annotated[int, Field(ge=1)]
_Seats = Annotated[int, Field(ge=1, json_schema_extra={"maximum": MOST_SEATS})]

_TAG: Final = frozenset({"source"})
_RENAMED: Final[Mapping[str, str]] = {
    "type": "source",
    "width": "seats",
    "header": "Write source: header and name: the header's",
    "parameter": "name",
    "function": "callable",
    "initialSeats": "seats",
    "additionalLatency": "linger",
    "unitsPerSeat": "perSeat",
    "maxSeats": "mostSeats",
    "trusted": "Write users, groups or networks",
    "secondsPerSeat": "durationPerSeat",
}


@frozen
class LearningSettings(Settings):
    """The table of the source ``learned``."""

    renamed: ClassVar[Mapping[str, str]] = {"routes": "mostRoutes", "observations": "span"}

    most_routes: Annotated[_Count, Field(description="The limit of routes in the table.")] = 1024
    span: Annotated[_Count, Field(description="The number of recent observations that count in an average.")] = 50
    enough: Annotated[_Count, Field(description="The number of observations from which on an average is used.")] = 3

    def costs(self) -> LearnedCosts:
        """Return an empty table."""
        return LearnedCosts(self.most_routes, span=self.span, enough=self.enough)

    def apply_to(self, costs: LearnedCosts) -> None:
        """Put these settings in force for a table that has learned under others."""
        costs.adopt(self.most_routes, span=self.span, enough=self.enough)


@frozen
class Sources:
    """The live data that estimators read, which is kept when the configuration changes.

    ``on_watchers`` is called for each write, with the number of watches that it concerns.
    """

    costs: LearnedCosts = field(default_factory=LearnedCosts)
    inventory: Inventory = lambda _: None
    watchers: Watchers = field(default_factory=lambda: WatchTracker().interested)
    on_watchers: Callable[[Classification, int], None] = lambda *_: None


def _seat_rules(settings: Settings, *names: str) -> Iterator[Violation]:
    for name in names:
        seats = getattr(settings, name)
        if seats > MOST_SEATS:
            yield Violation((name,), seats, f"it must be at most {MOST_SEATS}")


@frozen
class ConstantEstimate(Settings):
    """The same work for every request."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    source: Literal["constant"] = field(default="constant", kw_only=True)
    seats: _Seats = 1
    final_seats: Annotated[int, Field(ge=0, json_schema_extra={"maximum": MOST_SEATS})] = 0
    linger_ns: Nanoseconds = 0

    def rules(self) -> Iterator[Violation]:
        yield from _seat_rules(self, "seats", "final_seats")
        if self.linger_ns > _LONGEST_LINGER_NS:
            yield Violation(("linger_ns",), self.linger_ns, "it must be at most a minute")
        if (self.final_seats == 0) != (self.linger_ns == 0):
            missing = "final_seats" if self.final_seats == 0 else "linger_ns"
            yield Violation((missing,), 0, "finalSeats and linger only mean something together", "Give both or neither")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Constant(Work(self.seats, self.final_seats, self.linger_ns))


@frozen
class DeclaredEstimate(Settings):
    """A number that a trusted caller sends in a header, query parameter or body; ``seats`` for all other requests.

    The request gets one seat for each ``per_seat`` of the number. Members of ``groups``, ``users`` and clients in
    ``networks`` are trusted.
    """

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _TAG

    source: Literal["header", "query", "body"]
    name: NonEmpty
    users: TextSet = ()
    groups: TrustedGroups = ()
    networks: TextSet = ()
    per_seat: _Positive = 1
    most_seats: _Seats = 10
    seats: _Seats = 1

    def __post_init__(self) -> None:
        if self.source == "header":
            object.__setattr__(self, "name", self.name.lower())
        Settings.__post_init__(self)

    def rule_sets(self) -> Iterable[Rules]:
        return (self._name_rules, self._trust_rules, lambda: _seat_rules(self, "seats", "most_seats"))

    def _name_rules(self) -> Iterator[Violation]:
        if self.source == "header" and not is_token(self.name):
            yield Violation(("name",), self.name, "it must be a header's name")

    def _trust_rules(self) -> Iterator[Violation]:
        for key, values in (("users", self.users), ("groups", self.groups)):
            if "" in values:
                yield Violation((key,), values, "a name must not be empty")
        yield from network_rules(self.networks)
        if not self.networks:
            try:
                Trust(frozenset(self.users), frozenset(self.groups))
            except InvalidValueError as error:
                yield Violation((error.name,), error.value, error.rule, error.hint)

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        networks = tuple(network("networks", one) for one in self.networks)
        trust = Trust(frozenset(self.users), frozenset(self.groups), networks)
        otherwise = Work(self.seats)
        return Declared(
            self.source, self.name, trust, per_seat=self.per_seat, most_seats=self.most_seats, otherwise=otherwise
        )


@frozen
class ComputedEstimate(Settings):
    """The result of the app's own function of digest and classification; ``seats`` if it returns None."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _TAG

    source: Literal["callable"] = field(default="callable", kw_only=True)
    function: Annotated[Function, Field(alias="callable")]
    most_seats: _Seats = 10
    seats: _Seats = 1

    def rules(self) -> Iterator[Violation]:
        yield from _seat_rules(self, "seats", "most_seats")
        function: object = self.function
        if not callable(function):
            yield Violation(("function",), function, "it must be callable")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Computed(self.function, most_seats=self.most_seats, otherwise=Work(self.seats))


@frozen
class KubernetesEstimate(Settings):
    """Estimates by verb, as Kubernetes makes them."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _TAG

    source: Literal["kubernetes"] = field(default="kubernetes", kw_only=True)

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:
        return KubernetesEstimator(
            sources.inventory, sources.watchers, settings.listing, settings.mutating, sources.on_watchers
        )


@frozen
class LearnedEstimate(Settings):
    """The costs of earlier requests of the same route; ``seats`` until these are known."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _TAG

    source: Literal["learned"] = field(default="learned", kw_only=True)
    duration_per_seat_ns: Nanoseconds | None = None
    most_seats: _Seats = 10
    seats: _Seats = 1

    def rules(self) -> Iterator[Violation]:
        yield from _seat_rules(self, "seats", "most_seats")
        if self.duration_per_seat_ns == 0:
            yield Violation(("duration_per_seat_ns",), 0, "it must be more than zero")

    def estimator(self, sources: Sources, settings: "EstimationSettings") -> AnyEstimator:  # noqa: ARG002
        return Learned(
            sources.costs,
            duration_per_seat_ns=self.duration_per_seat_ns,
            most_seats=self.most_seats,
            otherwise=Work(self.seats),
        )


EstimateSettings = ConstantEstimate | DeclaredEstimate | ComputedEstimate | KubernetesEstimate | LearnedEstimate
"""The settings of any estimate."""

AnyEstimate = Annotated[
    EstimateSettings,
    TaggedUnion(
        "EstimateModel",
        "source",
        *(ConstantEstimate, DeclaredEstimate, ComputedEstimate, KubernetesEstimate, LearnedEstimate),
        default="constant",
    ),
]
"""An estimate as a field of settings."""


@frozen
class _Lists(Settings):
    by_size: bool = True
    watch_list: bool = True
    consistent_reads: bool = False
    most_seats: _Positive | None = None
    objects_per_seat: _Positive = 100
    bytes_per_seat: _Positive = 100_000
    most_cache_bytes: _Positive = 1_000_000
    largest_object: _Positive = 1_500_000


@frozen
class _Writes(Settings):
    enabled: bool = True
    watches_per_seat: Annotated[float, Field(ge=1)] = 10.0
    event_ns: Nanoseconds = 5_000_000
    most_seats: _Positive = 10


@frozen
class EstimationSettings(Settings):
    """The estimates of the whole server.

    ``default`` is the estimate of requests without one by their route or schema. ``listing`` and ``mutating`` are
    constants of the source ``kubernetes``. Without ``cap``, a request takes the estimated seats even if its level has
    fewer.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "list": "lists",
        "mutating": "writes",
        "learned": "learning",
        "estimate": "default",
    }

    default: AnyEstimate = field(default_factory=ConstantEstimate)
    learning: LearningSettings = field(default_factory=LearningSettings)
    listing: Annotated[ListSettings, BuiltFrom(_Lists, ListSettings), Field(alias="lists")] = field(
        default_factory=ListSettings
    )
    mutating: Annotated[MutatingSettings, BuiltFrom(_Writes, MutatingSettings), Field(alias="writes")] = field(
        default_factory=MutatingSettings
    )
    cap: Annotated[bool, Field(description="Whether a level's size limits the seats of one request.")] = True


class _Route(Protocol):
    """A route of the server; no methods means all."""

    @property
    def path(self) -> str: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def estimate(self) -> EstimateSettings | None: ...


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
