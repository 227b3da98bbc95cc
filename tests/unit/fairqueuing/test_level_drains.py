"""The queues of a level where requests wait: busy ones share the seats, and what they get together is remembered."""

import pytest

from apf_middleware.fairqueuing.level_drains import LevelDrains
from apf_middleware.fairqueuing.ticket import Queue

MS = 10**6


def level_of(*queues: Queue, waiting: int = 100, now: int = 0, seats: int = 4) -> LevelDrains:
    """Return a level where requests of 40 ms wait in these queues."""
    level = LevelDrains(now)
    level.learn(40 * MS)
    for queue in queues:
        for _ in range(waiting):
            level.join(now, queue, 40 * MS, seats)
    return level


def serve(level: LevelDrains, queue: Queue, start: int, end: int, every: int = 10) -> None:
    """Let a request of ``queue`` get its seat each ``every`` ms, and another one come."""
    for at in range(start + every, end + every, every):
        level.serve(at * MS, queue, 40 * MS)
        level.leave(at * MS, queue, 40 * MS)
        level.join(at * MS, queue, 40 * MS, 4)


def test_a_level_sums_up_the_weights_of_its_queues() -> None:
    queue = Queue(0)
    level = level_of(queue, waiting=2)

    assert level.weights == queue.weight
    assert repr(level) == "<LevelDrains of 1 queues>"
    for _ in range(2):
        level.leave(0, queue, 40 * MS)
    assert (level.weights, level.light, level.drains) == (0, 0, {})


def test_a_level_learns_a_typical_duration() -> None:
    level = LevelDrains(0)
    level.learn(64)
    assert level.typical_ns == 64

    level.learn(128)
    assert level.typical_ns == 66


def test_a_queue_is_busy_with_more_work_than_a_usual_duration_takes() -> None:
    queue = Queue(0)
    level = level_of(queue, waiting=4)
    assert not level.drains[queue].is_busy
    assert level.light == 1

    level.join(0, queue, 40 * MS, 4)
    assert level.drains[queue].is_busy
    assert level.light == 0


def test_a_level_that_was_not_observed_shares_its_seats() -> None:
    first, second = Queue(0), Queue(1)
    level = level_of(first, second)

    assert level.seats(0, level.drains[first], 4, 0) == pytest.approx(2)
    assert level.seats(0, level.drains[first], 4, 3) == pytest.approx(3), "it has them already"


def test_a_light_queue_takes_no_share_of_a_busy_one() -> None:
    busy, light = Queue(0), Queue(1)
    level = level_of(busy)
    level.join(0, light, 40 * MS, 4)

    assert level.seats(0, level.drains[busy], 4, 0) == pytest.approx(4)
    assert level.seats(0, level.drains[light], 4, 0) == pytest.approx(2), "if it was busy"


def test_the_rate_of_a_queue_follows_at_once_when_another_one_becomes_busy() -> None:
    first, second = Queue(0), Queue(1)
    level = level_of(first)
    serve(level, first, 0, 1000)
    assert level.seats(1000 * MS, level.drains[first], 4, 4) == pytest.approx(4, rel=0.05)

    for _ in range(100):
        level.join(1000 * MS, second, 40 * MS, 4)
    assert level.seats(1000 * MS, level.drains[first], 4, 4) == pytest.approx(2, rel=0.05)
    for _ in range(100):
        level.leave(1000 * MS, second, 40 * MS)
    assert level.seats(1000 * MS, level.drains[first], 4, 4) == pytest.approx(4, rel=0.05)


def test_what_busy_queues_get_is_known_of_a_new_one() -> None:
    first, second = Queue(0), Queue(1)
    level = level_of(first)
    serve(level, first, 0, 1000, every=20)  # half of the seats are used by flows that needn't wait
    while first in level.drains:
        level.leave(1000 * MS, first, 40 * MS)
    for _ in range(100):
        level.join(9000 * MS, second, 40 * MS, 4)

    assert level.seats(9000 * MS, level.drains[second], 4, 1) == pytest.approx(2, rel=0.1)


def test_what_busy_queues_got_long_ago_is_forgotten() -> None:
    queue = Queue(0)
    level = level_of(queue)
    serve(level, queue, 0, 5000, every=20)
    serve(level, queue, 5000, 20_000, every=10)

    assert level.seats(20_000 * MS, level.drains[queue], 4, 4) == pytest.approx(4, rel=0.1)


def test_a_pause_is_left_out() -> None:
    queue = Queue(0)
    level = level_of(queue)
    serve(level, queue, 0, 1000)
    level.skip(60_000 * MS)

    assert level.seats(60_000 * MS, level.drains[queue], 4, 4) == pytest.approx(4, rel=0.05)
