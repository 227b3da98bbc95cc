from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.counters import Occupancy
from apf_middleware.metrics.ratios import RatioLedger

BOUNDS = (0.0, 0.5, 1.0)
KEY = ("a",)


def test_time_is_counted_in_the_bucket_of_its_ratio() -> None:
    spread = RatioLedger().read(KEY, {0: 1, 5: 10, 6: 100, 11: 1000}, 10, BOUNDS)

    assert list(spread.counts) == [1, 10, 100, 1000]
    assert spread.total == pytest.approx(5 + 60 + 1100)


def test_reading_twice_counts_nothing_twice() -> None:
    ledger = RatioLedger()
    first = ledger.read(KEY, {5: 10}, 10, BOUNDS)

    assert ledger.read(KEY, {5: 10}, 10, BOUNDS).counts == first.counts
    assert list(ledger.read(KEY, {5: 15}, 10, BOUNDS).counts) == [0, 15, 0, 0]


def test_a_new_denominator_moves_no_old_observations() -> None:
    ledger = RatioLedger()
    ledger.read(KEY, {5: 10}, 10, BOUNDS)

    assert list(ledger.read(KEY, {5: 17}, 5, BOUNDS).counts) == [0, 10, 7, 0]


def test_the_times_of_a_level_that_is_made_anew_are_added() -> None:
    ledger = RatioLedger()
    ledger.read(KEY, {5: 10}, 10, BOUNDS)

    assert list(ledger.read(KEY, {5: 1, 10: 3}, 10, BOUNDS).counts) == [0, 11, 3, 0]
    later = ledger.read(KEY, {5: 1, 10: 9}, 10, BOUNDS)
    assert list(later.counts) == [0, 11, 9, 0]
    assert later.total == pytest.approx(11 * 0.5 + 9)


def test_keys_that_are_not_kept_are_removed() -> None:
    ledger = RatioLedger()
    ledger.read(KEY, {5: 10}, 10, BOUNDS)
    ledger.read(("b",), {5: 10}, 10, BOUNDS)

    ledger.keep([("b",)])

    assert list(ledger.read(KEY, {5: 17}, 5, BOUNDS).counts) == [0, 0, 17, 0]
    assert list(ledger.read(("b",), {5: 17}, 5, BOUNDS).counts) == [0, 10, 7, 0]
    assert "2 histograms" in repr(ledger)


def test_a_denominator_of_zero_counts_as_one() -> None:
    assert list(RatioLedger().read(KEY, {1: 10}, 0, BOUNDS).counts) == [0, 0, 10, 0]


def test_time_that_is_moved_to_a_higher_value_lowers_no_bucket() -> None:
    ledger = RatioLedger()
    occupancy = Occupancy(0, (0,))
    ledger.read(KEY, occupancy.times(100)[0], 10, BOUNDS)
    occupancy.move((0,), (10,), 40)

    spread = ledger.read(KEY, occupancy.times(120)[0], 10, BOUNDS)

    assert list(accumulate(spread.counts)) == [100, 100, 120, 120]
    assert spread.total == 40
    later = ledger.read(KEY, occupancy.times(200)[0], 10, BOUNDS)
    assert list(accumulate(later.counts)) == [160, 160, 200, 200]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 50), st.integers(0, 12), st.integers(0, 9), st.sampled_from(("set", "up", "down", "look"))
    ),
    max_size=30,
)


@given(STEPS)
def test_no_bucket_ever_falls_and_all_time_is_counted(steps: Sequence[tuple[int, int, int, str]]) -> None:
    ledger, occupancy, now = RatioLedger(), Occupancy(0, (0,)), 0
    before, total = [0] * 4, 0.0
    for elapsed, value, denominator, what in steps:
        now += elapsed
        if what == "set":
            occupancy.set(now, (value,))
        elif what != "look":
            other = value + (1 if what == "up" else -1)
            occupancy.move((value,), (other,), min(elapsed, occupancy.times(now)[0].get(value, 0)))
        spread = ledger.read(KEY, occupancy.times(now)[0], denominator, BOUNDS)
        cumulative = list(accumulate(spread.counts))
        assert all(low <= high for low, high in zip(before, cumulative, strict=True))
        assert cumulative[-1] == now
        assert spread.total >= total
        before, total = cumulative, spread.total
