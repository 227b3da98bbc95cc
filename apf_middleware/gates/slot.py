"""Slots, where requests wait for a gate, and acquisitions: the gates that a request needs, and its leases.

A slot is the state of one gate for one key, for example for one tenant or shard. ``closed_at`` is the *watermark*: the
smallest cost known not to fit. Until the slot is opened, the gate isn't asked about requests that cost as much or more,
unless an operator lets them try. Every event after which a waiting request might fit opens the slot: the watermark is
set above every cost, and ``opening``, a sequence number, grows by one. Then the scheduler lets one candidate of each
level try, however many requests wait. If no request waits, the slot stays open, so the event isn't lost.

*Bounded bypass.* The next request in turn is the slot's ``first``: levels take turns, within a level flows do, and
within a flow requests keep their order. While ``first`` doesn't fit, a bounded number of other requests may pass, no
matter when they arrived. After that, the slot is *reserved* for ``first``: only a few other requests may still pass,
namely two kinds of earlier ones (see `Slot.is_kept_from`) and those that an operator lets try (``is_forced``). How
many requests have overtaken a request is counted for that request, not for the slot. So the count is kept when another
gate stops the request. If several requests hold reservations of one slot, the earliest request goes first. This order
is the same at all slots, so two requests can't wait for each other.

If the holder of a reservation waits for something else, the reservation ends after some time; the next reservation of
the same request lasts twice as long. That is a seat, another gate, or another request of its level that tries and waits
for a seat. So a request whose level gets no seats can't block a gate for ever, and a request that waits long for a seat
finally gets the seat and all its leases.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from apf_middleware.fairqueuing import SharedLevel, Ticket
from apf_middleware.gates.fair_order import FairOrder
from apf_middleware.gates.gate import INTERRUPTS, Gate, GateRequest, Hint

__all__ = [
    "MOST_CHECKS",
    "OPEN",
    "Acquisition",
    "AcquisitionStage",
    "Check",
    "GateNeed",
    "GateReservation",
    "OpeningCause",
    "Refusal",
    "Slot",
    "SlotQueue",
]

MOST_CHECKS: Final = 16
"""The maximum number of requests of one slot about which an asynchronous gate is asked at a time."""

OPEN: Final = 1 << 62
"""A watermark above every cost."""

# The number of events that a slot keeps for hints, functions of the app that say whether an event can help a request.
# If more events have come since the slot was shut, every request may try.
_MOST_EVENTS: Final = 16


class AcquisitionStage(Enum):
    """The stage of a request on its way through its gates."""

    QUEUED = "queued"
    PARKED = "parked"
    CHECKING = "checking"  # an asynchronous gate is asked about the request
    BEHIND = "behind"  # an earlier request of its flow is parked, and its level keeps the order of arrival
    PASSED = "passed"
    ENDED = "ended"  # the request has left unserved


class OpeningCause(Enum):
    """The reason why a slot is opened at a certain time."""

    POLL = "poll"
    ERROR = "error"
    ANNOUNCED = "announced"  # the gate has named the time
    RESCUE = "rescue"  # no event came for a long time


@dataclass(frozen=True, slots=True)
class Refusal:
    """A gate's rejection of a request: the status, and the seconds until a retry makes sense, if they are known."""

    gate: str
    status: int
    retry_after: float | None = None


class GateNeed:
    """A gate that a request has to pass, with the request's key and cost there, and its lease once it has one."""

    __slots__ = ("cost", "gate", "key", "lease")

    def __init__(self, gate: Gate, key: Hashable, cost: int) -> None:
        self.gate: Gate = gate
        self.key: Hashable = key
        self.cost: int = cost
        self.lease: object = None

    def __repr__(self) -> str:
        return f"<GateNeed of {self.cost} of {self.gate.name}[{self.key!r}]>"


