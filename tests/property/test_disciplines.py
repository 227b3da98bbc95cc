"""The disciplines against their plain twins, in random worlds.

The guarantee is off, so that each turn is the discipline's; `test_guarantee` has it on. Two queue sets agree when their
records do.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import Discipline, QueueSetSettings, Work
from apf_middleware.fairqueuing.disciplines.equal_serial import EqualSerial
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from apf_middleware.fairqueuing.max_min_shares import MaxMinShares
from apf_middleware.fairqueuing.service_meter import ServiceMeter
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.discipline_twins import (
    PlainEqualSerial,
    PlainMaxMinConcurrent,
    PlainMaxMinSerial,
    max_min_shares,
)
from tests.support.examples import examples, seeds
from tests.support.recorded_queueset import MS, RecordedQueueSet, Step

Maker = Callable[[int, int], Discipline[Any]]


works = st.builds(
    Work,
    seats=st.integers(1, 5),
    final_seats=st.sampled_from([0, 0, 0, 1, 3, 6]),
    linger_ns=st.sampled_from([0, 0, MS, 2 * MS + 7]),
)
weights = st.sampled_from([WEIGHT_ONE, WEIGHT_ONE, WEIGHT_ONE // 100, WEIGHT_ONE // 3, 2 * WEIGHT_ONE, 7 * WEIGHT_ONE])
pauses = st.sampled_from([0, 0, 1, 3, 977, 10_000, MS, 3 * MS, 10 * MS + 1, 1_000 * MS])


@st.composite
def many_settings(draw: st.DrawFn) -> QueueSetSettings:
    queues = draw(st.integers(1, 6))
    return QueueSetSettings(
        draw(st.integers(0, 6)),
        queues,
        draw(st.integers(1, queues)),
        queue_length_limit=draw(st.integers(1, 20)),
        backfill=draw(st.integers(0, 3)),
    )


steps = st.one_of(
    st.builds(Step, pauses, st.just("arrive"), st.integers(0, 40), works),
    st.builds(Step, pauses, st.just("arrive"), st.integers(0, 40), weight=weights),
    st.builds(Step, pauses, st.sampled_from(["release", "release", "release", "abandon", "tick"]), st.integers(0, 40)),
    st.builds(Step, pauses, st.just("reconfigure"), settings=many_settings()),
)


def attained(concurrency: int, guess_ns: int) -> EqualSerial:
    """Return `equal-serial`; unlike the class, this isn't exchanged for Kubernetes' own where a queue set is strict."""
    return EqualSerial(concurrency, guess_ns)


PAIRS = [
    (attained, PlainEqualSerial),
    (MaxMinSerial, PlainMaxMinSerial),
    (MaxMinConcurrent, PlainMaxMinConcurrent),
]
OURS = [ours for ours, _ in PAIRS[1:]]


@pytest.mark.parametrize(("ours", "plain"), PAIRS)
@examples(60)
@given(begin=many_settings(), world=st.lists(steps, max_size=60))
def test_each_discipline_agrees_with_its_plain_twin(
    ours: Maker, plain: Maker, begin: QueueSetSettings, world: list[Step]
) -> None:
    left, right = RecordedQueueSet(ours, begin), RecordedQueueSet(plain, begin)
    for step in world:
        left.take(step)
        right.take(step)
        assert left.record[-1] == right.record[-1]
        left.queueset.check()


@pytest.mark.parametrize(("ours", "plain"), PAIRS)
@pytest.mark.parametrize("seed", seeds(8))
def test_the_plain_twin_agrees_over_long_runs(ours: Maker, plain: Maker, seed: int) -> None:
    """Tides of arrivals and of releases; the strides of time change as well. Every second world is strict.

    A third of the worlds have flows of different weights, and in another third their weights change.
    """
    chance = random.Random(seed // 2)
    strict = bool(seed % 2)
    heavy = [1, 1000, WEIGHT_ONE // 2, WEIGHT_ONE, 3 * WEIGHT_ONE, 10 * WEIGHT_ONE]
    backfill = chance.choice([0, 1, 3])
    begin = QueueSetSettings(chance.randint(1, 12), 6, chance.randint(1, 3), queue_length_limit=30, backfill=backfill)
    left, right = RecordedQueueSet(ours, begin, strict=strict), RecordedQueueSet(plain, begin, strict=strict)
    stride, tide = MS, (1, 1, 1, 1)
    for place in range(300):
        if place % 30 == 0:
            stride = 10 ** chance.randint(3, 9)
            tide = chance.choice([(6, 3, 1, 1), (3, 6, 1, 1), (2, 5, 3, 2)])
        what = chance.choices(["arrive", "release", "abandon", "tick"], tide)[0]
        work = Work(
            chance.choice([1, 1, 2, 5, 13]), chance.choice([0, 0, 3, 15]), chance.choice([0, 0, MS, 5 * stride])
        )
        after = chance.choice([0, 1, stride // 7, stride, chance.randrange(stride)])
        flow = chance.randrange(40)
        weight = WEIGHT_ONE if seed % 3 == 0 else heavy[flow % 6] if seed % 3 == 1 else chance.choice(heavy)
        step = Step(after, what, flow, work, weight=weight)
        if place % 50 == 49:
            seats, queues = chance.randint(1, 12), chance.randint(2, 6)
            resized = QueueSetSettings(seats, queues, 2, queue_length_limit=30, backfill=backfill)
            step = Step(after, "reconfigure", settings=resized)
        left.take(step)
        right.take(step)
        assert left.record[-1] == right.record[-1]
        left.queueset.check()


@pytest.mark.parametrize(("ours", "plain"), PAIRS)
@pytest.mark.parametrize("seed", seeds(7))
def test_parked_requests_are_served_as_by_the_plain_twin(ours: Maker, plain: Maker, seed: int) -> None:
    """One that comes back begins later than those behind it: what is next in its queue may come before it was."""
    chance = random.Random(seed)
    begin = QueueSetSettings(chance.randint(1, 4), 3, 1, queue_length_limit=30)
    left, right = RecordedQueueSet(ours, begin), RecordedQueueSet(plain, begin)
    kinds = ["arrive", "release", "park", "unpark", "abandon"]
    for place in range(150):
        work = Work(chance.choice([1, 1, 1, 2]), 0, chance.choice([0, 0, MS]))
        what = chance.choices(kinds, (6, 4, 2, 3, 1))[0]
        step = Step(chance.choice([0, 1, 10_000, MS, 4 * MS]), what, chance.randrange(40), work)
        left.take(step)
        right.take(step)
        assert left.record[-1] == right.record[-1]
        if seed % 2 or place % 7 == 0:
            left.queueset.check()


@pytest.mark.parametrize(("ours", "plain"), PAIRS)
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("seed", seeds(4))
def test_queues_that_cross_the_lag_bound_agree_with_the_plain_twin(
    ours: Maker, plain: Maker, seed: int, every: int
) -> None:
    """Single seats, and more of them by turns: queues are granted what they ask for, and cease to be.

    A check asks whose turn it is, and that moves a queue which was left where it stood: some worlds are seldom checked.
    """
    chance = random.Random(seed)
    queues = chance.randint(2, 5)
    left, right = (RecordedQueueSet(discipline, QueueSetSettings(6, queues, 1)) for discipline in (ours, plain))
    for place in range(200):
        what = chance.choices(["arrive", "release"], (3, 2) if place % 50 < 25 else (2, 3))[0]
        step = Step(chance.choice([0, 1, 10_000, MS, 4 * MS]), what, chance.randrange(12))
        if place % 20 == 19:
            step = Step(1, "reconfigure", settings=QueueSetSettings(chance.choice([1, 2, 6, 12, 20]), queues, 1))
        left.take(step)
        right.take(step)
        assert left.record[-1] == right.record[-1]
        if place % every == 0:
            left.queueset.check()


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("seed", seeds(3))
def test_the_number_of_ticks_makes_no_difference(ours: Maker, seed: int) -> None:
    """Events of the virtual world are late when nobody calls; whose turn it is they decide as if they weren't."""

    def seated(every: int | None) -> list[object]:
        chance = random.Random(seed)
        side = RecordedQueueSet(
            ours, QueueSetSettings(chance.randint(1, 8), 6, chance.randint(1, 3), queue_length_limit=1000)
        )
        found = []
        for _ in range(200):
            what = chance.choices(["arrive", "release", "abandon"], (4, 4, 1))[0]
            left = chance.choice([0, 1, 10_007, MS + 13, 7 * MS + chance.randrange(1000), 50 * MS])
            while every is not None and left > every:
                side.take(Step(every, "tick"))
                left -= every
            side.take(Step(left, what, chance.randrange(40)))
            found.append(side.record[-1][2])
        return found

    assert seated(None) == seated(777_777)


