"""The fluid model of both max-min disciplines."""

import weakref
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.fairqueuing import Discipline, QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_model import FluidModel
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from apf_middleware.fairqueuing.disciplines.work_meter import MaxMinQueue, WorkMeter
from apf_middleware.testing import Caller, observe, play
from tests.support.discipline_level import Level
from tests.support.kubernetes_scenarios import SCENARIOS, FairnessCase, worst_deviation

SECOND = 10**9
GUESS = 3_000_000
BOTH = pytest.mark.parametrize("discipline", [MaxMinSerial, MaxMinConcurrent])
CASES = {case.name: case for case in SCENARIOS}
FAIR = [case for case in SCENARIOS if all(expectation.is_fair for expectation in case.expectations)]


@BOTH
@pytest.mark.parametrize("case", FAIR, ids=lambda case: case.name)
def test_every_scenario_of_kubernetes_is_fair_within_its_margin(
    discipline: type[Discipline[Any]], case: FairnessCase
) -> None:
    # With the guarantee, seats are so fair between queues that flows with more queues in "too wide" have more.
    outcome = play(case.scenario, discipline=discipline, strict_upstream=case.name == "too wide")
    for window, expectation in enumerate(case.expectations):
        assert worst_deviation(case.expected(window), outcome, window) <= expectation.margin


@BOTH
def test_no_queue_saves_up_credit_or_debt(discipline: type[Discipline[Any]]) -> None:
    outcome = play(CASES["windup, lower bound"].scenario, discipline=discipline)
    assert outcome.averages[1] == pytest.approx([1.5, 1.5], rel=0.001)


@BOTH
def test_with_a_queue_for_each_flow_a_too_wide_request_gets_its_share_and_no_more(
    discipline: type[Discipline[Any]],
) -> None:
    """It runs for 3/17 of the time on 7 seats, the others on 6 for the rest: 21/17 seats each."""
    scenario = CASES["too wide"].scenario
    clients = [replace(client, entropy=place) for place, client in enumerate(scenario.clients)]
    alone = replace(scenario, clients=clients, settings=QueueSetSettings(6, 5, 1, queue_length_limit=100))
    (averages,) = play(alone, discipline=discipline).averages
    assert averages == pytest.approx([sum(averages) / 5] * 5, rel=0.02)
    assert 0.94 * 21 <= sum(averages) * 17 / 5 <= 1.01 * 21, "seats that are saved up for the wide request stay empty"


@BOTH
def test_the_guess_is_what_requests_of_the_queue_took(discipline: type[Discipline[Any]]) -> None:
    level = Level(discipline, seats=1, flows=3)
    now = 0
    for flow, took in ((0, 100 * GUESS), (1, GUESS)) * 20:
        ticket = level.arrive(now, flow)
        now += took
        level.release(now, ticket)
    queues: Any = level.queueset.deck.queues
    guesses = [queue.meter.guess_ns for queue in queues[:2]]
    assert guesses == [pytest.approx(100 * GUESS, rel=0.01), pytest.approx(GUESS, rel=0.01)]


@BOTH
def test_a_new_queue_begins_with_the_guess_of_its_level(discipline: type[Discipline[Any]]) -> None:
    queueset = QueueSet(QueueSetSettings(1, 1, 1, queue_length_limit=9, exact=8), discipline=discipline)
    now = 0
    for _ in range(100):
        ticket = Ticket("flow 0", 0, Work())
        queueset.arrive(now, ticket)
        now += 50 * GUESS
        queueset.release(now, ticket)
    queueset.arrive(now, Ticket("flow 0", 0, Work()))
    other = Ticket("flow 1", 1, Work())
    queueset.arrive(now, other)
    queue: Any = other.queue
    assert queue.meter.guess_ns == pytest.approx(50 * GUESS, rel=0.05)