class Acquisition:
    """The gates that a request needs, its leases, and the slot where it waits; ``number`` grows with each arrival."""

    __slots__ = (
        "attempts",
        "bypasses",
        "candidate_of",
        "check",
        "deadline",
        "flow",
        "has_waited",
        "is_due",
        "is_forced",
        "lapses",
        "level",
        "limit_ns",
        "needs",
        "number",
        "parked_at",
        "refusal",
        "request",
        "reservations",
        "slot",
        "stage",
        "ticket",
    )

    def __init__(
        self, ticket: Ticket, level: SharedLevel, request: GateRequest, *, number: int, now: int, limit_ns: int
    ) -> None:
        self.ticket: Ticket = ticket
        self.level: SharedLevel = level
        self.request: GateRequest = request
        self.flow: str = ticket.flow
        self.number: int = number
        self.limit_ns: int = limit_ns
        self.deadline: int = now + limit_ns
        self.needs: list[GateNeed] = []
        self.stage: AcquisitionStage = AcquisitionStage.PARKED  # until the request may join its queue
        self.slot: Slot | None = None  # the slot where the request waits
        self.candidate_of: SlotQueue | None = None
        self.parked_at: int = now  # the beginning of the wait at that slot
        self.attempts: int = 0
        # how often, while it was next at one of its slots, another request passed or another gate stopped this one
        self.bypasses: int = 0
        self.is_due: bool = False  # whether it was bypassed as often as one of its gates allows
        self.reservations: list[GateReservation] = []
        self.lapses: int = 0  # the number of its reservations that have lapsed
        self.is_forced: bool = False  # whether an operator lets it try although its slot is closed to it
        self.has_waited: bool = False
        self.check: Check | None = None  # the open question to an asynchronous gate, if any
        self.refusal: Refusal | None = None

    @property
    def is_parked(self) -> bool:
        """Return whether the request is parked, so that it isn't among the waiting tickets of its queue."""
        return self.stage in {AcquisitionStage.PARKED, AcquisitionStage.CHECKING, AcquisitionStage.BEHIND}

    def cost_at(self, slot: "Slot") -> int:
        """Return the cost of the request at ``slot``."""
        return next((need.cost for need in self.needs if need.gate is slot.gate), 1)

    def __repr__(self) -> str:
        where = f" at {self.slot!r}" if self.slot is not None else ""
        return f"<Acquisition {self.number} of {self.flow!r}: {self.stage.value}{where}>"


class Check:
    """A question to an asynchronous gate; `GateScheduler.conclude` takes the answer."""

    __slots__ = ("acquisition", "need", "opening")

    def __init__(self, acquisition: Acquisition, need: GateNeed, opening: int) -> None:
        self.acquisition: Acquisition = acquisition
        self.need: GateNeed = need
        self.opening: int = opening

    def __repr__(self) -> str:
        return f"<Check of {self.need!r} for {self.acquisition!r}>"


class GateReservation:
    """A ``slot`` that is kept for one request, until ``lapses_at``; None means without a limit."""

    __slots__ = ("acquisition", "lapses_at", "slot")

    def __init__(self, slot: "Slot", acquisition: Acquisition) -> None:
        self.slot: Slot = slot
        self.acquisition: Acquisition = acquisition
        self.lapses_at: int | None = None

    def end(self) -> None:
        """End the reservation, so that other requests try again."""
        self.lapses_at = None
        del self.slot.reservations[self.acquisition]
        self.acquisition.reservations.remove(self)

    def __repr__(self) -> str:
        return f"<GateReservation of {self.slot!r} for {self.acquisition!r}>"


class SlotQueue:
    """The requests of one ``level`` that wait at one ``slot``.

    Only one of them tries at a time, the ``candidate``; when it has passed, the next one tries. So after an opening,
    few requests ask the gate, however many wait. ``aside`` has the requests for which a hint said that the last event
    can't help them; the next opening puts them back into ``order``.
    """

    __slots__ = ("aside", "candidate", "level", "order", "slot", "turn")

    def __init__(self, slot: "Slot", level: SharedLevel) -> None:
        self.slot: Slot = slot
        self.level: SharedLevel = level
        self.order: FairOrder[Acquisition] = FairOrder()
        self.turn: int = slot.turn  # grows with each turn of this level; the level with the smallest ``turn`` is next
        self.candidate: Acquisition | None = None
        self.aside: dict[Acquisition, None] = {}

    def add(self, acquisition: Acquisition, *, is_back: bool = False) -> None:
        """Add a request that waits here; ``is_back`` if it was the candidate and no other request has passed since."""
        self.order.add(
            acquisition,
            acquisition.flow,
            number=acquisition.number,
            cost=acquisition.cost_at(self.slot),
            work=acquisition.ticket.total_work,
            is_back=is_back,
        )

    def remove(self, acquisition: Acquisition) -> None:
        """Remove a request that leaves, is set aside, or becomes the candidate."""
        if acquisition in self.aside:
            del self.aside[acquisition]
            return
        self.order.remove(acquisition)

    def __iter__(self) -> Iterator[Acquisition]:
        yield from self.order
        yield from self.aside

    def __len__(self) -> int:
        """Return how many requests wait here; the candidate waits in its level's queue and isn't counted."""
        return len(self.order) + len(self.aside)

    @property
    def is_empty(self) -> bool:
        """Return whether no request waits or tries."""
        return not len(self) and self.candidate is None

    def check(self) -> None:
        """Raise AssertionError if a request waits in two places, or has another slot than this."""
        self.order.check()
        for acquisition in self:
            assert acquisition.slot is self.slot, f"{acquisition!r} waits in {self!r}, and has another slot"
            assert acquisition.stage is AcquisitionStage.PARKED, f"{acquisition!r} waits in {self!r}"
        assert not any(one in self.order for one in self.aside), f"a request waits twice in {self!r}"
        assert self.candidate not in self.order, f"the candidate of {self!r} waits in it"

    def __repr__(self) -> str:
        return f"<SlotQueue of {len(self)} of {self.level.name!r} for {self.slot!r}>"


