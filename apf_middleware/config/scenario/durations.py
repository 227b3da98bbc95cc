"""Durations that are drawn: how long a request is served, how long a client thinks.

Each is a value with two questions: ``draw`` one with these dice, and what they are on average (``mean_ns``).
"""

import math
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "AnyDuration",
    "ConstantDuration",
    "ExponentialDuration",
    "LognormalDuration",
    "MixedDuration",
    "ParetoDuration",
    "UniformDuration",
]


@dataclass(frozen=True, slots=True)
class ConstantDuration:
    """Always the same."""

    value_ns: int

    def draw(self, _dice: Random) -> int:
        return self.value_ns

    @property
    def mean_ns(self) -> float:
        return self.value_ns


@dataclass(frozen=True, slots=True)
class UniformDuration:
    """Anything between two bounds is as likely."""

    least_ns: int
    most_ns: int

    def __post_init__(self) -> None:
        if self.most_ns < self.least_ns:
            raise InvalidValueError("most", self.most_ns, "it must not be less than least")

    def draw(self, dice: Random) -> int:
        return int(dice.uniform(self.least_ns, self.most_ns))

    @property
    def mean_ns(self) -> float:
        return (self.least_ns + self.most_ns) / 2


@dataclass(frozen=True, slots=True)
class ExponentialDuration:
    """Mostly short, and whatever has lasted long lasts no less from then on."""

    average_ns: int

    def draw(self, dice: Random) -> int:
        return int(dice.expovariate(1.0) * self.average_ns)

    @property
    def mean_ns(self) -> float:
        return self.average_ns


@dataclass(frozen=True, slots=True)
class LognormalDuration:
    """Half are shorter than ``median_ns``; two in three lie within a factor of e^sigma of it. Much of the web is so."""

    median_ns: int
    sigma: float

    def draw(self, dice: Random) -> int:
        return int(self.median_ns * math.exp(dice.gauss(0.0, self.sigma)))

    @property
    def mean_ns(self) -> float:
        return self.median_ns * math.exp(self.sigma**2 / 2)


@dataclass(frozen=True, slots=True)
class ParetoDuration:
    """A heavy tail: of those longer than x, 2^-shape are longer than 2x. Cut at ``most_ns``."""

    least_ns: int
    shape: float
    most_ns: int

    def __post_init__(self) -> None:
        if self.most_ns < self.least_ns:
            raise InvalidValueError("most", self.most_ns, "it must not be less than least")

    def draw(self, dice: Random) -> int:
        return min(self.most_ns, int(self.least_ns * dice.paretovariate(self.shape)))

    @property
    def mean_ns(self) -> float:
        # The integral of the chance of being longer: certain up to the least, then (least/x)^shape up to the most.
        least, most, shape = self.least_ns, self.most_ns, self.shape
        if shape == 1:
            return least * (1 + math.log(most / least))
        tail: float = (most / least) ** (1 - shape)
        return least * (1 + (tail - 1) / (1 - shape))


@dataclass(frozen=True, slots=True)
class MixedDuration:
    """Of several kinds, each by its weight."""

    parts: "tuple[tuple[float, AnyDuration], ...]"

    def draw(self, dice: Random) -> int:
        bounds = list(accumulate(weight for weight, _ in self.parts))
        return self.parts[bisect(bounds, dice.random() * bounds[-1], hi=len(bounds) - 1)][1].draw(dice)

    @property
    def mean_ns(self) -> float:
        return sum(weight * part.mean_ns for weight, part in self.parts) / sum(weight for weight, _ in self.parts)


AnyDuration = (
    ConstantDuration | ExponentialDuration | LognormalDuration | MixedDuration | ParetoDuration | UniformDuration
)
"""One that is drawn."""
