"""The queues with which this package is compared do what is published about them."""

from itertools import pairwise
from math import sqrt

import pytest

from benchmarks.queue_policies import (
    INTERVAL_S,
    POLICIES,
    TARGET_S,
    AdaptiveLifo,
    CoDel,
    Controlled,
    ControlledLifo,
    Fifo,
    Job,
    Slough,
    measure,
    play,
)


def job(now: float) -> Job:
    return Job(now, 0.01, is_light=True)


def filled(queue: Fifo, number: int, now: float = 0.0) -> list[Job]:
    jobs = [job(now + step / 1000) for step in range(number)]
    for one in jobs:
        queue.push(one.arrived, one)
    return jobs


def test_requests_leave_all_queues_when_their_clients_give_up() -> None:
    for policy in POLICIES.values():
        queue = policy()
        filled(queue, 3)
        assert queue.length == 3
        assert queue.pop(1.5) is None
        assert queue.length == 0


def test_a_queue_stands_if_it_has_not_been_empty_for_an_interval() -> None:
    queue = Fifo()
    first, second = filled(queue, 2, now=5.0)
    assert not queue.stands(5.0 + INTERVAL_S)
    assert queue.stands(5.2)
    assert queue.pop(5.2) is first
    assert queue.stands(5.2)
    assert queue.pop(5.2) is second
    assert not queue.stands(5.25)


def test_codel_drops_at_intervals_that_shrink_with_the_root_of_their_number() -> None:
    """The wait stays far above the target, whatever is dropped."""
    queue = CoDel()
    now = 0.0
    while now < 2.0:
        now += 0.001
        for _ in range(3):
            queue.push(now, job(now - 0.5))
        queue.pop(now)
    begin = queue.dropped[0]
    assert begin == pytest.approx(INTERVAL_S, abs=0.003), "the wait must have been above the target for an interval"
    steps = [later - earlier for earlier, later in pairwise(queue.dropped)]
    for number, step in enumerate(steps[:60], 1):
        assert step == pytest.approx(INTERVAL_S / sqrt(number), abs=0.0021), number


def test_codel_drops_nothing_while_some_waits_are_short() -> None:
    queue, now = CoDel(), 0.0
    queue.push(now, job(now))
    for turn in range(3000):
        now += 0.001
        queue.push(now, job(now - (0.002 if turn % 50 == 0 else 0.05)))
        queue.pop(now)
    assert queue.dropped == []


def test_the_wait_is_controlled_by_whether_the_queue_has_been_empty() -> None:
    queue = Controlled()
    early, late = job(0.0), job(0.3)
    queue.push(0.0, early)
    assert early.expires == INTERVAL_S
    queue.push(0.3, late)
    assert late.expires == 0.3 + INTERVAL_S, "the queue has been empty since the first one expired"
    found = []
    for step in range(20):
        now = 0.3 + step * 0.009
        queue.push(now, one := job(now))
        found.append(round(one.expires - now, 6))
    assert found == [INTERVAL_S] * 12 + [TARGET_S] * 8


def test_who_waited_too_long_is_dropped_if_nobody_waited_shortly() -> None:
    queue, waited = Slough(), 1.0
    for number in range(400):
        now = number / 1000
        queue.push(now, job(now))
        queue.push(now, job(now))
        popped = queue.pop(now)
        assert popped is not None
        waited = now - popped.arrived
    assert waited <= 2 * TARGET_S

    queue = Slough()
    for number in range(400):
        now = number / 1000
        queue.push(now, job(now - (0.05 if number % 40 else 0.001)))
        assert queue.pop(now) is not None


@pytest.mark.parametrize("policy", [AdaptiveLifo, ControlledLifo])
def test_the_latest_comes_first_only_while_the_queue_stands(policy: type[Fifo]) -> None:
    queue = policy()
    jobs = filled(queue, 3, now=1.0)
    assert queue.pop(1.01) is jobs[0]
    queue.push(1.08, job(1.08))
    last = job(1.105)
    queue.push(1.105, last)
    assert queue.pop(1.106) is last


def test_the_same_load_has_the_same_figures() -> None:
    assert play(Fifo(), 400, 2) == play(Fifo(), 400, 2)
    assert play(Fifo(), 400, 4)["goodput"] == pytest.approx(0.8, abs=0.08)


def test_queues_that_bound_delay_use_the_seats_and_are_not_fair() -> None:
    rows = {name: measure(name, 5, 3) for name in (*POLICIES, "fair, deadlines")}
    assert {name for name, row in rows.items() if row["goodput"] < 0.9} == {"one queue", "codel"}
    for name, row in rows.items():
        assert (row["light_served"] > 2 * row["heavy_served"]) == (name == "fair, deadlines")
    assert rows["fair, deadlines"]["light_served"] > 0.8
    assert rows["controlled"]["p99_ms"] <= rows["slough"]["p99_ms"] <= 15