class Slot:
    """One gate's slot for one ``key``; ``on_error`` is called with an exception that a hint of the gate has raised."""

    __slots__ = (
        "_on_error",
        "checking",
        "closed_at",
        "due",
        "due_at",
        "errors",
        "first",
        "gate",
        "has_penalty",
        "is_rescued",
        "key",
        "log",
        "opening",
        "queues",
        "refusals",
        "reservations",
        "settled",
        "tried_at",
        "turn",
    )

    errors: int
    refusals: int

    def __init__(self, gate: Gate, key: Hashable, on_error: Callable[[Gate, BaseException], None]) -> None:
        self._on_error = on_error
        self.gate: Gate = gate
        self.key: Hashable = key
        self.closed_at: int = OPEN
        self.opening: int = 0
        # Whether the last opening was a rescue that has helped no request yet; when it has helped one, it is counted. A
        # rescue of a slot that was open, also to requests that hints have set aside, changes nothing.
        self.is_rescued: bool = False
        # The number of the last opening after which the slot was shut. Hints are asked only about later events. At
        # first it is less than 0, as if an event had been forgotten: every request may try.
        self.settled: int = -1
        self.log: deque[tuple[int, tuple[str, Any] | None]] = deque(maxlen=_MOST_EVENTS)
        self.queues: dict[int, SlotQueue] = {}  # by the `id` of their level
        self.first: Acquisition | None = None
        self.turn: int = 0  # the ``turn`` with which a level was chosen last
        self.reservations: dict[Acquisition, GateReservation] = {}
        self.checking: int = 0  # the number of open questions to an asynchronous gate
        self.refusals = self.errors = 0  # the numbers of consecutive ones
        self.has_penalty: bool = True
        self.tried_at: int = -1
        self.due_at: int | None = None
        self.due: OpeningCause | None = None

    @property
    def parked(self) -> int:
        """Return how many requests wait here."""
        return sum(map(len, self.queues.values()))

    @property
    def is_busy(self) -> bool:
        """Return whether an asynchronous gate has as many open questions as it may have at a time."""
        return self.checking >= MOST_CHECKS

    @property
    def reach(self) -> int:
        """Return the cost below which requests may try."""
        return 0 if self.gate.is_closed else self.closed_at

    # Turns

    @property
    def holder(self) -> Acquisition | None:
        """Return the request for which the slot is reserved: the earliest one that holds a reservation."""
        return min(self.reservations, key=lambda acquisition: acquisition.number) if self.reservations else None

    def is_kept_from(self, acquisition: Acquisition, cost: int) -> bool:
        """Return whether a reservation of another request keeps this one out.

        Two kinds of requests may pass if they arrived before the holder: requests that are due for a reservation
        themselves, because they may hold something that the holder waits for (for example another slot's reservation),
        and requests of the holder's flow, level and cost.
        """
        holder = self.holder
        if holder is None:
            return False
        if acquisition.number > holder.number:
            return True
        is_alike = (acquisition.flow, acquisition.level, cost) == (holder.flow, holder.level, holder.cost_at(self))
        return not (is_alike or acquisition.is_due)

    def next_of(self, queue: SlotQueue) -> Acquisition | None:
        """Return the request of ``queue`` that should try next; None if none may."""
        holder = self.holder
        if holder is None:
            # ``first`` is chosen when the slot is open, not before: requests that arrive until then are considered.
            if self.first is None and self.closed_at == OPEN:
                self._choose_first()
            return queue.order.first(self.reach)
        if holder.level is not queue.level:
            return None
        earlier = queue.order.first_of(holder.flow, holder.cost_at(self))
        if earlier is not None and earlier.number < holder.number:
            return earlier  # this request has waited at another gate, and keeps its place in its flow
        return holder if holder in queue.order else None

    def _choose_first(self) -> None:
        """Choose the next request of the next level in turn, whether or not it fits."""
        queue: SlotQueue | None = None
        for one in self.queues.values():
            if one.order and (queue is None or one.turn < queue.turn):
                queue = one
        if queue is not None:
            self.first = queue.order.first(OPEN)
            self.turn = queue.turn
            queue.turn += 1

    def queue_of(self, level: SharedLevel) -> SlotQueue:
        """Return the queue of ``level``; create it on the first call."""
        queue = self.queues.get(id(level))
        if queue is None:
            queue = self.queues[id(level)] = SlotQueue(self, level)
        return queue

    def put_last(self, queue: SlotQueue) -> None:
        """Let the queues of other levels try first, because a request of ``queue`` has passed."""
        self.queues[id(queue.level)] = self.queues.pop(id(queue.level))

    # State

    def shut(self, watermark: int) -> None:
        """Record that a cost of ``watermark`` or more doesn't fit."""
        self.closed_at = min(self.closed_at, watermark)
        self.settled = self.opening

    def open(self, event: tuple[str, Any] | None = None, *, is_rescue: bool = False) -> None:
        """Let requests try, because something has changed; hints may exclude requests that an ``event`` can't help."""
        is_shut = self.closed_at < OPEN or any(queue.aside for queue in self.queues.values())
        if is_shut or not is_rescue:
            self.is_rescued = is_rescue
        self.closed_at = OPEN
        self.opening += 1
        if self.gate.hints:
            self.log.append((self.opening, event))
        for queue in self.queues.values():  # this event may help requests that earlier ones couldn't
            aside, queue.aside = queue.aside, {}
            for acquisition in aside:
                queue.add(acquisition)

    def may_help(self, acquisition: Acquisition, since: int) -> bool:
        """Return whether any event after the opening ``since`` may help ``acquisition``.

        Hints are called only when it is the turn of the request. If in doubt, return True: a wrong False keeps a
        request waiting, and a wrong True costs a microsecond.
        """
        if not self.gate.hints:
            return True
        events = [event for opening, event in self.log if opening > since]
        if len(events) < self.opening - since:  # there were more events than are recorded
            return True
        return any(event is None or self._helps(acquisition, *event) for event in events)

    def _helps(self, acquisition: Acquisition, name: str, payload: object) -> bool:
        try:
            return self.gate.hints[name](payload, acquisition.request) is not Hint.SKIP
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001 - an app's function may raise anything
            self._on_error(self.gate, error)
            return True

    def note_passed(self, acquisition: Acquisition) -> None:
        """Record that a request has passed the gate."""
        first = self.first
        if first is not None and first is not acquisition:
            self.note_bypass(first)
            queue = self.queues.get(id(first.level))
            candidate = None if queue is None else queue.candidate
            if candidate is None:
                self.reserve(first)
            elif candidate is not first:  # which waits for the candidate, and that for a seat, not for this gate
                self.note_bypass(candidate)
        self.refusals = self.errors = 0

    def note_bypass(self, acquisition: Acquisition) -> None:
        """Count that another request passed while ``acquisition`` was next."""
        acquisition.bypasses += 1
        acquisition.is_due = acquisition.is_due or acquisition.bypasses >= self.gate.terms.most_bypasses

    def reserve(self, acquisition: Acquisition) -> None:
        """Reserve the slot for ``acquisition``, which waits here, if it has been bypassed often enough."""
        if not acquisition.is_due:
            return
        reservation = self.reservations.get(acquisition)
        if reservation is None:
            reservation = self.reservations[acquisition] = GateReservation(self, acquisition)
            acquisition.reservations.append(reservation)
        reservation.lapses_at = None

    def forget(self, acquisition: Acquisition) -> None:
        """Record that a request doesn't wait here any more."""
        if self.first is acquisition:
            self.first = None

    # Looking

    @property
    def is_idle(self) -> bool:
        """Return whether the slot may be forgotten."""
        return not self.is_needed and self.due_at is None and not self.reservations

    @property
    def is_needed(self) -> bool:
        """Return whether a request waits here, tries, or is asked about."""
        return self.checking > 0 or any(not queue.is_empty for queue in self.queues.values())

    def __iter__(self) -> Iterator[Acquisition]:
        for queue in self.queues.values():
            yield from queue

    def check(self) -> None:
        """Raise AssertionError if a reservation is inconsistent, or if a queue has no candidate and should have one."""
        for queue in self.queues.values():
            queue.check()
            if queue.candidate is None and not self.is_busy:
                found = queue.order.first(self.reach) if self.holder is None else self.next_of(queue)
                assert found is None or found.cost_at(self) >= self.reach, f"no request of {queue!r} tries"
        assert self.first is None or self.first.slot is self, f"{self.first!r} is first in {self!r}, but isn't there"
        for acquisition, reservation in self.reservations.items():
            assert reservation in acquisition.reservations, f"{reservation!r} isn't known to its holder"
            assert acquisition.stage not in {AcquisitionStage.PASSED, AcquisitionStage.ENDED}, (
                f"{self!r} is kept for {acquisition!r}"
            )

    def __repr__(self) -> str:
        state = "closed" if self.gate.is_closed else "open" if self.closed_at == OPEN else f"shut at {self.closed_at}"
        return f"<Slot {self.gate.name}[{self.key!r}]: {state}>"
