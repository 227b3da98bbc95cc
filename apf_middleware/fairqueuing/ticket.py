"""Requests and the queues in which they wait.

A *ticket* is one request's place, from its arrival until its seats are free. The caller makes it and hands it to a
queue set, and only that queue set changes it::

    NEW ──▶ WAITING ──▶ SEATED ──▶ LINGERING ──▶ RELEASED
     │         │           └──────────────────────▲
     ├─────────┼──▶ REJECTED (with its reason)
     └── seated at once

Subclass `Ticket` to carry data of your own, for example a future to wake; the slots keep 100,000 waiting tickets small.

A *queue* is a FIFO of waiting tickets, with counts of what its running requests occupy. The tickets are links of a
chain, so joining, being served and leaving from the middle cost the same however many wait. A discipline adds its own
meters in a subclass.
"""

from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Final, Protocol

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.work import Work
from apf_middleware.snapshots import QueueSnapshot, TicketSnapshot

__all__ = ["Gatekeeper", "Queue", "Reason", "ServiceMeter", "Ticket", "TicketState"]


class Reason(StrEnum):
    """The reason for the rejection of a request."""

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
    """The stages of a ticket."""

    NEW = "new"
    WAITING = "waiting"
    SEATED = "seated"
    LINGERING = "lingering"
    RELEASED = "released"
    REJECTED = "rejected"


# Module globals, because looking a member up in its Enum takes many times as long.
_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_REJECTED: Final = TicketState.REJECTED


class ServiceMeter:
    """The demand of one queue and how much service it lacks, kept by the guarantee (see `guarantee`).

    ``rho`` is the demand in seats, and the fields beside it belong to `MaxMinShares`. ``offset`` makes ``seats * now +
    offset`` the service in seat-nanoseconds, up to a constant. ``least`` is the least value of ``r - service`` in
    grains while something has waited, and ``noted`` the number of rises of the common share that it takes into account.
    ``debt`` is the work that was billed meanwhile beyond the seats that were held. ``listed`` is the ``r`` under which
    the queue is listed or, if it ``is_postponed``, the ``r`` that decides when to examine it again.
    """

    __slots__ = (
        "at_least",
        "at_most",
        "debt",
        "index",
        "is_closed",
        "is_limited",
        "is_postponed",
        "least",
        "listed",
        "noted",
        "offset",
        "rho",
    )

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.rho: int = 0
        self.is_limited: bool = False
        self.is_closed: bool = False
        self.at_least: int = 0
        self.at_most: int = 0
        self.offset: int = 0
        self.least: int = 0
        self.noted: int = 0
        self.debt: int = 0
        self.listed: int = 0
        self.is_postponed: bool = False

    def __repr__(self) -> str:
        return f"<ServiceMeter {self.index}: {self.rho} seats demanded>"


class Ticket:
    """A request of ``flow`` that asks for ``work``; ``entropy`` is the flow's 64-bit hash, which deals its hand.

    ``queueset`` is the queue set that has taken it in. It is kept only to be compared, so that a ticket isn't given to
    another queue set. The discipline sets ``arrival_r`` and ``start_r``, the virtual times of the arrival and of the
    virtual start; ``charged``, the work that the queue has been charged for the ticket; and ``settled``, the work
    found when it finished, which counts from the end of its linger on.
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

    # Set on arrival, by the queue set and its discipline.
    queueset: object
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
        # A negative number is refused, too: shifted, it is -1.
        if entropy.__class__ is not int or entropy >> 64:  # faster than two comparisons with large numbers
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
        """Do nothing; subclasses note that the ticket is next and doesn't fit into the free seats."""

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


