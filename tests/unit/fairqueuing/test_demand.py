from dataclasses import FrozenInstanceError
from math import inf, isnan, nan

import pytest

from apf_middleware.exceptions import ClockError, InvalidValueError
from apf_middleware.fairqueuing.demand import Demand, DemandStatistics
from tests.support.builds import BOOL_FOR_A_NUMBER, raises_for_wrong_type

MS = 1_000_000
SECOND = 1_000 * MS


def test_a_demand_held_for_the_whole_period_has_no_deviation() -> None:
    demand = Demand(0)
    demand.set(0, 3)

    assert demand.results(SECOND) == DemandStatistics(SECOND, 3.0, 0.0, 0, 3)


def test_a_period_without_duration_has_neither_average_nor_deviation() -> None:
    demand = Demand(0, 3)
    demand.reset(SECOND)
    demand.set(SECOND, 2)

    statistics = demand.results(SECOND)

    assert (statistics.duration_ns, statistics.minimum, statistics.maximum) == (0, 2, 3)
    assert isnan(statistics.average)
    assert isnan(statistics.deviation)


def test_a_period_begins_with_the_value_that_the_last_one_ended_with() -> None:
    """The 3 was held for no time in the second period, and yet is its maximum."""
    demand = Demand(0, 3)
    demand.reset(SECOND)
    demand.set(SECOND, 2)
    demand.set(SECOND + MS, 1)

    assert demand.results(SECOND + 2 * MS) == DemandStatistics(2 * MS, 1.5, 0.5, 1, 3)


def test_a_reset_hands_over_the_period_that_it_ends() -> None:
    demand = Demand(0, 4)
    demand.set(10, 0)

    assert demand.reset(20) == DemandStatistics(20, 2.0, 2.0, 0, 4)
    assert demand.results(30) == DemandStatistics(10, 0.0, 0.0, 0, 0)


def test_looking_changes_nothing() -> None:
    looked_at, left_alone = Demand(0, 1), Demand(0, 1)
    for now in range(10):
        looked_at.results(now)
    looked_at.set(10, 5)
    left_alone.set(10, 5)

    assert looked_at.results(20) == left_alone.results(20)


def test_a_peak_of_no_duration_counts_for_the_maximum_alone() -> None:
    demand = Demand(0, 1)
    demand.set(5, 100)
    demand.set(5, 1)

    assert demand.results(10) == DemandStatistics(10, 1.0, 0.0, 1, 100)


def test_a_dip_of_no_duration_counts_for_the_minimum_alone() -> None:
    demand = Demand(0, 4)
    demand.set(5, 0)
    demand.set(5, 4)

    assert demand.results(10) == DemandStatistics(10, 4.0, 0.0, 0, 4)


def test_one_nanosecond_in_a_year_is_not_lost() -> None:
    """Sums of doubles would lose it, and could end with the root of a negative number."""
    year = 365 * 24 * 3600 * SECOND
    demand = Demand(0, 1_000_000)
    demand.set(year, 1_000_001)

    statistics = demand.results(year + 1)

    assert statistics.average >= 1_000_000
    assert statistics.deviation == pytest.approx(year**-0.5, rel=1e-9)


def test_a_period_may_begin_at_any_time() -> None:
    demand = Demand(-5, 2)
    demand.set(0, 4)

    assert demand.results(5) == DemandStatistics(10, 3.0, 1.0, 2, 4)


def test_time_does_not_run_backwards() -> None:
    demand = Demand(10)
    demand.set(20, 1)

    for call in (lambda: demand.set(19, 2), lambda: demand.results(19), lambda: demand.reset(19)):
        with pytest.raises(ClockError, match=r"now is 19, but it must not be before 20\. Use one monotonic clock"):
            call()
    assert demand.results(30) == DemandStatistics(20, 0.5, 0.5, 0, 1)


def test_a_demand_does_not_begin_with_a_negative_number_of_seats() -> None:
    with pytest.raises(InvalidValueError, match="value is -1"):
        Demand(0, -1)


@pytest.mark.parametrize("value", [1.0, None, "1", BOOL_FOR_A_NUMBER])
def test_a_demand_begins_with_a_whole_number_of_seats(value: object) -> None:
    with raises_for_wrong_type("value is "):
        Demand(0, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("now", [0.5, None, nan, "0", BOOL_FOR_A_NUMBER])
def test_time_is_an_integer(now: object) -> None:
    for call in (Demand, Demand(0).results, Demand(0).reset):
        with raises_for_wrong_type(r"now is .* it must be an integer"):
            call(now)  # type: ignore[arg-type]


def test_an_average_over_years_is_rounded_once() -> None:
    demand = Demand(0)
    demand.set(0, 1)
    demand.set(1, 0)

    assert demand.results(31_625_638_753_468_389).average == 3.161991470892678e-17


def test_a_demand_shows_its_value_and_its_bounds() -> None:
    demand = Demand(1, 3)
    demand.set(7, 2)

    assert repr(demand) == "<Demand for 2 seats at 7 ns, between 2 and 3 since 1 ns>"


def test_a_sound_demand_passes_its_check() -> None:
    demand = Demand(0, 3)
    demand.check()
    demand.set(5, 9)
    demand.set(6, 0)
    demand.check()


@pytest.mark.parametrize(
    ("part", "value", "rule"),
    [
        ("_since", 7, "a period doesn't end before it begins"),
        ("_value", -1, "minimum and maximum enclose the value"),
        ("_value", 10, "minimum and maximum enclose the value"),
        ("_minimum", -1, "minimum and maximum enclose the value"),
        ("_area", 0, "minimum and maximum enclose the average"),
        ("_area", 1000, "minimum and maximum enclose the average"),
        ("_squares", 0, "a variance isn't negative"),
    ],
)
def test_the_check_finds_what_contradicts_itself(part: str, value: int, rule: str) -> None:
    demand = Demand(0, 3)
    demand.set(5, 9)
    demand.set(6, 2)
    setattr(demand, part, value)

    with pytest.raises(AssertionError, match=rule):
        demand.check()


def test_the_check_finds_a_negative_demand() -> None:
    """`set` is too hot to look at the value, so that promise is looked at here."""
    demand = Demand(0)
    demand.set(5, -1)

    with pytest.raises(AssertionError, match="minimum and maximum enclose the value"):
        demand.check()


def test_statistics_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Demand(0).results(1).average = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("statistics", "name"),
    [
        ((-1, 1.0, 0.0, 0, 2), "duration_ns"),
        ((10, 1.0, 0.0, -1, 2), "minimum"),
        ((10, 1.0, 0.0, 2, 1), "maximum"),
        ((10, nan, 0.0, 0, 2), "average"),
        ((10, 2.5, 0.0, 0, 2), "average"),
        ((10, 0.5, 0.0, 1, 2), "average"),
        ((10, 1.0, nan, 0, 2), "deviation"),
        ((10, 1.0, -0.1, 0, 2), "deviation"),
        ((10, 1.0, inf, 0, 2), "deviation"),
        ((0, 1.0, nan, 0, 2), "average"),
        ((0, nan, 0.0, 0, 2), "deviation"),
    ],
)
def test_statistics_that_no_period_can_have_are_refused(
    statistics: tuple[int, float, float, int, int], name: str
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        DemandStatistics(*statistics)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("statistics", "name"), [((10, 1.0, 0.0, 0.5, 2), "minimum"), ((10, None, 0.0, 0, 2), "average")]
)
def test_statistics_of_wrong_types_are_refused(statistics: tuple[int, float, float, int, int], name: str) -> None:
    with raises_for_wrong_type(f"^{name} is "):
        DemandStatistics(*statistics)
