"""Counters of the requests of one schema at one level, which the runtime increments when the counted event happens.

A request that is admitted at once and is one seat wide increments one integer here, and one histogram when it ends.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from apf_middleware.counters import DURATION_BOUNDS_NS, LENGTH_BOUNDS, WATCH_BOUNDS, Histogram
from apf_middleware.fairqueuing import Reason, Ticket, TicketState

__all__ = ["EndingCounter", "SchemaCounters"]

_SEATED: Final = TicketState.SEATED
_LEAST: Final = 64


class EndingCounter:
    """Counts noted tickets that have given up their seats.

    A failure is known when the response begins or the app raises, but the request counts as running until its seats are
    free. So the ticket is noted when the failure is known. Whether it has given up its seats is checked later: when the
    count is read, or when many tickets have been noted.

    ``afterwards`` of these had given up their seats before they failed, such as streams. They have counted as completed
    since then, and a counter of completed requests must not fall.
    """

    __slots__ = ("_limit", "_noted", "_settled", "afterwards")

    def __init__(self) -> None:
        self._settled = 0
        self.afterwards: int = 0
        self._noted: list[Ticket] = []
        self._limit = _LEAST

    def note(self, ticket: Ticket) -> None:
        """Note ``ticket``, which is counted when it has given up its seats; call this once for each ticket."""
        if ticket.state is not _SEATED:  # counted at once: an upload may ask for seats again
            self.afterwards += 1
            self._settled += 1
            return
        self._noted.append(ticket)
        if len(self._noted) >= self._limit:
            self._settle()
            self._limit = _LEAST + 2 * len(self._noted)

    def _settle(self) -> None:
        running = [ticket for ticket in self._noted if ticket.state is _SEATED]
        self._settled += len(self._noted) - len(running)
        self._noted = running

    def plus(self, other: "EndingCounter") -> "EndingCounter":
        """Return the sum of both, as they are now."""
        both = EndingCounter()
        both._settled = self.count + other.count
        both.afterwards = self.afterwards + other.afterwards
        both._noted = [*self._noted, *other._noted]  # noqa: SLF001 - of the same class
        return both

    @property
    def count(self) -> int:
        """Return the number of noted tickets that have given up their seats."""
        self._settle()
        return self._settled

    @property
    def ended(self) -> int:
        """Return the number of those that failed before they gave up their seats."""
        return self.count - self.afterwards

    def __repr__(self) -> str:
        return f"<EndingCounter: {self.count}, and {len(self._noted)} to come>"


class SchemaCounters:
    """The counters of one schema at one level.

    ``at_once`` were seated on arrival, ``after_wait`` later; ``waiting`` wait now, and ``passed`` waited until the
    server was switched to let them run without seats. ``suspended`` have given their seats back and will ask for seats
    again. ``extra_seats`` are the seats in use beyond one a request. ``cut`` were estimated wider than their level
    allows. ``widths`` counts requests by seats, without those of one seat, which are the rest. Of the seated requests,
    ``failed`` answered with a status of 500 or more or raised, ``aborted`` were cancelled, and ``late`` weren't run,
    because they got their seats after their deadlines. Of the rejected ones, ``expired`` had no time left when they
    arrived, however busy the server was.
    """

    __slots__ = (
        "aborted",
        "after_wait",
        "at_once",
        "cut",
        "executions",
        "expired",
        "extra_seats",
        "extra_seats_waiting",
        "failed",
        "late",
        "lengths",
        "level",
        "no_accommodation",
        "passed",
        "rejected",
        "schema",
        "streams",
        "suspended",
        "unserved_waits",
        "waiting",
        "waits",
        "watches",
        "widths",
    )

    aborted: EndingCounter
    failed: EndingCounter

    after_wait: int
    at_once: int
    cut: int
    expired: int
    extra_seats: int
    extra_seats_waiting: int
    late: int
    no_accommodation: int
    passed: int
    suspended: int
    waiting: int

    def __init__(self, level: str, schema: str) -> None:
        self.level: str = level
        self.schema: str = schema
        self.at_once = self.after_wait = self.waiting = self.suspended = 0
        self.extra_seats = self.extra_seats_waiting = self.no_accommodation = self.cut = 0
        self.expired = self.late = self.passed = 0
        self.rejected: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self.waits: Histogram = Histogram(DURATION_BOUNDS_NS)  # of requests that were seated after waiting
        self.unserved_waits: Histogram = Histogram(DURATION_BOUNDS_NS)  # of rejected requests, also if they didn't wait
        self.executions: Histogram = Histogram(DURATION_BOUNDS_NS)
        self.streams: Histogram = Histogram(DURATION_BOUNDS_NS)  # until a long-lived response began
        self.lengths: Histogram = Histogram(LENGTH_BOUNDS)  # of the queue after joining it; not if seated at once
        self.watches: Histogram = Histogram(WATCH_BOUNDS)  # affected by each write, if estimates count them
        self.widths: dict[int, int] = {}
        self.failed, self.aborted = EndingCounter(), EndingCounter()

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
        return self.dispatched + self.waiting + self.passed + sum(self.rejected.values())

    def count_width(self, width: int) -> None:
        """Count a request of more or less than one seat."""
        self.widths[width] = self.widths.get(width, 0) + 1

    def estimated_widths(self) -> Mapping[int, int]:
        """Return the number of requests by width."""
        return {1: self.arrived - sum(self.widths.values()), **self.widths}

    def plus(self, other: "SchemaCounters") -> "SchemaCounters":
        """Return the sums of both, as they are now."""
        total = SchemaCounters(self.level, self.schema)
        for name in _NUMBERS:
            setattr(total, name, getattr(self, name) + getattr(other, name))
        for name in _HISTOGRAMS:
            setattr(total, name, getattr(self, name).plus(getattr(other, name)))
        total.failed, total.aborted = self.failed.plus(other.failed), self.aborted.plus(other.aborted)
        total.rejected = {reason: number + other.rejected[reason] for reason, number in self.rejected.items()}
        total.widths = dict(Counter(self.widths) + Counter(other.widths))
        return total

    def __repr__(self) -> str:
        return f"<SchemaCounters {self.schema} at {self.level}: {self.dispatched} dispatched, {self.waiting} waiting>"


_HISTOGRAMS = ("waits", "unserved_waits", "executions", "streams", "lengths", "watches")
_NUMBERS = (
    "after_wait",
    "at_once",
    "cut",
    "expired",
    "extra_seats",
    "extra_seats_waiting",
    "late",
    "no_accommodation",
    "passed",
    "suspended",
    "waiting",
)
