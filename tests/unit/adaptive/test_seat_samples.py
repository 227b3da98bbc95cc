"""Samples that weigh as much as they contribute to the seats in use."""

from math import log
from random import Random

import pytest

from apf_middleware.adaptive.seat_samples import SeatSamples


def take(samples: SeatSamples, *durations: float) -> SeatSamples:
    """Add durations of a route whose reference is 1."""
    for duration in durations:
        samples.spend(duration, log(duration))
        samples.add(log(duration), duration, log(duration))
    return samples


@pytest.fixture
def samples() -> SeatSamples:
    """Return samples after a window in which about 100 was typical."""
    found = take(SeatSamples(), *[100.0] * 20)
    found.restart(log(100))
    return found


def test_without_samples_there_is_none() -> None:
    samples = SeatSamples()

    assert samples.estimate().count == 0
    assert samples.weight(5.0) == 1
    assert repr(samples) == "<SeatSamples: 0 samples>"


def test_samples_of_about_the_same_duration_count_in_full(samples: SeatSamples) -> None:
    found = take(samples, *[50.0, 100.0, 200.0] * 5).estimate()

    assert found.count == 15
    assert found.mean == pytest.approx(log(100))


def test_short_ones_weigh_in_proportion_to_their_duration(samples: SeatSamples) -> None:
    assert samples.weight(1.0) == pytest.approx(4 / 100, rel=0.15)
    assert take(samples, *[1.0] * 100, *[100.0] * 10).estimate().count == pytest.approx(10 + 100 * 4 / 100, rel=0.15)


@pytest.mark.parametrize("longer", [0.8, 1.1, 1.3])
def test_when_all_become_longer_the_same_ones_weigh_less(longer: float) -> None:
    random = Random(1)
    usual = [random.lognormvariate(4, 1.2) for _ in range(2000)]
    samples = SeatSamples()
    samples.restart(4.0)
    before = take(samples, *usual).estimate().mean
    samples.restart(4.0)
    after = take(samples, *[longer * one for one in usual]).estimate().mean

    assert after - before == pytest.approx(log(longer), abs=0.02)


def test_one_very_long_request_makes_no_other_weigh_less(samples: SeatSamples) -> None:
    found = take(samples, *[100.0] * 20, 50_000.0).estimate()

    assert found.count == 21
    assert found.mean == pytest.approx(log(100) + 1 / 20)


def test_half_of_the_time_is_that_of_requests_longer_than_what_is_typical() -> None:
    samples = take(SeatSamples(), *[1.0] * 1000, *[100.0] * 20, 1000.0)
    assert samples.weight(5.0) == pytest.approx(5 / 25, rel=0.15)
    assert samples.weight(1000.0) == 1

    samples.restart(log(100))
    assert samples.weight(5.0) == pytest.approx(5 / 25, rel=0.15)


def test_a_window_begins_without_samples(samples: SeatSamples) -> None:
    take(samples, *[300.0] * 20).estimate()
    samples.restart(log(200))
    assert (samples.estimate().count, samples.estimate().mean) == (0, log(200))

    found = take(samples, *[100.0] * 20).estimate()
    assert found.count == 20
    assert found.mean == pytest.approx(log(100))


def test_what_is_typical_follows_the_requests(samples: SeatSamples) -> None:
    for _ in range(2):
        take(samples, *[1000.0] * 20)
        samples.restart(log(1000))

    assert samples.weight(25.0) == pytest.approx(0.1, rel=0.15)


def test_failed_requests_alone_count_in_full(samples: SeatSamples) -> None:
    """What timed out has a duration, but shows nothing of what is typical."""
    samples.add(log(5000), 5000.0, log(5000))

    assert samples.estimate().count == 1