@given(
    capacity=st.integers(0, 30),
    queues=st.lists(st.tuples(st.integers(0, 12), st.sampled_from([1, 1, 3, 7])), max_size=9),
)
def test_the_twins_shares_solve_the_proposals_equation(capacity: int, queues: list[tuple[int, int]]) -> None:
    """For equal weights it is the proposal's; otherwise each queue counts as often as it weighs."""
    demands, weights = [demand for demand, _ in queues], [weight for _, weight in queues]
    shares = max_min_shares(capacity, demands, weights)

    assert sum(shares) == min(capacity, sum(demands))
    fair = max((share / weight for share, weight in zip(shares, weights, strict=True)), default=0)
    assert shares == [min(demand, weight * fair) for demand, weight in queues]


@given(
    capacity=st.integers(0, 30),
    changes=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 12), st.integers(0, 30)), max_size=60),
)
def test_the_shares_are_those_of_a_division_from_scratch(capacity: int, changes: list[tuple[int, int, int]]) -> None:
    queues = [ServiceMeter(index) for index in range(8)]
    shares = MaxMinShares(capacity, queues)
    for index, rho, other_capacity in changes:
        before = [queue.is_limited for queue in queues]
        crossed = shares.change(queues[index], rho)
        if not rho:
            crossed = [*crossed, *shares.resize(other_capacity)]
        shares.check()
        changed = {queue.index for queue, was in zip(queues, before, strict=True) if queue.is_limited is not was}
        assert changed <= {queue.index for queue in crossed}
        fair = max_min_shares(shares.capacity, [queue.rho for queue in queues])
        for queue, share in zip(queues, fair, strict=True):
            assert queue.is_limited is (share < queue.rho)
            if queue.is_limited:
                assert share * shares.limited == shares.free


