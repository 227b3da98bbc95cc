from collections.abc import Callable, Mapping
from math import nan

import pytest

from apf_middleware.exceptions import InfeasibleError, InvalidValueError
from apf_middleware.fairqueuing.demand import DemandStatistics
from apf_middleware.fairqueuing.sharing.borrowing import Adjustment, LevelDemand, adjust_limits, smooth_demand
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares, limits_from_shares
from tests.support.builds import raises_for_wrong_type

PERIOD = 10_000_000_000
NOTHING = DemandStatistics(0, nan, nan, 0, 0)


def steady(seats: int) -> DemandStatistics:
    return DemandStatistics(PERIOD, float(seats), 0.0, seats, seats)


def level_demands(seats: int, levels: Mapping[str, LevelShares], demands: Mapping[str, int]) -> dict[str, LevelDemand]:
    """Levels that have had the same demand for the whole period; the others had none."""
    limits = limits_from_shares(seats, levels)
    return {
        name: LevelDemand(limits[name], steady(demands.get(name, 0)), exempt=level.exempt)
        for name, level in levels.items()
    }


def currents(adjustment: Adjustment) -> dict[str, int]:
    return {name: level.current for name, level in adjustment.levels.items()}


# Smoothing


def test_demand_above_what_is_smoothed_is_followed_at_once() -> None:
    assert smooth_demand(3.0, DemandStatistics(PERIOD, 10.0, 2.0, 5, 15)) == 12.0


def test_demand_below_what_is_smoothed_is_followed_by_a_fortieth() -> None:
    assert smooth_demand(100.0, steady(0)) == pytest.approx(97.7)
    assert smooth_demand(100.0, steady(50)) == pytest.approx(0.977 * 100 + 0.023 * 50)


def test_a_lead_over_the_demand_is_halved_in_thirty_adjustments() -> None:
    smoothed = 100.0
    for _ in range(30):
        smoothed = smooth_demand(smoothed, steady(0))

    assert smoothed == pytest.approx(50, rel=0.01)


def test_a_period_without_duration_leaves_what_is_smoothed_as_it_is() -> None:
    assert smooth_demand(7.5, DemandStatistics(0, nan, nan, 3, 9)) == 7.5


def smoothing(smoothed: float) -> list[Callable[[], object]]:
    return [
        lambda: smooth_demand(smoothed, NOTHING),
        lambda: LevelDemand(LevelLimits(1, 1, 1), NOTHING, smoothed=smoothed),
    ]


@pytest.mark.parametrize("smoothed", [nan, -1.0])
def test_what_is_smoothed_is_an_amount_of_seats(smoothed: float) -> None:
    for call in smoothing(smoothed):
        with pytest.raises(InvalidValueError, match="smoothed is "):
            call()


def test_what_is_smoothed_is_a_number() -> None:
    for call in smoothing(None):  # type: ignore[arg-type]
        with raises_for_wrong_type("smoothed is "):
            call()


# The three cases, with the figures of upstream's own test

BOUNDARY = {
    "exempt": LevelShares(0, exempt=True),
    "high": LevelShares(40, 50),
    "mid": LevelShares(100, 90),
    "low": LevelShares(5),
}


def test_case_1_when_exempt_levels_leave_too_little_each_limited_level_has_its_min() -> None:
    adjustment = adjust_limits(
        level_demands(870, BOUNDARY, {"exempt": 970, "high": 970, "mid": 970, "low": 970}),
    )

    assert currents(adjustment) == {"exempt": 970, "high": 120, "mid": 60, "low": 30}
    assert adjustment.fair_fraction == 0


def test_case_1_lasts_until_just_every_min_is_covered() -> None:
    adjustment = adjust_limits(level_demands(870, BOUNDARY, {"exempt": 660, "high": 970, "mid": 970, "low": 970}))

    assert currents(adjustment) == {"exempt": 660, "high": 120, "mid": 60, "low": 30}


def test_case_2_when_half_of_what_is_needed_remains_each_goes_half_the_way() -> None:
    adjustment = adjust_limits(
        level_demands(870, BOUNDARY, {"exempt": 330, "high": 970, "mid": 970, "low": 970}),
    )

    assert currents(adjustment) == {"exempt": 330, "high": 180, "mid": 330, "low": 30}
    assert adjustment.fair_fraction == 0


