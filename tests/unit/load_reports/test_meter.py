"""A meter follows its samples within a few seconds, and no single one moves it far."""

import pytest

from apf_middleware.load_reports.meter import LoadMeter, LoadSample

SECOND = 10**9


def steady(seconds: float, utilisation: float, rate: float, *, step: float = 0.1) -> LoadMeter:
    """Return a meter after so many seconds of a steady load, before which there was none."""
    meter = LoadMeter(0, LoadSample(0, 0, 0, 0, {"web": 0}))
    for number in range(1, round(seconds / step) + 1):
        at = number * step
        levels = {"web": utilisation / 2}
        sample = LoadSample(utilisation, round(rate * at), round(rate * at / 10), round(at * SECOND / 4), levels)
        meter.take(round(at * SECOND), sample)
    return meter


def test_a_steady_load_is_reported_as_it_is() -> None:
    report = steady(20, 1.5, 50).report()

    assert report.application_utilization == pytest.approx(1.5, rel=0.01)
    assert report.rps_fractional == pytest.approx(50, rel=0.02)
    assert report.eps == pytest.approx(5, rel=0.05)
    assert report.cpu_utilization == pytest.approx(0.25, rel=0.01)
    assert report.named_metrics == {"apf.web.utilization": pytest.approx(0.75, rel=0.01)}


def test_the_first_rate_is_that_of_the_first_two_samples() -> None:
    meter = LoadMeter(0, LoadSample(0, 100, 0))
    assert meter.report().rps_fractional == 0
    meter.take(2 * SECOND, LoadSample(0, 140, 0))

    assert meter.report().rps_fractional == 20


def test_a_request_right_at_the_start_is_no_high_rate() -> None:
    meter = LoadMeter(0, LoadSample(0, 0, 0, 0))
    meter.take(SECOND // 1000, LoadSample(0.5, 1, 1, SECOND // 1000))
    report = meter.report()
    assert (report.rps_fractional, report.eps, report.cpu_utilization) == (0, 0, 0)

    meter.take(SECOND, LoadSample(0.5, 20, 10, SECOND // 2))
    report = meter.report()
    assert (report.rps_fractional, report.eps, report.cpu_utilization) == (20, 10, 0.5)


def test_utilisation_follows_within_about_a_second() -> None:
    assert steady(1, 1.0, 10).report().application_utilization == pytest.approx(0.632, abs=0.01)


def test_rates_follow_within_about_five_seconds() -> None:
    meter = steady(20, 1.0, 10)
    meter.take(25 * SECOND, LoadSample(1.0, 200 + 5 * 50, 20 + 5 * 9, 10 * SECOND))
    report = meter.report()

    assert report.rps_fractional == pytest.approx(10 + 40 * 0.632, rel=0.02)
    assert report.eps == pytest.approx(1 + 8 * 0.632, rel=0.02)
    assert report.cpu_utilization == pytest.approx(0.25 + 0.75 * 0.632, rel=0.02)


def test_how_often_samples_are_taken_does_not_matter() -> None:
    often, seldom = steady(2, 0.8, 20, step=0.1).report(), steady(2, 0.8, 20, step=0.5).report()

    assert often.application_utilization == pytest.approx(seldom.application_utilization, rel=0.01)


def test_samples_of_one_moment_count_once() -> None:
    meter = steady(1, 1.0, 10)
    before = meter.report()
    meter.take(SECOND, LoadSample(9, 9999, 9999))

    assert meter.report() == before


def test_counters_may_fall_and_levels_come_and_go() -> None:
    meter = LoadMeter(0, LoadSample(1, 100, 10, 0, {"a": 1}))
    meter.take(SECOND, LoadSample(1, 0, 0, 0, {"b": 0.5}))
    report = meter.report()

    assert (report.rps_fractional, report.eps) == (0, 0)
    assert report.named_metrics == {"apf.b.utilization": 0.5}
