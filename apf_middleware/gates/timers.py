"""Timers of slots: they open a slot after the pause of a polled or failing gate, at a time that the gate has named, and
after a time without any event; they also end reservations.

A gate without events is asked again after a pause, which doubles each time up to a maximum. Refusals and errors are
counted separately. Pauses are jittered by up to a fifth in both directions, so that requests that began to wait
together try again at different times.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final

from apf_middleware.gates.gate import Gate, ParkDecision
from apf_middleware.gates.slot import GateReservation, OpeningCause, Slot

__all__ = ["LONGEST_PAUSE_NS", "SlotTimers", "longest_pause", "pause", "rescue_pause", "spread"]

LONGEST_PAUSE_NS: Final = 10**9

_SPREAD: Final = 0.2
_SEARCHED: Final = 8  # `hasten` looks only at this many timers


def pause(number: int, first_ns: int, most_ns: int) -> int:
    """Return the pause after ``number`` refusals in a row."""
    if number <= 0 or most_ns <= 0:
        return 0
    doublings = min(number - 1, most_ns.bit_length())  # more would exceed the maximum anyway
    return min(first_ns << doublings, most_ns)


def longest_pause(wait_limit_ns: int) -> int:
    """Return the longest pause for a request with this wait limit."""
    return min(LONGEST_PAUSE_NS, wait_limit_ns // 4)


def rescue_pause(wait_limit_ns: int) -> int:
    """Return the time after which a gate is asked even without an event, for a request with this wait limit."""
    return max(1, min(LONGEST_PAUSE_NS, wait_limit_ns // 10))


def spread(pause_ns: int, chance: float) -> int:
    """Return the pause with a jitter of up to a fifth in both directions, for a ``chance`` from 0 to 1."""
    return pause_ns + int(pause_ns * _SPREAD * (2 * chance - 1))


class SlotTimers:
    """One heap of timers for all slots; ``chance`` returns random numbers from 0 to 1, for the jitter.

    A timer is valid if its slot, gate or reservation still has the same time; others are skipped, not removed.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._heap: list[tuple[int, int, Slot | Gate | GateReservation]] = []
        self._serial = count()

    def _set(self, slot: Slot, at: int, due: OpeningCause) -> None:
        slot.due_at, slot.due = at, due
        heappush(self._heap, (at, next(self._serial), slot))

    def reopen(self, at: int, gate: Gate) -> None:
        """Open ``gate`` at the time ``at``; an operator has closed it until then."""
        heappush(self._heap, (at, next(self._serial), gate))

    def let_lapse(self, now: int, reservation: GateReservation) -> None:
        """End ``reservation`` after a time that doubles with each lapsed reservation of the same request."""
        acquisition = reservation.acquisition
        reservation.lapses_at = now + (rescue_pause(acquisition.limit_ns) << acquisition.lapses)
        heappush(self._heap, (reservation.lapses_at, next(self._serial), reservation))

    def after_park(self, now: int, slot: Slot, limit_ns: int, decision: ParkDecision) -> None:
        """Set the time at which the gate is asked again, after it has parked a request with this wait limit."""
        if slot.due is OpeningCause.ERROR and slot.due_at is not None and slot.due_at > now:
            return
        gate = slot.gate
        slot.errors = 0
        retry_at = decision.retry_at
        # The time may have passed already. Trying again at once could then become an endless loop.
        has_passed = retry_at is not None and retry_at <= now
        if has_passed:
            retry_at = None
        if gate.terms.poll_ns is not None or has_passed:
            slot.refusals += 1
            slot.has_penalty = decision.penalty
            delay = spread(pause(slot.refusals, gate.terms.first_pause_ns, longest_pause(limit_ns)), self._chance())
            self._set(slot, now + delay if retry_at is None else retry_at, OpeningCause.POLL)
        elif retry_at is not None:
            latest = retry_at if gate.tells_when else now + self._flush(slot, limit_ns)
            self._set(slot, min(retry_at, latest), OpeningCause.ANNOUNCED)
        else:
            slot.due_at = slot.due = None
            self.arm(now, slot, limit_ns)

    def after_error(self, now: int, slot: Slot) -> None:
        """Set the time at which the gate is asked again, after it has failed."""
        slot.errors += 1
        delay = pause(slot.errors, slot.gate.terms.first_pause_ns, LONGEST_PAUSE_NS)
        self._set(slot, now + spread(delay, self._chance()), OpeningCause.ERROR)

    def arm(self, now: int, slot: Slot, limit_ns: int) -> None:
        """Set the time at which ``slot`` is opened even if no event comes, unless a time is set already."""
        if slot.due_at is None and not slot.gate.is_closed:
            self._set(slot, now + self._flush(slot, limit_ns), OpeningCause.RESCUE)

    @staticmethod
    def _flush(slot: Slot, limit_ns: int) -> int:
        set_ns = slot.gate.terms.flush_ns
        return rescue_pause(limit_ns) if set_ns is None else set_ns

    def postpones(self, now: int, slot: Slot, *, is_release: bool) -> bool:
        """Return whether an event opens ``slot`` only later, because its gate fails or is polled.

        An event resets the count of refusals, so that no long pause follows the end of an outage.
        """
        if slot.due is OpeningCause.ERROR and slot.due_at is not None and now < slot.due_at:
            return True
        if slot.due is OpeningCause.POLL and not is_release:
            slot.refusals = 0
            earliest = slot.tried_at + slot.gate.terms.first_pause_ns
            if slot.has_penalty and now < earliest:
                self._set(slot, earliest, OpeningCause.POLL)
                return True
        slot.due_at = slot.due = None
        return False

    def hasten(self, now: int) -> Slot | None:
        """Return the slot of a polled gate that may be asked early, if there is one."""
        for at, _, slot in self._heap[:_SEARCHED]:
            if (
                isinstance(slot, Slot)
                and slot.due is OpeningCause.POLL
                and slot.due_at == at
                and slot.tried_at + slot.gate.terms.first_pause_ns <= now
            ):
                return slot
        return None

    def next_at(self) -> int | None:
        """Return the time of the next timer."""
        while self._heap and not self._counts(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> Iterator[Slot | Gate | GateReservation]:
        """Yield the slots, gates and reservations that are due by ``now``."""
        while self._heap and self._heap[0][0] <= now:
            timer = heappop(self._heap)
            if self._counts(timer):
                yield timer[2]

    @staticmethod
    def _counts(timer: tuple[int, int, Slot | Gate | GateReservation]) -> bool:
        at, _, what = timer
        if isinstance(what, Slot):
            return what.due_at == at
        return (what.lapses_at if isinstance(what, GateReservation) else what.closed_until) == at

    def __repr__(self) -> str:
        return f"<SlotTimers: next at {self.next_at()}>"
