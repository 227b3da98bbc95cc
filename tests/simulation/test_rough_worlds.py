"""Rough random worlds for every discipline: whatever happens, the books balance and nobody who could sit stands."""

import random
from collections.abc import Sequence

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, Ticket, Work
from tests.support.examples import seeds

STEPS = 400


def settings(chance: random.Random) -> QueueSetSettings:
    queues, seats = chance.choice([0, 1, 4, 8, 16]), chance.choice([0, 1, 3, 6, 10])
    if not queues:
        return QueueSetSettings.without_queues(seats)
    return QueueSetSettings(seats, queues, min(queues, chance.choice([1, 2, 4])), chance.choice([1, 3, 10]))


def ticket(chance: random.Random) -> Ticket:
    work = Work(chance.choice([1, 1, 2, 5, 12]), chance.choice([0, 0, 1, 8]), chance.choice([0, 0, 10**5, 10**8]))
    return Ticket("flow", chance.choice([chance.getrandbits(64), 1, 2, 3]), work)


def step(queueset: QueueSet, now: int, tickets: list[Ticket], chance: random.Random) -> Sequence[Ticket]:
    """One of all the things that can happen."""
    waiting = [one for one in tickets if one.is_waiting]
    seated = [one for one in tickets if one.is_seated]
    what = chance.random()
    if what < 0.1 and waiting:
        return queueset.abandon(now, chance.choice(waiting))
    if what < 0.45 and seated:
        return queueset.release(now, chance.choice(seated))
    if what < 0.5:
        return queueset.tick(now)
    if what < 0.52:
        return queueset.reconfigure(now, settings(chance))
    tickets.append(ticket(chance))
    return queueset.arrive(now, tickets[-1])


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_no_request_is_lost_and_no_usable_seat_stays_free(discipline: str, seed: int) -> None:
    chance = random.Random(seed)
    queueset = QueueSet(settings(chance), discipline=DISCIPLINES[discipline])
    tickets: list[Ticket] = []
    now = 0
    for _ in range(STEPS):
        now += chance.choice([0, 1, 1000, 10**6, 10**8])
        seated = step(queueset, now, tickets, chance)
        assert all(one.is_seated for one in seated)
        queueset.check()
    queueset.reconfigure(now, QueueSetSettings(20, 1, 1, 10))
    for _ in range(2 * STEPS):
        running = [one for one in tickets if one.is_seated]
        now += 10**9
        queueset.release(now, running[0]) if running else queueset.tick(now)

    assert queueset.is_idle
    assert all(one.state.value in {"released", "rejected"} for one in tickets)
