"""What a configuration says about how many seats requests take, as frozen objects that keep their own rules.

Each kind of estimate knows how to become an estimator; what several of them share on a live server (objects, watches,
what was learned) comes in as `Sources`. `derive_estimation` puts together what routes, schemas and the server say.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from apf_middleware.classification import Classification
from apf_middleware.config.authentication import network
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
    "ComputedEstimate",
    "ConstantEstimate",
    "DeclaredEstimate",
    "EstimateSettings",
    "EstimationSettings",
    "KubernetesEstimate",
    "LearnedEstimate",
    "LearningSettings",
    "Sources",
    "derive_caps",
    "derive_estimation",
]

_LONGEST_LINGER_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """The table of what was learned: its size, how many observations an average remembers, after how many it counts."""

    most_routes: int = 1024
    span: int = 50
    enough: int = 3

    def __post_init__(self) -> None:
        require_integer("most_routes", self.most_routes, least=1, most=1_000_000)
        require_integer("span", self.span, least=1, most=1_000_000)
        require_integer("enough", self.enough, least=1, most=1_000_000)

    def costs(self) -> LearnedCosts:
        """The table, empty."""
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


@dataclass(frozen=True, slots=True)
class EstimationSettings:
    """What holds for the whole server.

    ``default`` estimates where neither a route nor a schema says anything. ``cap`` False lets a request have as many
    seats as was estimated, however few its level has.
    """

    default: EstimateSettings = field(default_factory=ConstantEstimate)
    cap: bool = True
    learning: LearningSettings = field(default_factory=LearningSettings)
    listing: ListSettings = field(default_factory=ListSettings)
    mutating: MutatingSettings = field(default_factory=MutatingSettings)


class _Route(Protocol):
    """A route of the server; no methods means all."""

    @property
    def path(self) -> str: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def estimate(self) -> EstimateSettings | None: ...


def derive_caps(hands: Mapping[str, int | None], limits: Mapping[str, LevelLimits]) -> dict[str, int]:
    """The most seats of one request, by level: none where nothing queues, as ``hands`` tells by None."""
    return {name: 0 if hand is None else seat_cap(limits[name].nominal, hand) for name, hand in hands.items()}


def derive_estimation(
    settings: EstimationSettings,
    *,
    schemas: Mapping[str, EstimateSettings],
    routes: Iterable[_Route],
    caps: Mapping[str, int],
    sources: Sources,
) -> Estimation:
    """The estimation of a server: by route, by schema, otherwise by default."""
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