def test_a_guess_grows_by_what_requests_of_the_level_take() -> None:
    fluid = FluidModel[WorkMeter](1, 1000)
    assert [fluid.next_guess(guess) for guess in (1000, 2000, 16_000, 160_000)] == [2000, 3000, 17_000, 170_000]


@BOTH
def test_what_a_queue_owes_is_bounded_however_long_it_used_seats_that_no_other_wanted(
    discipline: type[Discipline[Any]],
) -> None:
    """One client with a single connection leaves the other more than its share, half of the time."""

    def kept(seconds: int) -> tuple[int, int]:
        callers = [Caller(connections, (50_000_000,), [(0, seconds * SECOND)]) for connections in (8, 1)]
        one_each = QueueSetSettings(4, 1, 1, 100, exact=8)
        queues: Any = observe(one_each, callers, discipline=discipline).queueset.deck.queues
        meters = [queue.meter for queue in queues]
        ends = max(len(meter.virtual_ends) + len(getattr(meter, "line", ())) for meter in meters)
        return max(meter.share.rho for meter in meters), ends

    assert kept(40) == kept(20)
    assert max(kept(20)) <= 8


@BOTH
def test_requests_that_come_and_leave_again_leave_nothing_behind(discipline: type[Discipline[Any]]) -> None:
    level = Level(discipline, seats=1, flows=2)
    level.arrive(0, 0)
    for now in range(1, 2_000):
        ticket = Ticket("flow 1", 1, Work())
        level.queueset.arrive(now, ticket)
        level.queueset.abandon(now, ticket)
    queue: Any = level.queueset.deck.queues[1]
    assert queue.meter.share.rho == 0
    assert (
        sum(len(getattr(queue.meter, kept, ())) for kept in ("virtual_ends", "guesses", "later_guesses", "line")) < 100
    )
    level.queueset.check()


class Mortal(Ticket):
    """A ticket that tells, by way of a weak reference, when nobody remembers it any more."""


@BOTH
def test_of_a_request_within_its_share_nothing_remains(discipline: type[Discipline[Any]]) -> None:
    queueset = QueueSet(QueueSetSettings(2, 2, 1, queue_length_limit=10), discipline=discipline)
    mortal: Ticket = Mortal("flow 0", 0, Work())
    queueset.arrive(0, mortal)
    queueset.release(GUESS // 2, mortal)
    memory, queue = weakref.ref(mortal), mortal.queue
    del mortal
    assert memory() is None
    assert isinstance(queue, MaxMinQueue)
    assert not queue.meter.virtual_ends


@BOTH
def test_in_whichever_order_requests_end_nothing_remains(discipline: type[Discipline[Any]]) -> None:
    queueset = QueueSet(QueueSetSettings(4, 2, 1, queue_length_limit=10), discipline=discipline)
    mortals: list[Ticket] = [Mortal("flow 0", 0, Work()) for _ in range(4)]
    others = [Ticket("flow 1", 1, Work()) for _ in range(4)]
    for ticket in (*mortals, *others):
        queueset.arrive(0, ticket)
    memories = [weakref.ref(ticket) for ticket in mortals]
    for now, ticket in enumerate((mortals[2], mortals[1], mortals[3], mortals[0], *others), 1):
        queueset.release(now * GUESS // 2, ticket)
        queueset.check()
    del mortals, ticket
    queueset.tick(SECOND)
    assert [memory() for memory in memories] == [None] * 4


@BOTH
def test_requests_wait_in_a_level_without_seats_until_it_has_some(discipline: type[Discipline[Any]]) -> None:
    queueset = QueueSet(QueueSetSettings(0, 2, 1, queue_length_limit=5), discipline=discipline)
    tickets = [Ticket(f"flow {flow}", flow, Work()) for flow in (0, 1)]
    for ticket in tickets:
        assert not queueset.arrive(0, ticket)
    seated = queueset.reconfigure(SECOND, QueueSetSettings(2, 2, 1, queue_length_limit=5))
    assert {ticket.flow for ticket in seated} == {"flow 0", "flow 1"}
    queueset.check()
