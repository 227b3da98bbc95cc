"""Whenever a level begins: a monotonic clock may stand anywhere, and nothing depends on where."""

import random

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, Ticket, Work, flow_hash

MS = 1_000_000


def order_of_service(discipline: str, begin: int) -> list[tuple[int, str]]:
    """Who is seated when, of three flows with requests that outlast every guess."""
    queueset = QueueSet(QueueSetSettings(2, queues=16, hand_size=2), discipline=DISCIPLINES[discipline], now=begin)
    rng, now, seated, served = random.Random(1), begin, list[Ticket](), list[tuple[int, str]]()
    for number in range(200):
        now += rng.randint(1, 20) * MS
        flow = f"flow-{rng.randrange(3)}"
        if seated and (number % 3 or len(seated) > 1):
            new = list(queueset.release(now, seated.pop(rng.randrange(len(seated)))))
        else:
            new = []
        new += queueset.arrive(now, Ticket(flow, flow_hash("all", flow), Work(rng.randint(1, 2))))
        new += queueset.tick(now)
        seated += new
        served += [(now - begin, ticket.flow) for ticket in new]
        queueset.check()
    return served


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_it_does_not_matter_when_a_level_begins(discipline: str) -> None:
    served = order_of_service(discipline, 0)

    assert len(served) > 100
    assert order_of_service(discipline, 10**15) == served
    assert order_of_service(discipline, -(10**15)) == served
