"""How many seats requests take, in documents of ``apf/v1``: of a route, of a schema, and of the whole server.

``estimate`` is the same wherever it stands. Its ``source`` says who tells. Which keys go with which source is told
here; the rules of what they say are those of the frozen objects.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from apf_middleware.config.estimation import (
    ComputedEstimate,
    ConstantEstimate,
    DeclaredEstimate,
    EstimateSettings,
    EstimationSettings,
    KubernetesEstimate,
    LearnedEstimate,
    LearningSettings,
)
from apf_middleware.config.model import BuiltFrom, CamelModel
from apf_middleware.config.problems import Absent, Path
from apf_middleware.config.settings import Violation
from apf_middleware.config.values import (
    Duration,
    NonEmpty,
    StringSet,
    callable_name,
    duration_ns,
    load_callable,
    written_duration,
)
from apf_middleware.estimation import ListSettings, MutatingSettings
from apf_middleware.exceptions import InvalidValueError

__all__ = ["AnyEstimate", "AnyEstimation", "EstimateModel", "EstimationModel", "estimate_part", "estimation_part"]

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


class EstimateModel(CamelModel):
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
        """The domain's object; a header's name is in lower case there."""
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


class _Learning(CamelModel):
    renamed: ClassVar[dict[str, str]] = {"routes": "mostRoutes", "observations": "span"}

    most_routes: int = Field(default=1024, description="How many routes are remembered.")
    span: int = Field(default=50, description="How many observations an average remembers.")
    enough: int = Field(default=3, description="After how many observations it is believed.")

    def rules(self) -> Iterator[Violation]:
        yield from _rules_of(self)

    def built(self) -> LearningSettings:
        return LearningSettings(self.most_routes, self.span, self.enough)


class _Lists(CamelModel):
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


class _Writes(CamelModel):
    enabled: bool = True
    watches_per_seat: float = Field(default=10.0, description="How many watches one seat serves after a write.")
    event: Duration = "5ms"
    most_seats: int = 10

    def rules(self) -> Iterator[Violation]:
        yield from _rules_of(self)

    def built(self) -> MutatingSettings:
        return MutatingSettings(self.enabled, self.watches_per_seat, duration_ns(self.event), self.most_seats)


class EstimationModel(CamelModel):
    """The ``estimation`` of a Server document; ``lists`` and ``writes`` are the constants of the source kubernetes."""

    renamed: ClassVar[dict[str, str]] = {
        "list": "lists",
        "mutating": "writes",
        "learned": "learning",
        "estimate": "default",
    }

    default: EstimateModel = Field(default_factory=EstimateModel)
    cap: bool = Field(default=True, description="Whether a level's size bounds the seats of one request.")
    learning: _Learning = Field(default_factory=_Learning)
    lists: _Lists = Field(default_factory=_Lists)
    writes: _Writes = Field(default_factory=_Writes)

    def built(self) -> EstimationSettings:
        return EstimationSettings(
            self.default.built(), self.cap, self.learning.built(), self.lists.built(), self.writes.built()
        )


def _rules_of(model: EstimateModel | _Learning | _Lists | _Writes) -> Iterator[Violation]:
    """The rules of the object that it becomes, by the keys that stand here."""
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


def estimation_part(settings: EstimationSettings) -> dict[str, Any]:
    """Return the ``estimation`` of a server as documents have it."""
    parts: dict[str, Any] = {
        "default": estimate_part(settings.default),
        "learning": _changed(settings.learning),
        "lists": _changed(settings.listing),
        "writes": _changed(settings.mutating),
    }
    written = {key: part for key, part in parts.items() if part}
    return written if settings.cap else written | {"cap": False}


def _changed(settings: EstimateSettings | LearningSettings | ListSettings | MutatingSettings) -> dict[str, Any]:
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

AnyEstimation = Annotated[EstimationSettings, BuiltFrom(EstimationModel, EstimationModel.built, estimation_part)]
"""What holds for the whole server, as a field of its settings."""
