"""Where seats and gates are both short and many wait for both, `WatchedWorld` sees that each promise is kept.

What the state machine of gates does in all its breadth, here in depth: nothing but requests that come, end and hang up.
"""

import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, Reason
from apf_middleware.gates import Capacity, Condition, Terms
from tests.property.gate_watch import WatchedWorld
from tests.unit.gates.gateworld import MS, SECOND, level

pytestmark = pytest.mark.timeout(600)

_WAYS = (("db",), ("memory",), ("breaker", "db"), ("memory", "db"), ())


@given(
    share=st.sampled_from((Lending, Adjusting)),
    discipline=st.sampled_from(sorted(DISCIPLINES)).map(DISCIPLINES.__getitem__),
    seats=st.integers(2, 6),
    most_bypasses=st.integers(1, 3),
    ways=st.lists(st.sampled_from(_WAYS), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=int(os.environ.get("APF_EXAMPLES", "100")), deadline=None)
def test_in_a_crowd_each_gate_keeps_its_promises(  # noqa: PLR0917 - hypothesis passes them
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    seats: int,
    most_bypasses: int,
    ways: list[tuple[str, ...]],
    seed: int,
) -> None:
    """Of evaluations: one for each cost that is less, each time that anything happens. In order within a flow, a level
    and a cost. Passed by no more who came later than the gate says.
    """
    chance = Random(seed)
    is_well = True
    terms = Terms(max_parked=10_000, most_bypasses=most_bypasses)
    world = WatchedWorld(
        Capacity("db", 2, terms),
        Capacity("memory", 4, terms, cost=lambda request: int(request.state["size"])),
        Condition("breaker", lambda _: is_well, terms),
        levels={"a": level(seats, queues=8), "b": level(seats, queues=8)},
        share=share,
        discipline=discipline,
        careful=False,
        limit_ns=10**5 * SECOND,
    )
    for number in range(100):
        world.now += MS
        seated = [name for name, ticket in world.tickets.items() if ticket.is_seated]
        waiting = [name for name, ticket in world.tickets.items() if ticket.is_waiting]
        match chance.randrange(20):
            case 0:
                is_well = not is_well
                world.emit("breaker")
            case 1 if waiting:
                world.give_up(chance.choice(waiting), Reason.CANCELLED)
            case step if step < 11 and seated and (len(waiting) > 3):
                world.finish(chance.choice(seated))
            case _:
                flow, size, width = chance.choice("xxy"), chance.choice((1, 1, 2, 4)), chance.choice((1, 1, 1, 2))
                world.arrive(
                    f"{number}", *chance.choice(ways), to=chance.choice("aab"), flow=flow, width=width, size=size
                )
    world.sharing.check()
