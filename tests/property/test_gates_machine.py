"""Invariants of gates: no request waits forever, no lease is lost or given twice, and each request ends once.

Hypothesis draws requests of two levels with five gates (a capacity, a capacity of sizes, a breaker, a token bucket,
and an asynchronous one), and the steps: requests finish, time out or are cancelled; events arrive, arrive without a
cause, or are lost; operators open, close, kick and resize. Queues are exact or shared, with or without backfill, and
they are paused, closed, shed and reloaded. After each step the state is checked from the outside; `WatchedWorld` checks
how often gates are asked, order, bypasses and deadlines.
"""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    Reason,
    SharedLevel,
)
from apf_middleware.gates import (
    NO_LEASE,
    Acquisition,
    AcquisitionStage,
    Capacity,
    Condition,
    GateRequest,
    Park,
    ParkDecision,
    Reject,
    Terms,
    Tokens,
)
from apf_middleware.gates.gate import OnError
from apf_middleware.gates.slot import OpeningCause
from tests.support.examples import examples
from tests.support.gate_watch import Remote, WatchedWorld
from tests.support.gate_world import MS, SECOND, level

pytestmark = pytest.mark.timeout(600)

_GATES = ("db", "memory", "breaker", "quota", "remote")
_OWN = st.lists(st.sampled_from(_GATES), max_size=3, unique=True).map(tuple)


