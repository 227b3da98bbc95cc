"""Exact queues in random worlds: one queue for each flow at work, its own as long as there are places."""

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, Ticket, TicketState, Work
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.examples import examples

FLOWS = 9
MS = 10**6


class World:
    """A queue set with exact queues, and what can be seen of flows from outside."""

    def __init__(self, settings: QueueSetSettings, discipline: str) -> None:
        self.queueset = QueueSet(settings, discipline=DISCIPLINES[discipline])
        self.now = 0
        self.tickets: list[Ticket] = []

    def those(self, *states: TicketState) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.state in states]

    def runtime(self) -> dict[int, list[Ticket]]:
        flows = defaultdict(list)
        for ticket in self.those(TicketState.WAITING, TicketState.SEATED, TicketState.LINGERING):
            flows[ticket.entropy].append(ticket)
        return flows

    def arrive(self, flow: int, work: Work, weight: int) -> None:
        self.queueset.tick(self.now)
        before = self.runtime()
        shared = self.queueset.settings.queues
        self.tickets.append(ticket := Ticket(f"flow {flow}", flow, work, weight))
        self.queueset.arrive(self.now, ticket)
        queue = ticket.queue
        assert queue is not None
        if flow in before:
            assert queue is before[flow][0].queue, "a flow at work stays where it is"
        elif queue.index < shared:
            taken = {one[0].queue.index for one in before.values() if one[0].queue and one[0].queue.index >= shared}
            assert len(taken) == self.queueset.settings.exact, "who has no place came when all were at work"
        else:
            assert queue not in [one[0].queue for one in before.values()], "an own queue is nobody else's"
        if ticket.is_rejected:
            waiting = [one.entropy for one in queue]
            assert queue.is_mostly(flow) is (2 * waiting.count(flow) >= len(waiting)), "whose tickets fill the queue"

    def step(self, chance: random.Random) -> None:
        self.now += chance.choice([0, 1, MS, 30 * MS])
        what = chance.random()
        waiting, seated = self.those(TicketState.WAITING), self.those(TicketState.SEATED)
        if what < 0.15 and waiting:
            self.queueset.abandon(self.now, chance.choice(waiting))
        elif what < 0.55 and seated:
            self.queueset.release(self.now, chance.choice(seated))
        else:
            work = Work(chance.choice([1, 1, 1, 2, 5]), 1, chance.choice([0, 0, 0, 10 * MS]))
            weight = chance.choice([WEIGHT_ONE, WEIGHT_ONE, 4 * WEIGHT_ONE, WEIGHT_ONE // 50])
            self.arrive(chance.randrange(FLOWS), work, weight)

    def check(self) -> None:
        self.queueset.check()
        for flow, tickets in self.runtime().items():
            assert len({id(ticket.queue) for ticket in tickets}) == 1, f"flow {flow} has one queue at a time"


@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(15)
@given(
    exact=st.integers(1, 6),
    queues=st.integers(1, 3),
    seats=st.integers(0, 4),
    limit=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)
def test_each_active_flow_has_its_own_queue_up_to_the_bound(
    discipline: str, *, exact: int, queues: int, seats: int, limit: int, seed: int
) -> None:
    world = World(QueueSetSettings(seats, queues, queues, limit, exact=exact), discipline)
    chance = random.Random(seed)
    for _ in range(60):
        world.step(chance)
        world.check()


@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(15)
@given(seed=st.integers(0, 10**6))
def test_the_number_of_exact_queues_can_change_at_any_time(discipline: str, seed: int) -> None:
    chance = random.Random(seed)
    world = World(QueueSetSettings(2, 2, 1, 5, exact=4), discipline)
    for place in range(80):
        if place % 8 == 7:
            queues = chance.choice([1, 2, 3, 8])
            settings = QueueSetSettings(2, queues, 1, 5, exact=chance.choice([0, 0, 1, 3, 9]))
            world.queueset.reconfigure(world.now, settings)
            world.tickets = [ticket for ticket in world.tickets if ticket.is_waiting or ticket.is_seated]
        world.now += chance.choice([0, MS])
        seated: list[Any] = [ticket for ticket in world.tickets if ticket.is_seated]
        if seated and chance.random() < 0.6:
            world.queueset.release(world.now, chance.choice(seated))
        else:
            world.tickets.append(Ticket("flow", chance.randrange(FLOWS), Work()))
            world.queueset.arrive(world.now, world.tickets[-1])
        world.queueset.check()
    world.queueset.reconfigure(world.now, QueueSetSettings(100, 2, 1, 5, exact=2))
    for ticket in [ticket for ticket in world.tickets if ticket.is_seated]:
        world.queueset.release(world.now, ticket)

    assert world.queueset.is_idle
    assert len(list(world.queueset.deck)) <= 4
    world.queueset.check()
