"""All features of levels combined, in random worlds: parents, priorities, exact queues, backfill, lingers, states.

The other state machines compare one or two features at a time with reference implementations. This test combines all,
with each way of sharing and each discipline, and checks general invariants: sums add up, each seated ticket is
reported, and in the end no ticket waits that could have been served.
"""

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    LevelLimits,
    QueueSetSettings,
    Ticket,
    TicketState,
    Work,
)
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from tests.support.examples import examples

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import SharedLevel

MS = 10**6
PERIOD = 11 * 10**9  # longer than from one adjustment to the next
Level = tuple[QueueSetSettings, LevelLimits]


class World:
    def __init__(self, share: type[Lending | Adjusting], discipline: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.has_parents = share is Lending
        self.live: dict[Ticket, SharedLevel] = {}
        self.notified: set[Ticket] = set()
        seats, wanted, hierarchy = self.wanted()
        self.sharing = share(seats, wanted, discipline=DISCIPLINES[discipline], hierarchy=hierarchy)

    def wanted(self) -> tuple[int, dict[str, Level], Hierarchy]:
        chance = self.chance
        wanted = {name: self.level() for name in "abc" if chance.random() < 0.85} or {"a": self.level()}
        hierarchy = Hierarchy()
        if self.has_parents and chance.random() < 0.5:
            children = {name: "p" for name in wanted if chance.random() < 0.6}
            hierarchy = Hierarchy({"p": self.level()[1]}, children, {name: chance.randint(-1, 1) for name in wanted})
        return chance.randint(1, 14), wanted, hierarchy

    def level(self) -> Level:
        chance = self.chance
        nominal = chance.randint(1, 8)
        limits = LevelLimits(nominal, chance.randint(0, nominal), chance.randint(nominal, 12))
        if chance.random() < 0.1:
            return QueueSetSettings.without_queues(nominal), limits
        queues, length = chance.choice([1, 2, 4]), chance.choice([1, 3, 30])
        exact, rounds = chance.choice([0, 0, 1, 3]), chance.choice([0, 0, 1, 2, 5])
        hand = chance.randint(1, queues)
        return QueueSetSettings(nominal, queues, hand, length, exact=exact, backfill=rounds), limits

    def those(self, state: TicketState) -> list[Ticket]:
        return [ticket for ticket in self.live if ticket.state is state]

    def step(self) -> None:
        chance, sharing = self.chance, self.sharing
        self.now += chance.choice([0, 0, 1, MS, 20 * MS, 300 * MS])
        what = chance.random()
        waiting, seated = self.those(TicketState.WAITING), self.those(TicketState.SEATED)
        if what < 0.45:
            work = Work(chance.choice([1, 1, 1, 2, 5, 9]), chance.choice([0, 1, 3]), chance.choice([0, 0, 10 * MS]))
            ticket = Ticket("flow", chance.randrange(6) * 7919, work)
            self.live[ticket] = level = chance.choice([*sharing.levels.values()])
            self.notified.update(sharing.arrive(self.now, level, ticket))
        elif what < 0.7 and seated:
            self.release(chance.choice(seated))
        elif what < 0.8 and waiting:
            ticket = chance.choice(waiting)
            self.notified.update(sharing.abandon(self.now, self.live[ticket], ticket))
        elif what < 0.88:
            self.notified.update(sharing.tick(self.now))
        elif what < 0.94:
            level, held, closing = (
                chance.choice([*sharing.levels.values()]),
                chance.random() < 0.4,
                chance.random() < 0.3,
            )
            self.notified.update(sharing.operate(self.now, level, held=held, closing=closing))
        else:
            self.notified.update(sharing.reconfigure(self.now, *self.wanted()))
        self.check()

    def release(self, ticket: Ticket) -> None:
        self.notified.update(self.sharing.release(self.now, self.live.pop(ticket), ticket))

    def check(self) -> None:
        self.sharing.check()
        assert all(ticket in self.notified for ticket in self.those(TicketState.SEATED)), (
            "a ticket was seated but not reported"
        )

    def end(self) -> None:
        """Open all levels, and release all tickets."""
        for level in [*self.sharing.levels.values()]:
            self.notified.update(self.sharing.operate(self.now, level))
        for _ in range(len(self.live) + 3):
            for ticket in self.those(TicketState.SEATED):
                self.release(ticket)
            self.now += PERIOD
            self.notified.update(self.sharing.tick(self.now))
            self.check()
        left = [ticket for ticket in self.those(TicketState.WAITING) if self.live[ticket].most]
        assert not left, "they could have been served"
        assert not self.those(TicketState.SEATED)
        assert all(level.queueset.waiting for level in self.sharing.draining), "they have drained"


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("share", [Lending, Adjusting])
@examples(15)
@given(seed=st.integers(0, 10**9))
@example(seed=1479)  # a draining level that is ahead, beside a request that needs all seats
@example(seed=322)  # turns that change with time alone
@example(seed=3051)  # a queue that becomes overdue while nothing happens to it
def test_all_servable_requests_are_served_under_any_levels(
    share: type[Lending | Adjusting], discipline: str, seed: int
) -> None:
    world = World(share, discipline, seed)
    for _ in range(80):
        world.step()
    world.end()
