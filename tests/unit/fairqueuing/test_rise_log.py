"""The rises of the fair share, for queues with a whole number of seats."""

from apf_middleware.fairqueuing.rise_log import RiseLog


def test_a_rise_is_the_least_value_of_a_queue_that_has_too_few_seats_from_then_on() -> None:
    rises = RiseLog(epoch=1000)
    rises.add(r=5 << 10, now=1010, low=0, high=2)
    rises.add(r=3 << 10, now=1020, low=1, high=3)
    rises.add(r=90 << 10, now=1030, low=2, high=9)

    assert rises.least(1, since=0) == 3 - 20 << 10
    assert rises.least(2, since=0) == 3 - 40 << 10
    assert rises.least(2, since=2) == 90 - 60 << 10
    assert rises.least(1, since=2) is None
    rises.add(r=100 << 10, now=1040, low=1, high=2)
    assert rises.least(1, since=1) == 3 - 20 << 10
    assert rises.least(1, since=2) == 100 - 40 << 10
    rises.clear(epoch=1040)
    assert rises.least(1, since=0) is None
    rises.add(r=7 << 10, now=1041, low=0, high=2)
    assert rises.least(1, since=0) == 7 - 1 << 10
