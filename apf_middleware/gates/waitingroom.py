"""Who is kept waiting by which gate, and who may try when something has happened.

The half of the engine that knows places; `gatekeeper` has the other, that asks gates. Nobody is let into a queue in
the middle of a step. What there is to do is noted, and `pump`, after the step, does it: one candidate of each line at a
time.

*Order.* A request that comes to a slot where others wait, or whose cost is known not to fit, joins them unasked. One
that has waited already goes before them, except that nobody overtakes an earlier one of its own flow and cost. As that
goes by arrival, no two can make way for each other.

*No lost wake-up.* After each step, whoever waits for a slot that is open to it has a candidate of its line in a queue.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol

from apf_middleware.gates.calendar import Calendar
from apf_middleware.gates.fifo import Turnstiles
from apf_middleware.gates.gate import Gate, Hold
from apf_middleware.gates.hints import asks_for
from apf_middleware.gates.outcomes import NO_LEASE, Reject
from apf_middleware.gates.passage import Need, Passage, Refusal, Stage
from apf_middleware.gates.slot import Due, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apf_middleware.fairqueuing import SharedLevel, Ticket
    from apf_middleware.gates.line import Line

__all__ = ["Unpark", "WaitingRoom", "refusal_of"]

_SECOND: Final = 10**9
_NOBODY: "Final[tuple[Ticket, ...]]" = ()


class Unpark(Protocol):
    """Lets a ticket back into its queue, as `Sharing.unpark` does; returns who has been seated."""

    def __call__(self, now: int, level: "SharedLevel", ticket: "Ticket", /) -> "Sequence[Ticket]": ...


class WaitingRoom(ABC):
    """The places of all who have gates to pass; whom a gate has refused in a step is in ``refused`` after it."""

    def __init__(self, chance: Callable[[], float], note_error: Callable[[Gate, Exception], None]) -> None:
        self.refused: list[Passage] = []
        self.calendar: Calendar = Calendar(chance)
        self.note_error = note_error
        self._turnstiles = Turnstiles()
        self._ready: deque[Passage] = deque()
        self._dirty: dict[Slot, None] = {}

    @abstractmethod
    def leave(self, now: int, ticket: "Ticket") -> Passage | None: ...

    @abstractmethod
    def _stop_check(self, passage: Passage) -> None: ...

    # May it try?

    def _is_free(self, now: int, passage: Passage) -> bool:
        """Whether nothing is known that bars it; otherwise it waits there now, or has been refused."""
        if self._turnstiles.bars(passage):
            self._park(now, passage, Stage.BEHIND)
            self._move_to(now, passage, None)
            self._turnstiles.stand_behind(passage)
            return False
        for need in passage.needs:
            if need.lease is None and self._is_barred(passage, need):
                self._line_up(now, passage, need, None)
                return False
        return True

    def _is_barred(self, passage: Passage, need: Need) -> bool:
        gate = need.gate
        if gate.is_closed:
            return True
        slot = gate.slots.get(need.key)
        if slot is None or passage.is_forced:
            return False
        if need.cost >= slot.closed_at or slot.is_busy or slot.is_kept_from(passage, need.cost):
            return True
        if passage.has_waited:
            line = slot.lines.get(id(passage.level))
            earlier = None if line is None else line.earliest(passage.flow, need.cost)
            return earlier is not None and earlier.number < passage.number
        return slot.parked > 0

    # Waiting

    def _line_up(self, now: int, passage: Passage, need: Need, answer: Hold | None) -> None:
        """It waits at this gate: told so by an ``answer``, or unasked."""
        gate = need.gate
        slot = self._slot(gate, need.key)
        if answer is None:
            ahead = slot.ahead_of(passage)
            retry_at = gate.closed_until if gate.is_closed else gate.opens_at(now, need.key, need.cost + ahead)
        else:
            retry_at = answer.retry_at
            slot.tried_at = now
            slot.shut(need.cost if answer.below is None else min(need.cost, answer.below))
            self.calendar.after_hold(now, slot, passage.limit_ns, answer)
        if (retry_at is not None and retry_at > passage.deadline) or self._is_crowded(passage, slot):
            self._refuse(now, passage, refusal_of(gate, Hold(retry_at=retry_at), now))
            return
        line = passage.line
        if answer is not None and passage.slot is not None and passage.slot is not slot:
            slot.note_bypass(passage)  # stopped here after its turn there: this must not go on without end either
        self._park(now, passage, Stage.PARKED)
        self._move_to(now, passage, slot)
        passage.asked = -1
        slot.put(passage, need.cost, line)
        slot.reserve(passage)
        self._let_lapse(now, passage)
        backs_off = slot.due in {Due.POLL, Due.ERROR}
        gate.moves["backoff" if backs_off else "parked", "arrival" if answer is None else "refusal"] += 1
        self.calendar.arm(now, slot, passage.limit_ns)
        self._dirty[slot] = None

    @staticmethod
    def _is_crowded(passage: Passage, slot: Slot) -> bool:
        """Whether no more may wait for this gate; who waits already, may."""
        if passage.has_waited:
            return False
        most = slot.gate.terms.max_parked
        if most is not None:
            return slot.gate.parked >= most
        queue, limit = passage.ticket.queue, passage.level.queueset.settings.queue_length_limit
        return queue is not None and queue.parked - passage.is_parked >= max(1, limit // 2)

    def _park(self, now: int, passage: Passage, stage: Stage) -> None:
        """It leaves the chain of its queue, if it is there, and gives back what it has."""
        line, passage.line = passage.line, None
        if line is not None:
            line.candidate = None
            self._dirty[line.slot] = None
        was, passage.stage = passage.stage, stage
        passage.is_forced = False
        if was is Stage.QUEUED:
            passage.level.queueset.park(now, passage.ticket)
        self._give_back(now, passage)

    def _move_to(self, now: int, passage: Passage, slot: Slot | None) -> None:
        """Let ``passage`` wait at ``slot`` and leave the one where it waited, which must not remember it.

        Nothing else sets ``passage.slot``, so every way in which a request can end comes through here.
        """
        before, passage.slot = passage.slot, slot
        if before is slot:
            return
        if before is not None:
            before.gate.parked -= 1
            before.gate.tally.waits.observe(now - passage.parked_at)
            before.forget(passage)
            self._dirty[before] = None
        if slot is not None:
            slot.gate.parked += 1
            passage.parked_at = now
            passage.has_waited = True
            self._turnstiles.block(passage)

    def _withdraw(self, now: int, passage: Passage, stage: Stage) -> None:
        """It waits nowhere any more."""
        slot, line = passage.slot, passage.line
        was, passage.stage = passage.stage, stage
        passage.line = None
        if was is Stage.CHECKING:
            self._stop_check(passage)
        elif was is Stage.PARKED and line is None and slot is not None:
            slot.take(passage, passage.cost_at(slot))
        if line is not None:
            line.candidate = None
        self._move_to(now, passage, None)
        self._drop_reservations(passage)

    def _drop_reservations(self, passage: Passage) -> None:
        for reservation in passage.reservations.copy():
            reservation.end()
            self._dirty[reservation.slot] = None

    def _let_lapse(self, now: int, passage: Passage) -> None:
        """It waits for a seat, or at another gate: what is reserved for it elsewhere stays so only for a while."""
        for reservation in passage.reservations:
            is_here = passage.stage is Stage.PARKED and passage.line is None and passage.slot is reservation.slot
            if not is_here and reservation.lapses_at is None:
                self.calendar.let_lapse(now, reservation)

    def _refuse(self, now: int, passage: Passage, refusal: Refusal) -> None:
        passage.refusal = refusal
        self._gate_of(passage, refusal).tally.rejected += 1
        passage.level.queueset.refuse(now, passage.ticket)
        self.leave(now, passage.ticket)
        self.refused.append(passage)

    @abstractmethod
    def _gate_of(self, passage: Passage, refusal: Refusal) -> Gate: ...

    def _give_back(self, now: int, passage: Passage) -> None:
        """Leases that others have seen taken: to give them back is an event."""
        for need in passage.needs:
            if need.lease is not None:
                self._release(now, need, need.gate.undo)

    def _release(self, now: int, need: Need, give_back: Callable[[Hashable, object], None]) -> None:
        lease, need.lease = need.lease, None
        if lease is NO_LEASE:
            return  # nothing has happened: a gate that is polled must not be asked for each request that ends
        try:
            give_back(need.key, lease)
        except Exception as error:  # noqa: BLE001 - whatever an app's gate raises
            self._fail(need.gate, error)
        slot = need.gate.slots.get(need.key)
        if slot is not None:
            self._open_slot(now, slot, "release")

    def _fail(self, gate: Gate, error: Exception) -> None:
        gate.tally.evaluations["error"] += 1
        self.note_error(gate, error)

    def _open_slot(self, now: int, slot: Slot, cause: str, event: tuple[str, Any] | None = None) -> None:
        if not self.calendar.postpones(now, slot, cause):
            slot.open(cause, event)
            self._dirty[slot] = None

    # After each step

    def pump(self, now: int, unpark: Unpark) -> "Sequence[Ticket]":
        """Let those try for whom something may have changed; who has been seated."""
        if not (self._dirty or self._ready):
            return _NOBODY
        seated: list[Ticket] = []
        while (passage := self._next(now)) is not None:
            passage.stage = Stage.QUEUED
            seated += unpark(now, passage.level, passage.ticket)
        return seated

    def _next(self, now: int) -> Passage | None:
        while self._ready or self._dirty:
            if self._ready:
                passage = self._ready.popleft()
                if passage.stage not in {Stage.PARKED, Stage.BEHIND}:
                    continue
            else:
                slot = next(iter(self._dirty))
                found = next(filter(None, (self._candidate(slot, line) for line in slot.lines.values())), None)
                if found is None:
                    del self._dirty[slot]
                    self._tidy(now, slot)
                    continue
                passage = found
            if self._is_free(now, passage):
                for need in passage.needs:
                    if need.lease is None:
                        need.gate.moves["active", self._cause(passage)] += 1
                        break
                self._let_lapse(now, passage)
                return passage
        return None

    @staticmethod
    def _cause(passage: Passage) -> str:
        return "arrival" if passage.slot is None else passage.slot.cause

    @staticmethod
    def _candidate(slot: Slot, line: "Line") -> Passage | None:
        """The next one of this line that may try, if none does already."""
        while line.candidate is None and not slot.is_busy:
            passage = slot.next_of(line)
            if passage is None or passage.level is not line.level or passage.line is not None:
                return None
            cost = passage.cost_at(slot)
            if passage.stage is not Stage.PARKED or cost >= slot.reach or passage in line.aside:
                return None
            if asks_for(slot, passage, slot.settled):
                line.candidate = passage
                passage.line = line
                slot.take(passage, cost)
                return passage
            passage.asked = slot.opening
            line.take(passage, cost)
            line.aside[passage] = None
            slot.forget(passage)
        return None

    def _slot(self, gate: Gate, key: Hashable) -> Slot:
        slot = gate.slots.get(key)
        if slot is None:
            slot = gate.slots[key] = Slot(gate, key)
            self._dirty[slot] = None
        return slot

    def _tidy(self, now: int, slot: Slot) -> None:
        """Keep what is needed of ``slot``, and see that whoever waits is never forgotten."""
        for name in [name for name, line in slot.lines.items() if line.is_empty]:
            del slot.lines[name]
        someone = next(iter(slot), None)
        if someone is not None:
            self.calendar.arm(now, slot, someone.limit_ns)
        elif slot.due in {Due.RESCUE, Due.TOLD} and not slot.lines:
            slot.due_at = slot.due = None
        if slot.is_idle and slot.gate.slots.get(slot.key) is slot:
            del slot.gate.slots[slot.key]


def refusal_of(gate: Gate, answer: object, now: int) -> Refusal:
    """What a request is told whom ``gate`` has given this answer, and who can't wait any longer."""
    told = answer if isinstance(answer, Reject) else gate.refusal()
    after = told.retry_after
    if isinstance(answer, Hold) and answer.retry_at is not None:
        after = max(0.0, (answer.retry_at - now) / _SECOND)
    return Refusal(gate.name, told.status or gate.terms.status, after)
