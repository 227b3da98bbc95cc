"""The slots of a server's gates that are in use."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any

from apf_middleware.gates.gate import Gate
from apf_middleware.gates.slot import OpeningCause, Slot
from apf_middleware.gates.timers import SlotTimers

__all__ = ["SlotTable"]


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
