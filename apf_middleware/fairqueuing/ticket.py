"""Requests and the queues in which they wait.

A *ticket* is the record of one request, from its arrival until its seats are free again. The caller creates the ticket
and passes it to a queue set or a `Sharing`; from then on, only these, or the ticket's level, change the ticket::

    NEW ──▶ WAITING ──▶ SEATED ──▶ LINGERING ──▶ RELEASED
     │         │          ▲ │                       ▲
     ├─────────│──────────┘ └───────────────────────┘
     ▼         ▼
     REJECTED (with its reason)

Subclass `Ticket` to carry data of your own, for example a future to wake. Tickets have slots, because very many of them
may wait.

A *queue* is a FIFO of waiting tickets; it also counts its running requests and the seats that these use. The tickets
form a linked list, so it takes constant time to append a ticket, to serve the oldest and to remove any other. A
discipline adds its own numbers in a subclass of `Queue`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum
from typing import Final, Protocol

from apf_middleware.compilation import mypyc_attr
from apf_middleware.copying import get_state, set_state
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.service_meter import ServiceMeter
from apf_middleware.fairqueuing.work import WEIGHT_ONE, Work
from apf_middleware.snapshots import QueueSnapshot, TicketSnapshot

__all__ = ["BEFORE_SEATS", "IS_PURE", "Gatekeeper", "Queue", "Reason", "Ticket", "TicketState"]


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
    DEADLINE = "deadline"


BEFORE_SEATS: Final = frozenset({Reason.SLOW_BODY, Reason.BODY_LIMIT, Reason.STREAM_LIMIT})
"""The reasons for which a request is rejected before it asks for seats. A client may also hang up before that."""


class TicketState(Enum):
    """The stages of a ticket."""

    NEW = "new"
    WAITING = "waiting"
    SEATED = "seated"
    LINGERING = "lingering"
    RELEASED = "released"
    REJECTED = "rejected"


# Module globals, because an attribute look-up in an Enum is much slower.
_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_REJECTED: Final = TicketState.REJECTED


IS_PURE: Final = not hasattr(ServiceMeter, "__mypyc_attrs__")
"""True in the pure build, which has to check the types of arguments; compiled code checks them at each call."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Ticket:
    """A request of ``flow`` that asks for ``work``.

    ``entropy`` is the 64-bit hash of the flow; the flow's hand is computed from it (see `shuffle`). ``weight`` is that
    of the flow, in units of 2**-16: `WEIGHT_ONE` is the usual one. ``queueset`` is the queue set at which the ticket
    has arrived; it serves to detect that the ticket is passed to another queue set.

    Four values belong to the discipline. Each discipline uses those that it needs, in units of its own. A *position* is
    a value of the meter that the discipline keeps for the queue (see `max_min_model`).

    - ``arrival_r``: the virtual time, or the position, of the arrival
    - ``start_r``: the virtual time, or the position, of the virtual start
    - ``charged``: in `MaxMinSerial` the expected work, in `MaxMinConcurrent` the position of the expected end
    - ``settled``: in `MaxMinSerial` what its meter keeps of the end, in `MaxMinConcurrent` the actual duration
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
        "weight",
        "width",
        "work",
    )

    # In the order in which compiled code stores them. Where many tickets wait, their memory is cold, so what a queue
    # reads of its oldest, next and newest ticket comes first, and what only some disciplines use comes last.
    older: "Ticket | None"
    newer: "Ticket | None"
    queue: "Queue | None"
    width: int
    total_work: int
    state: TicketState
    seated_at: int
    queueset: object
    work: Work
    entropy: int
    flow: str
    reason: Reason | None
    arrived_at: int
    weight: int
    arrival_r: int
    start_r: int
    charged: int
    settled: int

    def __init__(self, flow: str, entropy: int, work: Work, weight: int = WEIGHT_ONE) -> None:
        if work.__class__ is not Work:
            raise InvalidValueError("work", work, "it must be a Work")
        # The shift refuses negative numbers, too, which stay negative. It is faster than two large comparisons.
        if (IS_PURE and entropy.__class__ is not int) or entropy >> 64:
            raise InvalidValueError("entropy", entropy, "it must be an integer from 0 to 2**64 - 1")
        self.flow = flow
        self.entropy = entropy
        self.work = work
        self.weight = weight if weight == WEIGHT_ONE else require_integer("weight", weight, least=1)
        self.width = work.width
        self.state = _NEW
        self.reason = None
        self.queue = None

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
        """Record that the ticket is next and doesn't fit into the free seats; here do nothing, subclasses may count."""

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
            seated_at=None if self.state is _NEW or self.state is _WAITING else getattr(self, "seated_at", None),
        )

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        queue = f" queue={self.queue.index}" if self.queue is not None else ""
        return f"<{type(self).__name__} {self.flow!r} {self.state.value}{reason} width={self.width}{queue}>"

    def __getstate__(self) -> dict[str, object]:
        return get_state(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        set_state(self, state)


@mypyc_attr(allow_interpreted_subclasses=True)
class Queue:
    """One queue of a queue set.

    ``waiting_work`` is the expected work of the waiting tickets. ``parked`` is the number of tickets that wait for a
    gate; these aren't in the list. ``seats_in_use`` includes seats that linger (they stay in use for a time after the
    reply). An *exact* queue belongs to one flow; ``owner`` is the entropy of that flow. If ``is_listed``, the queue is
    in the list of idle queues (see `deck`). The queue has a ``service_meter`` while the guarantee tracks demands (that
    is, while queues compete) and the queue has any demand. Its ``weight`` is that of its flow or, where flows of
    different weights share the queue, about the average of its waiting tickets.
    """

    __slots__ = (
        "_by_flow",
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
        "weight",
    )

    def __init__(self, index: int) -> None:
        # In the order in which compiled code stores them: a choice among queues reads the first one only.
        self.waiting_work: int = 0
        self.length: int = 0
        self.parked: int = 0
        self.weight: int = WEIGHT_ONE
        self.newest: Ticket | None = None
        self.oldest: Ticket | None = None
        self.service_meter: ServiceMeter | None = None
        self._by_flow: dict[int, int] | None = None  # the waiting tickets by flow, once `flows` has counted
        self.executing: int = 0
        self.seats_in_use: int = 0
        self.index: int = index
        self.is_listed: bool = False
        self.owner: int | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request of this queue waits, runs, lingers or is parked."""
        # Seats that linger are in use although no request executes.
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
        if self._by_flow is not None:
            self._count(ticket)

    def insert(self, ticket: Ticket) -> None:
        """Add ``ticket``, which was parked, before all tickets that arrived later, as if it had never been parked."""
        newest = self.newest
        if newest is None or newest.arrived_at <= ticket.arrived_at:
            self.append(ticket)
            return
        older: Ticket | None = None
        newer = self.oldest
        # Search from the front, because a ticket that was parked is older than most.
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
        if self._by_flow is not None:
            self._count(ticket)

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
        # The removed ticket may be kept elsewhere, and then it must not keep its former neighbours in memory.
        ticket.older = ticket.newer = None
        self.length -= 1
        self.waiting_work -= ticket.total_work
        if self._by_flow is not None:
            self._discount(ticket)

    def is_mostly(self, entropy: int) -> bool:
        """Return whether at least half of the waiting tickets belong to the flow with this ``entropy``.

        Unless the queue is exact, the tickets are counted by flow, so that a queue that rejects many tickets isn't
        searched for each of them.
        """
        return self.owner == entropy or 2 * self.flows().get(entropy, 0) >= self.length

    def flows(self) -> Mapping[int, int]:
        """Return the number of waiting tickets of each flow, by entropy.

        The first call counts them. From then on the counts are kept up to date, until the queue is empty.
        """
        if self._by_flow is None:
            self._by_flow = {}
            for ticket in self:
                self._count(ticket)
        return self._by_flow

    def _count(self, ticket: Ticket) -> None:
        by_flow = self._by_flow
        assert by_flow is not None, "the caller has checked it"
        by_flow[ticket.entropy] = by_flow.get(ticket.entropy, 0) + 1

    def _discount(self, ticket: Ticket) -> None:
        by_flow = self._by_flow
        assert by_flow is not None, "the caller has checked it"
        left = by_flow[ticket.entropy] - 1
        if left:
            by_flow[ticket.entropy] = left
        else:
            del by_flow[ticket.entropy]
            if not by_flow:
                self._by_flow = None

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
        """Raise AssertionError unless the linked list and the sums agree."""
        tickets = list(self)
        assert self.length == len(tickets), f"{self!r} has {len(tickets)} links"
        assert self.waiting_work == sum(ticket.total_work for ticket in tickets), f"waiting work of {self!r}"
        assert self.newest is (tickets[-1] if tickets else None), f"the end of {self!r}"
        assert all(ticket.queue is self and ticket.is_waiting for ticket in tickets), f"foreign tickets in {self!r}"
        counts = self._by_flow
        assert counts is None or counts == Counter(ticket.entropy for ticket in tickets), f"tickets of {self!r} by flow"

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.index}: {self.length} waiting, {self.executing} executing, "
            f"{self.seats_in_use} seats in use>"
        )

    def __getstate__(self) -> dict[str, object]:
        return get_state(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        set_state(self, state)


class Gatekeeper(Protocol):
    """The gates that the tickets of a queue set must pass."""

    def admits(self, now: int, ticket: Ticket) -> bool:
        """Return whether ``ticket``, which is about to be seated, passes its gates; otherwise park or refuse it."""
        ...

    def bars(self, now: int, ticket: Ticket) -> bool:
        """Park or refuse ``ticket`` if it can't pass its gates now; return whether this was done.

        It can't if a gate is known to be closed to it, or if other requests come first at one of its gates.
        """
        ...

    def is_parked(self, ticket: Ticket) -> bool:
        """Return whether ``ticket`` waits for a gate."""
        ...
