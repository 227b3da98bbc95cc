"""The demand of a level: the seats that it uses and waits for, averaged over time.

Demand is the seats in use plus the seats that wait. It is a step function of time, so its mean and deviation over a
period follow from two integrals, of x·dt and of x²·dt. With whole seats and whole nanoseconds both are exact integers:
no error builds up however long a period lasts, and a variance can't come out below zero.

A period begins with the value with which the previous one ended. This value and each value that is set count for
minimum and maximum, even if it was held for no time at all: a momentary peak is a demand, too.
"""

from dataclasses import dataclass
from math import isnan, nan, sqrt

from apf_middleware.compilation import quotient
from apf_middleware.copying import Value
from apf_middleware.exceptions import ClockError, InvalidValueError, require_integer

__all__ = ["Demand", "DemandStatistics"]


@dataclass(frozen=True, slots=True)
class DemandStatistics(Value):
    """A period's demand, in seats.

    ``deviation`` is the standard deviation of the whole period, not an estimate from a sample. If the duration is 0,
    average and deviation are NaN.
    """

    duration_ns: int
    average: float
    deviation: float
    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        require_integer("duration_ns", self.duration_ns, least=0)
        require_integer("minimum", self.minimum, least=0)
        require_integer("maximum", self.maximum, least=self.minimum)
        self._check_moment("average", self.average, self.minimum, self.maximum)
        self._check_moment("deviation", self.deviation, 0, self.maximum - self.minimum)

    def _check_moment(self, name: str, value: float, least: int, most: int) -> None:
        if not isinstance(value, float | int):
            raise InvalidValueError(name, value, "it must be a number")
        if not self.duration_ns and not isnan(value):
            raise InvalidValueError(name, value, "it must be NaN when the duration is 0")
        if self.duration_ns and not least <= value <= most:
            raise InvalidValueError(name, value, f"it must be from {least} to {most}")


class Demand:
    """One level's demand from ``now`` on, beginning with ``value`` seats.

    Instead of a method ``snapshot`` there is `results`, which needs the time up to which the period is summed up.
    """

    __slots__ = ("_area", "_maximum", "_minimum", "_now", "_since", "_squares", "_value")

    def __init__(self, now: int, value: int = 0) -> None:
        self._value = require_integer("value", value, least=0)
        self._begin(require_integer("now", now))

    def _begin(self, now: int) -> None:
        self._since = self._now = now
        self._area = self._squares = 0
        self._minimum = self._maximum = self._value

    def set(self, now: int, value: int) -> None:
        """Set the demand from ``now`` on to ``value`` seats.

        This is called at each change of a level's state, so only the clock is checked. The caller promises that
        ``value`` is an integer and not negative, which `check` verifies.
        """
        elapsed = now - self._now
        if elapsed:
            if elapsed < 0:
                raise ClockError.between(self._now, now)
            held = self._value
            if held:
                area = held * elapsed
                self._area += area
                self._squares += area * held
            self._now = now
        self._value = value
        if value > self._maximum:
            self._maximum = value
        elif value < self._minimum:
            self._minimum = value

    def book(self, now: int, held_ns: int) -> None:
        """Add the time since the last change, in which the demand was 1 for ``held_ns`` in all, and otherwise 0."""
        self.set(now, 0)
        self._area += held_ns
        self._squares += held_ns
        if not self._maximum:
            self._maximum = 1

    def results(self, now: int) -> DemandStatistics:
        """Return the statistics of the period so far."""
        elapsed = require_integer("now", now) - self._now
        if elapsed < 0:
            raise ClockError.between(self._now, now)
        duration = now - self._since
        if not duration:
            return DemandStatistics(0, nan, nan, self._minimum, self._maximum)
        area = self._area + self._value * elapsed
        squares = self._squares + self._value**2 * elapsed
        variance = quotient(squares * duration - area * area, duration**2)
        average = quotient(area, duration)
        return DemandStatistics(duration, average, sqrt(variance), self._minimum, self._maximum)

    def reset(self, now: int) -> DemandStatistics:
        """End the period, begin the next one, and return the statistics of the one that ended."""
        ended = self.results(now)
        self._begin(now)
        return ended

    def check(self) -> None:
        """Raise AssertionError if the sums contradict each other."""
        duration = self._now - self._since
        least, most = self._minimum, self._maximum
        rules = {
            "a period doesn't end before it begins": duration >= 0,
            "minimum and maximum enclose the value": 0 <= least <= self._value <= most,
            "minimum and maximum enclose the average": least * duration <= self._area <= most * duration,
            "a variance isn't negative": self._squares * duration >= self._area**2,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise AssertionError(f"{self!r}, but {', and '.join(broken)}")

    def __repr__(self) -> str:
        return (
            f"<Demand for {self._value} seats at {self._now} ns, "
            f"between {self._minimum} and {self._maximum} since {self._since} ns>"
        )
