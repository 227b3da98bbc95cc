"""Times of a trace's rows."""

import pytest

from apf_middleware.simulation.row_times import RowTimes

SECOND = 10**9
NOW = 1_786_108_536


def times(*seconds: float) -> RowTimes:
    found = RowTimes()
    for one in seconds:
        found.add(round(one * SECOND))
    return found


@pytest.mark.parametrize("stray", [0, NOW * 1000, NOW - 5_000])
@pytest.mark.parametrize("rows", [300, 5_000])
def test_one_row_far_from_the_others_is_found(stray: int, rows: int) -> None:
    near = [NOW + number / rows for number in range(rows)]

    assert times(*near, stray).stray_ns == stray * SECOND
    assert times(stray, *near).stray_ns == stray * SECOND
    assert repr(times(0, 1)) == "<RowTimes: from 0 to 1000000000 ns>"


@pytest.mark.parametrize(
    "seconds",
    [
        [NOW + number for number in range(5_000)],
        [NOW] * 5_000,
        [NOW + number * 30 for number in range(100)] + [NOW + 100_000],
        [NOW + number / 1000 for number in range(5_000)] + [NOW + 3_600],
        [*range(10), NOW],
    ],
)
def test_rows_may_come_in_bursts_and_after_pauses(seconds: list[float]) -> None:
    assert times(*seconds).stray_ns is None
