"""A world of gates with checks from the outside: what gates were asked, who bypassed whom, and who had to wait.

Answers are recorded at the gates themselves, and causes of openings by the steps of the world. Of the engine's own
state the checks use only at which slot a request stands, how often that slot has been opened, and which request is
next there.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from apf_middleware.fairqueuing import Reason, Ticket
from apf_middleware.gates import Acquisition, AcquisitionStage, Check, Gate, GateRequest, ParkDecision, Reject, Terms
from apf_middleware.gates.gate import OnError
from apf_middleware.gates.slot import Slot
from tests.support.gate_world import GatedTicket, GateWorld

Place = tuple[str, Hashable]
"""A slot: its gate's name and its key."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """What a gate has answered."""

    name: str
    place: Place
    answer: object


@dataclass(slots=True)
class _Refused:
    """The last request that didn't pass a slot: at which of its openings, and its cost."""

    slot: Slot | None
    opening: int
    cost: int


@dataclass(frozen=True, slots=True)
class _ParkedAt:
    """Where a request was parked at the end of a step."""

    slot: Slot
    since: int


class Remote(Gate):
    """An asynchronous gate: its answer is that of the time when it was asked, and arrives later."""

    is_async = True

    def __init__(self, on_error: OnError = "admit", most_bypasses: int = 3) -> None:
        super().__init__("remote", Terms(max_parked=1000, on_error=on_error, most_bypasses=most_bypasses))
        self.answer: object = "lease"
        self.was_lost = False
        self.out = 0
        self.questions: list[tuple[Check, object]] = []

    @property
    def is_well(self) -> bool:
        return self.answer == "lease"

    def ask(self, _now: int, check: Check) -> None:
        self.out += self.is_well
        self.questions.append((check, self.answer))

    def key(self, _: GateRequest) -> str:
        return ""

    def cost(self, _: GateRequest) -> int:
        return 1

    def acquire(self, *_: object) -> object:
        raise AssertionError("it is asked otherwise")

    def release(self, _: object, lease: object) -> None:
        assert lease == "lease"
        self.out -= 1


