from math import inf, isnan, nan

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.testing import jain_index, max_min_fair


@pytest.mark.parametrize(
    ("capacity", "demands", "shares"),
    [
        (14, [3, 7, 9, 1], [3, 5, 5, 1]),
        (100, [3, 7, 9, 1], [3, 7, 9, 1]),
        (2, [3, 7, 9, 1], [0.5, 0.5, 0.5, 0.5]),
        (0, [1, 2], [0, 0]),
        (5, [], []),
    ],
)
def test_small_demands_are_met_and_the_rest_is_shared_equally(
    capacity: float, demands: list[float], shares: list[float]
) -> None:
    assert max_min_fair(capacity, demands) == shares


@pytest.mark.parametrize(("capacity", "demands"), [(-1, [1]), (nan, [1]), (1, [inf]), (1, [1, -1])])
def test_negative_amounts_are_refused(capacity: float, demands: list[float]) -> None:
    with pytest.raises(InvalidValueError, match=r"(capacity|demands\[\d\]) is"):
        max_min_fair(capacity, demands)


def test_jains_index_is_one_for_equal_amounts() -> None:
    assert jain_index([2, 2, 2, 2]) == 1
    assert jain_index([8, 0, 0, 0]) == 0.25
    assert isnan(jain_index([0, 0]))
