"""A level's seats: how many there are, who has them, and for how long after the reply.

The part of a queue set that knows nothing of queues and turns. It is a base class rather than an object of its own
because every request passes here twice, and a queue set and its seats are one thing to everybody else.

``concurrency`` is how many seats may be in use at this moment. ``ceiling`` is how many that can ever be: a ticket that
is wider waits until nothing else of the level runs, for it would wait for ever otherwise, and final seats are cut to
it. The two are the same unless the seats are *steered*, that is lent and borrowed from moment to moment.
"""

from collections.abc import Iterator
from typing import Final

from apf_middleware.fairqueuing.lingering import Lingering
from apf_middleware.fairqueuing.reservation import Passed, Reservation
from apf_middleware.fairqueuing.ticket import Ticket, TicketState

__all__ = ["Seats"]

_SEATED: Final = TicketState.SEATED
_RELEASED: Final = TicketState.RELEASED


class Seats:
    """Seats in use and who counts for how many; `QueueSet` builds upon it."""

    __slots__ = (
        "_cuts",
        "_lingering",
        "_phantom_seats",
        "_queueless_seats",
        "_strict",
        "ceiling",
        "concurrency",
        "dispatched",
        "executing",
        "passed",
        "reservation",
        "seats_in_use",
    )

    def __init__(self, concurrency: int, ceiling: int, *, cuts: bool, strict: bool) -> None:
        self.concurrency = concurrency
        self.ceiling = ceiling
        self._cuts = cuts
        self._strict = strict
        self._lingering = Lingering()
        self.passed: Passed = {}
        self.reservation = Reservation(self.passed)
        self.executing = self.dispatched = 0
        self.seats_in_use = self._queueless_seats = self._phantom_seats = 0

    def lingering_tickets(self) -> Iterator[Ticket]:
        """Those whose reply is out and whose seats are still taken, in no particular order."""
        return iter(self._lingering)

    def _fits(self, width: int) -> bool:
        """Whether so many seats are free; what is wider than the level can ever be runs when nothing else does."""
        if width > self.ceiling:
            return not self.executing and self.ceiling <= self.concurrency
        return self.seats_in_use + width <= self.concurrency

    def note_passed_in(self, passed: Passed) -> None:
        """Tickets of several queue sets pass one another, and are noted here."""
        if self.passed is not passed:
            self.passed = passed
            self.reservation.join(passed)

    def lets_pass(self, head: Ticket, rounds: int) -> bool:
        """Whether another one may be seated before ``head``, whose turn it is and for whom too few seats are free."""
        reservation = self.reservation
        if reservation.head is not head or self._would_fit(head.width):
            reservation.begin(head)
        return reservation.rounds[head] <= rounds

    def _would_fit(self, width: int) -> bool:
        """Whether so many seats would be free if nobody had passed in this round."""
        reservation = self.reservation
        most = min(self.ceiling, self.concurrency + reservation.other_seats)
        if width > self.ceiling:
            return self.executing <= reservation.own_tickets and self.ceiling <= most
        return self.seats_in_use - reservation.own_seats + width <= most

    def _occupy(self, now: int, ticket: Ticket) -> None:
        if self._cuts and ticket.work.final_seats > self.ceiling:
            self._cut(ticket)
        ticket.state = _SEATED
        ticket.seated_at = now
        self.dispatched += 1
        self.executing += 1
        self.seats_in_use += ticket.width
        queue = ticket.queue
        if queue is None:
            self._queueless_seats += ticket.width
        else:
            queue.executing += 1
            queue.seats_in_use += ticket.width

    def _cut(self, ticket: Ticket) -> None:
        """Put the final work on fewer seats, for longer."""
        if self._strict and ticket.queue is None:
            return
        width = ticket.width
        ticket.work = ticket.work.within(self.ceiling)
        ticket.width = ticket.work.width
        self._phantom_seats += width - ticket.width if self._strict else 0

    def _vacate(self, ticket: Ticket) -> None:
        """The seats are free."""
        ticket.state = _RELEASED
        if self.passed:
            for reservation in self.passed.pop(ticket, ()):
                reservation.vacate(ticket)
        self.seats_in_use -= ticket.width
        queue = ticket.queue
        if queue is None:
            self._queueless_seats -= ticket.width
        else:
            queue.seats_in_use -= ticket.width
