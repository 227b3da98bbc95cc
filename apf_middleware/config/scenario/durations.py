"""Random durations of a scenario: service times, pauses of clients.

Each class is a distribution, with `draw` for a random value and ``mean_ns`` for the average.
"""

import math
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import accumulate
from random import Random
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from apf_middleware.config.model import TaggedUnion
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Nanoseconds, rule_error
from apf_middleware.frozen import frozen

__all__ = [
    "AnyDuration",
    "ConstantDuration",
    "ExponentialDuration",
    "LognormalDuration",
    "MixedDuration",
    "ParetoDuration",
    "UniformDuration",
    "Weight",
    "WeightedDuration",
]

Weight = Annotated[float, Field(gt=0, le=1e9)]
"""The relative frequency of one of several alternatives. It is bounded, so that the sum of all is finite."""

_RENAMED: Final[Mapping[str, str]] = {
    "average": "mean",
    "min": "least",
    "max": "most",
    "alpha": "shape",
    "distribution": "type",
}


@frozen
class ConstantDuration(Settings):
    """The same duration each time."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["constant"] = field(default="constant", kw_only=True)
    value_ns: Nanoseconds

    def draw(self, _dice: Random) -> int:
        return self.value_ns

    @property
    def mean_ns(self) -> float:
        return self.value_ns


@frozen
class UniformDuration(Settings):
    """A uniform distribution between two bounds."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["uniform"] = field(default="uniform", kw_only=True)
    least_ns: Nanoseconds
    most_ns: Nanoseconds

    def rules(self) -> Iterator[Violation]:
        yield from _order_rules(self.least_ns, self.most_ns)

    def draw(self, dice: Random) -> int:
        return int(dice.uniform(self.least_ns, self.most_ns))

    @property
    def mean_ns(self) -> float:
        return (self.least_ns + self.most_ns) / 2


@frozen
class ExponentialDuration(Settings):
    """An exponential distribution: mostly short, and the remaining time doesn't depend on the time already passed."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["exponential"] = field(default="exponential", kw_only=True)
    average_ns: Annotated[Nanoseconds, Field(alias="mean")]

    def draw(self, dice: Random) -> int:
        return int(dice.expovariate(1.0) * self.average_ns)

    @property
    def mean_ns(self) -> float:
        return self.average_ns


@frozen
class LognormalDuration(Settings):
    """A log-normal distribution, which describes much web traffic well.

    Half of the durations are shorter than ``median_ns``; two in three lie within a factor of e^sigma of it.
    """

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["lognormal"] = field(default="lognormal", kw_only=True)
    median_ns: Nanoseconds
    sigma: Annotated[float, Field(gt=0, le=5)]

    def draw(self, dice: Random) -> int:
        return int(self.median_ns * math.exp(dice.gauss(0.0, self.sigma)))

    @property
    def mean_ns(self) -> float:
        return self.median_ns * math.exp(self.sigma**2 / 2)


@frozen
class ParetoDuration(Settings):
    """A heavy tail: of the durations longer than x, the part 2^-shape is longer than 2x. None exceeds ``most_ns``."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["pareto"] = field(default="pareto", kw_only=True)
    least_ns: Nanoseconds
    shape: Annotated[float, Field(ge=0.1, le=100)]  # with less, a double is too small for what is drawn
    most_ns: Nanoseconds

    def rules(self) -> Iterator[Violation]:
        if self.least_ns == 0:
            yield Violation(("least_ns",), 0, "it must be more than zero")
        else:
            yield from _order_rules(self.least_ns, self.most_ns)

    def draw(self, dice: Random) -> int:
        return min(self.most_ns, int(self.least_ns * dice.paretovariate(self.shape)))

    @property
    def mean_ns(self) -> float:
        # The integral of P(duration > x), which is 1 up to the least, then (least/x)^shape up to the most.
        least, most, shape = self.least_ns, self.most_ns, self.shape
        if shape == 1:
            return least * (1 + math.log(most / least))
        tail: float = (most / least) ** (1 - shape)
        return least * (1 + (tail - 1) / (1 - shape))


@frozen
class WeightedDuration(Settings):
    """A component of a mixture."""

    duration: "AnyDuration"
    weight: Weight = 1.0


@frozen
class MixedDuration(Settings):
    """A mixture of several distributions."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    type: Literal["mixture"] = field(default="mixture", kw_only=True)
    of: Annotated[tuple[WeightedDuration, ...], Field(strict=False, min_length=1)]

    def draw(self, dice: Random) -> int:
        bounds = list(accumulate(one.weight for one in self.of))
        return self.of[bisect(bounds, dice.random() * bounds[-1], hi=len(bounds) - 1)].duration.draw(dice)

    @property
    def mean_ns(self) -> float:
        return sum(one.weight * one.duration.mean_ns for one in self.of) / sum(one.weight for one in self.of)


def _order_rules(least_ns: int, most_ns: int) -> Iterator[Violation]:
    if most_ns < least_ns:
        yield Violation(("most_ns",), most_ns, "it must not be less than least")


def _expanded(given: object) -> object:
    """Expand the short form: a text is a constant duration."""
    if isinstance(given, int | float):
        raise rule_error("it must be a duration, or a mapping with a type", "Write it like 20ms")
    return {"type": "constant", "value": given} if isinstance(given, str) else given


AnyDuration = Annotated[
    ConstantDuration | ExponentialDuration | LognormalDuration | MixedDuration | ParetoDuration | UniformDuration,
    TaggedUnion(
        "DurationModel",
        "type",
        *(ConstantDuration, UniformDuration, ExponentialDuration, LognormalDuration, ParetoDuration, MixedDuration),
    ),
    BeforeValidator(_expanded),
]
"""A duration of any distribution; in YAML a text means a constant one."""
