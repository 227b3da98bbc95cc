"""The slots of a server's gates, and the leases that requests take there and give back."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates.gate import INTERRUPTS, NO_LEASE, Gate, ParkDecision, Reject
from apf_middleware.gates.slot import Acquisition, GateNeed, OpeningCause, Slot
from apf_middleware.gates.timers import SlotTimers

__all__ = ["Leases", "SlotTable"]


class SlotTable:
    """The slots in use, by gate and key; ``dirty`` are those at which something has changed in this step.

    ``errors`` are the exceptions that functions of the app's gates have raised in this step.
    """

    def __init__(self, timers: SlotTimers) -> None:
        self.errors: list[tuple[Gate, BaseException]] = []
        # `GateScheduler.pump` takes the first key again and again. In a plain `dict` it would pass over deleted keys.
        self.dirty: OrderedDict[Slot, None] = OrderedDict()
        self._timers = timers
        self._slots: dict[Gate, dict[Hashable, Slot]] = {}

    def find(self, gate: Gate, key: Hashable) -> Slot | None:
        """Return the slot, if it is in use."""
        slots = self._slots.get(gate)
        return None if slots is None else slots.get(key)

    def get(self, gate: Gate, key: Hashable) -> Slot:
        """Return the slot; create it if it isn't in use."""
        slots = self._slots.setdefault(gate, {})
        slot = slots.get(key)
        if slot is None:
            slot = slots[key] = Slot(gate, key, self.note_error)
            self.dirty[slot] = None
        return slot

    def of(self, gate: Gate) -> list[Slot]:
        """Return the slots of ``gate`` that are in use."""
        return list(self._slots.get(gate, {}).values())

    def open(self, now: int, slot: Slot, event: tuple[str, Any] | None = None, *, is_release: bool = False) -> None:
        """Open ``slot``, at once or when the pause of its gate is over."""
        if not self._timers.postpones(now, slot, is_release=is_release):
            self.open_now(slot, event)

    def open_now(self, slot: Slot, event: tuple[str, Any] | None = None, *, is_rescue: bool = False) -> None:
        """Open ``slot`` now, even if it was due to be opened later."""
        slot.due_at = slot.due = None
        slot.open(event, is_rescue=is_rescue)
        self.dirty[slot] = None

    def tidy(self, now: int, slot: Slot) -> None:
        """Forget ``slot`` if it isn't needed; otherwise, if requests wait there, make sure that it has a timer."""
        del self.dirty[slot]
        for level in [level for level, queue in slot.queues.items() if queue.is_empty]:
            del slot.queues[level]
        waiting = next(iter(slot), None)
        if waiting is not None:
            self._timers.arm(now, slot, waiting.limit_ns)
        elif slot.due in {OpeningCause.RESCUE, OpeningCause.ANNOUNCED} and not slot.queues:
            slot.due_at = slot.due = None
        slots = self._slots.get(slot.gate, {})
        if slot.is_idle and slots.get(slot.key) is slot:
            del slots[slot.key]
            if not slots:
                del self._slots[slot.gate]

    def note_error(self, gate: Gate, error: BaseException) -> None:
        """Count an exception that a function of ``gate`` has raised, and keep it for the log."""
        gate.counters.evaluations["error"] += 1
        self.errors.append((gate, error))

    def __iter__(self) -> Iterator[Slot]:
        for slots in self._slots.values():
            yield from slots.values()

    def __repr__(self) -> str:
        return f"<SlotTable of {sum(map(len, self._slots.values()))} slots>"


class Leases:
    """Take leases from gates and give them back."""

    def __init__(self, slots: SlotTable, timers: SlotTimers) -> None:
        self._slots = slots
        self._timers = timers

    def acquire(self, now: int, acquisition: Acquisition) -> tuple[GateNeed, object] | None:
        """Take all leases and return None; or take none, and return the need that stops the request and the answer.

        The answer is None for an asynchronous gate, which must be asked outside of the step.
        """
        taken: list[GateNeed] = []
        for need in acquisition.needs:
            if need.lease is not None:
                continue
            answer = None if need.gate.is_async else self._ask(now, acquisition, need)
            if answer is None or isinstance(answer, ParkDecision | Reject):
                for other in reversed(taken):  # taken in this call, so no other request can have waited for them
                    self._take_from(other, other.gate.undo)
                return need, answer
            need.lease = answer
            taken.append(need)
        return None

    def _ask(self, now: int, acquisition: Acquisition, need: GateNeed) -> object:
        try:
            answer = need.gate.acquire(now, acquisition.request, need.key, need.cost)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001 - an app's gate may raise anything
            answer = error
        return self.judge(now, need, answer)

    def judge(self, now: int, need: GateNeed, answer: object) -> object:
        """Count the ``answer`` of a gate and return it; for an exception, return the answer that the terms define."""
        gate = need.gate
        if answer is None:  # it would be taken for an open question, and the gate asked again without end
            rule = "it must be a lease; NO_LEASE stands for none"
            answer = InvalidValueError(f"answer of the gate {gate.name!r}", None, rule)
        if not isinstance(answer, BaseException):
            gate.counters.count(need.key, answer)
            return answer
        self._slots.note_error(gate, answer)
        gate.counters.last = need.key, "passed" if gate.terms.on_error == "admit" else "error"
        if gate.terms.on_error == "admit":
            return NO_LEASE
        if gate.terms.on_error == "reject":
            return gate.refusal()
        self._timers.after_error(now, self._slots.get(gate, need.key))
        return ParkDecision()

    def is_known_full(self, need: GateNeed) -> bool:
        """Return whether the gate is certain that no request fits; not if what it reads for that fails."""
        try:
            return need.gate.is_full(need.key)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001 - an app's pool may raise anything
            self._slots.note_error(need.gate, error)
            return False

    def undo(self, now: int, acquisition: Acquisition) -> None:
        """Give back all leases of a request that isn't served now, and open their slots for other requests."""
        for need in acquisition.needs:
            if need.lease is not None:
                self.give_back(now, need, need.gate.undo)

    def give_back(self, now: int, need: GateNeed, back: Callable[[Hashable, object], None]) -> None:
        """Give one lease back, with the gate's ``release`` or ``undo``, and open the slot for other requests."""
        if not self._take_from(need, back):
            return  # nothing has changed, so a polled gate must not be asked because a request ends
        slot = self._slots.find(need.gate, need.key)
        if slot is not None:
            self._slots.open(now, slot, is_release=True)

    def _take_from(self, need: GateNeed, back: Callable[[Hashable, object], None]) -> bool:
        """Give the lease of ``need`` back, and return whether the gate had granted one."""
        lease, need.lease = need.lease, None
        if lease is NO_LEASE:
            return False
        try:
            back(need.key, lease)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001 - an app's gate may raise anything
            self._slots.note_error(need.gate, error)
        return True

    def __repr__(self) -> str:
        return f"<Leases of {self._slots!r}>"
