"""When slots are to be opened by nothing but time: pauses of gates that are polled or broken, what a gate has told, and
the rescue of requests whose event never came.

One heap for all; an entry counts as long as its slot still says the same time.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from apf_middleware.gates.backoff import LONGEST_PAUSE_NS, longest_pause, pause, rescue_pause, spread
from apf_middleware.gates.slot import Due, GateReservation, Slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.gates.gate import Gate, Hold

__all__ = ["Calendar"]

_LOOKED_AT: Final = 8  # of the first entries, when one is to be hastened


class Calendar:
    """What is due and when; ``chance`` spreads pauses."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self.chance = chance
        self._heap: list[tuple[int, int, Slot | Gate | GateReservation]] = []
        self._serial = count()

    def _set(self, slot: Slot, at: int, due: Due) -> None:
        slot.due_at, slot.due = at, due
        heappush(self._heap, (at, next(self._serial), slot))

    def remember(self, at: int, gate: "Gate") -> None:
        """``gate`` is closed until then."""
        heappush(self._heap, (at, next(self._serial), gate))

    def let_lapse(self, now: int, reservation: GateReservation) -> None:
        """End ``reservation`` after a while: twice as long each time that one of the same request has lapsed."""
        passage = reservation.passage
        reservation.lapses_at = now + (rescue_pause(passage.limit_ns) << passage.lapses)
        heappush(self._heap, (reservation.lapses_at, next(self._serial), reservation))

    def after_hold(self, now: int, slot: Slot, limit_ns: int, hold: "Hold") -> None:
        """The gate has said that a request, which may wait for ``limit_ns``, must wait."""
        if slot.due is Due.ERROR and slot.due_at is not None and slot.due_at > now:
            return
        gate = slot.gate
        slot.errors = 0
        told = hold.retry_at
        # A time that has passed, perhaps while the answer was on its way: to try at once might be to try for ever.
        has_passed = told is not None and told <= now
        if has_passed:
            told = None
        if gate.terms.poll_ns is not None or has_passed:
            slot.refusals += 1
            slot.has_penalty = hold.penalty
            delay = spread(pause(slot.refusals, gate.terms.first_pause_ns, longest_pause(limit_ns)), self.chance())
            self._set(slot, now + delay if told is None else told, Due.POLL)
        elif told is not None:
            self._set(slot, told if gate.tells_when else min(told, now + self._flush(slot, limit_ns)), Due.TOLD)
        else:
            slot.due_at = slot.due = None
            self.arm(now, slot, limit_ns)

    def after_error(self, now: int, slot: Slot) -> None:
        """The gate broke once more."""
        delay = pause(slot.errors, slot.gate.terms.first_pause_ns, LONGEST_PAUSE_NS)
        self._set(slot, now + spread(delay, self.chance()), Due.ERROR)

    def arm(self, now: int, slot: Slot, limit_ns: int) -> None:
        """Somebody waits for ``slot``: try it some time even if nothing is told."""
        if slot.due_at is None and not slot.gate.is_closed:
            self._set(slot, now + self._flush(slot, limit_ns), Due.RESCUE)

    @staticmethod
    def _flush(slot: Slot, limit_ns: int) -> int:
        told = slot.gate.terms.flush_ns
        return rescue_pause(limit_ns) if told is None else told

    def postpones(self, now: int, slot: Slot, cause: str) -> bool:
        """Whether an event opens ``slot`` only later: broken gates aren't hammered, nor are remote ones.

        An event makes up for refusals of before, so that an outage isn't paid for when it is over.
        """
        if slot.due is Due.ERROR and slot.due_at is not None and now < slot.due_at:
            return True
        if slot.due is Due.POLL and cause != "release":
            slot.refusals = 0
            earliest = slot.tried_at + slot.gate.terms.first_pause_ns
            if slot.has_penalty and now < earliest:
                self._set(slot, earliest, Due.POLL)
                return True
        slot.due_at = slot.due = None
        return False

    def hasten(self, now: int) -> Slot | None:
        """A slot that is polled and could be tried before its time, for there are seats that nobody else wants."""
        for at, _, slot in self._heap[:_LOOKED_AT]:
            if (
                isinstance(slot, Slot)
                and slot.due is Due.POLL
                and slot.due_at == at
                and slot.tried_at + slot.gate.terms.first_pause_ns <= now
            ):
                return slot
        return None

    def next_at(self) -> int | None:
        """When something is due."""
        while self._heap and not self._counts(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> "Iterator[Slot | Gate | GateReservation]":
        """What was due by ``now``."""
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            if self._counts(entry):
                yield entry[2]

    @staticmethod
    def _counts(entry: "tuple[int, int, Slot | Gate | GateReservation]") -> bool:
        at, _, thing = entry
        if isinstance(thing, Slot):
            return thing.due_at == at
        return (thing.lapses_at if isinstance(thing, GateReservation) else thing.closed_until) == at

    def __repr__(self) -> str:
        return f"<Calendar: next at {self.next_at()}>"
