"""A mean on which outliers have a bounded effect."""

from math import copysign, log
from random import Random
from statistics import fmean, pstdev

import pytest

from apf_middleware.adaptive.robust_mean import RobustMean


def mean_of(samples: list[float], center: float = 0.0) -> RobustMean:
    found = RobustMean(center)
    for sample in samples:
        found.add(sample)
    found.estimate()
    return found


def test_without_samples_it_is_where_it_began() -> None:
    assert (mean_of([], 2.5).mean, mean_of([], 2.5).spread) == (2.5, 0.0)


def test_without_outliers_it_is_the_mean() -> None:
    samples = [0.1, 0.2, -0.4, 0.33, 0.62]
    found = mean_of(samples)

    assert found.mean == pytest.approx(fmean(samples))
    assert found.spread == pytest.approx(pstdev(samples))


def test_equal_samples_are_met_exactly() -> None:
    assert mean_of([0.777] * 30).mean == pytest.approx(0.777)
    assert mean_of([-9.0] * 30).mean == pytest.approx(-9.0)


@pytest.mark.parametrize("far", [7.0, -7.0])
def test_an_outlier_counts_as_one_unit_away(far: float) -> None:
    found = mean_of([0.0] * 99 + [far])

    assert found.mean == pytest.approx(copysign(1 / 99, far), rel=0.01)
    assert found.spread == pytest.approx(mean_of([0.0] * 99 + [copysign(1.5, far)]).spread, rel=0.01)


def test_outliers_on_both_sides_balance() -> None:
    assert mean_of([0.0] * 50 + [7.0] * 5 + [-40.0] * 5).mean == pytest.approx(0.0, abs=0.01)


def test_a_sample_of_half_the_weight_counts_half() -> None:
    weighted, repeated = RobustMean(), mean_of([0.0, 0.0, 0.5])
    weighted.add(0.0, 1.0)
    weighted.add(0.5, 0.5)
    weighted.estimate()

    assert weighted.count == 1.5
    assert weighted.mean == pytest.approx(repeated.mean)


@pytest.mark.parametrize("sigma", [0.3, 0.8, 1.2])
@pytest.mark.parametrize("shift", [-0.5, 0.1, 0.7, 2.0])
def test_it_moves_by_as_much_as_all_samples(sigma: float, shift: float) -> None:
    random = Random(1)
    samples = [random.gauss(0, sigma) for _ in range(2000)]
    before, after = mean_of(samples), mean_of([sample + shift for sample in samples])

    assert after.mean - before.mean == pytest.approx(shift, abs=0.02)
    assert after.spread == pytest.approx(before.spread, rel=0.05)


def test_it_moves_by_as_much_as_all_samples_of_a_skewed_distribution() -> None:
    random = Random(1)
    samples = [log(random.expovariate(1)) for _ in range(2000)]

    assert mean_of([sample + 0.1 for sample in samples]).mean - mean_of(samples).mean == pytest.approx(0.1, abs=0.02)


def test_the_spread_says_how_sure_it_is() -> None:
    random = Random(1)
    found = [mean_of([random.gauss(0, 0.9) for _ in range(100)]) for _ in range(300)]

    assert pstdev([one.mean for one in found]) == pytest.approx(fmean(one.spread for one in found) / 10, rel=0.15)


def test_it_forgets_at_a_restart() -> None:
    found = mean_of([3.0] * 5)
    found.restart(1.0)
    found.estimate()

    assert (found.count, found.mean, found.spread) == (0, 1.0, 0.0)
    assert repr(found) == "<RobustMean: 0 samples>"
