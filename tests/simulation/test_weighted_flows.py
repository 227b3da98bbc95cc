"""Flows that always wait are served in proportion to their weights, whatever their requests need."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, EqualSerial, QueueSet, QueueSetSettings
from apf_middleware.fairqueuing.disciplines import Discipline
from tests.support.delegating_discipline import DelegatingDiscipline
from tests.support.examples import seeds
from tests.support.first_queue_discipline import FirstQueue
from tests.support.weighted_load import LONGEST, SEATS, WeightedLoad, weighted_settings

MS = 10**6
FLOWS: Sequence[Mapping[int, float]] = (
    {1: 1, 2: 2, 3: 4},
    {1: 0.25, 2: 1, 3: 10},
    {1: 8, **dict.fromkeys(range(2, 12), 1)},
    {1: 0.1, 2: 0.1, 3: 0.3},
)


def queueset(discipline: Callable[[int, int], Discipline[Any]] = EqualSerial, *, exact: bool = True) -> QueueSet:
    return QueueSet(weighted_settings(exact=exact), discipline=discipline)


def own_queues(queues: QueueSet, weights: Mapping[int, float]) -> bool:
    """Return whether no two flows share a queue."""
    return len({queue.index for queue in queues.deck if queue.length}) == len(weights)


@pytest.fixture(params=DISCIPLINES)
def discipline(request: pytest.FixtureRequest) -> type[Discipline[Any]]:
    return DISCIPLINES[request.param]


@pytest.mark.parametrize(
    ("weights", "seconds", "exact"),
    [
        (FLOWS[0], 20, True),
        (FLOWS[0], 20, False),
        (FLOWS[1], 70, True),  # a light flow has few requests
        (FLOWS[2], 50, False),
        (FLOWS[3], 20, True),
        (FLOWS[3], 20, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", seeds(1))
def test_service_is_in_proportion_to_weights(
    discipline: type[Discipline[Any]], weights: Mapping[int, float], seed: int, seconds: int, *, exact: bool
) -> None:
    load = WeightedLoad(
        queueset(discipline, exact=exact), {flow * 7919: weight for flow, weight in weights.items()}, seed
    )
    assert own_queues(load.queueset, weights), "the numbers are chosen so that hands don't collide"
    load.run(load.now + 10**10)

    assert load.measure(seconds * 10**9) == pytest.approx(dict.fromkeys(load.weights, 1.0), rel=0.02)


def test_a_flow_that_cannot_use_its_share_leaves_the_rest_to_the_others_by_weight(
    discipline: type[Discipline[Any]],
) -> None:
    load = WeightedLoad(queueset(discipline), {2: 1, 4: 2, 6: 9}, 3, backlogs={6: 1})
    load.run(10**10)
    load.measure(60 * 10**9)

    seats = {flow: used / (60 * 10**9) for flow, used in load.used.items()}
    assert seats[6] <= 1, "it has one request at a time"
    assert seats[2] >= 0.98 * 5 / 3
    assert seats[4] >= 0.98 * 10 / 3
    assert sum(seats.values()) == pytest.approx(SEATS, rel=0.01)
    # What is left while the third flow waits is nobody's share; `equal-serial` divides it by weight as well.
    assert discipline is not EqualSerial or seats[4] / seats[2] == pytest.approx(2.0, rel=0.02)


def test_a_light_and_a_heavy_flow_get_their_shares_though_requests_pass(
    discipline: type[Discipline[Any]],
) -> None:
    level = QueueSet(replace(weighted_settings(exact=True), backfill=2), discipline=discipline)
    load = WeightedLoad(level, {1: 0.25, 2: 1, 3: 10}, 1)
    load.run(10**10)
    found = load.measure(40 * 10**9)

    assert found == pytest.approx({1: 1, 2: 1, 3: 1}, rel=0.03)


def test_equal_weights_of_any_size_give_equal_shares(discipline: type[Discipline[Any]]) -> None:
    load = WeightedLoad(queueset(discipline), dict.fromkeys((1, 2, 3), 3.0), 5)
    assert load.measure(40 * 10**9) == pytest.approx(dict.fromkeys((1, 2, 3), 1.0), rel=0.02)


def test_weights_can_change_while_requests_wait(discipline: type[Discipline[Any]]) -> None:
    load = WeightedLoad(queueset(discipline), {1: 1, 2: 1, 3: 1}, 1)
    load.run(5 * 10**9)
    load.weights = {1: 1, 2: 5, 3: 0.5}
    load.run(load.now + 10 * 10**9)
    assert load.measure(30 * 10**9) == pytest.approx({1: 1, 2: 1, 3: 1}, rel=0.02)
    load.weights = {1: 1, 2: 1, 3: 1}
    load.run(load.now + 10 * 10**9)
    assert load.measure(30 * 10**9) == pytest.approx({1: 1, 2: 1, 3: 1}, rel=0.02)


@pytest.mark.parametrize("weight", [0.002, 0.01, 0.1, 20.0])
def test_a_flow_has_the_share_of_a_new_weight_at_once(discipline: type[Discipline[Any]], weight: float) -> None:
    """A request is a long charge at a small weight: it must not count for as long after the weight has risen."""
    load = WeightedLoad(queueset(discipline), {1: weight, 2: 1, 3: 1}, 2)
    load.run(4 * 10**9)
    load.weights[1] = 1
    load.renew(1)
    assert load.measure(5 * 10**9)[1] == pytest.approx(1.0, rel=0.1)


def test_flows_that_share_a_queue_share_its_weight(discipline: type[Discipline[Any]]) -> None:
    """One queue has the flows 1 and 4 with weights 1 and 3, about 2 on average; the other has the flow 2."""
    queues = QueueSet(QueueSetSettings(SEATS, 2, 1, 1000), discipline=discipline)
    owners = {flow: queues.deck.choose(flow, 0).index for flow in range(100)}
    one, other = (next(flow for flow, index in owners.items() if index == number) for number in (0, 1))
    beside = next(flow for flow, index in owners.items() if index == 0 and flow != one)
    load = WeightedLoad(queues, {one: 1, beside: 3, other: 2}, 3)
    load.run(10**10)
    load.measure(60 * 10**9)
    assert (load.used[one] + load.used[beside]) / load.used[other] == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("chosen", [FirstQueue, *DISCIPLINES.values()], ids=["the first queue", *DISCIPLINES])
@pytest.mark.parametrize("seed", seeds(3))
def test_no_flow_lacks_more_work_than_the_bound(chosen: type[Discipline[Any]], seed: int) -> None:
    """The bound of the guarantee for requests of one width, C + 1 of the longest ones, whatever a flow weighs."""
    chance = random.Random(seed)
    flows = range(0, 2 * chance.choice([2, 5, 30]), 2)
    weights = {flow: chance.choice([0.02, 0.3, 1, 1, 2, 7, 40]) for flow in flows}
    load = WeightedLoad(queueset(chosen), weights, seed)

    assert load.worst_shortfall(15 * 10**9) < (SEATS + 1) * LONGEST


def test_without_a_guarantee_the_bound_is_broken() -> None:
    level = queueset(FirstQueue)
    level.guarantee = None
    load = WeightedLoad(level, {0: 1, 2: 4, 4: 0.5}, 1)
    assert load.worst_shortfall(40 * 10**9) > 10 * (SEATS + 1) * LONGEST


class Unweighted(DelegatingDiscipline, of=EqualSerial):
    """A control that must fail: weights are ignored."""


Unweighted.is_weighted = False


@pytest.mark.parametrize("rounds", [0, 2, 8])
def test_a_heavy_flow_of_wide_requests_gets_its_weight_in_whatever_rounds_others_pass(
    discipline: type[Discipline[Any]], rounds: int
) -> None:
    settings = QueueSetSettings(12, 64, 1, 1000, exact=16, backfill=rounds)
    # each third flow has requests of the same durations
    weights, widths = {0: 5, 3: 1}, {0: 5, 3: 1}
    load = WeightedLoad(QueueSet(settings, discipline=discipline), weights, 1, widths=widths)
    load.run(10**10)

    assert load.measure(15 * 10**9) == pytest.approx({0: 1, 3: 1}, rel=0.03)


def test_the_control_is_unfair() -> None:
    load = WeightedLoad(queueset(Unweighted), FLOWS[0], 1)
    load.run(10**10)
    found = load.measure(40 * 10**9)
    assert found[1] == pytest.approx(7 / 3, rel=0.02)
