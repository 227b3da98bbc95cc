"""Predicted waits are near the real ones, and rejection on arrival tells most requests without serving fewer."""

import pytest

from benchmarks.predict import DISCIPLINES, measure

SECONDS = 6


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_an_overload_is_told_at_once(discipline: str) -> None:
    row = measure("overload-2", discipline, SECONDS)

    assert row["error"] < 0.2
    assert row["cost"] < 0.01
    assert row["told"] > 0.9


def test_without_overload_none_is_rejected() -> None:
    row = measure("calm", "equal-serial", SECONDS)

    assert (row["lost"], row["cost"], row["fewer"]) == (0, 0, 0)


def test_a_burst_costs_little() -> None:
    row = measure("bursts", "equal-serial", SECONDS)

    assert row["cost"] < 0.05
    assert row["told"] > 0.9


def test_levels_that_lend_are_predicted_too() -> None:
    row = measure("levels", "equal-serial", SECONDS)

    assert row["error"] < 0.2
    assert row["told"] > 0.9


def test_a_client_that_comes_and_goes_is_followed() -> None:
    row = measure("leaving", "equal-serial", SECONDS)

    assert row["error"] < 0.2
    assert row["told"] > 0.8
