"""The scheduler of requests with gates: it decides which of them pass, and which waiting ones may try next.

Pure and synchronous: time is an argument. The scheduler lists what the caller must do: wake refused requests, ask
asynchronous gates, log errors of gates. A queue set asks the scheduler (see `Gatekeeper` in `fairqueuing`) when it is
about to seat a request. So a synchronous gate is asked in the same step, and only when seats are free. (In a level
without queues, the gates are asked before it is known whether seats are free.) A gate that admits a request grants it a
*lease*. A request gets the leases of all its gates or none. If a gate stops it, the request is parked at a *slot*,
which is the state of that gate for one key (see `slot`).

*Steps.* A step is one call to the `Sharing`, with all its effects. During a step, no parked request joins its queue
again. The scheduler records which slots have changed. After the step, `pump` puts requests of these slots back into
their queues, where they try their gates again. For each level and slot, only one request at a time tries in this way.
It is called the *candidate*.

*Order.* A new request waits, and the gate isn't asked about it, in two cases: other requests already wait at the slot,
or the cost of the new request is known not to fit. A request that has already waited at any gate may try although
others wait at the slot, unless one of these is an earlier request of the same flow and cost. *Earlier* refers to the
arrival at the server, so that two requests can't give way to each other for ever.

*No lost wake-up.* After `pump`, if a request waits at a slot that is open to it, its level has a candidate there.

*Asynchronous gates* can't be asked within a step. The request is parked until the answer comes. A `ParkDecision` (the
answer to wait) is ignored, and the request tries again, in two cases: since the question, an event that may help the
request has opened the slot, or an operator has ordered that the request tries again (`kick`). A lease that such a gate
grants is kept while the request waits for its seat, and is given back if another gate stops the request.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import SharedLevel, Ticket
from apf_middleware.gates.fair_order import FairOrder
from apf_middleware.gates.gate import INTERRUPTS, Gate, GateRequest, ParkDecision, Reject, ReleaseAt
from apf_middleware.gates.leases import Leases
from apf_middleware.gates.slot import (
    Acquisition,
    AcquisitionStage,
    Check,
    GateNeed,
    GateReservation,
    OpeningCause,
    Refusal,
    Slot,
    SlotQueue,
)
from apf_middleware.gates.slot_table import SlotTable
from apf_middleware.gates.timers import SlotTimers

__all__ = ["GateScheduler", "Unpark"]

_SECOND: Final = 10**9
_NO_TICKETS: Final[tuple[Ticket, ...]] = ()
_ENDING: Final[dict[ReleaseAt, frozenset[ReleaseAt]]] = {
    "headers": frozenset({"headers"}),
    "seats": frozenset({"headers", "seats"}),
    "response": frozenset({"headers", "seats", "response"}),
}


def _middle() -> float:
    return 0.5


class Unpark(Protocol):
    """Put a ticket back into its queue, as `Sharing.unpark` does, and return the tickets that were seated."""

    def __call__(self, now: int, level: SharedLevel, ticket: Ticket, /) -> Sequence[Ticket]: ...


class GateScheduler:
    """The ``gates`` of a server, and all requests that must pass any of them.

    ``chance`` returns random numbers from 0 to 1, to jitter pauses. After each step the caller empties three lists:
    ``refused`` (requests that a gate has rejected), ``questions`` (to asynchronous gates) and `errors`.
    """

    def __init__(self, gates: Iterable[Gate] = (), *, chance: Callable[[], float] = _middle) -> None:
        self.gates: dict[str, Gate] = {}
        self.refused: list[Acquisition] = []
        self.questions: list[Check] = []
        self.timers: SlotTimers = SlotTimers(chance)
        self.slots: SlotTable = SlotTable(self.timers)
        self._leases = Leases(self.slots, self.timers)
        # In levels with the setting ``fifo``: what waits at a slot, and what waits only for earlier requests (BEHIND).
        self._arrivals: FairOrder[Acquisition] = FairOrder()
        self._ready: deque[Acquisition] = deque()  # parked requests that wait at no slot and may try next
        self._acquisitions: dict[Ticket, Acquisition] = {}
        self._numbers = 0
        for gate in gates:
            self.add(gate)

    @property
    def errors(self) -> list[tuple[Gate, BaseException]]:
        """Return the exceptions that gates have raised, for the log."""
        return self.slots.errors

    def add(self, gate: Gate) -> None:
        """Add one more gate."""
        if gate.name in self.gates:
            raise InvalidValueError("name", gate.name, "there is a gate of this name already", "Rename one of them")
        self.gates[gate.name] = gate

    # The interface for queue sets (`Gatekeeper`)

    def admits(self, now: int, ticket: Ticket) -> bool:
        """Return whether ``ticket``, which is about to be seated, passes its gates; otherwise park or refuse it."""
        acquisition = self._acquisitions.get(ticket)
        return acquisition is None or self._try(now, acquisition)

    def bars(self, now: int, ticket: Ticket) -> bool:
        """Return True if ``ticket`` must not ask its gates now; it has then been parked or refused.

        The reason is that a gate is known to be closed to it, or that earlier requests wait.
        """
        acquisition = self._acquisitions.get(ticket)
        return acquisition is not None and not self._is_free(now, acquisition)

    def is_parked(self, ticket: Ticket) -> bool:
        """Return whether ``ticket`` waits for a gate."""
        acquisition = self._acquisitions.get(ticket)
        return acquisition is not None and acquisition.is_parked

    # Arrival and departure

    def announce(
        self,
        now: int,
        ticket: Ticket,
        level: SharedLevel,
        request: GateRequest,
        gates: Iterable[str],
        *,
        limit_ns: int,
    ) -> Acquisition:
        """Create the acquisition of ``ticket``, which has to pass ``gates``.

        The ticket has arrived and is parked, or is about to arrive at a level without queues.
        """
        self._numbers += 1
        acquisition = Acquisition(ticket, level, request, number=self._numbers, now=now, limit_ns=limit_ns)
        for name in gates:
            gate = self.gates[name]
            try:
                key = gate.key(request)
                if key is not None:
                    acquisition.needs.append(GateNeed(gate, key, gate.cost(request)))
            except INTERRUPTS:
                raise
            except BaseException as error:  # noqa: BLE001 - an app's function may raise anything
                self.slots.note_error(gate, error)
                if gate.terms.on_error != "admit":
                    acquisition.refusal = _refusal(gate, None, now)
        self._acquisitions[ticket] = acquisition
        return acquisition

    def enter(self, now: int, acquisition: Acquisition) -> None:
        """Schedule a newly arrived request for the next `pump`."""
        if acquisition.refusal is None:
            self._ready.append(acquisition)
        else:
            self._refuse(now, acquisition, self.gates[acquisition.refusal.gate], None)

    def pass_at_once(self, now: int, acquisition: Acquisition) -> bool:
        """Return whether a request that can't wait passes all its gates now; if not, its refusal says why."""
        if acquisition.refusal is None:
            barred = next((need for need in acquisition.needs if self._is_barred(acquisition, need)), None)
            stopped = (barred, None) if barred is not None else self._leases.acquire(now, acquisition)
            if stopped is None:
                self._commit(now, acquisition)
                return True
            acquisition.refusal = _refusal(stopped[0].gate, stopped[1], now)
        self.gates[acquisition.refusal.gate].counters.rejected += 1
        return False

    def leave(self, now: int, ticket: Ticket) -> Acquisition | None:
        """Forget ``ticket``, which has left unserved; if it waited for a gate, its acquisition gets a refusal."""
        acquisition = self._acquisitions.pop(ticket, None)
        if acquisition is None:
            return None
        slot = acquisition.slot
        if slot is not None and acquisition.refusal is None and acquisition.is_parked:
            decision = ParkDecision(retry_at=slot.due_at) if slot.due is OpeningCause.ANNOUNCED else None
            acquisition.refusal = _refusal(slot.gate, decision, now)
        stage, queue = acquisition.stage, acquisition.candidate_of
        if stage is AcquisitionStage.CHECKING:
            self._stop_check(acquisition)
        elif slot is not None and queue is None:
            slot.queues[id(acquisition.level)].remove(acquisition)  # a candidate has been removed already
        if queue is not None:
            queue.candidate = acquisition.candidate_of = None
        acquisition.stage = AcquisitionStage.ENDED
        self._end_waiting(now, acquisition)
        self._leases.undo(now, acquisition)
        return acquisition

    def release(self, now: int, ticket: Ticket, at: ReleaseAt = "response") -> bool:
        """Give back the leases of ``ticket`` that end now; return whether there were any.

        It has ended, or, according to ``at``, has only sent its headers or given its seats back.
        """
        acquisition, had_leases = self._acquisitions.get(ticket), False
        if acquisition is None:
            return False
        for need in acquisition.needs:
            if need.lease is not None and need.gate.terms.release in _ENDING[at]:
                self._leases.give_back(now, need, need.gate.release)
                had_leases = True
        # Nothing is left to give back to a request without leases: a stream in a ``fifo`` level may have had no gates.
        if all(need.lease is None for need in acquisition.needs):
            del self._acquisitions[ticket]
        return had_leases

    def acquisition(self, ticket: Ticket) -> Acquisition | None:
        """Return the acquisition of a request that has gates to pass and hasn't ended; None for any other request."""
        return self._acquisitions.get(ticket)

    # Trying

    def _is_free(self, now: int, acquisition: Acquisition) -> bool:
        """Return whether the request may ask its gates; otherwise park or refuse it."""
        # First check the order of arrival: a request that must wait for an earlier one must not take any leases.
        earlier = self._arrivals.first_of(_group(acquisition), 1) if self._arrivals else None
        if earlier is not None and earlier.number < acquisition.number:
            self._park(now, acquisition, AcquisitionStage.BEHIND)
            self._move_to(now, acquisition, None)
            self._hold(acquisition)
            return False
        for need in acquisition.needs:
            if need.lease is None and self._is_barred(acquisition, need):
                self._wait(now, acquisition, need, None)
                return False
        return True

    def _is_barred(self, acquisition: Acquisition, need: GateNeed) -> bool:
        """Return True if the request must not ask this gate now: the gate is closed to it, or others come first."""
        gate = need.gate
        if gate.is_closed:
            return True
        slot = self.slots.find(gate, need.key)
        if slot is None or acquisition.is_forced:
            return False
        if need.cost >= slot.closed_at or slot.is_busy or slot.is_kept_from(acquisition, need.cost):
            return True
        if acquisition.has_waited:
            queue = slot.queues.get(id(acquisition.level))
            earlier = None if queue is None else queue.order.first_of(acquisition.flow, need.cost)
            return earlier is not None and earlier.number < acquisition.number
        return slot.parked > 0

    def _try(self, now: int, acquisition: Acquisition) -> bool:
        """Ask the gates of a request; return True if it passes, otherwise park or refuse it."""
        if not self._is_free(now, acquisition):
            return False
        acquisition.attempts += 1
        stopped = self._leases.acquire(now, acquisition)
        if stopped is None:
            self._commit(now, acquisition)
            return True
        need, answer = stopped
        if isinstance(answer, Reject):
            self._refuse(now, acquisition, need.gate, answer)
        elif isinstance(answer, ParkDecision):
            self._wait(now, acquisition, need, answer)
        else:
            self._begin_check(now, acquisition, need)
        return False

    def _commit(self, now: int, acquisition: Acquisition) -> None:
        """Record that the request passes its gates; it is seated in this step."""
        queue, acquisition.candidate_of = acquisition.candidate_of, None
        acquisition.stage = AcquisitionStage.PASSED
        if queue is not None:
            queue.candidate = None
            queue.order.charge(acquisition.flow, acquisition.ticket.total_work)
            queue.slot.put_last(queue)
            if queue.slot.is_rescued:  # count a rescue once, not for each request that passes after it
                queue.slot.is_rescued = False
                queue.slot.gate.counters.rescues += 1
        for need in acquisition.needs:
            slot = self.slots.find(need.gate, need.key)
            if slot is not None:
                slot.note_passed(acquisition)
                if self._leases.is_known_full(need):
                    slot.shut(1)  # so that the next request doesn't ask in vain
        self._end_waiting(now, acquisition)

    # Waiting

    def _wait(self, now: int, acquisition: Acquisition, need: GateNeed, answer: ParkDecision | None) -> None:
        """Park the request at this gate, or refuse it; ``answer`` is None if the gate wasn't asked."""
        gate = need.gate
        slot = self.slots.get(gate, need.key)
        if answer is None:
            queue = slot.queues.get(id(acquisition.level))
            ahead = 0 if queue is None else queue.order.count_of(acquisition.flow)  # each of them costs at least 1
            retry_at = gate.closed_until if gate.is_closed else gate.opens_at(now, need.key, need.cost + ahead)
        else:
            retry_at = answer.retry_at
            slot.tried_at = now
            slot.shut(answer.below or need.cost)
            self.timers.after_park(now, slot, acquisition.limit_ns, answer)
            if acquisition.slot is not None and acquisition.slot is not slot:
                # The request was next at its former slot, and now another gate stops it. Count this as if another
                # request had passed it (a bypass), so that the new slot is finally reserved for it. Otherwise two
                # gates that are never free at the same time could stop it for ever.
                slot.note_bypass(acquisition)
        if (retry_at is not None and retry_at > acquisition.deadline) or self._is_crowded(acquisition, slot):
            self._refuse(now, acquisition, gate, ParkDecision(retry_at=retry_at))
            return
        before = acquisition.candidate_of
        self._park(now, acquisition, AcquisitionStage.PARKED)
        self._move_to(now, acquisition, slot)
        queue = slot.queue_of(acquisition.level)
        queue.add(acquisition, is_back=queue is before)
        slot.reserve(acquisition)
        self._let_lapse(now, acquisition)
        self.slots.dirty[slot] = None

    @staticmethod
    def _is_crowded(acquisition: Acquisition, slot: Slot) -> bool:
        """Return True if this is a new request, and as many requests wait already as are allowed to.

        Without ``max_parked``, half the length limit of a queue is allowed, for the requests at all gates together.
        """
        if acquisition.has_waited:
            return False
        most = slot.gate.terms.max_parked
        if most is not None:
            return slot.gate.parked >= most
        queue, limit = acquisition.ticket.queue, acquisition.level.queueset.settings.queue_length_limit
        return queue is not None and queue.parked - acquisition.is_parked >= max(1, limit // 2)

    def _park(self, now: int, acquisition: Acquisition, stage: AcquisitionStage) -> None:
        """Remove the request from the waiting tickets of its queue, if it is among them, and give its leases back.

        While a gate is asked, the leases of those before it are kept. Otherwise they would have to be asked again, and
        a request with two asynchronous gates would never have both leases.
        """
        queue, acquisition.candidate_of = acquisition.candidate_of, None
        if queue is not None:
            queue.candidate = None
            self.slots.dirty[queue.slot] = None
        was, acquisition.stage = acquisition.stage, stage
        acquisition.is_forced = False
        if was is AcquisitionStage.QUEUED:
            acquisition.level.queueset.park(now, acquisition.ticket)
        if stage is not AcquisitionStage.CHECKING:
            self._leases.undo(now, acquisition)

    def _move_to(self, now: int, acquisition: Acquisition, slot: Slot | None) -> None:
        """Move the request from the slot where it waits, if any, to ``slot``; None ends its wait.

        Only this method sets ``acquisition.slot``. So every wait begins and ends here, and the numbers of parked
        requests are right.
        """
        before, acquisition.slot = acquisition.slot, slot
        if before is slot:
            return
        if before is not None:
            before.gate.parked -= 1
            before.gate.counters.waits.observe(now - acquisition.parked_at)
            before.forget(acquisition)
            self.slots.dirty[before] = None
        if slot is not None:
            slot.gate.parked += 1
            acquisition.parked_at = now
            acquisition.has_waited = True
            if acquisition.level.queueset.settings.fifo:
                self._hold(acquisition)

    def _hold(self, acquisition: Acquisition) -> None:
        """Keep later requests of the group behind this one."""
        if acquisition not in self._arrivals:
            self._arrivals.add(acquisition, _group(acquisition), number=acquisition.number, cost=1, work=0)

    def _end_waiting(self, now: int, acquisition: Acquisition) -> None:
        """End the waiting of a request that has passed or left.

        Remove it from its slot and from the order of arrival, and end its reservations.
        """
        self._move_to(now, acquisition, None)
        for reservation in acquisition.reservations.copy():
            reservation.end()
            self.slots.dirty[reservation.slot] = None
        if acquisition in self._arrivals:
            self._arrivals.remove(acquisition)
            following = self._arrivals.first_of(_group(acquisition), 1)
            if following is not None and following.stage is AcquisitionStage.BEHIND:
                self._ready.append(following)

    def _let_lapse(self, now: int, acquisition: Acquisition) -> None:
        """Set timers for the reservations of the request, except at the slot where it waits."""
        for reservation in acquisition.reservations:
            is_here = acquisition.stage is AcquisitionStage.PARKED and acquisition.slot is reservation.slot
            if not is_here and reservation.lapses_at is None:
                self.timers.let_lapse(now, reservation)

    def _limit_reservation(self, now: int, slot: Slot) -> None:
        """Set a timer for the reservation of the slot's holder while another request of its level tries.

        That one waits for a seat, and the holder for its turn, so neither waits for this gate.
        """
        holder = slot.holder
        if holder is None or holder.stage is not AcquisitionStage.PARKED or holder.slot is not slot:
            return
        reservation = slot.reservations[holder]
        if slot.queues[id(holder.level)].candidate is None:
            reservation.lapses_at = None
        elif reservation.lapses_at is None:
            self.timers.let_lapse(now, reservation)

    def _refuse(self, now: int, acquisition: Acquisition, gate: Gate, answer: object) -> None:
        """Reject the request because of this ``answer`` of ``gate``; None if its key couldn't be computed."""
        acquisition.refusal = _refusal(gate, answer, now)
        gate.counters.rejected += 1
        acquisition.level.queueset.refuse(now, acquisition.ticket)
        self.leave(now, acquisition.ticket)
        self.refused.append(acquisition)

    # After each step

    def pump(self, now: int, unpark: Unpark) -> Sequence[Ticket]:
        """Let requests try where something may have changed; return the tickets that were seated."""
        if not (self.slots.dirty or self._ready):
            return _NO_TICKETS
        seated: list[Ticket] = []
        # The loop terminates. An iteration either seats or refuses a request; or parks it, which closes the slot; or
        # leaves it in its queue as the candidate of its level and slot, and there is at most one candidate for each.
        while (acquisition := self._next(now)) is not None:
            acquisition.stage = AcquisitionStage.QUEUED
            self._let_lapse(now, acquisition)
            seated += unpark(now, acquisition.level, acquisition.ticket)
        return seated

    def _next(self, now: int) -> Acquisition | None:
        """Return the next request that may join its queue."""
        while self._ready or self.slots.dirty:
            if self._ready:
                acquisition = self._ready.popleft()
                if (
                    acquisition.stage not in {AcquisitionStage.PARKED, AcquisitionStage.BEHIND}
                    or acquisition.slot is not None
                ):
                    continue  # a request may be listed twice, or have left since
            else:
                slot = next(iter(self.slots.dirty))
                for queue in slot.queues.values():
                    found = self._candidate(slot, queue)
                    if found is not None:
                        break
                else:
                    self._limit_reservation(now, slot)
                    self.slots.tidy(now, slot)
                    continue
                acquisition = found
            if self._is_free(now, acquisition):
                return acquisition
        return None

    @staticmethod
    def _candidate(slot: Slot, queue: SlotQueue) -> Acquisition | None:
        """Return the next request of this queue that may try; None if it has none, or has a candidate already."""
        while queue.candidate is None and not slot.is_busy:
            acquisition = slot.next_of(queue)
            if acquisition is None or acquisition.cost_at(slot) >= slot.reach:
                return None
            if slot.may_help(acquisition, slot.settled):
                queue.candidate = acquisition
                acquisition.candidate_of = queue
                queue.remove(acquisition)
                return acquisition
            queue.remove(acquisition)
            queue.aside[acquisition] = None  # the last event can't help it
            slot.forget(acquisition)
        return None

    # Asynchronous gates

    def _begin_check(self, now: int, acquisition: Acquisition, need: GateNeed) -> None:
        slot = self.slots.get(need.gate, need.key)
        self._park(now, acquisition, AcquisitionStage.CHECKING)
        self._move_to(now, acquisition, slot)
        slot.checking += 1
        acquisition.check = Check(acquisition, need, slot.opening)
        self.questions.append(acquisition.check)

    def _stop_check(self, acquisition: Acquisition) -> None:
        """Detach a request that leaves from its open question; if that is granted a lease, `conclude` gives it back."""
        check, acquisition.check = acquisition.check, None
        if check is not None:
            self._end_check(check)

    def _end_check(self, check: Check) -> Slot:
        slot = self.slots.get(check.need.gate, check.need.key)
        slot.checking -= 1
        self.slots.dirty[slot] = None
        return slot

    def conclude(self, now: int, check: Check, answer: object) -> None:
        """Apply the answer of an asynchronous gate: a lease, a `ParkDecision`, a `Reject`, or an exception."""
        acquisition, need = check.acquisition, check.need
        gate = need.gate
        answer = self._leases.judge(now, need, answer)
        if acquisition.check is not check:  # the request has left, so only a lease matters
            if not isinstance(answer, ParkDecision | Reject):
                gone = GateNeed(gate, need.key, need.cost)
                gone.lease = answer
                self._leases.give_back(now, gone, gate.undo)
            return
        acquisition.check = None
        slot = self._end_check(check)
        if not isinstance(answer, ParkDecision | Reject):
            need.lease = answer
        elif self.gates.get(gate.name) is not gate:
            acquisition.needs.remove(need)  # the gate was removed after the question, so its answer doesn't count
        elif isinstance(answer, Reject):
            self._refuse(now, acquisition, gate, answer)
            return
        else:
            # If the slot was opened after the question, the answer may be outdated, and the request tries again.
            has_changed = slot.opening != check.opening and slot.may_help(acquisition, check.opening)
            if not (has_changed or acquisition.is_forced):
                self._wait(now, acquisition, need, answer)
                return
        self._move_to(now, acquisition, None)
        acquisition.stage = AcquisitionStage.PARKED
        self._ready.append(acquisition)

    # Events and operators

    def emit(self, now: int, event: str, key: Hashable = None, payload: object = None) -> None:
        """Open the slots of ``key``, or all slots if ``key`` is None, in the gates that listen to ``event``."""
        for gate in self.gates.values():
            if event == gate.name or event in gate.events:
                gate.counters.events += 1
                gate.counters.last = None
                hinted: tuple[str, Any] | None = (event, payload) if event in gate.hints else None
                for slot in self.slots.of(gate) if key is None else [self.slots.find(gate, key)]:
                    if slot is not None:
                        self.slots.open(now, slot, hinted)

    def open_gate(self, now: int, gate: Gate) -> None:
        """Open ``gate``, because an operator asks for it or the time for which it was closed is over."""
        gate.is_closed = False
        gate.closed_until = None
        gate.counters.last = None
        self.open_slots(now, gate)

    def open_slots(self, now: int, gate: Gate) -> None:
        """Open all slots of the gate, and forget how often it has refused or failed."""
        for slot in self.slots.of(gate):
            slot.refusals = slot.errors = 0
            slot.due_at = slot.due = None
            self.slots.open(now, slot)

    def close_gate(self, gate: Gate, until: int | None) -> None:
        """Close ``gate``: no request passes until it is opened, or until the time ``until`` if that isn't None."""
        gate.is_closed = True
        gate.closed_until = until
        if until is not None:
            self.timers.reopen(until, gate)

    def retire(self, now: int, name: str) -> None:
        """Remove a gate. Waiting requests no longer need it; leases that are held are given back to it later."""
        gate = self.gates.pop(name)
        # A list, because a gate that gets a lease back may emit an event that ends the wait of other requests.
        for acquisition in list(self._acquisitions.values()):
            slot, queue = acquisition.slot, acquisition.candidate_of
            if slot is not None and slot.gate is gate:
                self.kick(now, acquisition)
                if queue is not None:  # it is a candidate in its level's queue, and now waits only for a seat
                    queue.candidate = acquisition.candidate_of = None
                    self._move_to(now, acquisition, None)
            if acquisition.stage is not AcquisitionStage.PASSED:
                self._drop_needs(now, acquisition, gate)

    def _drop_needs(self, now: int, acquisition: Acquisition, gate: Gate) -> None:
        """Let the request need ``gate`` no longer; if that is just being asked, `conclude` does this."""
        asked = None if acquisition.check is None else acquisition.check.need
        for need in [one for one in acquisition.needs if one.gate is gate and one is not asked]:
            acquisition.needs.remove(need)
            if need.lease is not None:  # of an asynchronous gate, while the request waits for its seat
                self._leases.give_back(now, need, gate.undo)

    def kick(self, now: int, acquisition: Acquisition) -> None:
        """Let this request try, whether or not its slot is open; a gate that an operator has closed stays closed."""
        slot = acquisition.slot
        if acquisition.stage is AcquisitionStage.CHECKING:
            acquisition.is_forced = True
        elif acquisition.stage is AcquisitionStage.PARKED and slot is not None:
            slot.queues[id(acquisition.level)].remove(acquisition)
            self._move_to(now, acquisition, None)
            acquisition.is_forced = True
            self._ready.append(acquisition)

    # Time

    def tick(self, now: int) -> None:
        """Open the gates and slots that are due by ``now``, and end reservations that have lapsed."""
        for due in self.timers.pop_due(now):
            if isinstance(due, Gate):
                self.open_gate(now, due)
            elif isinstance(due, GateReservation):
                due.acquisition.lapses += 1
                due.end()
                self.slots.dirty[due.slot] = None
            elif due.due is not None:
                self.slots.open_now(due, is_rescue=due.due is OpeningCause.RESCUE)

    def hasten(self, now: int) -> None:
        """Open a slot of a polled gate early, because there are free seats that no other request waits for."""
        slot = self.timers.hasten(now)
        if slot is not None:
            self.slots.open_now(slot)

    # Looking

    def __iter__(self) -> Iterator[Acquisition]:
        return iter(self._acquisitions.values())

    def check(self) -> None:
        """Raise AssertionError if sums are wrong, or if a request waits although it should try."""
        assert not self._ready, f"`pump` has left requests that may try in {self!r}"
        assert not self.slots.dirty, f"`pump` has left changed slots in {self!r}"
        self._arrivals.check()
        for slot in self.slots:
            slot.check()
        for gate in self.gates.values():
            gate.check()
            here = sum(1 for one in self if one.slot is not None and one.slot.gate is gate)
            assert gate.parked == here, f"{here} requests wait for {gate!r}, which counts {gate.parked}"
        for acquisition in self:
            if acquisition.stage is AcquisitionStage.PARKED:
                place = acquisition.slot
                assert place is not None, f"{acquisition!r} waits nowhere"
                queue = place.queues[id(acquisition.level)]
                assert acquisition in queue.order or acquisition in queue.aside, f"{acquisition!r} isn't where it waits"

    def __repr__(self) -> str:
        return f"<GateScheduler of {len(self.gates)} gates and {len(self._acquisitions)} requests>"


def _group(acquisition: Acquisition) -> str:
    """Return the group in which requests keep the order of arrival: one flow in one queue."""
    return f"{id(acquisition.ticket.queue)} {acquisition.flow}"


def _refusal(gate: Gate, answer: object, now: int) -> Refusal:
    """Return the refusal of a request that ``gate`` has rejected, or that can't wait for it any longer."""
    reject = answer if isinstance(answer, Reject) else gate.refusal()
    after = reject.retry_after
    if isinstance(answer, ParkDecision) and answer.retry_at is not None:
        after = max(0.0, (answer.retry_at - now) / _SECOND)
    return Refusal(gate.name, reject.status or gate.terms.status, after)
