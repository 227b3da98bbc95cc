"""Frozen pictures of a queue set, for dumps, metrics, tests and people.

Taken from the event loop's thread only, like every other call. Seats and counts are as upstream's debug dumps name
them; durations are nanoseconds on the caller's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apf_middleware.fairqueuing.queue import Queue
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState
from apf_middleware.fairqueuing.work import Work

__all__ = ["QueueSetSnapshot", "QueueSnapshot", "TicketSnapshot", "picture_queue"]


@dataclass(frozen=True, slots=True)
class TicketSnapshot:
    """One ticket, waiting or seated."""

    flow: str
    state: TicketState
    work: Work
    width: int
    arrived_at: int
    seated_at: int | None

    @classmethod
    def of(cls, ticket: Ticket) -> "TicketSnapshot":
        seated_at = None if ticket.is_waiting else ticket.seated_at
        return cls(ticket.flow, ticket.state, ticket.work, ticket.width, ticket.arrived_at, seated_at)


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One queue; ``waiting`` lists its tickets from the oldest on."""

    index: int
    waiting: tuple[TicketSnapshot, ...]
    executing: int
    seats_in_use: int
    initial_seats_waiting: int
    seats_waiting: int
    work_waiting: int


def picture_queue(queue: Queue) -> QueueSnapshot:
    """A snapshot of one queue."""
    return QueueSnapshot(
        index=queue.index,
        waiting=tuple(TicketSnapshot.of(ticket) for ticket in queue),
        executing=queue.executing,
        seats_in_use=queue.seats_in_use,
        initial_seats_waiting=sum(ticket.work.seats for ticket in queue),
        seats_waiting=sum(ticket.width for ticket in queue),
        work_waiting=queue.waiting_work,
    )


@dataclass(frozen=True, slots=True)
class QueueSetSnapshot:
    """A queue set; ``queues`` are those that have anything waiting, running or lingering."""

    now: int
    concurrency: int
    desired_queues: int
    discipline: str
    is_quiescing: bool
    waiting: int
    seats_waiting: int
    executing: int
    lingering: int
    seats_in_use: int
    dispatched: int
    rejected: Mapping[Reason, int]
    no_accommodation: int
    queues: tuple[QueueSnapshot, ...]

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.executing or self.lingering)
