"""A level that gets no seats keeps no gate from other levels for long, in random worlds.

Some levels are paused or full of long requests, while requests of all levels wait for the same gates. When nothing else
has happened for minutes, no request is left for which gates, seats and its level's queue are free.
"""

from random import Random

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, TicketState
from apf_middleware.gates import Capacity, Terms
from apf_middleware.gates.slot import Acquisition
from tests.support.examples import seeds
from tests.support.gate_world import MS, SECOND, GateWorld, level

pytestmark = pytest.mark.timeout(600)

_WAYS = (("db",), ("memory",), ("db", "memory"), ("memory", "db"), ())


class _World:
    """Three levels, two gates, and requests that are never rescued."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        terms = Terms(max_parked=1000, most_bypasses=chance.randint(1, 3), flush_ns=10**5 * SECOND)
        self.world = GateWorld(
            Capacity("db", chance.randint(1, 3), terms),
            Capacity("memory", 4, terms, cost=lambda request: int(request.state["size"])),
            levels={name: level(chance.choice((1, 1, 2, 4)), least=chance.randint(0, 1)) for name in "abc"},
            share=chance.choice((Lending, Lending, Adjusting)),
            discipline=DISCIPLINES[chance.choice(sorted(DISCIPLINES))],
            careful=False,
            limit_ns=10**5 * SECOND,
        )

    def step(self, number: int) -> None:
        chance, world = self.chance, self.world
        world.now += chance.choice((0, 1, MS))
        choice, seated = chance.random(), world.names(TicketState.SEATED)
        if choice < 0.6:
            to, width, size = chance.choice("abc"), chance.choice((1, 1, 1, 2)), chance.choice((1, 1, 2, 4))
            world.arrive(str(number), *chance.choice(_WAYS), to=to, flow=chance.choice("xy"), width=width, size=size)
        elif choice < 0.9 and seated:
            world.finish(chance.choice(seated))
        else:
            world.operate(chance.choice("abc"), held=chance.random() < 0.5)

    def check(self) -> None:
        self.world.wait(300 * SECOND)
        self.world.sharing.check()
        waiting = [self.world.scheduler.acquisition(ticket) for ticket in self.world.tickets.values()]
        left = [one for one in waiting if one is not None and self._could_pass(one)]
        assert not left, f"{left} could pass"

    def _could_pass(self, acquisition: Acquisition) -> bool:
        """Return whether the request could be seated now, and nothing is kept for any other one that could use it."""
        shared, slot, sharing = acquisition.level, acquisition.slot, self.world.plain
        if not acquisition.is_parked or slot is None or shared.is_held or shared.waits:
            return False
        if any(one.waits and one.queueset.seats_waiting > one.queueset.waiting for one in sharing.levels.values()):
            return False  # seats may be saved up for a wide request
        has_seats = shared.queueset.seats_in_use + acquisition.ticket.width <= sharing.limit_of(shared)
        holder = slot.holder or acquisition
        is_kept = slot.reservations[holder].lapses_at is not None if slot.holder else False
        return has_seats and not is_kept and _has_room(acquisition) and _has_room(holder)


def _has_room(acquisition: Acquisition) -> bool:
    """Return whether all gates of the request have room for it."""
    return all((one.gate.used(one.key) or 0) + one.cost <= (one.gate.limit or 0) for one in acquisition.needs)


@pytest.mark.parametrize("seed", seeds(40))
def test_whoever_could_pass_passes_although_other_levels_get_no_seats(seed: int) -> None:
    world = _World(seed)
    for number in range(1, 91):
        world.step(number)
        if not number % 10:
            world.check()
