"""A level's seats: how many there are, who has them, and for how long after the reply.

The part of a queue set that knows nothing of queues and turns. It is a base class rather than an object of its own
because every request passes here twice, and a queue set and its seats are one thing to everybody else.

``concurrency`` is how many seats may be in use at this moment. ``ceiling`` is how many that can ever be: a ticket that
is wider waits until nothing else of the level runs, for it would wait for ever otherwise, and final seats are cut to
it. The two are the same unless the seats are *steered*, that is lent and borrowed from moment to moment.
"""

from collections.abc import Iterator
from typing import Final

from apf_middleware.exceptions import TicketStateError, require_amount
from apf_middleware.fairqueuing.lingering import Lingering
from apf_middleware.fairqueuing.reservation import Passed, Reservation
from apf_middleware.fairqueuing.ticket import Ticket, TicketState
from apf_middleware.fairqueuing.work import round_half_away

__all__ = ["Seats"]

_SEATED: Final = TicketState.SEATED
_RELEASED: Final = TicketState.RELEASED


class Seats:
    """Seats in use and who counts for how many; `QueueSet` builds upon it."""

    __slots__ = (
        "_charges",
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

    dispatched: int
    executing: int
    seats_in_use: int

    def __init__(self, concurrency: int, ceiling: int, *, cuts: bool, strict: bool) -> None:
        self.concurrency: int = concurrency
        self.ceiling: int = ceiling
        self._cuts = cuts
        self._strict = strict
        self._lingering = Lingering()
        self.passed: Passed = {}
        self.reservation: Reservation = Reservation(self.passed)
        self.executing = self.dispatched = 0
        self.seats_in_use = self._queueless_seats = self._phantom_seats = 0
        self._charges: dict[Ticket, float] = {}  # seats that a seated ticket is billed for, where not its own

    def charge(self, ticket: Ticket, seats: float) -> None:
        """Bill ``ticket`` as if it had had so many seats for as long as it runs; what it holds stays the same.

        Disciplines hear of it as of another duration, the one in which its own seats come to the same work.
        """
        if ticket.state is not _SEATED or ticket.queueset is not self:
            raise TicketStateError(f"{ticket!r} isn't seated in {self!r}: it can be charged only while it is")
        self._charges[ticket] = require_amount("seats", seats)

    def billed_ns(self, ticket: Ticket, held_ns: int) -> int:
        """For how long ``ticket`` is billed when it is released after ``held_ns``: longer or shorter, if charged."""
        seats = self._charges.get(ticket)
        return held_ns if seats is None else round_half_away(held_ns * seats / ticket.work.seats)

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
        if ticket.width > self.ceiling:
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
        """Put the final work of one that is wider than the level on fewer seats, for longer."""
        if not self._cuts or (self._strict and ticket.queue is None) or ticket.work.final_seats <= self.ceiling:
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
