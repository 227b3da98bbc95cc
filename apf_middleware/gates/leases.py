"""The leases that requests take from gates and give back."""

from collections.abc import Callable, Hashable

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates.gate import INTERRUPTS, NO_LEASE, ParkDecision, Reject
from apf_middleware.gates.slot import Acquisition, GateNeed
from apf_middleware.gates.slot_table import SlotTable
from apf_middleware.gates.timers import SlotTimers

__all__ = ["Leases"]


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
