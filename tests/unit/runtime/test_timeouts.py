"""Each object expires at its own time, although one timer serves all of them."""

from time import thread_time

import pytest

from apf_middleware.runtime.timeouts import Timeouts
from tests.support.virtual_alarm import VirtualAlarm

MS = 1_000_000


class Clock:
    """Time-outs after 50 ms; ``expired`` has the time at which each object expired."""

    def __init__(self) -> None:
        self.expired: dict[str, int] = {}
        self.broken: set[str] = set()
        self.timer = VirtualAlarm()
        self.timeouts: Timeouts[str] = Timeouts(50 * MS, lambda: self.timer.now, self._expire, self.timer.make)

    def _expire(self, item: str) -> None:
        self.expired[item] = self.timer.now
        if item in self.broken:
            raise RuntimeError(item)

    def begin(self, item: str, at: int) -> None:
        self.timer.run(at)
        self.timeouts.begin(item)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_has_its_own_deadline_although_there_is_one_timer(clock: Clock) -> None:
    for item, at in (("a", 0), ("b", 7), ("c", 7), ("d", 30)):
        clock.begin(item, at * MS)
    clock.timer.run(200 * MS)
    assert clock.expired == {"a": 50 * MS, "b": 57 * MS, "c": 57 * MS, "d": 80 * MS}
    assert clock.timer.at is None, "nothing is left to wait for"


def test_a_deadline_may_count_from_an_earlier_time(clock: Clock) -> None:
    clock.timer.run(20 * MS)
    clock.timeouts.begin("a", since=10 * MS)
    clock.timer.run(200 * MS)
    assert clock.expired == {"a": 60 * MS}


def test_what_has_ended_does_not_expire_and_delays_nothing(clock: Clock) -> None:
    for item, at in (("a", 0), ("b", 10), ("c", 20)):
        clock.begin(item, at * MS)
    clock.timer.run(25 * MS)
    clock.timeouts.end("a")
    clock.timeouts.end("b")
    clock.timeouts.end("b")
    clock.timer.run(69 * MS)
    assert clock.expired == {}
    clock.timer.run(70 * MS)
    assert clock.expired == {"c": 70 * MS}
    assert repr(clock.timeouts) == "<Timeouts of 0, each 50000000 ns after its beginning>"


@pytest.mark.parametrize(("early", "expired_at"), [(100_000, 50 * MS - 100_000), (3 * MS, 50 * MS)])
def test_a_timer_that_rings_early_is_set_again_unless_it_is_nearly_in_time(
    clock: Clock, early: int, expired_at: int
) -> None:
    clock.begin("a", 0)
    clock.timer.ring(late=-early)
    clock.timer.run(60 * MS)
    assert clock.expired == {"a": expired_at}


def test_one_that_begins_again_delays_none_of_the_others(clock: Clock) -> None:
    for item, at in (("a", 0), ("b", 10), ("a", 30)):
        clock.begin(item, at * MS)
    clock.timer.run(200 * MS)
    assert clock.expired == {"a": 80 * MS, "b": 60 * MS}


def test_one_that_raises_does_not_keep_the_others(clock: Clock) -> None:
    clock.broken.add("a")
    for item in "abc":
        clock.begin(item, 0)
    with pytest.raises(RuntimeError):
        clock.timer.run(50 * MS)
    clock.timer.run(52 * MS)
    assert clock.expired.keys() == {"a", "b", "c"}


def test_one_that_begins_after_all_have_gone_has_a_timer_again(clock: Clock) -> None:
    clock.begin("a", 0)
    clock.timer.run(60 * MS)
    clock.begin("b", 60 * MS)
    clock.timer.run(110 * MS)
    assert clock.expired == {"a": 50 * MS, "b": 110 * MS}


def test_the_next_deadline_is_found_at_once_however_many_have_ended(clock: Clock) -> None:
    def looks(ended: int) -> float:
        for item in range(ended + 1):
            clock.begin(str(item), 0)
        for item in range(ended):
            clock.timeouts.end(str(item))
        began = thread_time()
        for _ in range(100):
            clock.timeouts._look()
        taken = thread_time() - began
        clock.timeouts.end(str(ended))
        return taken

    few, many = (min(looks(number) for _ in range(3)) for number in (10, 100_000))
    assert many < 20 * few


def test_one_begins_to_be_timed_anew_if_the_loop_of_the_timer_has_ended(clock: Clock) -> None:
    clock.begin("a", 0)
    clock.timer.at = None  # as if that loop had ended
    clock.begin("b", 10 * MS)
    clock.timer.run(200 * MS)
    assert clock.expired == {"a": 50 * MS, "b": 60 * MS}
