"""Where seats and gates are both short and many wait for both, `WatchedWorld` sees that each promise is kept.

What the state machine of gates does in all its breadth, here in depth: nothing but requests that come, end and hang up.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, Reason, TicketState
from apf_middleware.gates import Capacity, Condition, ParkDecision, Terms
from tests.support.examples import examples
from tests.support.gate_watch import Remote, WatchedWorld
from tests.support.gate_world import MS, SECOND, level

pytestmark = pytest.mark.timeout(600)

_WAYS = (("db",), ("memory",), ("breaker", "db"), ("memory", "db"), ("remote",), ("remote", "db"), ())


class _Crowd:
    """A world of two levels, and what ``chance`` has happen there."""

    def __init__(self, chance: Random, seats: int, most_bypasses: int, share: Any, discipline: Any) -> None:  # noqa: ANN401
        self.chance = chance
        self.is_well = True
        terms = Terms(max_parked=10_000, most_bypasses=most_bypasses)
        self.remote = Remote()
        self.world = WatchedWorld(
            Capacity("db", 2, terms),
            Capacity("memory", 4, terms, cost=lambda request: int(request.state["size"])),
            Condition("breaker", lambda _: self.is_well, terms),
            self.remote,
            levels={"a": level(seats, queues=8), "b": level(seats, queues=8)},
            share=share,
            discipline=discipline,
            careful=False,
            limit_ns=10**5 * SECOND,
        )
        self.world.ask = self.remote.ask

    def live(self, number: int, ways: list[tuple[str, ...]]) -> None:
        """One more thing happens."""
        self.world.now += MS
        seated, waiting = self.world.names(TicketState.SEATED), self.world.names(TicketState.WAITING)
        match self.chance.randrange(20):
            case 0:
                self.turn(is_well=not self.is_well)
            case 1 if waiting:
                self.world.give_up(self.chance.choice(waiting), Reason.CANCELLED)
            case 2:
                self.turn_remote(is_well=not self.remote.is_well)
            case 3 | 4 if self.remote.questions:
                self.answer()
            case step if step < 12 and seated and len(waiting) > 3:
                self.world.finish(self.chance.choice(seated))
            case _:
                self.come(str(number), self.chance.choice(ways))

    def come(self, name: str, way: tuple[str, ...]) -> None:
        self.world.arrive(
            name,
            *way,
            to=self.chance.choice("aab"),
            flow=self.chance.choice("xxy"),
            width=self.chance.choice((1, 1, 1, 2)),
            size=self.chance.choice((1, 1, 2, 4)),
        )

    def turn(self, *, is_well: bool) -> None:
        self.is_well = is_well
        self.world.emit("breaker")

    def turn_remote(self, *, is_well: bool) -> None:
        self.remote.answer = "lease" if is_well else ParkDecision()
        self.world.emit("remote")

    def answer(self) -> None:
        check, found = self.remote.questions.pop(self.chance.randrange(len(self.remote.questions)))
        self.world.conclude(check, found)

    def end(self) -> None:
        """Let all pass; as no time passes by which anybody would be rescued, whoever is left was forgotten."""
        self.turn(is_well=True)
        self.turn_remote(is_well=True)
        while self.remote.questions or self.world.names(TicketState.SEATED):
            if self.remote.questions:
                self.answer()
            for name in self.world.names(TicketState.SEATED):
                self.world.finish(name)
        left = [
            self.world.scheduler.acquisition(self.world.tickets[name]) for name in self.world.names(TicketState.WAITING)
        ]
        assert not left, f"{left} were forgotten"
        assert not self.remote.out
        self.world.sharing.check()


@given(
    share=st.sampled_from((Lending, Adjusting)),
    discipline=st.sampled_from(sorted(DISCIPLINES)).map(DISCIPLINES.__getitem__),
    seats=st.integers(2, 6),
    most_bypasses=st.integers(1, 3),
    ways=st.lists(st.sampled_from(_WAYS), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
@examples(45)
def test_gates_keep_their_guarantees_under_load(  # noqa: PLR0917 - hypothesis passes them
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    seats: int,
    most_bypasses: int,
    ways: list[tuple[str, ...]],
    seed: int,
) -> None:
    """Of evaluations: one for each cost that is less, each time that anything happens. In order within a flow, a level
    and a cost. Passed by no more who came later than the gate says. And in the end nobody is left.
    """
    crowd = _Crowd(Random(seed), seats, most_bypasses, share, discipline)
    for number in range(100):
        crowd.live(number, ways)
    crowd.end()
