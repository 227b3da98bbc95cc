"""Quantiles in bounded memory."""

import random

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation.quantiles import QuantileSketch


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0])
def test_a_quantile_is_right_within_half_a_percent(part: float) -> None:
    dice = random.Random(1)
    values = sorted(int(dice.lognormvariate(17, 1.5)) for _ in range(5_000))
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    exact = values[max(1, -int(-part * len(values) // 1)) - 1]

    found = sketch.quantile(part)

    assert found is not None
    assert abs(found / exact - 1) <= 0.0051
    assert sketch.mean == pytest.approx(sum(values) / len(values))
    assert sketch.most == values[-1]
    assert len(sketch) < 1_500


def test_merged_sketches_equal_one_of_both() -> None:
    one, other, both = QuantileSketch(), QuantileSketch(), QuantileSketch()
    for number in range(1, 2_000):
        value = number * 7_919
        (one if number % 3 else other).add(value)
        both.add(value)
    one.merge(other)

    assert (one.count, one.total, one.most) == (both.count, both.total, both.most)
    assert [one.quantile(part / 20) for part in range(21)] == [both.quantile(part / 20) for part in range(21)]


def test_an_empty_sketch_has_no_quantiles() -> None:
    assert QuantileSketch().quantile(0.5) is None
    assert QuantileSketch().mean is None


def test_a_part_above_one_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"part is 1\.5"):
        QuantileSketch().quantile(1.5)


def test_a_zero_duration_is_at_most_a_microsecond() -> None:
    sketch = QuantileSketch()
    sketch.add(0)

    assert sketch.quantile(0.99) == 0
