"""Curves in the terminal."""

from apf_middleware.simulation.braille import curve, resampled


def test_the_maximum_fills_the_height_and_zero_is_empty() -> None:
    upper, lower = curve([0.0] * 4 + [10.0] * 4, 10.0, width=4, height=2)

    assert upper == "⠀⠀⣿⣿"
    assert lower == "⠀⠀⣿⣿"


def test_half_of_the_maximum_fills_the_lower_half() -> None:
    assert curve([5.0] * 8, 10.0, width=4, height=2) == ["⠀⠀⠀⠀", "⣿⣿⣿⣿"]


def test_small_values_are_visible_and_unknown_ones_are_not() -> None:
    assert curve([0.001, None], 10.0, width=1, height=1) == ["⡀"]


def test_each_point_is_the_maximum_of_the_values_it_replaces() -> None:
    assert resampled([1.0, 9.0, None, 2.0, None, None], 3) == [9.0, 2.0, None]
    assert resampled([1.0], 5) == [1.0]


def test_an_empty_curve_is_empty() -> None:
    assert curve([], 0.0, width=4, height=1) == [""]
    assert curve([None, 0.0], 0.0, width=1, height=1) == ["⠀"]