def test_case_2_when_exempt_levels_use_just_what_an_idle_level_lends_the_others_are_whole() -> None:
    adjustment = adjust_limits(level_demands(870, BOUNDARY, {"exempt": 540, "high": 970, "low": 970}))

    assert currents(adjustment) == {"exempt": 540, "high": 240, "mid": 60, "low": 30}
    assert adjustment.fair_fraction == 0


def test_case_2_rounds_half_a_seat_up() -> None:
    limits = LevelLimits(nominal=5, min=0, max=5)
    levels = {
        "exempt": LevelDemand(LevelLimits(0, 0, 10), steady(5), exempt=True),
        "a": LevelDemand(limits, steady(5)),
        "b": LevelDemand(limits, steady(5)),
    }

    assert currents(adjust_limits(levels)) == {"exempt": 5, "a": 3, "b": 3}


@pytest.mark.parametrize(
    ("lender", "borrower"),
    [
        pytest.param(LevelShares(100, 33, 50), LevelShares(100, 50, 67), id="limited by lending"),
        pytest.param(LevelShares(100, 67, 50), LevelShares(100, 50, 33), id="limited by borrowing"),
    ],
)
def test_case_3_lends_what_one_level_may_lend_and_the_other_borrow(lender: LevelShares, borrower: LevelShares) -> None:
    """24 seats, clients with 24 and 6 threads; 25 seats are divided because each level's are rounded up."""
    levels = {"borrower": borrower, "lender": lender, "catch-all": LevelShares(5)}

    adjustment = adjust_limits(level_demands(24, levels, {"borrower": 24, "lender": 6}))

    assert currents(adjustment) == {"borrower": 16, "lender": 8, "catch-all": 1}


# Kubernetes' default levels at 600 seats

DEFAULTS = {
    "exempt": LevelShares(0, exempt=True),
    "leader-election": LevelShares(10, 0),
    "node-high": LevelShares(40, 25),
    "system": LevelShares(30, 33),
    "workload-high": LevelShares(40, 50),
    "workload-low": LevelShares(100, 90),
    "global-default": LevelShares(20, 50),
    "catch-all": LevelShares(5, 0),
}


def test_idle_levels_share_by_what_they_do_not_lend() -> None:
    """What Kubernetes does, and hardly what one expects: who lends nearly all begins a burst with little."""
    adjustment = adjust_limits(level_demands(600, DEFAULTS, {}))

    assert list(currents(adjustment).values()) == [0, 58, 170, 117, 114, 56, 56, 30]
    assert adjustment.fair_fraction == pytest.approx(602 / 258)


@pytest.mark.parametrize(("deduct_exempt", "low"), [(False, 368), (True, 318)])
def test_moderate_exempt_load_is_deducted_only_on_request(deduct_exempt: bool, low: int) -> None:  # noqa: FBT001
    """Kubernetes' code hands out 602 seats while exempt requests use 50 more; its design means 552."""
    demands = {"exempt": 50, "workload-low": 400}

    adjustment = adjust_limits(level_demands(600, DEFAULTS, demands), deduct_exempt=deduct_exempt)

    assert list(currents(adjustment).values()) == [50, 25, 73, 50, 49, low, 24, 13]
    assert adjustment.levels["workload-low"].target == 400


# What a level needs


def adjust_one(level: LevelDemand) -> Adjustment:
    """Beside a level that can give or take anything."""
    return adjust_limits({"one": level, "other": LevelDemand(LevelLimits(1000, 0, 9999), steady(0))})


@pytest.mark.parametrize(("peak", "min_current"), [(0, 4), (4, 4), (7, 7), (10, 10), (50, 10)])
def test_a_limited_level_counts_on_its_peak_between_min_and_nominal(peak: int, min_current: int) -> None:
    one = adjust_one(LevelDemand(LevelLimits(10, 4, 20), steady(peak))).levels["one"]

    assert one.min_current == min_current
    assert one.target == max(min_current, peak)
    assert one.smoothed == peak


