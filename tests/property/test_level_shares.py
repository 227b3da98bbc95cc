"""Levels that are always busy get seats in proportion to their weights, however wide and long their requests are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES
from benchmarks.level_shares import BusyLevels
from tests.support.examples import examples


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(2)
@given(seed=st.integers(0, 10**9))
def test_busy_levels_get_their_parts_of_the_seats_that_are_used(discipline: str, rounds: int, seed: int) -> None:
    levels = BusyLevels(seed, discipline, rounds)
    levels.play(seconds=5)

    assert levels.least_part() > 0.6


@pytest.mark.parametrize(("seed", "rounds"), [(21, 0), (21, 2), (102, 0), (106, 8)])
def test_short_requests_are_not_outdone_by_long_and_wide_ones(seed: int, rounds: int) -> None:
    """By the seats in use alone, a level with short requests had an eighth to a third of its part here."""
    levels = BusyLevels(seed, "equal-serial", rounds)
    levels.play(seconds=10)

    assert levels.least_part() > 0.85


def test_a_level_far_behind_gets_its_whole_max_for_a_wide_request() -> None:
    """Its own short requests stop the wide one; long requests of another level must not take the seats meanwhile."""
    levels = BusyLevels(165, "equal-serial", 0)
    levels.play(seconds=10)

    assert levels.least_part() > 0.85