@given(
    capacity=st.integers(0, 30),
    weights=st.lists(
        st.sampled_from([1, 99, WEIGHT_ONE // 3, WEIGHT_ONE, 3 * WEIGHT_ONE, 5 << 20]), min_size=8, max_size=8
    ),
    changes=st.lists(
        st.tuples(
            st.sampled_from(["change", "change", "change", "reweigh", "resize"]),
            st.integers(0, 7),
            st.integers(0, 12),
            st.integers(1, 1 << 22),
        ),
        max_size=60,
    ),
)
def test_weighted_shares_are_those_of_a_division_from_scratch(
    capacity: int, weights: list[int], changes: list[tuple[str, int, int, int]]
) -> None:
    queues = [ServiceMeter(index) for index in range(8)]
    shares = MaxMinShares(capacity, queues)
    shares.change(queues[1], 3)
    shares.weigh()
    for queue, weight in zip(queues, weights, strict=True):
        shares.reweigh(queue, weight)
    for what, index, number, weight in changes:
        before = [queue.is_limited for queue in queues]
        match what:
            case "change":
                crossed = shares.change(queues[index], number)
            case "reweigh":
                crossed = shares.reweigh(queues[index], weight)
            case _:
                crossed = shares.resize(3 * number)
        shares.check()
        changed = {queue.index for queue, was in zip(queues, before, strict=True) if queue.is_limited is not was}
        assert changed <= {queue.index for queue in crossed}
        asking = [queue for queue in queues if queue.rho]
        fair = max_min_shares(shares.capacity, [queue.rho for queue in asking], [queue.weight for queue in asking])
        for queue, share in zip(asking, fair, strict=True):
            # Two demands for each unit of weight may be too near to each other for their order to be known.
            found = Fraction(shares.free * queue.weight, shares.limited) if queue.is_limited else Fraction(queue.rho)
            assert abs(found - share) <= Fraction(queue.weight, 1 << 30)


@given(
    capacity=st.integers(0, 30),
    changes=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 12), st.integers(0, 30)), max_size=60),
    at=st.integers(0, 60),
)
def test_weights_make_no_difference_if_all_are_usual(
    capacity: int, changes: list[tuple[int, int, int]], at: int
) -> None:
    plain, weighed = [ServiceMeter(index) for index in range(8)], [ServiceMeter(index) for index in range(8)]
    left, right = MaxMinShares(capacity, plain), MaxMinShares(capacity, weighed)
    for place, (index, rho, other_capacity) in enumerate(changes):
        if place == at:
            right.weigh()
        sides = ((left, plain), (right, weighed))
        ways = [[queue.index for queue in shares.change(queues[index], rho)] for shares, queues in sides]
        ways += [[queue.index for queue in shares.resize(other_capacity)] for shares, _ in sides if not rho]
        assert ways[::2] == ways[1::2], "the same queues cross, in the same order"
        right.check()
        assert (right.free, right.limited) == (left.free, left.limited * right.unit)


