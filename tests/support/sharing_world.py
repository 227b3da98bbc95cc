"""Levels that share the seats of a server, in virtual time."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from heapq import heappop, heappush

from apf_middleware.fairqueuing import (
    Sharing,
    Ticket,
    Work,
    flow_hash,
)

__all__ = ["MS", "ONE", "SECOND", "SERVICES", "Service", "SharingWorld", "TimedTicket"]

MS = 10**6


SECOND = 1000 * MS


Service = Callable[[random.Random], int]


ONE = Work()


SERVICES: dict[str, Service] = {
    "constant": lambda _rng: 20 * MS,
    "exponential": lambda rng: 1 + int(rng.expovariate(1 / (20 * MS))),
    "mostly short, seldom long": lambda rng: 200 * MS if rng.random() < 0.1 else 5 * MS,
}


class TimedTicket(Ticket):
    """A request that knows how long it will run, and what its client does afterwards."""

    __slots__ = ("and_then", "duration_ns", "level")

    def __init__(self, level: str, flow: str, duration_ns: int, work: Work, and_then: Callable[[], None]) -> None:
        super().__init__(flow, flow_hash(level, flow), work)
        self.level = level
        self.duration_ns = duration_ns
        self.and_then = and_then

    @property
    def waited(self) -> int:
        return self.seated_at - self.arrived_at

    @property
    def ends_at(self) -> int:
        return self.seated_at + self.duration_ns


class SharingWorld:
    """Drives a sharing through virtual time, and ticks it whenever it asks for that."""

    def __init__(self, sharing: Sharing, service: Service = SERVICES["constant"], seed: int = 1) -> None:
        self.sharing = sharing
        self.service = service
        self.rng = random.Random(seed)
        self.now = 0
        self.tickets: list[TimedTicket] = []
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._scheduled = 0
        self._seat_ns: dict[str, int] = defaultdict(int)
        self._watched_since = 0

    def at(self, time: int, action: Callable[[], object]) -> None:
        self._scheduled += 1
        heappush(self._events, (time, self._scheduled, action))

    def run(self, until: int) -> None:
        while True:
            due = self.sharing.next_event_at()
            first = self._events[0][0] if self._events else until + 1
            if min(first, until + 1 if due is None else due) > until:
                break
            if due is not None and due < first:
                self._pass(max(due, self.now))
                self._seat(self.sharing.tick(self.now))
                continue
            time, _, action = heappop(self._events)
            self._pass(time)
            action()
        self._pass(until)

    def _pass(self, time: int) -> None:
        for name, level in self.sharing.levels.items():
            used = level.queueset.seats_in_use + (level.alone is not None)
            self._seat_ns[name] += used * (time - self.now)
        self.now = time

    def average_seats(self) -> Mapping[str, float]:
        """Since the last time that it was asked."""
        averages = {name: self._seat_ns[name] / (self.now - self._watched_since) for name in self.sharing.levels}
        self._seat_ns.clear()
        self._watched_since = self.now
        return averages

    def call(self, level: str, flow: str, work: Work = ONE, and_then: Callable[[], None] = lambda: None) -> TimedTicket:
        ticket = TimedTicket(level, flow, self.service(self.rng), work, and_then)
        self.tickets.append(ticket)
        self._seat(self.sharing.arrive(self.now, self.sharing.levels[level], ticket))
        return ticket

    def saturate(self, level: str, flow: str, threads: int, work: Work = ONE) -> None:
        """So many clients that call again as soon as they have been served."""

        def again() -> None:
            self.call(level, flow, work, again)

        for thread in range(threads):
            self.at(self.now + thread, again)

    def trickle(self, level: str, flow: str, every_ns: int, until: int) -> None:
        """Make a client that calls from time to time, served or not."""

        def again() -> None:
            self.call(level, flow)
            if self.now + every_ns < until:
                self.at(self.now + every_ns, again)

        self.at(self.now + self.rng.randrange(every_ns), again)

    def running(self, level: str) -> list[TimedTicket]:
        return [ticket for ticket in self.tickets if ticket.level == level and ticket.is_seated]

    def _seat(self, seated: object) -> None:
        assert isinstance(seated, list | tuple)
        for ticket in seated:
            self.at(self.now + ticket.duration_ns, partial(self._finish, ticket))
        if len(self.tickets) % 50 == 0:  # it recounts everything
            self.sharing.check()

    def _finish(self, ticket: TimedTicket) -> None:
        self._seat(self.sharing.release(self.now, self.sharing.levels[ticket.level], ticket))
        ticket.and_then()