class _Machine(RuleBasedStateMachine):
    @initialize(
        share=st.sampled_from((Lending, Lending, Adjusting)),
        discipline=st.sampled_from(sorted(DISCIPLINES)),
        fifo=st.sampled_from((False, False, True)),
        length=st.sampled_from((3, 100)),
        least=st.integers(0, 1),
        exact=st.integers(0, 2),
        backfill=st.sampled_from((0, 2)),
        on_error=st.sampled_from(("admit", "reject", "backoff")),
    )
    def begin(  # noqa: PLR0917 - hypothesis passes them by name
        self,
        share: Any,  # noqa: ANN401
        discipline: str,
        fifo: bool,  # noqa: FBT001
        length: int,
        least: int,
        exact: int,
        backfill: int,
        on_error: OnError,
    ) -> None:
        self.shape: dict[str, Any] = {"length": length, "least": least, "fifo": fifo, "backfill": backfill}
        self.is_well = True
        self.was_lost = False
        self.retry_ns: int | None = None
        self.number = 0
        terms = Terms(max_parked=1000, most_bypasses=3)
        self.db = Capacity("db", 2, terms, key=lambda request: request.state.get("shard"))
        self.memory = Capacity("memory", 4, terms, cost=lambda request: int(request.state.get("size", 1)))
        self.breaker = Condition("breaker", self._ask, Terms(max_parked=1000, events=("breaker.state",)))
        self.quota = Tokens("quota", 20, 2, terms=terms, key=lambda request: request.flow)
        self.remote = Remote(on_error)
        self.world = WatchedWorld(
            self.db,
            self.memory,
            self.breaker,
            self.quota,
            self.remote,
            levels=self._levels(exact),
            share=share,
            discipline=DISCIPLINES[discipline],
            careful=False,
        )
        self.world.ask = self.remote.ask
        self.running: list[str] = []
        self.waiting: list[str] = []
        self.arrived = self.ended = 0

    def _levels(self, exact: int) -> dict[str, Any]:
        others = level(3, queues=1, length=self.shape["length"], backfill=self.shape["backfill"])
        return {"a": level(2, queues=4, exact=exact, **self.shape), "b": others}

    def _ask(self, _: GateRequest) -> object:
        return self.is_well or Park(retry_at=None if self.retry_ns is None else (self.world.now + self.retry_ns) / 1e9)

    def _note(self) -> None:
        """Update the lists of waiting and running requests after a step."""
        for name in self.waiting.copy():
            ticket = self.world.tickets[name]
            if ticket.is_waiting:
                continue
            self.waiting.remove(name)
            if ticket.is_seated:
                self.running.append(name)
                assert not ticket.level.is_held, f"{name} was seated in a paused queue"
            else:
                assert ticket.reason is Reason.GATE
                assert name in self.world.refused, f"{name} was refused without a notification"
                self.ended += 1

    # Requests

    @rule(
        flow=st.sampled_from("xyz"),
        to=st.sampled_from("ab"),
        gates=_OWN,
        width=st.sampled_from((1, 1, 1, 2)),
        size=st.integers(1, 4),
        shard=st.integers(0, 1),
        limit=st.sampled_from((50 * MS, SECOND, 60 * SECOND)),
    )
    def arrive(  # noqa: PLR0917 - hypothesis passes them by name
        self, flow: str, to: str, gates: tuple[str, ...], width: int, size: int, shard: int, limit: int
    ) -> None:
        self.number += 1
        self.arrived += 1
        name = str(self.number)
        ticket = self.world.arrive(name, *gates, flow=flow, to=to, width=width, size=size, shard=shard, limit_ns=limit)
        shared = ticket.level
        assert not (shared.is_closing and not ticket.is_rejected), f"{name} came into a closing queue"
        if ticket.is_seated:
            self.running.append(name)
            assert not shared.is_held, f"{name} was seated in a paused queue"
        elif ticket.is_waiting:
            self.waiting.append(name)
        else:
            assert name not in self.world.refused, f"{name} was refused by its arrival already"
            self.ended += 1
        self._note()

    @rule(
        to=st.sampled_from("aab"),
        flows=st.lists(st.sampled_from("xyz"), min_size=2, max_size=6) | st.just(["x", "x", "y", "x", "y", "x"]),
        widths=st.lists(st.sampled_from((1, 1, 2)), min_size=6, max_size=6),
        gates=st.sampled_from(
            ((), ("db",), ("memory", "db"), ("breaker",), ("remote",), ("remote", "db"), ("breaker", "db"))
        ),
        sizes=st.lists(st.integers(1, 4), min_size=6, max_size=6),
    )
    def come_together(
        self, to: str, flows: list[str], widths: list[int], gates: tuple[str, ...], sizes: list[int]
    ) -> None:
        """Let many requests arrive, so that seats, queues and gates fill up."""
        for flow, width, size in zip(flows, widths, sizes, strict=False):
            self.arrive(flow=flow, to=to, gates=gates, width=width, size=size, shard=0, limit=60 * SECOND)

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 50))
    def finish(self, index: int) -> None:
        self.world.finish(self.running.pop(index % len(self.running)))
        self.ended += 1
        self._note()

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 50), reason=st.sampled_from((Reason.TIME_OUT, Reason.CANCELLED)))
    def give_up(self, index: int, reason: Reason) -> None:
        name = self.waiting[index % len(self.waiting)]
        ticket = self.world.tickets[name]
        self.world.give_up(name, reason)
        if ticket.is_rejected:
            self.waiting.remove(name)
            self.ended += 1
        self._note()

    # Queues

    @rule(to=st.sampled_from("ab"), state=st.sampled_from(("open", "open", "paused", "closed")))
    def operate_queue(self, to: str, state: str) -> None:
        self.world.operate(to, held=state == "paused", closing=state == "closed")
        self._note()

    @rule(to=st.sampled_from("ab"))
    def shed(self, to: str) -> None:
        shared = self.world.plain.levels[to]
        closing = shared.is_closing
        self.world.operate(to, held=True, closing=closing)
        for name in self.waiting.copy():
            if self.world.tickets[name].level is shared:
                self.world.give_up(name, Reason.QUEUE_CLOSING)
                self.waiting.remove(name)
                self.ended += 1
        assert not shared.queueset.parked
        assert not shared.queueset.waiting
        self._note()

    @rule(exact=st.integers(0, 3))
    def reload(self, exact: int) -> None:
        self.world.note(self.world.sharing.reconfigure(self.world.now, 5, self._levels(exact)))
        self._note()

    # Gates

    @precondition(lambda self: self.remote.questions)
    @rule(index=st.integers(0, 50))
    def answer(self, index: int) -> None:
        check, answer = self.remote.questions.pop(index % len(self.remote.questions))
        self.world.conclude(check, answer)
        self._note()

    @rule(
        answer=st.sampled_from(("lease", "lease", ParkDecision(), ParkDecision(), Reject(), RuntimeError("away"))),
        is_announced=st.sampled_from((True, True, False)),
    )
    def turn_remote(self, answer: object, is_announced: bool) -> None:  # noqa: FBT001
        self.remote.answer = answer
        self.remote.was_lost = not is_announced
        if is_announced:
            self.world.emit("remote")
        self._note()

    @rule(
        well=st.booleans(),
        is_announced=st.sampled_from((True, True, False)),
        retry_ns=st.sampled_from((None, None, 60 * MS, 5 * SECOND)),
    )
    def turn(self, well: bool, is_announced: bool, retry_ns: int | None) -> None:  # noqa: FBT001
        self.is_well, self.retry_ns = well, retry_ns
        if is_announced:
            self.world.emit("breaker.state")
            self.was_lost = False
        else:
            self.was_lost = True
        self._note()

    @rule(event=st.sampled_from((*_GATES, "breaker.state", "nobody")), key=st.sampled_from((None, 0, "x")))
    def emit_for_nothing(self, event: str, key: object) -> None:
        self.world.emit(event, key)
        self._note()

    @rule(gate=st.sampled_from(_GATES), is_open=st.booleans())
    def operate(self, gate: str, is_open: bool) -> None:  # noqa: FBT001
        if is_open:
            self.world.open(gate)
        else:
            self.world.close(gate)
        self._note()

    @rule(gate=st.sampled_from(_GATES))
    def open_again(self, gate: str) -> None:
        self.world.open(gate)
        self._note()

    @rule(limit=st.integers(0, 4))
    def resize(self, limit: int) -> None:
        self.memory.resize(limit)
        self.world.open("memory")
        self._note()

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 50))
    def kick(self, index: int) -> None:
        name = self.waiting[index % len(self.waiting)]
        if self.world.scheduler.acquisition(self.world.tickets[name]) is not None:
            self.world.kick(name)
        self._note()

    @rule(ns=st.sampled_from((1, MS, 60 * MS, 2 * SECOND)))
    def wait(self, ns: int) -> None:
        self.world.wait(ns)
        if ns > SECOND:
            self.was_lost = self.remote.was_lost = False  # all missed events have been made up for
        self._note()

    # Invariants

    @invariant()
    def all_adds_up(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.sharing.check()
        assert self.arrived == self.ended + len(self.running) + len(self.waiting)
        shards = [self.db.used(shard) for shard in (0, 1)]
        held = [
            (need.gate.name, need.key, need.lease)
            for name in self.running
            if (acquisition := self.world.scheduler.acquisition(self.world.tickets[name])) is not None
            for need in acquisition.needs
        ]
        assert all(lease is not None for _, _, lease in held), "somebody was seated who hasn't passed a gate"
        assert all(used <= 2 for used in shards)
        assert shards == [sum(1 for gate, key, _ in held if (gate, key) == ("db", shard)) for shard in (0, 1)]
        assert self.memory.used("") == sum(int(str(lease)) for gate, _, lease in held if gate == "memory")
        for name in self.waiting:
            acquisition = self.world.scheduler.acquisition(self.world.tickets[name])
            if acquisition is not None:
                leases = [need.lease for need in acquisition.needs if need.gate is not self.remote]
                assert not any(leases), f"{name} waits with a lease"
        out = sum(answer == "lease" for _, answer in self.remote.questions)
        assert self.remote.out == out + sum(
            1
            for acquisition in self.world.scheduler
            for need in acquisition.needs
            if (need.gate, need.lease) == (self.remote, "lease")
        )

    @invariant()
    def a_place_has_one_flow(self) -> None:
        if not hasattr(self, "world"):
            return
        owners = {name: self.world.tickets[name] for name in self.waiting}
        for name, ticket in owners.items():
            queue = ticket.queue
            assert queue is not None
            others = {other.flow for other in owners.values() if other.queue is queue}
            if queue.owner is not None:
                assert others == {ticket.flow}, f"{name} of {ticket.flow!r} stands in a queue of another flow"
                assert queue.owner == ticket.entropy
                assert not queue.is_idle

    @invariant()
    def a_queue_is_not_closed_while_anybody_is_there(self) -> None:
        if not hasattr(self, "world"):
            return
        for shared in self.world.plain.levels.values():
            parked = [name for name in self.waiting if self.world.sharing.scheduler.is_parked(self.world.tickets[name])]
            here = [name for name in parked if self.world.tickets[name].level is shared]
            assert shared.queueset.parked == len(here)
            assert not (here and shared.is_idle), f"{here} are parked in a queue that is said to be idle"

    @invariant()
    def nobody_who_could_pass_is_left_standing(self) -> None:
        if not hasattr(self, "world"):
            return
        levels = self.world.plain.levels.values()
        if any(level.queueset.waiting for level in levels):
            return  # seats are saved for a wide request, or for a reason that the queue sets' own tests cover
        for name in self.waiting:
            acquisition = self.world.acquisition(name)
            if acquisition.stage in {AcquisitionStage.BEHIND, AcquisitionStage.CHECKING} or acquisition.level.is_held:
                continue
            width = acquisition.ticket.width
            if self._has_seats(acquisition.level, width):
                assert not self._would_pass(acquisition), f"{acquisition!r} could go on"

    def _has_seats(self, level: SharedLevel, width: int) -> bool:
        return level.queueset.seats_in_use + width <= self.world.sharing.sharing.limit_of(level)

    def _would_pass(self, acquisition: Acquisition) -> bool:
        """Ask without side effects; a larger request's turn and a lost event are valid reasons to wait."""
        taken = []
        would = True
        for need in acquisition.needs:
            gate = need.gate
            slot = self.world.scheduler.slots.find(gate, need.key)
            if gate.is_closed or (slot is not None and slot.reservations and slot.holder is not acquisition):
                would = False
            elif isinstance(gate, Remote):
                is_busy = slot is not None and (slot.is_busy or slot.due is OpeningCause.ERROR)
                knows = need.lease is not None or (gate.is_well and not gate.was_lost and not is_busy)
                would = would and knows
            elif would and not (gate is self.breaker and self.was_lost):
                answer = self.world.would_answer(gate, acquisition.request, need.key, need.cost)
                if isinstance(answer, ParkDecision | Reject):
                    would = False
                elif answer is not NO_LEASE:
                    taken.append((gate, need.key, answer))
            else:
                would = False
        for gate, key, lease in taken:
            gate.undo(key, lease)
        return would

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for name in "ab":
            self.operate_queue(name, "open")
        self.turn(well=True, is_announced=True, retry_ns=None)
        self.turn_remote(answer="lease", is_announced=True)
        for gate in _GATES:
            self.open_again(gate)
        self.resize(4)
        for _ in range(10 * (len(self.waiting) + len(self.running)) + 10):
            while self.remote.questions:
                self.answer(0)
            if self.running:
                self.finish(0)
            self.world.wait(100 * MS)
            self._note()
        assert not self.waiting, f"{[self.world.acquisition(name) for name in self.waiting]} wait for ever"
        assert not self.running
        assert self.arrived == self.ended
        assert not list(self.world.scheduler), "requests are remembered"
        assert [self.db.used(0), self.db.used(1), self.memory.used(""), self.remote.out] == [0, 0, 0, 0]
        self.world.wait(60 * SECOND)
        assert not any(
            self.world.scheduler.slots.of(gate) or gate.parked for gate in self.world.scheduler.gates.values()
        )
        assert not len(self.world.scheduler._arrivals)
        self.world.sharing.check()


TestGates = _Machine.TestCase
TestGates.settings = examples(30, stateful_step_count=50)