@pytest.mark.parametrize(("peak", "current"), [(0, 4), (7, 7), (50, 50)])
def test_an_exempt_level_has_its_peak_and_at_least_its_min(peak: int, current: int) -> None:
    one = adjust_one(LevelDemand(LevelLimits(10, 4, 20), steady(peak), exempt=True)).levels["one"]

    assert (one.min_current, one.current, one.target) == (current, current, current)


def test_an_instant_s_peak_counts_though_the_average_does_not_show_it() -> None:
    one = adjust_one(LevelDemand(LevelLimits(10, 4, 20), DemandStatistics(PERIOD, 0.0, 0.0, 0, 9))).levels["one"]

    assert (one.min_current, one.smoothed) == (9, 0)


def test_a_target_is_at_least_what_the_level_counts_on_and_at_least_its_smoothed_demand() -> None:
    limits = LevelLimits(10, 4, 20)

    assert adjust_one(LevelDemand(limits, steady(6), smoothed=5.0)).levels["one"].target == 6
    assert adjust_one(LevelDemand(limits, NOTHING, smoothed=5.0)).levels["one"].target == 5


def test_a_new_level_starts_from_its_min() -> None:
    one = adjust_one(LevelDemand(LevelLimits(10, 4, 20), NOTHING)).levels["one"]

    assert (one.min_current, one.smoothed, one.target) == (4, 0, 4)


def test_a_level_that_can_have_no_seats_gets_none_for_any_demand() -> None:
    levels = {"jail": LevelShares(0), "other": LevelShares(1, 50)}

    assert currents(adjust_limits(level_demands(10, levels, {"jail": 100}))) == {"jail": 0, "other": 10}


# Failure


def test_when_no_division_is_possible_limited_levels_keep_what_they_had() -> None:
    """An exempt level's nominal seats are divided among limited ones that may not borrow them."""
    levels = {
        "exempt": LevelDemand(LevelLimits(10, 0, 100), steady(3), exempt=True),
        "limited": LevelDemand(LevelLimits(20, 15, 20), steady(18), smoothed=19.0, current=17),
    }

    adjustment = adjust_limits(levels)

    assert isinstance(adjustment.failure, InfeasibleError)
    assert currents(adjustment) == {"exempt": 3, "limited": 17}
    assert adjustment.fair_fraction == 0
    assert adjustment.levels["limited"].min_current == 18
    assert adjustment.levels["limited"].smoothed == pytest.approx(0.977 * 19 + 0.023 * 18)


def test_a_division_that_is_possible_reports_no_failure() -> None:
    assert adjust_limits(level_demands(600, DEFAULTS, {})).failure is None


def test_without_levels_there_is_nothing_to_adjust() -> None:
    assert adjust_limits({}) == Adjustment({}, 0.0)


def test_the_standings_are_left_as_they_were() -> None:
    levels = level_demands(600, DEFAULTS, {"workload-low": 400})
    before = dict(levels)

    adjust_limits(levels)

    assert levels == before


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"limits": (1, 1, 1)}, "limits"),
        ({"demand": 3}, "demand"),
        ({"current": 1.5}, "current"),
        ({"exempt": None}, "exempt"),
    ],
)
def test_a_standing_of_wrong_types_is_refused(change: dict[str, object], name: str) -> None:
    whole: dict[str, object] = {"limits": LevelLimits(1, 1, 1), "demand": NOTHING}
    with raises_for_wrong_type(f"^{name} is "):
        LevelDemand(**whole | change)  # type: ignore[arg-type]


def test_a_current_limit_is_not_negative() -> None:
    with pytest.raises(InvalidValueError, match=r"^current is -1"):
        LevelDemand(LevelLimits(1, 1, 1), NOTHING, current=-1)


def test_the_order_of_the_levels_does_not_matter_to_the_last_bit() -> None:
    """Replicas that list their levels differently must come to the same limits."""
    levels = level_demands(600, DEFAULTS, {"exempt": 50, "workload-low": 400, "system": 71, "workload-high": 33})

    forward, backward = adjust_limits(levels), adjust_limits(dict(reversed(levels.items())))

    assert forward.levels == backward.levels
    assert forward.fair_fraction == backward.fair_fraction
    assert list(forward.levels) == list(levels)
