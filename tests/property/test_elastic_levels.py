"""Caps of elastic levels bind, nothing waits for ever, and the promises of other levels hold, in every discipline."""

from random import Random

import pytest

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    LevelLimits,
    QueueSetSettings,
    Reason,
    SharedLevel,
    Ticket,
    Work,
)
from tests.support.examples import seeds

pytestmark = pytest.mark.timeout(600)

SEATS = 12
LEVELS = {
    "batch": LevelLimits(4, 0, SEATS),
    "reports": LevelLimits(4, 2, SEATS),
    "web": LevelLimits(4, 4, SEATS),
}


class CappedWorld:
    """A sharing with two elastic levels and one other, under random arrivals, ends, hang-ups and caps."""

    def __init__(self, seed: int, share: type[Lending] | type[Adjusting], discipline: str) -> None:
        self.random = Random(seed)
        self.now = 0
        wanted = {name: (QueueSetSettings(one.nominal, 4, 2, 100), one) for name, one in LEVELS.items()}
        self.sharing: Lending | Adjusting = share(SEATS, wanted, discipline=DISCIPLINES[discipline])
        self.caps: dict[str, int] = {}
        self.caps_before: dict[str, int] = {}
        self.tickets: list[tuple[SharedLevel, Ticket]] = []

    def used(self, name: str) -> int:
        level = self.sharing.levels[name]
        return level.queueset.seats_in_use + (level.alone is not None)

    def of(self, *, seated: bool) -> list[tuple[SharedLevel, Ticket]]:
        return [one for one in self.tickets if (one[1].is_seated if seated else one[1].is_waiting)]

    def step(self) -> None:
        self.caps_before = self.caps  # under which the lingers that are due by now end
        self.now += self.random.choice((0, 0, 10, 1000))
        choice = self.random.random()
        if choice < 0.5:
            level = self.sharing.levels[self.random.choice(list(LEVELS))]
            ticket = Ticket("flow", self.random.randrange(6), Work())
            self.tickets.append((level, ticket))
            self.sharing.arrive(self.now, level, ticket)
        elif choice < 0.85 and (found := self.of(seated=True)):
            level, ticket = self.random.choice(found)
            self.sharing.release(self.now, level, ticket)
        elif choice < 0.9 and (found := self.of(seated=False)):
            level, ticket = self.random.choice(found)
            self.sharing.abandon(self.now, level, ticket, Reason.TIME_OUT)
        else:
            names = ("batch", "reports")
            self.caps = {name: self.random.randint(1, 6) for name in names if self.random.random() < 0.6}
            self.sharing.cap(self.now, self.caps, self.random.choice((0, 500)))

    def check(self, before: dict[str, int]) -> None:
        """Check that caps bind what begins, and that nothing waits that is promised a seat."""
        for name, limits in LEVELS.items():
            level, used = self.sharing.levels[name], self.used(name)
            bound = max(self.caps.get(name, SEATS), self.caps_before.get(name, SEATS), limits.min)
            assert used <= max(bound, before[name]), f"{used} seats of {name}, capped at {bound}"
            if level.queueset.waiting:
                assert used >= min(limits.min, SEATS), f"{name} waits below its min"
        self.sharing.check()


@pytest.mark.parametrize("discipline", sorted(DISCIPLINES))
@pytest.mark.parametrize("share", [Lending, Adjusting])
@pytest.mark.parametrize("seed", seeds(12))
def test_caps_bind_and_promises_hold(seed: int, share: type[Lending] | type[Adjusting], discipline: str) -> None:
    world = CappedWorld(seed, share, discipline)
    for _ in range(150):
        before = {name: world.used(name) for name in LEVELS}
        world.step()
        world.check(before)
    while world.of(seated=True) or world.of(seated=False):
        world.now += 10**9
        world.sharing.tick(world.now)
        for level, ticket in world.of(seated=True):
            world.sharing.release(world.now, level, ticket)


@pytest.mark.parametrize("seed", seeds(20))
def test_seats_that_an_elastic_level_may_not_use_go_to_the_others(seed: int) -> None:
    world = CappedWorld(seed, Lending, "equal-serial")
    world.sharing.cap(0, {"batch": 1, "reports": 1})
    order = [name for name in LEVELS for _ in range(20)]
    world.random.shuffle(order)
    for number, name in enumerate(order):
        world.sharing.arrive(0, world.sharing.levels[name], Ticket(name, number, Work()))

    assert {name: world.used(name) for name in LEVELS} == {"batch": 1, "reports": 2, "web": SEATS - 3}
