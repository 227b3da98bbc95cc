"""Max-min shares with a virtual end for each request."""

import weakref
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.fairqueuing import Discipline, QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from apf_middleware.testing import play
from tests.support.discipline_level import Level
from tests.support.kubernetes_scenarios import SCENARIOS

SECOND = 10**9
GUESS = 3_000_000
BOTH = pytest.mark.parametrize("discipline", [MaxMinSerial, MaxMinConcurrent])
CASES = {case.name: case for case in SCENARIOS}


def test_with_a_queue_for_each_flow_widths_make_no_difference() -> None:
    scenario = CASES["different widths"].scenario
    clients = [replace(client, entropy=place) for place, client in enumerate(scenario.clients)]
    alone = replace(scenario, clients=clients, settings=QueueSetSettings(6, 2, 1, queue_length_limit=100))
    (averages,) = play(alone, discipline=MaxMinConcurrent).averages
    assert averages == pytest.approx([3, 3], rel=0.02)


def test_a_long_request_leaves_no_growing_state() -> None:
    level = Level(MaxMinConcurrent, seats=2, flows=2)
    for flow in (0, 0, 1):
        level.arrive(0, flow)
    for now in range(1, 2_000):
        ticket = Ticket("flow 1", 1, Work())
        level.queueset.arrive(now, ticket)
        level.queueset.abandon(now, ticket)
    queue: Any = level.queueset.deck.queues[1]
    assert queue.meter.share.rho == 1
    assert len(queue.meter.guesses) < 100


class Mortal(Ticket):
    """A ticket that tells, by way of a weak reference, when nobody remembers it any more."""


@BOTH
def test_of_a_finished_request_only_its_virtual_end_remains(discipline: type[Discipline[Any]]) -> None:
    queueset = QueueSet(QueueSetSettings(2, 2, 1, queue_length_limit=10), discipline=discipline)
    mortals: list[Ticket] = [Mortal("flow 0", 0, Work()) for _ in range(2)]
    for ticket in mortals:
        queueset.arrive(0, ticket)
    for _ in range(4):
        queueset.arrive(0, Ticket("flow 1", 1, Work()))
    memories = [weakref.ref(ticket) for ticket in mortals]
    for now, ticket in enumerate(mortals, 1):
        queueset.release(now * GUESS // 2, ticket)
    queue: Any = queueset.deck.queues[0]
    assert queue.meter.virtual_ends, "it had more than its share"
    del mortals, ticket
    assert [memory() for memory in memories] == [None, None]
    queueset.check()


@BOTH
def test_the_virtual_end_of_a_request_keeps_its_width(discipline: type[Discipline[Any]]) -> None:
    level = Level(discipline, seats=1 << 33, flows=2)
    giant = level.arrive(0, 0, seats=1 << 33)
    other = level.arrive(0, 1, seats=1 << 33)
    queue: Any = level.queueset.deck.queues[0]
    assert level.release(SECOND, giant) == ["flow 1"]
    assert len(queue.meter.virtual_ends) == 1
    assert queue.meter.share.rho == 1 << 33
    level.release(2 * SECOND, other)
    level.queueset.tick(5 * SECOND)
    level.queueset.check()
    assert (queue.meter.share.rho, queue.meter.virtual_ends) == (0, [])
