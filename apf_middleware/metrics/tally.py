"""The counters that a server keeps while it works: plain integers, raised where the fact happens.

No label is looked up, nothing is locked, and no object is made when a request passes. What can be derived from other
numbers isn't counted: a request that is admitted at once, one seat wide, raises one integer here, and a histogram when
it ends. Prometheus reads everything at scrape time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import add

from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics.endings import Endings

__all__ = ["DURATION_BOUNDS_NS", "LENGTH_BOUNDS", "WATCH_BOUNDS", "Histogram", "Occupancy", "Tally"]

_MS = 10**6

DURATION_BOUNDS_NS = tuple(ms * _MS for ms in (0, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000))
"""Upstream's buckets for durations, in nanoseconds."""

LENGTH_BOUNDS = (0, 10, 25, 50, 100, 250, 500, 1000)
"""Upstream's buckets for a queue's length."""

WATCH_BOUNDS = (0, 1, 10, 100, 1000, 10_000)
"""Upstream's buckets for the watches that a write concerns."""

_MOST_COMBINED = 512


class Histogram:
    """How many observations fell into each bucket; the last one is for what exceeds all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds: Sequence[int] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: int = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def observe(self, value: int) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def plus(self, other: "Histogram") -> "Histogram":
        """The sum of both, as they are now."""
        both = Histogram(self.bounds)
        both.counts = list(map(add, self.counts, other.counts))
        both.total = self.total + other.total
        return both

    def __repr__(self) -> str:
        return f"<Histogram: {self.count} observations>"


class Occupancy:
    """For how long numbers that change together, in steps, had each of their values, since ``now``.

    Their combinations are counted, which costs one look-up a step, and taken apart when somebody looks, or when there
    are too many of them.
    """

    __slots__ = ("_combined", "_since", "_times", "values")

    def __init__(self, now: int, values: tuple[int, ...]) -> None:
        self._since = now
        self._combined: dict[tuple[int, ...], int] = {}
        self._times: tuple[dict[int, int], ...] = tuple({} for _ in values)
        self.values: tuple[int, ...] = values

    def set(self, now: int, values: tuple[int, ...]) -> None:
        """From ``now`` on the numbers are these ``values``."""
        held, combined = self.values, self._combined
        combined[held] = combined.get(held, 0) + now - self._since
        self._since = now
        self.values = values
        if len(combined) >= _MOST_COMBINED:
            self._take_apart()

    def move(self, values: tuple[int, ...], others: tuple[int, ...], duration_ns: int) -> None:
        """``duration_ns`` that were counted for ``values`` belong to ``others``."""
        combined = self._combined
        combined[values] = combined.get(values, 0) - duration_ns
        combined[others] = combined.get(others, 0) + duration_ns

    def times(self, now: int) -> tuple[Mapping[int, int], ...]:
        """Of each number, the nanoseconds by value up to ``now``."""
        self.set(now, self.values)
        self._take_apart()
        return tuple(map(dict, self._times))

    def _take_apart(self) -> None:
        for combination, elapsed in self._combined.items():
            for times, value in zip(self._times, combination, strict=True):
                times[value] = times.get(value, 0) + elapsed
        self._combined.clear()

    def __repr__(self) -> str:
        return f"<Occupancy: {self.values}>"


class Tally:
    """What became of the requests of one schema at one level.

    ``at_once`` were seated on arrival, ``after_wait`` later; ``waiting`` wait now. ``extra_seats`` are the seats in use
    beyond one a request. ``cut`` were estimated wider than their level lets one be. ``widths`` counts requests by
    seats, but those of one seat, which are the rest. Of those that were seated, ``failed`` answered with a status of
    500 or more or raised, and ``aborted`` were cancelled.
    """

    __slots__ = (
        "aborted",
        "after_wait",
        "at_once",
        "cut",
        "executions",
        "extra_seats",
        "extra_seats_waiting",
        "failed",
        "lengths",
        "level",
        "no_accommodation",
        "rejected",
        "schema",
        "streams",
        "unserved_waits",
        "waiting",
        "waits",
        "watches",
        "widths",
    )

    aborted: Endings
    failed: Endings

    after_wait: int
    at_once: int
    cut: int
    extra_seats: int
    extra_seats_waiting: int
    no_accommodation: int
    waiting: int

    def __init__(self, level: str, schema: str) -> None:
        self.level: str = level
        self.schema: str = schema
        self.at_once = self.after_wait = self.waiting = 0
        self.extra_seats = self.extra_seats_waiting = self.no_accommodation = self.cut = 0
        self.rejected: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self.waits: Histogram = Histogram(DURATION_BOUNDS_NS)  # of those that were seated after waiting
        self.unserved_waits: Histogram = Histogram(
            DURATION_BOUNDS_NS
        )  # of those that were rejected, at once or after waiting
        self.executions: Histogram = Histogram(DURATION_BOUNDS_NS)
        self.streams: Histogram = Histogram(
            DURATION_BOUNDS_NS
        )  # executions that ended when a long-lived response began
        self.lengths: Histogram = Histogram(
            LENGTH_BOUNDS
        )  # of the queue, after joining it; who is seated at once has joined one
        self.watches: Histogram = Histogram(WATCH_BOUNDS)  # that each write concerned, where estimates ask for that
        self.widths: dict[int, int] = {}
        self.failed, self.aborted = Endings(), Endings()

    @property
    def dispatched(self) -> int:
        return self.at_once + self.after_wait

    @property
    def executing(self) -> int:
        return self.dispatched - self.executions.count - self.streams.count

    @property
    def seats_executing(self) -> int:
        return self.executing + self.extra_seats

    @property
    def seats_waiting(self) -> int:
        return self.waiting + self.extra_seats_waiting

    @property
    def arrived(self) -> int:
        return self.dispatched + self.waiting + sum(self.rejected.values())

    def count_width(self, width: int) -> None:
        """A request of more or less than one seat has come."""
        self.widths[width] = self.widths.get(width, 0) + 1

    def estimated_widths(self) -> Mapping[int, int]:
        """How many requests had which width."""
        return {1: self.arrived - sum(self.widths.values()), **self.widths}

    def plus(self, other: "Tally") -> "Tally":
        """The sums of both, as they are now."""
        total = Tally(self.level, self.schema)
        for name in _NUMBERS:
            setattr(total, name, getattr(self, name) + getattr(other, name))
        for name in _HISTOGRAMS:
            setattr(total, name, getattr(self, name).plus(getattr(other, name)))
        total.failed, total.aborted = self.failed.plus(other.failed), self.aborted.plus(other.aborted)
        total.rejected = {reason: number + other.rejected[reason] for reason, number in self.rejected.items()}
        total.widths = dict(Counter(self.widths) + Counter(other.widths))
        return total

    def __repr__(self) -> str:
        return f"<Tally {self.schema} at {self.level}: {self.dispatched} dispatched, {self.waiting} waiting>"


_HISTOGRAMS = ("waits", "unserved_waits", "executions", "streams", "lengths", "watches")
_NUMBERS = (
    "after_wait",
    "at_once",
    "cut",
    "extra_seats",
    "extra_seats_waiting",
    "no_accommodation",
    "waiting",
)
