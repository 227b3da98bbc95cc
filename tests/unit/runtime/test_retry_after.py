"""After how many seconds a rejected client is asked to try again."""

from random import Random

import pytest

from apf_middleware.runtime import DrainMeter, retry_after_s
from apf_middleware.runtime.retry_after import Served, ServiceRateMeter

SECOND = 10**9


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = DrainMeter(0)
    assert meter.sample(SECOND // 4, 100) is None, "too short to tell"
    rates = [meter.sample(second * SECOND, 10 * second) for second in range(1, 21)]

    assert rates[-1] == pytest.approx(10)
    assert meter.sample(31 * SECOND, 200) == pytest.approx(0, abs=1), "nothing has been served for ten seconds"


def test_what_happened_long_ago_says_nothing_about_now() -> None:
    meter = DrainMeter(0)
    assert meter.sample(3600 * SECOND, 5) is None
    assert meter.sample(3601 * SECOND, 105) == pytest.approx(100)


def test_a_meter_keeps_few_samples() -> None:
    meter = DrainMeter(0)
    for number in range(100_000):
        meter.sample(number * 10**7, number)

    assert repr(meter) == "<DrainMeter: 21 samples>"


def test_only_the_time_in_which_requests_wait_says_how_fast_a_level_is() -> None:
    meter = ServiceRateMeter(0, Served(0, 0, 0, 0))
    served = Served(dispatched=48, after_wait=40, unwaited_ns=9 * SECOND, executing_ns=10 * SECOND)

    assert meter.sample(10 * SECOND, served, executing=8) == pytest.approx(40)


def test_without_waits_the_rate_follows_from_the_mean_duration() -> None:
    meter = ServiceRateMeter(0, Served(0, 0, 0, 0))
    served = Served(dispatched=10, after_wait=0, unwaited_ns=10 * SECOND, executing_ns=2 * SECOND)

    assert meter.sample(10 * SECOND, served, executing=8) == pytest.approx(40), "8 seats, 0.2 s each"
    assert meter.sample(10 * SECOND, served, executing=0) is None
    assert meter.sample(40 * SECOND, served, executing=8) is None, "this was long ago"


def test_a_burst_that_has_just_begun_says_nothing_yet() -> None:
    meter = ServiceRateMeter(0, Served(0, 0, 0, 0))
    begun = 15 * SECOND
    served = Served(dispatched=8, after_wait=0, unwaited_ns=begun, executing_ns=8 * SECOND // 200)

    assert meter.sample(begun + SECOND // 200, served, executing=8) is None
    assert repr(meter) == "<ServiceRateMeter: 2 samples>"


def test_requests_that_are_slower_than_the_burst_is_old_do_not_mean_that_nothing_moves() -> None:
    meter = ServiceRateMeter(0, Served(0, 0, 0, 0))
    served = Served(dispatched=4, after_wait=0, unwaited_ns=0, executing_ns=2 * SECOND)

    assert meter.sample(SECOND // 2, served, executing=4) == pytest.approx(8), "4 seats, half a second so far"


def test_a_level_where_nothing_ends_has_no_rate_after_some_seconds() -> None:
    meter = ServiceRateMeter(0, Served(0, 0, 0, 0))
    rates = [
        meter.sample(second * SECOND, Served(4, 0, 0, 4 * second * SECOND), executing=4) for second in range(1, 13)
    ]

    assert rates[0] == pytest.approx(4)
    assert rates[4] == pytest.approx(0.8), "the longer nothing ends, the slower it seems"
    assert rates[-1] == 0
    assert meter.sample(13 * SECOND, Served(4, 0, 0, 48 * SECOND), executing=0) == 0, "nor where nothing runs"


def seconds(ahead: int, rate: float | None, seed: int = 1) -> int:
    return retry_after_s(ahead, rate, least=1, most=60, chance=Random(seed))


def test_the_more_wait_and_the_slower_they_are_served_the_later() -> None:
    assert seconds(1, 1000.0) == 1
    assert 7 <= seconds(100, 10.0) <= 13
    assert 45 <= seconds(10_000, 10.0) <= 60
    assert 45 <= seconds(5, 0.0) <= 60, "nothing moves"
    assert seconds(5, None) == 1, "the rate is unknown"


def test_clients_are_spread() -> None:
    delays = {seconds(200, 10.0, seed) for seed in range(200)}

    assert min(delays) >= 15
    assert max(delays) <= 25
    assert len(delays) >= 8


def test_clients_stay_spread_and_within_the_bounds_however_long_the_queue_is() -> None:
    delays = {seconds(10_000, 10.0, seed) for seed in range(200)}

    assert max(delays) == 60
    assert len(delays) >= 8
    assert retry_after_s(1, 1000.0, least=5, most=60, chance=Random(1)) == 5
