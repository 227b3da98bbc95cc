"""Gates beside the seats: what a queue set asks of whoever keeps them, and the places of those whom they keep waiting.

A ticket whose turn it is and that fits is asked to pass its gates last of all. If one doesn't let it, it is *parked*:
it leaves the chain of its queue, so it is no demand and gets no turn, and virtual time doesn't run for it. It still
counts for the length of its queue, it may be abandoned as any other, and `Parking.unpark` puts it back before those who
arrived after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from apf_middleware.fairqueuing.seats import Seats
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.deck import Deck
    from apf_middleware.fairqueuing.disciplines import Discipline
    from apf_middleware.fairqueuing.guarantee import Guarantee
    from apf_middleware.fairqueuing.queue import Queue

__all__ = ["Gatekeeper", "Parking"]

_WAITING: Final = TicketState.WAITING


class Gatekeeper(Protocol):
    """Who keeps the gates of a queue set."""

    def admits(self, now: int, ticket: Ticket) -> bool:
        """Whether ``ticket``, which is to be seated now, passes; otherwise it has been parked or refused."""
        ...

    def bars(self, now: int, ticket: Ticket) -> bool:
        """Whether a gate of ``ticket`` is known to be shut: then it has been parked."""
        ...

    def is_parked(self, ticket: Ticket) -> bool:
        """Whether it waits for a gate."""
        ...


class Parking(Seats, ABC):
    """Who is ``parked``; `QueueSet` builds upon it."""

    __slots__ = ("gatekeeper", "parked", "rejected", "seats_waiting", "waiting")

    deck: "Deck"
    discipline: "Discipline[Any]"
    guarantee: "Guarantee | None"
    guess_ns: int
    strict_upstream: bool
    waiting: int
    seats_waiting: int
    _limit: int
    room: int

    def __init__(self, concurrency: int, ceiling: int, *, cuts: bool, strict: bool) -> None:
        super().__init__(concurrency, ceiling, cuts=cuts, strict=strict)
        self.gatekeeper: Gatekeeper | None = None
        self.parked: int = 0
        self.rejected: dict[Reason, int] = dict.fromkeys(Reason, 0)

    def arrive_parked(self, now: int, ticket: Ticket) -> None:
        """Let ``ticket`` in where others queue: it is parked, or rejected because its queue is full."""
        ticket.queueset = self  # type: ignore[assignment]
        ticket.arrived_at = now
        ticket.queue = queue = self.deck.choose(ticket.entropy, self.waiting)
        ticket.total_work = ticket.work.total(self.guess_ns)
        if queue.length + queue.parked >= min(self._limit, self.room):
            self._turn_down(queue, ticket, Reason.QUEUE_FULL)
            return
        ticket.state = _WAITING
        queue.parked += 1
        self.parked += 1

    def park(self, now: int, ticket: Ticket) -> None:
        """A gate keeps ``ticket`` waiting: until `unpark`, it is no demand and gets no turn."""
        queue = ticket.queue
        assert queue is not None, "who waits has a queue"
        self._withdraw(now, queue, ticket)
        queue.parked += 1
        self.parked += 1
        self.note_demand(now)

    def unpark(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """``ticket`` is back at its place, and seated if that is possible."""
        queue = ticket.queue
        assert queue is not None, "who is parked has a queue"
        ended = self._advance(now)
        queue.parked -= 1
        self.parked -= 1
        self.discipline.arrive(queue, ticket)
        queue.insert(ticket)
        self.waiting += 1
        self.seats_waiting += ticket.width
        self._note_wait(now, queue, ticket.width)
        if ticket.newer is not None:
            self.discipline.rejoin(queue, ticket)
        seated = self._dispatch(now)
        self.note_demand(now)
        return [*ended, *seated]

    def refuse(self, now: int, ticket: Ticket) -> None:
        """A gate refuses ``ticket``, whose turn it is or which is parked."""
        queue = ticket.queue
        assert queue is not None, "who waits has a queue"
        self._take_out(now, queue, ticket)
        self._turn_down(queue, ticket, Reason.GATE)
        self.note_demand(now)

    def turn_away(self, now: int, ticket: Ticket, reason: Reason) -> None:
        """Reject ``ticket`` where nobody waits, before it is asked for seats."""
        ticket.queueset = self  # type: ignore[assignment]
        ticket.arrived_at = now
        self._reject(ticket, reason)

    def _take_out(self, now: int, queue: "Queue", ticket: Ticket) -> None:
        """It leaves unserved, from the chain or from among the parked."""
        if self.gatekeeper is not None and self.gatekeeper.is_parked(ticket):
            queue.parked -= 1
            self.parked -= 1
        else:
            self._withdraw(now, queue, ticket)

    def _withdraw(self, now: int, queue: "Queue", ticket: Ticket) -> None:
        if self.reservation.rounds:
            self.reservation.end(ticket)
        was_oldest = queue.oldest is ticket
        queue.remove(ticket)
        self.waiting -= 1
        self.seats_waiting -= ticket.width
        self.discipline.leave(queue, ticket, was_oldest=was_oldest)
        if self.guarantee is not None:
            self.guarantee.leave(now, queue, ticket.width)

    def _turn_down(self, queue: "Queue", ticket: Ticket, reason: Reason) -> None:
        """Reject ``ticket``, which isn't in ``queue`` any more or didn't get into it."""
        self._reject(ticket, reason)
        if self.deck.is_watchful:
            self.deck.leave(queue, ticket.entropy)

    def _reject(self, ticket: Ticket, reason: Reason) -> None:
        ticket.state = TicketState.REJECTED
        ticket.reason = reason
        self.rejected[reason] += 1

    # What the queue set knows

    @abstractmethod
    def _advance(self, now: int) -> Sequence[Ticket]: ...

    @abstractmethod
    def _dispatch(self, now: int) -> Sequence[Ticket]: ...

    @abstractmethod
    def _note_wait(self, now: int, queue: "Queue", width: int) -> None:
        """A request of this ``width`` has joined ``queue`` and waits there."""

    @abstractmethod
    def note_demand(self, now: int) -> None:
        """The seats in use or waited for are what they are from ``now`` on."""
