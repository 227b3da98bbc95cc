"""Whose turn it is, and that one's way to its seats; `QueueSet` builds upon it.

The discipline says which queue is next, and the oldest there is seated if it fits. If it doesn't, seats are saved up
for it, and others may pass it within a bound (see `reservation`). Last of all its gates are asked.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.fairqueuing.backfill import fill_behind
from apf_middleware.fairqueuing.gatekeeping import Parking
from apf_middleware.fairqueuing.ticket import Ticket, TicketState

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.deck import Deck
    from apf_middleware.fairqueuing.disciplines import Discipline
    from apf_middleware.fairqueuing.guarantee import Guarantee
    from apf_middleware.fairqueuing.queue import Queue

__all__ = ["Serving"]

_SEATED: Final = TicketState.SEATED


class Serving(Parking):
    """Seats whoever is next. ``rounds`` is how often others may pass one that doesn't fit."""

    __slots__ = ("guarantee", "no_accommodation", "rounds")

    ceiling: int
    concurrency: int
    deck: "Deck"
    discipline: "Discipline[Any]"
    dispatched: int
    executing: int
    seats_in_use: int
    seats_waiting: int
    waiting: int
    _now: int

    def __init__(self, concurrency: int, ceiling: int, *, cuts: bool, strict: bool) -> None:
        super().__init__(concurrency, ceiling, cuts=cuts, strict=strict)
        self.guarantee: Guarantee | None = None
        self.rounds: int = 0
        self.no_accommodation: int = 0

    def next_queue(self) -> "Queue":
        """Return the queue that is served next; LookupError when no request waits."""
        overdue = self.guarantee.overdue(self._now) if self.guarantee is not None else None
        return overdue or self.deck.queues[self.discipline.pick()]

    def head(self) -> Ticket:
        """Return the request that is next; LookupError when no request waits."""
        ticket = self.next_queue().oldest
        assert ticket is not None, "a discipline picks a queue where somebody waits"
        return ticket

    def seat_head(self, now: int, ticket: Ticket) -> None:
        """Seat ``ticket``, the `head` or one that may pass it; that it fits is the caller's promise."""
        queue = ticket.queue
        assert queue is not None, "who waits has a queue"
        if self.reservation.rounds:
            self.reservation.end(ticket)
        queue.remove(ticket)
        self.waiting -= 1
        self.seats_waiting -= ticket.width
        asked = ticket.width
        self._occupy(now, ticket)
        self.discipline.dispatch(queue, ticket)
        if self.guarantee is not None:
            self.guarantee.dispatch(now, queue, ticket.width, asked - ticket.width)

    def _dispatch(self, now: int) -> Sequence[Ticket]:
        """Seat whoever is next, until one doesn't fit: for that one, seats are saved up."""
        seated: list[Ticket] = []
        discipline, queues, guarantee = self.discipline, self.deck.queues, self.guarantee
        gatekeeper, rounds = self.gatekeeper, self.reservation.rounds
        while self.waiting and self.seats_in_use < self.concurrency:
            overdue = guarantee.overdue(now) if guarantee is not None else None
            queue = overdue or queues[discipline.pick()]  # `head` and `seat_head`, written out for speed
            ticket = queue.oldest
            assert ticket is not None, "a discipline picks a queue where somebody waits"
            asked = width = ticket.width
            if self.seats_in_use + width > self.concurrency and not self._fits(width):
                if gatekeeper is not None and gatekeeper.bars(now, ticket):
                    continue  # parked: no seats are saved up for who may not pass anyway
                self.no_accommodation += 1
                ticket.pass_over()
                if self.rounds:
                    seated += fill_behind(self, now, ticket)
                break
            if gatekeeper is not None and not gatekeeper.admits(now, ticket):
                continue  # parked or refused, and so in no queue any more
            if rounds:
                self.reservation.end(ticket)
            queue.shift(ticket)
            self.waiting -= 1
            self.seats_waiting -= width
            if width > self.ceiling:
                self._cut(ticket)
                width = ticket.width
            ticket.state = _SEATED
            ticket.seated_at = now
            self.dispatched += 1
            self.executing += 1
            self.seats_in_use += width
            queue.executing += 1
            queue.seats_in_use += width
            discipline.dispatch(queue, ticket)
            if guarantee is not None:
                guarantee.dispatch(now, queue, width, asked - width)
            seated.append(ticket)
        return seated
