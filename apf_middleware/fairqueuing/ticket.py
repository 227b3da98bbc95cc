"""One request's place, from arrival until its seats are free.

A ticket is made by the caller, handed to a queue set, and changed by that queue set alone::

    NEW ──▶ WAITING ──▶ SEATED ──▶ LINGERING ──▶ RELEASED
     │         │           └──────────────────────▲
     ├─────────┼──▶ REJECTED (with its reason)
     └── seated at once

Subclass it to carry what is yours, a future to wake say; the slots keep 100,000 waiting tickets small.
"""

from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.work import Work
from apf_middleware.snapshots import TicketSnapshot

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.queue import Queue
    from apf_middleware.fairqueuing.queueset import QueueSet

__all__ = ["Reason", "Ticket", "TicketState"]


class Reason(StrEnum):
    """Why a request was rejected."""

    QUEUE_FULL = "queue-full"
    CONCURRENCY_LIMIT = "concurrency-limit"
    TIME_OUT = "time-out"
    CANCELLED = "cancelled"
    QUEUE_CLOSED = "queue-closed"
    QUEUE_CLOSING = "queue-closing"
    STREAM_LIMIT = "stream-limit"
    GATE = "gate"
    SLOW_BODY = "slow-body"
    BODY_LIMIT = "body-limit"


class TicketState(Enum):
    """How far a ticket has come."""

    NEW = "new"
    WAITING = "waiting"
    SEATED = "seated"
    LINGERING = "lingering"
    RELEASED = "released"
    REJECTED = "rejected"


# By names of the module: to find a member in its Enum takes many times as long.
_NEW, _WAITING, _SEATED, _REJECTED = TicketState.NEW, TicketState.WAITING, TicketState.SEATED, TicketState.REJECTED


class Ticket:
    """A request of ``flow`` that asks for ``work``; ``entropy`` is the flow's 64-bit hash and deals its hand.

    The meters ``arrival_r`` and ``start_r`` are the discipline's: the virtual times at which the ticket arrived and at
    which its queue's turn for it began. So are ``charged``, the work that its queue has been charged for it, and
    ``settled``, what was found when it finished and counts from the end of its linger on.
    """

    __slots__ = (
        "arrival_r",
        "arrived_at",
        "charged",
        "entropy",
        "flow",
        "newer",
        "older",
        "queue",
        "queueset",
        "reason",
        "seated_at",
        "settled",
        "start_r",
        "state",
        "total_work",
        "width",
        "work",
    )

    # Given on arrival, by the queue set and its discipline.
    queueset: "QueueSet"
    arrived_at: int
    arrival_r: int
    total_work: int
    seated_at: int
    start_r: int
    charged: int
    settled: int
    older: "Ticket | None"
    newer: "Ticket | None"

    def __init__(self, flow: str, entropy: int, work: Work) -> None:
        if work.__class__ is not Work:
            raise InvalidValueError("work", work, "it must be a Work")
        if entropy.__class__ is not int or entropy >> 64:  # quicker than two comparisons with large numbers
            raise InvalidValueError("entropy", entropy, "it must be an integer of 64 bits")
        self.flow: str = flow
        self.entropy: int = entropy
        self.work: Work = work
        self.width: int = work.width
        self.state: TicketState = _NEW
        self.reason: Reason | None = None
        self.queue: Queue | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state is _WAITING

    @property
    def is_seated(self) -> bool:
        return self.state is _SEATED

    @property
    def is_rejected(self) -> bool:
        return self.state is _REJECTED

    def pass_over(self) -> None:
        """It is this one's turn, but it doesn't fit into the seats that are free. For subclasses that count it."""

    def snapshot(self) -> TicketSnapshot:
        """Return a frozen snapshot."""
        return TicketSnapshot(
            flow=self.flow,
            state=self.state,
            reason=self.reason,
            seats=self.work.seats,
            final_seats=self.work.final_seats,
            linger_ns=self.work.linger_ns,
            width=self.width,
            arrived_at=getattr(self, "arrived_at", None),
            seated_at=getattr(self, "seated_at", None),
        )

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        queue = f" queue={self.queue.index}" if self.queue is not None else ""
        return f"<{type(self).__name__} {self.flow!r} {self.state.value}{reason} width={self.width}{queue}>"
