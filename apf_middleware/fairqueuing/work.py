"""The work of a request: seats, seat-seconds, and seats that stay taken after the reply; and the weight of flows.

Work is measured in seat-seconds, kept as integers of 1e-8 seat-seconds (one seat for ten nanoseconds). So sums are
exact, and replayed traces agree to the last digit. Halves are rounded away from zero, as in Kubernetes; Python's own
round() rounds them to even. Kubernetes keeps work in an unsigned 64-bit number, which wraps around; here it is a Python
integer, which may be negative.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = [
    "DEFAULT_GUESS_NS",
    "GRAIN_BITS",
    "NS_PER_UNIT",
    "UNITS_PER_SEAT_SECOND",
    "WEIGHT_BITS",
    "WEIGHT_ONE",
    "Work",
    "duration_per_seat",
    "format_seat_seconds",
    "round_half_away",
    "seat_seconds",
    "work_of",
]

UNITS_PER_SEAT_SECOND = 10**8
"""The units of work in a seat-second."""

DEFAULT_GUESS_NS = 3_000_000
"""The assumed duration of a request until the actual one is known: 3 ms, upstream's constant."""

GRAIN_BITS: Final = 10
"""Grains per seat-nanosecond, as a power of two.

With more of them, values would exceed 62 bits within minutes, which compiled code handles slowly.
"""

NS_PER_UNIT: Final = 10
"""A unit of work is one seat for this many nanoseconds."""

WEIGHT_BITS: Final = 16
WEIGHT_ONE: Final = 1 << WEIGHT_BITS
"""The weight of a flow that has none of its own; a flow of twice this weight gets twice the seats under contention."""

_EXACT_BELOW: Final = 2**53  # doubles are exact below this, so integers give the same results as upstream's doubles


def round_half_away(x: float) -> int:
    """Return the nearest integer; of two that are equally near, the one farther from zero."""
    if not math.isfinite(x):
        raise InvalidValueError("x", x, "it must be finite to be rounded")
    fraction, whole = math.modf(x)
    return int(whole) + int(2 * fraction)  # exact; adding 0.5 first would round 0.49999999999999994 up


def seat_seconds(seats: float, duration_ns: int) -> int:
    """Return the work of ``seats`` over a duration, in units of 1e-8 seat-seconds; negative for a negative duration."""
    if isinstance(seats, int):
        return work_of(seats, duration_ns)
    return round_half_away(float(seats) * float(duration_ns) / NS_PER_UNIT)


def work_of(seats: int, duration_ns: int) -> int:
    """Return the same as `seat_seconds`, which compiled code computes with doubles, for a whole number of seats."""
    units = seats * duration_ns
    if 0 <= units < _EXACT_BELOW:
        return (units + 5) // 10
    if -_EXACT_BELOW < units < 0:
        return -((5 - units) // 10)
    return round_half_away(float(seats) * float(duration_ns) / NS_PER_UNIT)


def duration_per_seat(work: int, seats: float) -> int:
    """Return the nanoseconds that ``work`` takes on this number of ``seats``, rounded down."""
    if not seats > 0:
        raise InvalidValueError("seats", seats, "it must be more than 0")
    return int(float(work) / seats * NS_PER_UNIT)


def format_seat_seconds(work: int) -> str:
    """Return work as text, such as ``12.30000000ss``."""
    whole, fraction = divmod(abs(require_integer("work", work)), UNITS_PER_SEAT_SECOND)
    return f"{'-' if work < 0 else ''}{whole}.{fraction:08d}ss"


@dataclass(frozen=True, slots=True)
class Work(Value):
    """A request's estimate: ``seats`` while it runs, then ``final_seats`` for ``linger_ns`` after the reply.

    The larger of the two is its width: the seats that it occupies from dispatch until the end of its linger.
    """

    seats: int = 1
    final_seats: int = 0
    linger_ns: int = 0
    width: int = field(init=False, repr=False, compare=False)
    final_work: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_integer("seats", self.seats, least=1)
        require_integer("final_seats", self.final_seats, least=0)
        require_integer("linger_ns", self.linger_ns, least=0)
        object.__setattr__(self, "width", max(self.seats, self.final_seats))
        object.__setattr__(self, "final_work", work_of(self.final_seats, self.linger_ns))

    def total(self, guess_ns: int) -> int:
        """Return the expected work of this request if it runs for ``guess_ns``."""
        return work_of(self.seats, guess_ns) + self.final_work

    def within(self, concurrency: int) -> "Work":
        """Return this work with at most ``concurrency`` final seats; they linger for longer, to do the same work."""
        if self.final_seats <= concurrency:
            return self
        return Work(self.seats, concurrency, duration_per_seat(self.final_work, concurrency))
