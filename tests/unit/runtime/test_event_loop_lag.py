"""When the event loop is probed, in virtual time."""

from itertools import pairwise
from random import Random

import pytest

from apf_middleware.runtime.event_loop_lag import TIMER_RESOLUTION_NS, EventLoopLag
from tests.support.virtual_alarm import VirtualAlarm

MS = 10**6
SECOND = 10**9


class Loop(VirtualAlarm):
    """An event loop in virtual time, with one timer that rings ``late`` after it is due."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = True
        self.rests: list[int] = []
        self.probes: list[int] = []
        self.lag = EventLoopLag(
            lambda: self.now,
            is_busy=lambda: self.is_busy,
            on_rest=lambda: self.rests.append(self.now),
            on_probe=lambda now, _gap, _lag: self.probes.append(now),
            chance=Random(1),
            alarm=self.make,
        )

    def run_for(self, duration: int) -> None:
        self.run(self.now + duration)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_loop_in_time_is_probed_a_few_times_a_second(loop: Loop) -> None:
    loop.lag.begin()
    loop.run_for(100 * SECOND)

    assert len(loop.probes) == loop.lag.probes == pytest.approx(250, rel=0.05)
    assert (loop.lag.quantile(0.99), loop.rests) == (0, [])


def test_a_late_loop_is_probed_often_and_then_seldom_again(loop: Loop) -> None:
    loop.lag.begin()
    loop.late = 5 * MS
    loop.run_for(10 * SECOND)
    assert len(loop.probes) == pytest.approx(10 / 0.055, rel=0.1)
    assert loop.lag.quantile(0.5) == pytest.approx(5 * MS)

    loop.late = 0
    loop.run_for(3 * SECOND)
    loop.probes.clear()
    loop.run_for(10 * SECOND)
    assert len(loop.probes) == pytest.approx(25, rel=0.2)
    assert loop.lag.quantile(0.99) == 0


@pytest.mark.parametrize(("late", "lag"), [(TIMER_RESOLUTION_NS - 1, 0), (TIMER_RESOLUTION_NS, TIMER_RESOLUTION_NS)])
def test_what_timers_cannot_tell_is_no_lag(loop: Loop, late: int, lag: int) -> None:
    loop.lag.begin()
    loop.late = late
    loop.run_for(5 * SECOND)

    assert loop.lag.quantile(0.5) == lag


def test_a_timer_that_rings_a_little_early_is_in_time(loop: Loop) -> None:
    loop.lag.begin()
    loop.late = -MS // 2
    loop.run_for(10 * SECOND)

    assert loop.lag.quantile(1.0) == 0
    assert loop.lag.probes > 20


def test_the_times_of_probes_are_random(loop: Loop) -> None:
    loop.lag.begin()
    loop.run_for(20 * SECOND)
    gaps = [after - before for before, after in pairwise(loop.probes)]

    assert min(gaps) < 240 * MS
    assert max(gaps) > 560 * MS
    assert all(gap % MS == 0 for gap in gaps)


def test_without_requests_there_are_no_probes(loop: Loop) -> None:
    loop.lag.begin()
    loop.run_for(3 * SECOND)
    loop.is_busy = False
    loop.run_for(2 * SECOND)
    assert len(loop.rests) == 1
    assert "resting" in repr(loop.lag)
    assert loop.at is None

    loop.is_busy = True
    loop.run_for(1000 * SECOND)
    assert len(loop.rests) == 1
    loop.lag.begin()
    before = loop.lag.probes
    loop.run_for(3 * SECOND)
    assert loop.lag.probes > before + 4
    assert loop.lag.quantile(1.0) == 0


def test_old_probes_do_not_count_after_a_rest(loop: Loop) -> None:
    loop.lag.begin()
    loop.late = 50 * MS
    loop.run_for(3 * SECOND)
    loop.is_busy = False
    loop.run_for(SECOND + SECOND // 2)
    assert "resting" in repr(loop.lag)
    assert loop.lag.quantile(0.99) > 0
    loop.run_for(10 * SECOND)

    assert loop.lag.quantile(0.99) == 0


def test_a_timer_of_an_earlier_run_is_no_probe(loop: Loop) -> None:
    loop.lag.begin()
    loop.lag.end()
    loop.run_for(SECOND)
    assert loop.lag.probes == 0

    loop.lag.begin()
    loop.ask(loop.now + MS)
    loop.run_for(5 * MS)
    assert loop.lag.probes == 0
    loop.run_for(2 * SECOND)
    assert loop.lag.probes >= 3


def test_it_shows_itself(loop: Loop) -> None:
    assert repr(loop.lag) == "<EventLoopLag: <LagWindow: 0 probes, 99 % within 0.0 ms>, resting>"