class Queue:
    """One queue of a queue set.

    ``waiting_work`` is the expected work of its waiting tickets, and ``parked`` the number of tickets that a gate keeps
    out of the chain. ``seats_in_use`` includes seats that linger. ``owner`` is the flow with this exact queue, and
    ``is_listed`` tells whether the queue is among the idle ones that other flows may take over (see `deck`). The
    guarantee keeps a ``service_meter`` while the queue has any demand.
    """

    __slots__ = (
        "executing",
        "index",
        "is_listed",
        "length",
        "newest",
        "oldest",
        "owner",
        "parked",
        "seats_in_use",
        "service_meter",
        "waiting_work",
    )

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.oldest: Ticket | None = None
        self.newest: Ticket | None = None
        self.length: int = 0
        self.parked: int = 0
        self.waiting_work: int = 0
        self.executing: int = 0
        self.seats_in_use: int = 0
        self.owner: int | None = None
        self.is_listed: bool = False
        self.service_meter: ServiceMeter | None = None

    @property
    def is_idle(self) -> bool:
        """True if nothing waits, runs or lingers here."""
        # Seats that linger are in use although nothing executes.
        return not (self.length or self.executing or self.seats_in_use or self.parked)

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # an empty queue is still a queue

    def __iter__(self) -> Iterator[Ticket]:
        ticket = self.oldest
        while ticket is not None:
            yield ticket
            ticket = ticket.newer

    def append(self, ticket: Ticket) -> None:
        """Add ``ticket`` as the newest."""
        ticket.newer = None
        ticket.older = newest = self.newest
        if newest is None:
            self.oldest = ticket
        else:
            newest.newer = ticket
        self.newest = ticket
        self.length += 1
        self.waiting_work += ticket.total_work

    def insert(self, ticket: Ticket) -> None:
        """Add ``ticket``, which was parked, before all that arrived after it, as if it had never left."""
        newest = self.newest
        if newest is None or newest.arrived_at <= ticket.arrived_at:
            self.append(ticket)
            return
        older: Ticket | None = None
        newer = self.oldest
        # From the front, because a ticket that was parked is older than most.
        while newer is not None and newer.arrived_at <= ticket.arrived_at:
            older, newer = newer, newer.newer
        assert newer is not None, "the newest arrived later"
        ticket.older, ticket.newer = older, newer
        newer.older = ticket
        if older is None:
            self.oldest = ticket
        else:
            older.newer = ticket
        self.length += 1
        self.waiting_work += ticket.total_work

    def shift(self, ticket: Ticket) -> None:
        """Remove ``ticket``, the oldest; faster than `remove`."""
        # The oldest ticket has no older one, so only one link has to be cut.
        newer = ticket.newer
        self.oldest = newer
        if newer is None:
            self.newest = None
        else:
            newer.older = None
            ticket.newer = None
        self.length -= 1
        self.waiting_work -= ticket.total_work

    def remove(self, ticket: Ticket) -> None:
        """Remove ``ticket``, which may stand anywhere in the queue."""
        older, newer = ticket.older, ticket.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        # a ticket that is kept elsewhere must not keep its former neighbours in memory
        ticket.older = ticket.newer = None
        self.length -= 1
        self.waiting_work -= ticket.total_work

    def meters(self) -> dict[str, int]:
        """Return the discipline's numbers for this queue, by name."""
        return {}

    def snapshot(self, level: str = "") -> QueueSnapshot:
        """Return a frozen snapshot, as a queue of ``level``."""
        seats = width = 0
        if self.length:
            for ticket in self:
                seats += ticket.work.seats
                width += ticket.width
        return QueueSnapshot(
            level,
            self.index,
            self.length,
            self.parked,
            self.executing,
            self.seats_in_use,
            self.meters().get("next_dispatch_r"),
            seats,
            width,
            self.waiting_work,
        )

    def check(self) -> None:
        """Raise AssertionError unless the chain and the sums agree."""
        tickets = list(self)
        assert self.length == len(tickets), f"{self!r} has {len(tickets)} links"
        assert self.waiting_work == sum(ticket.total_work for ticket in tickets), f"waiting work of {self!r}"
        assert self.newest is (tickets[-1] if tickets else None), f"the end of {self!r}"
        assert all(ticket.queue is self and ticket.is_waiting for ticket in tickets), f"foreign tickets in {self!r}"

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.index}: {self.length} waiting, {self.executing} executing, "
            f"{self.seats_in_use} seats in use>"
        )


class Gatekeeper(Protocol):
    """The gates of a queue set's tickets."""

    def admits(self, now: int, ticket: Ticket) -> bool:
        """Return whether ``ticket``, which is about to be seated, passes; if not, it has been parked or refused."""
        ...

    def bars(self, now: int, ticket: Ticket) -> bool:
        """Return whether a gate of ``ticket`` is known to be shut; if so, it has been parked."""
        ...

    def is_parked(self, ticket: Ticket) -> bool:
        """Return whether ``ticket`` waits for a gate."""
        ...
