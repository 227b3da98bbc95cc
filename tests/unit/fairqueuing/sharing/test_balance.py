"""The seats that waiting levels deserve."""

from collections.abc import Sequence

import pytest

from apf_middleware.fairqueuing.sharing.balance import Claim, fill


@pytest.mark.parametrize(
    ("total", "claims", "parts"),
    [
        (10, [(1, 0, 10), (3, 0, 10)], [2, 7]),  # rounded down
        (10, [(1, 0, 2), (1, 0, 20)], [2, 8]),  # an upper bound leaves the rest to the others
        (10, [(1, 6, 10), (1, 0, 10)], [6, 4]),  # a lower bound takes from the others
        (1, [(1, 1, 5), (1, 1, 5)], [1, 1]),  # lower bounds are met beyond the total
        (10, [(0, 0, 10)], [0]),
        (10, [], []),
    ],
)
def test_a_total_is_divided_by_weight_within_the_bounds(
    total: int, claims: Sequence[Claim], parts: Sequence[int]
) -> None:
    assert fill(total, claims) == parts
