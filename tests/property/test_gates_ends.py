"""However requests end at an asynchronous gate, the gate forgets them and serves those who come later."""

from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.gates import Capacity, Condition, ParkDecision, Reject, Terms
from tests.support.examples import examples
from tests.support.gate_world import SECOND, RemoteWorld

pytestmark = pytest.mark.timeout(600)

_ANSWERS = ("lease", "hold", "hold", "hold", "late", "reject", "raise")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(("remote", "remote", "remote strict", "remote db", "db remote"))),
        st.tuples(st.just("come"), st.just("remote")),
        st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(_ANSWERS)),
        st.tuples(st.just("answer_all"), st.sampled_from(_ANSWERS)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 9), st.sampled_from((Reason.TIME_OUT, Reason.CANCELLED))),
        st.tuples(st.just("event")),
        st.tuples(st.just("kick"), st.integers(0, 9)),
        st.tuples(st.just("operate"), st.sampled_from(("open", "close"))),
        st.tuples(st.just("turn"), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from((SECOND // 100, SECOND))),
    ),
    min_size=10,
    max_size=60,
)


class _Ends:
    def __init__(self, on_error: str, seats: int) -> None:
        self.is_strict = False
        strict = Condition("strict", lambda _: Reject() if self.is_strict else True, Terms())
        self.world = RemoteWorld(Capacity("db", 2, Terms(max_parked=1000)), strict, seats=seats, on_error=on_error)
        self.number = 0

    def take(self, step: tuple[Any, ...]) -> None:
        kind, *rest = step
        getattr(self, kind)(*rest)

    def come(self, gates: str) -> None:
        self.number += 1
        self.world.come(str(self.number), *gates.split())

    def answer(self, which: int, answer: str) -> None:
        checks = list(self.world.checks)
        if checks:
            answers: dict[str, object] = {
                "lease": "lease",
                "hold": ParkDecision(),
                "late": ParkDecision(retry_at=self.world.now + 1000 * SECOND),
                "reject": Reject(),
                "raise": RuntimeError("away"),
            }
            self.world.answer(checks[which % len(checks)], answers[answer])

    def answer_all(self, answer: str) -> None:
        """Answer the questions that are open now, and tell of an event."""
        for _ in range(len(self.world.checks)):
            self.answer(0, answer)
        self.event()

    def finish(self, which: int) -> None:
        running = self.world.names(TicketState.SEATED)
        if running:
            self.world.finish(running[which % len(running)])

    def leave(self, which: int, reason: Reason) -> None:
        waiting = self.world.names(TicketState.WAITING)
        if waiting:
            self.world.give_up(waiting[which % len(waiting)], reason)

    def kick(self, which: int) -> None:
        waiting = self.world.names(TicketState.WAITING)
        if waiting:
            self.world.kick(waiting[which % len(waiting)])

    def event(self) -> None:
        self.world.emit("remote")

    def operate(self, what: str) -> None:
        (self.world.open if what == "open" else self.world.close)("remote")

    def turn(self, is_strict: bool) -> None:  # noqa: FBT001
        self.is_strict = is_strict

    def wait(self, ns: int) -> None:
        self.world.wait(ns)


@given(steps=_STEPS, on_error=st.sampled_from(("admit", "reject", "backoff")), seats=st.sampled_from((1, 2, 100)))
@examples(60, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_a_gate_serves_all_parked_requests_and_keeps_no_state(
    steps: list[tuple[Any, ...]], on_error: str, seats: int
) -> None:
    ends = _Ends(on_error, seats)
    world = ends.world
    for step in steps:
        ends.take(step)
    ends.is_strict = False
    for _ in range(5):
        ends.come("remote")
    world.open("remote")
    world.serve_all()

    assert not ends.world.names(TicketState.WAITING), "somebody waits for ever"
    assert {str(ends.number - number) for number in range(5)} <= {*world.served}
    assert not list(world.scheduler)
    assert not any(world.scheduler.slots.of(gate) or gate.parked for gate in world.scheduler.gates.values())