class WatchedWorld(GateWorld):
    """Fails as soon as gates break a promise about how often they are asked, order, bypasses, or deadlines."""

    def __init__(self, *gates: Gate, **more: Any) -> None:  # noqa: ANN401 - see GateWorld
        super().__init__(*gates, **more)
        self._tickets: dict[str, GatedTicket] = {}
        self._forced: set[str] = set()  # by an operator, and not tried yet
        self._answered: list[_Answered] = []
        self._refused_at: dict[Place, _Refused] = {}
        self._openings: dict[Place, tuple[Slot, int, int | None]] = {}  # how often it was opened, and when it is due
        self._causes: Counter[Place] = Counter()
        self._notified: Counter[str] = Counter()
        self._standing: dict[str, _ParkedAt] = {}
        self._first: dict[Place, tuple[Acquisition, int]] = {}  # whose turn is next, and how many have passed it
        for gate in gates:
            if not gate.is_async:
                gate.acquire = partial(self._asked, gate, gate.acquire)  # type: ignore[method-assign]
            gate.undo = partial(self._taken_back, gate.undo)  # type: ignore[method-assign]
            gate.release = partial(self._given_back, gate, gate.release)  # type: ignore[method-assign]

    # Steps

    def _asked(  # noqa: PLR0917 - as gates are asked
        self, gate: Gate, acquire: Callable[..., object], now: int, request: GateRequest, key: Hashable, cost: int
    ) -> object:
        answer = acquire(now, request, key, cost)
        name = request.state["me"]
        self._answered.append(_Answered(name, (gate.name, key), answer))
        if isinstance(answer, ParkDecision) and name not in self._forced:
            self._count_refused(gate, key, cost)
        return answer

    def _count_refused(self, gate: Gate, key: Hashable, cost: int) -> None:
        """Check that until a slot opens again, only costs below that of the last refused request are tried."""
        slot = self.scheduler.slots.find(gate, key)
        opening = 0 if slot is None else slot.opening
        last = self._refused_at.get((gate.name, key))
        if last is not None and last.slot in {None, slot} and last.opening == opening and cost >= last.cost:
            # Not an AssertionError, which the engine would take for an error of the gate.
            pytest.fail(f"{gate!r} was asked again for {cost} of {key!r}, and nothing had happened")
        self._refused_at[gate.name, key] = _Refused(slot, opening, cost)

    def _given_back(self, gate: Gate, release: Callable[..., None], key: Hashable, lease: object) -> None:
        self._causes[gate.name, key] += 1
        release(key, lease)

    def _taken_back(self, undo: Callable[[Hashable, object], None], key: Hashable, lease: object) -> None:
        """Don't count a lease that is undone in the step in which it was given as a cause."""
        causes = self._causes.copy()
        undo(key, lease)
        self._causes = causes

    def would_answer(self, gate: Gate, request: GateRequest, key: Hashable, cost: int) -> object:
        """Return the answer of ``gate`` without counting a request; a lease must be taken back."""
        return type(gate).acquire(gate, self.now, request, key, cost)

    def arrive(self, name: str, *gates: str, **more: Any) -> GatedTicket:  # noqa: ANN401 - see GateWorld
        return super().arrive(name, *gates, me=name, **more)

    def emit(self, event: str, key: Hashable = None, payload: object = None) -> list[str]:
        self._notified.update(gate.name for gate in self.scheduler.gates.values() if event in {gate.name, *gate.events})
        return super().emit(event, key, payload)

    def open(self, gate: str) -> list[str]:
        self._notified[gate] += 1
        return super().open(gate)

    def kick(self, name: str) -> list[str]:
        self._forced.add(name)
        return super().kick(name)

    def note(self, seated: Iterable[Ticket]) -> list[str]:
        names = super().note(seated)
        self._tickets.update(self.tickets)
        heard, self._answered = self._answered, []
        self._check_openings()
        self._check_deadlines(heard)
        self._check_order(names)
        self._check_bypasses(names)
        self._forced = {name for name, acquisition in self._waiting() if name in self._forced and acquisition.is_forced}
        self._standing = {
            name: _ParkedAt(acquisition.slot, acquisition.parked_at)
            for name, acquisition in self._waiting()
            if acquisition.slot is not None
            and acquisition.stage is AcquisitionStage.PARKED
            and acquisition.candidate_of is None
        }
        return names

    def _waiting(self) -> list[tuple[str, Acquisition]]:
        found = (
            (name, self.scheduler.acquisition(ticket)) for name, ticket in self.tickets.items() if ticket.is_waiting
        )
        return [(name, acquisition) for name, acquisition in found if acquisition is not None]

    # Checks

    def _check_openings(self) -> None:
        """Check that a slot opens once for each lease given back, event or operation, and when due."""
        now: dict[Place, tuple[Slot, int, int | None]] = {}
        for gate in self.scheduler.gates.values():
            for slot in self.scheduler.slots.of(gate):
                place = gate.name, slot.key
                known, before, due_at = self._openings.get(place, (None, 0, None))
                if known is not slot:
                    before, due_at = 0, None
                causes = self._causes[place] + self._notified[gate.name] + (due_at is not None and due_at <= self.now)
                assert gate.is_async or slot.opening - before <= causes, f"{slot!r} was opened for nothing"
                now[place] = slot, slot.opening, slot.due_at
        self._openings = now
        for place, refused in list(self._refused_at.items()):
            slot_now = self.scheduler.slots.find(self.scheduler.gates[place[0]], place[1])
            if slot_now is None or refused.slot not in {None, slot_now}:
                del self._refused_at[place]  # no request waits there any more, so nothing is known about it
            else:
                refused.slot = slot_now
        self._causes.clear()
        self._notified.clear()

    def _check_deadlines(self, heard: list[_Answered]) -> None:
        """Check that a request that a gate can't admit in time is rejected and doesn't wait."""
        for answered in heard:
            ticket = self._tickets[answered.name]
            late = (
                isinstance(answered.answer, ParkDecision)
                and (answered.answer.retry_at or 0) > ticket.arrived_at + ticket.limit_ns
            )
            if late or isinstance(answered.answer, Reject):
                assert ticket.reason is Reason.GATE, f"{answered.name} waits, although it can't pass in time"

    def _check_order(self, names: list[str]) -> None:
        """Check that no request passes a slot where an earlier one of its flow, level and cost waits."""
        standing = [
            (name, acquisition, acquisition.slot)
            for name, acquisition in self._waiting()
            if acquisition.slot is not None
            and self._standing.get(name) == _ParkedAt(acquisition.slot, acquisition.parked_at)
            if not acquisition.slot.gate.is_async  # their answers arrive in any order
        ]
        for name in names:
            acquisition = self.scheduler.acquisition(self._tickets[name])
            if acquisition is None or name in self._forced:
                continue
            for other, earlier, slot in standing:
                if (earlier.flow, earlier.level) == (
                    acquisition.flow,
                    acquisition.level,
                ) and earlier.number < acquisition.number:
                    costs = {need.cost for need in acquisition.needs if (need.gate, need.key) == (slot.gate, slot.key)}
                    assert earlier.cost_at(slot) not in costs, f"{name} has passed {slot!r} before {other}"

    def _check_bypasses(self, names: list[str]) -> None:
        """Check that the first request of a slot is passed no more often than its gate allows, while it is bounded.

        An earlier one of the same flow, level and cost goes before it, and so does an earlier one that has been passed
        as often.
        """
        for name in names:
            acquisition = self.scheduler.acquisition(self._tickets[name])
            if acquisition is None or name in self._forced:
                continue
            for need in acquisition.needs:
                first, count = self._first.get((need.gate.name, need.key), (acquisition, 0))
                slot = first.slot
                if first is acquisition or slot is None:
                    continue
                is_alike = (acquisition.flow, acquisition.level, need.cost) == (
                    first.flow,
                    first.level,
                    first.cost_at(slot),
                )
                is_due = is_alike or acquisition.is_due
                if not (is_due and acquisition.number < first.number):
                    self._first[need.gate.name, need.key] = first, count + 1
        before, self._first = self._first, {}
        for gate in self.scheduler.gates.values():
            for slot in self.scheduler.slots.of(gate):
                first_now, count = before.get((gate.name, slot.key), (None, 0))
                turn = slot.first
                if turn is None or gate.is_async or slot.queues[id(turn.level)].candidate is not None:
                    continue  # it, or the one before it in its level, waits for a seat
                count = count if turn is first_now else 0
                assert count <= gate.terms.most_bypasses, f"{turn!r} has been passed {count} times"
                self._first[gate.name, slot.key] = turn, count
