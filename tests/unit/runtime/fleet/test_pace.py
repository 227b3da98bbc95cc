"""An allocator rests after long divisions."""

import pytest

from apf_middleware.runtime.fleet.pace import Pace

MS = 1_000_000


class Clocks:
    def __init__(self) -> None:
        self.now = 5 * MS
        self.spent = 0

    def pace(self) -> Pace:
        return Pace(lambda: self.now, lambda: self.spent)

    def work(self, pace: Pace, took: int) -> None:
        with pace:
            self.spent += took
            self.now += 2 * took  # other threads and processes run, too


def test_after_work_it_rests_four_times_as_long_as_the_work_took_of_the_processor() -> None:
    clocks = Clocks()
    pace = clocks.pace()
    clocks.work(pace, 60 * MS)
    assert pace.rest_s == 0, "it is only known for work that takes as long again"
    clocks.work(pace, 50 * MS)
    assert pace.rest_s == pytest.approx(0.2)
    clocks.now += 150 * MS
    assert pace.rest_s == pytest.approx(0.05)
    assert repr(pace) == "<Pace: 0.050 s of rest>"
    clocks.now += 60 * MS
    assert pace.rest_s == 0


def test_short_work_needs_no_rest() -> None:
    clocks = Clocks()
    pace = clocks.pace()
    clocks.work(pace, 2 * MS)
    assert pace.rest_s == 0


def test_a_garbage_collection_during_short_work_needs_no_rest() -> None:
    clocks = Clocks()
    pace = clocks.pace()
    for took in (MS, 60 * MS, MS, 60 * MS):
        clocks.work(pace, took)
        assert pace.rest_s == 0
    clocks.work(pace, 3 * MS)
    assert pace.rest_s == pytest.approx(0.012), "the shorter one of the last two times counts"


def test_work_without_end_takes_a_fifth_of_the_time() -> None:
    clocks = Clocks()
    pace = clocks.pace()
    clocks.work(pace, 60 * MS)
    clocks.spent, begun = 0, clocks.now
    for _ in range(10):
        with pace:
            clocks.spent += 60 * MS
            clocks.now += 60 * MS
        clocks.now += round(pace.rest_s * 10**9)
    assert clocks.spent / (clocks.now - begun) == pytest.approx(0.2)
