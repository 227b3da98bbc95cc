"""The rate of a queue: at first its fair share, then what is observed, and lately more than long ago."""

import pytest

from apf_middleware.fairqueuing.queue_drain import WINDOW_NS, QueueDrain
from apf_middleware.fairqueuing.work import WEIGHT_ONE

MS = 10**6


def drain() -> QueueDrain:
    return QueueDrain(0, WEIGHT_ONE)


def test_a_new_queue_has_its_fair_share() -> None:
    assert drain().seats(0, 2.5, 1, 40 * MS) == 2.5


def test_a_new_queue_that_has_more_seats_keeps_them_for_a_while() -> None:
    assert drain().seats(0, 2.5, 8, 40 * MS) == 8


def test_the_observed_rate_takes_over() -> None:
    queue = drain()
    for at in range(10, 1000, 10):
        queue.serve(at * MS, 40 * MS)  # 40 seat-ms each 10 ms

    assert queue.seats(1000 * MS, 20, 20, 40 * MS) == pytest.approx(4, rel=0.2)
    assert queue.seats(1000 * MS, 1, 1, 40 * MS) == pytest.approx(4, rel=0.1)


def test_a_queue_that_is_not_served_has_ever_fewer_seats() -> None:
    queue = drain()

    assert queue.seats(100 * MS, 4, 0, 10 * MS) < 0.5
    assert queue.seats(1000 * MS, 4, 0, 10 * MS) < 0.05


def test_old_service_is_forgotten() -> None:
    queue = drain()
    for at in range(10, 6000, 10):
        queue.serve(at * MS, (80 if at < 2000 else 20) * MS)

    assert 6000 * MS - 2000 * MS > 3 * WINDOW_NS
    assert queue.seats(6000 * MS, 5, 5, 1 * MS) == pytest.approx(2, rel=0.15)


def test_the_wait_is_the_work_ahead_by_the_seats() -> None:
    queue = drain()
    for _ in range(3):
        queue.join(40 * MS)
    assert queue.wait_ns(2.0) == 60 * MS

    queue.leave(40 * MS)
    assert queue.wait_ns(2.0) == 40 * MS
    assert queue.waiting == 2


def test_work_without_seats_is_never_done_and_no_work_at_once() -> None:
    queue = drain()
    assert queue.wait_ns(0) == 0

    queue.join(1)
    assert queue.wait_ns(0) is None


def test_the_text_tells_the_work() -> None:
    queue = drain()
    queue.join(1500 * MS)
    assert repr(queue) == "<QueueDrain: 1 waiting, 1.500 seat-seconds ahead>"
