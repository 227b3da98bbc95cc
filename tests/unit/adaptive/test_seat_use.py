"""How much of a total is in use, where levels have promises."""

import pytest

from apf_middleware.adaptive import SeatUse


@pytest.mark.parametrize(
    ("total", "levels", "occupied", "usable"),
    [
        pytest.param(20, [(5, 0)], 5, 1.0, id="no promises"),
        pytest.param(20, [(5, 20)], 5, 0.25, id="what a level doesn't use of its own promise is free"),
        pytest.param(64, [(40, 31), (0, 18)], 55, 46 / 64, id="what others are promised isn't"),
        pytest.param(64, [(46, 31), (0, 18)], 64, 46 / 64, id="all that can be used is"),
        pytest.param(40, [(10, 20), (15, 20)], 30, 25 / 40, id="by the level that uses most of what it can have"),
        pytest.param(8, [(1, 0), (0, 7)], 8, 1 / 8, id="by a level that can have only one"),
        pytest.param(100, [(9, 0)] * 10, 90, 1.0, id="many small ones"),
        pytest.param(10, [(30, 2), (0, 8)], 30, 0.2, id="more than the total, after it was cut"),
        pytest.param(10, [(0, 20)], 0, 1 / 10, id="idle"),
        pytest.param(10, [], 0, 1.0, id="no levels"),
    ],
)
def test_what_counts_as_in_use(total: int, levels: list[tuple[int, int]], occupied: int, usable: float) -> None:
    use = SeatUse.of(total, levels)

    assert use.occupied == occupied
    assert use.usable == pytest.approx(usable)
