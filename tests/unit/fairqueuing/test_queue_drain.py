"""The rate of a queue: at first its fair share, then what is observed, and lately more than long ago."""

import pytest

from apf_middleware.fairqueuing.queue_drain import PRIOR, WINDOW_NS, QueueDrain

MS = 10**6


def drain(weight: int = 1) -> QueueDrain:
    return QueueDrain(0.0, weight)


def test_a_new_queue_has_its_fair_share() -> None:
    assert drain().seats(0, 1.0, 2.5, 40 * MS) == 2.5


def test_the_observed_rate_takes_over() -> None:
    queue = drain()
    for at in range(10, 1000, 10):
        queue.serve(at * MS, 40 * MS)  # 40 seat-ms each 10 ms

    assert queue.seats(1000 * MS, 1.0, 20, 4 * MS) == pytest.approx(4, rel=0.2)
    assert queue.seats(1000 * MS, 1.0, 1, 4 * MS) == pytest.approx(4, rel=0.1)


def test_the_fair_share_counts_like_some_usual_durations() -> None:
    queue = drain()
    queue.serve(10 * MS, PRIOR * 40 * MS)

    assert queue.seats(PRIOR * 10 * MS, 1.0, 2, 10 * MS) == pytest.approx((4 + 2) / 2)


@pytest.mark.parametrize(("share", "seats"), [(1.0, 4), (0.5, 2), (0.25, 1)])
def test_what_was_observed_holds_for_another_share(share: float, seats: float) -> None:
    queue = drain()
    for at in range(10, 1000, 10):
        queue.serve(at * MS, 40 * MS)

    assert queue.seats(1000 * MS, share, 4 * share, 10 * MS) == pytest.approx(seats, rel=0.05)


def test_a_weight_counts_as_so_many_shares() -> None:
    queue = drain(weight=3)
    for at in range(10, 300, 10):
        queue.serve(at * MS / 4, 30 * MS)  # another queue has a quarter of the level's time

    assert queue.seats(300 * MS / 4, 0.75, 3, 1 * MS) == pytest.approx(3, rel=0.05)


def test_a_queue_that_is_not_served_has_ever_fewer_seats() -> None:
    queue = drain()

    assert queue.seats(100 * MS, 1.0, 4, MS) < 0.5
    assert queue.seats(1000 * MS, 1.0, 4, MS) < 0.05


def test_old_service_is_forgotten() -> None:
    queue = drain()
    for at in range(10, 6000, 10):
        queue.serve(at * MS, (80 if at < 2000 else 20) * MS)

    assert 6000 * MS - 2000 * MS > 3 * WINDOW_NS
    assert queue.seats(6000 * MS, 1.0, 5, MS // 10) == pytest.approx(2, rel=0.15)


def test_requests_that_join_and_leave_are_counted() -> None:
    queue = drain()
    for _ in range(3):
        queue.join(40 * MS)
    queue.leave(40 * MS)

    assert (queue.waiting, queue.ahead_ns) == (2, 80 * MS)


def test_the_text_tells_the_work() -> None:
    queue = drain()
    queue.join(1500 * MS)
    assert repr(queue) == "<QueueDrain: 1 waiting, 1.500 seat-seconds ahead>"
