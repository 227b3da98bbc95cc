"""A queue set that is driven step by step, and a record of what can be seen of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apf_middleware.fairqueuing import Discipline, QueueSet, QueueSetSettings, Reason, Ticket, TicketState, Work
from apf_middleware.fairqueuing.disciplines.equal_serial import EqualSerial, EqualSerialQueue
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from apf_middleware.fairqueuing.disciplines.work_meter import MaxMinQueue
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.discipline_twins import (
    AttainingQueue,
    PlainEqualSerial,
    PlainQueue,
)

__all__ = ["MS", "RecordedQueueSet", "Step"]

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens ``after`` so many nanoseconds, to the ticket or flow with this number."""

    after: int
    what: str
    number: int = 0
    work: Work = field(default_factory=Work)
    settings: QueueSetSettings | None = None
    weight: int = WEIGHT_ONE


class RecordedQueueSet:
    """One queue set in a world; ``record`` is what has been seen of it."""

    def __init__(
        self, discipline: Callable[[int, int], Discipline[Any]], settings: QueueSetSettings, *, strict: bool = False
    ) -> None:
        self.queueset = QueueSet(settings, discipline=discipline, strict_upstream=strict)
        self.queueset.guarantee = None
        self.tickets: list[Ticket] = []
        self.parked: list[Ticket] = []
        self.now = 0
        self.record: list[tuple[object, ...]] = []

    def take(self, step: Step) -> None:
        self.now += step.after
        seated = self._take(step)
        numbers = tuple(self.tickets.index(ticket) for ticket in seated)
        self.record.append((self.now, step.what, numbers, tuple(self.position(q) for q in self.queueset.deck)))

    def _take(self, step: Step) -> Sequence[Ticket]:
        if step.what == "arrive":
            self.tickets.append(Ticket(f"flow {step.number}", step.number, step.work, step.weight))
            return self.queueset.arrive(self.now, self.tickets[-1])
        if step.what == "reconfigure" and step.settings is not None:
            return self.queueset.reconfigure(self.now, step.settings)
        if step.what == "unpark" and self.parked:
            return self.queueset.unpark(self.now, self.parked.pop(step.number % len(self.parked)))
        state = {"release": TicketState.SEATED, "abandon": TicketState.WAITING, "park": TicketState.WAITING}.get(
            step.what
        )
        matching = [ticket for ticket in self.tickets if ticket.state is state and ticket not in self.parked]
        if not matching:
            return self.queueset.tick(self.now)
        return self._change(step.what, matching[step.number % len(matching)])

    def _change(self, what: str, ticket: Ticket) -> Sequence[Ticket]:
        if what == "release":
            return self.queueset.release(self.now, ticket)
        if what == "abandon":
            return self.queueset.abandon(self.now, ticket, Reason.CANCELLED)
        ended = self.queueset.tick(self.now)
        if ticket.is_waiting:
            self.parked.append(ticket)
            self.queueset.park(self.now, ticket)
        return [*ended, *self.queueset._dispatch(self.now)]  # as gates are asked while requests are being seated

    def position(self, queue: Queue) -> int:
        """Return the queue's meter, in grains."""
        discipline = self.queueset.discipline
        match queue:
            case PlainQueue():
                return queue.position
            case EqualSerialQueue() if queue.length and isinstance(discipline, EqualSerial):
                return discipline._meter(queue, queue.seats_in_use)
            case AttainingQueue() if queue.length and isinstance(discipline, PlainEqualSerial):
                return queue.meter(discipline.read_at)
            case MaxMinQueue() if isinstance(discipline, MaxMinSerial | MaxMinConcurrent):
                return discipline.fluid.position(queue.meter)
        return 0