@pytest.mark.parametrize("ours", OURS)
@examples(40)
@given(
    concurrency=st.integers(1, 4),
    world=st.lists(
        st.one_of(
            st.builds(Step, pauses, st.just("arrive"), st.just(0), works),
            st.builds(Step, pauses, st.sampled_from(["release", "abandon", "tick"]), st.integers(0, 9)),
        ),
        max_size=60,
    ),
)
def test_with_one_queue_all_disciplines_serve_in_the_same_order(
    ours: Maker, concurrency: int, world: list[Step]
) -> None:
    begin = QueueSetSettings(concurrency, 1, 1, queue_length_limit=100)
    assert order(EqualSerial, begin, world) == order(ours, begin, world)


@pytest.mark.parametrize("ours", OURS)
@examples(40)
@given(
    queues=st.integers(2, 6),
    seats_each=st.integers(1, 3),
    each=st.integers(1, 20),
)
def test_with_equal_demands_all_disciplines_serve_in_the_same_order(
    ours: Maker, queues: int, seats_each: int, each: int
) -> None:
    """All queues get the same tickets at the same instant; they run for the guess, and finish in order."""
    concurrency = queues * seats_each
    begin = QueueSetSettings(concurrency, queues, 1, queue_length_limit=1_000)
    world = [Step(0, "arrive", flow) for _ in range(each) for flow in range(queues)]
    rounds = -(-len(world) // concurrency)
    world += [Step(0 if seat else 3 * MS, "release") for _ in range(rounds) for seat in range(concurrency)]
    assert order(EqualSerial, begin, world) == order(ours, begin, world)


@pytest.mark.parametrize("ours", OURS)
@examples(30)
@given(
    queues=st.integers(2, 6),
    seats_each=st.integers(1, 3),
    each=st.integers(1, 20),
    lasts=st.lists(st.sampled_from([1, MS // 3, 3 * MS, 5 * MS, 100 * MS]), min_size=20, max_size=20),
)
def test_with_equal_demands_all_rounds_are_equal(
    ours: Maker, queues: int, seats_each: int, each: int, lasts: list[int]
) -> None:
    """As above, but not as guessed: who is first of those whose turn it is may then depend on who ended first."""
    concurrency = queues * seats_each
    begin = QueueSetSettings(concurrency, queues, 1, queue_length_limit=1_000)
    arrivals = [Step(0, "arrive", flow) for _ in range(each) for flow in range(queues)]
    ends = [Step(0 if seat else last, "release") for last in lasts for seat in range(concurrency)]

    def rounds(discipline: Maker) -> list[set[int]]:
        seated = order(discipline, begin, [*arrivals, *ends])[len(arrivals) :]
        return [
            {number for some in seated[first : first + concurrency] for number in some}
            for first in range(0, len(seated), concurrency)
        ]

    assert rounds(EqualSerial) == rounds(ours)


@pytest.mark.parametrize("ours", OURS)
@examples(40)
@given(world=st.lists(steps.filter(lambda step: step.what != "reconfigure"), max_size=40))
def test_without_contention_all_disciplines_seat_requests_at_once(ours: Maker, world: list[Step]) -> None:
    begin = QueueSetSettings(1_000, 6, 2, queue_length_limit=1)
    assert order(EqualSerial, begin, world) == order(ours, begin, world)


def order(discipline: Maker, begin: QueueSetSettings, world: list[Step]) -> list[tuple[int, ...]]:
    """Who was seated at each step."""
    side = RecordedQueueSet(discipline, begin)
    for step in world:
        side.take(step)
    return [seated for _, _, seated, _ in side.record]  # type: ignore[misc]
