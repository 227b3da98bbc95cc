"""Histograms, and the times of numbers that change together."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware import counters
from apf_middleware.counters import DURATION_BOUNDS_NS, LENGTH_BOUNDS, Histogram, Occupancy


def test_each_observation_is_in_its_bucket_whatever_came_before() -> None:
    """A bucket that was searched for is remembered, and must not swallow what belongs to others."""
    dice = Random(5)
    every: tuple[tuple[int, ...], ...] = ((), (1,), LENGTH_BOUNDS, DURATION_BOUNDS_NS)
    for bounds in every:
        histogram, counts, values = Histogram(bounds), [0] * (len(bounds) + 1), []
        edges = [edge + step for edge in (*bounds, 10**12) for step in (-1, 0, 1)]
        for _ in range(300):
            values += [dice.choice(edges)] * dice.randrange(4)
        for number, value in enumerate(values):
            histogram.observe(value)
            counts[sum(bound < value for bound in bounds)] += 1
            if number % 50 == 0:
                assert histogram.counts == counts
                assert histogram.count == sum(counts)
                assert histogram.copy().counts == counts
        assert histogram.plus(histogram).counts == [2 * count for count in counts]
        assert histogram.total == sum(values)


def test_observations_at_a_bound_belong_to_its_bucket() -> None:
    histogram = Histogram((0, 10))
    for value in (0, 1, 10, 11):
        histogram.observe(value)
    histogram.observe_many(10, 5)

    assert histogram.counts == [1, 7, 1]
    assert (histogram.count, histogram.total) == (9, 72)


def test_copies_and_sums_do_not_change_later() -> None:
    one, other = Histogram((1,)), Histogram((1,))
    one.observe(1)
    other.observe(2)
    copy, both = one.copy(), one.plus(other)
    one.observe(5)

    assert (copy.counts, copy.total) == ([1, 0], 1)
    assert (both.counts, both.total) == ([1, 1], 3)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(0, 40), st.integers(0, 3)), max_size=60),
    st.integers(1, 9),
)
def test_occupancy_counts_each_number_separately(steps: Sequence[tuple[int, int, int, int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "_MOST_COMBINED", most)
        occupancy, now, held = Occupancy(7, (0, 0)), 7, (0, 0)
        expected: tuple[Counter[int], ...] = (Counter(), Counter())
        for elapsed, first, second, look in steps:
            now += elapsed
            for times, value in zip(expected, held, strict=True):
                times[value] += elapsed
            held = (first, second)
            occupancy.set(now, held)
            if not look:
                assert [+Counter(times) for times in occupancy.times(now)] == [+times for times in expected]

        assert [+Counter(times) for times in occupancy.times(now)] == [+times for times in expected]
        for index, times in enumerate(expected):
            assert occupancy.time_at(now, index, 3) == times[3]
            assert occupancy.integral(now, index) == sum(value * lasted for value, lasted in times.items())


def test_quantiles_are_interpolated_within_buckets() -> None:
    histogram = Histogram((0, 10, 20))
    assert histogram.quantile(0.5) is None

    for value in (5, 15, 15, 15):
        histogram.observe(value)
    assert histogram.quantile(0.25) == 10
    assert histogram.quantile(0.625) == 15
    assert histogram.quantile(1) == 20

    histogram.observe(99)
    assert histogram.quantile(1) == 20, "above all bounds, the last one stands for the values"


def test_the_first_bucket_begins_at_zero_or_below() -> None:
    histogram = Histogram((0, 10))
    histogram.observe(0)
    assert histogram.quantile(1) == 0
