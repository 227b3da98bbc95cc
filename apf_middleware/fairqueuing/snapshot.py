"""Frozen pictures of a queue set, for dumps, metrics, tests and people.

Each thing pictures itself with its method ``snapshot``. Taken from the event loop's thread only, like every other call.
Counts are as upstream's debug dumps name them; times are nanoseconds on the caller's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Reason, TicketState
    from apf_middleware.fairqueuing.work import Work

__all__ = ["QueueSetSnapshot", "QueueSnapshot", "TicketSnapshot"]


@dataclass(frozen=True, slots=True)
class TicketSnapshot:
    """One ticket; ``seated_at`` is None until it is seated."""

    flow: str
    state: "TicketState"
    reason: "Reason | None"
    work: "Work"
    width: int
    arrived_at: int | None
    seated_at: int | None


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One queue; ``waiting`` lists its tickets from the oldest on, ``meters`` are its discipline's."""

    index: int
    waiting: tuple[TicketSnapshot, ...]
    executing: int
    seats_in_use: int
    initial_seats_waiting: int
    seats_waiting: int
    work_waiting: int
    meters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueSetSnapshot:
    """A queue set; ``queues`` are those that have anything waiting, running or lingering."""

    now: int
    concurrency: int
    desired_queues: int
    discipline: str
    meters: Mapping[str, int]
    is_quiescing: bool
    waiting: int
    seats_waiting: int
    executing: int
    lingering: int
    seats_in_use: int
    dispatched: int
    rejected: "Mapping[Reason, int]"
    no_accommodation: int
    queues: tuple[QueueSnapshot, ...]

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.executing or self.lingering)
