from math import inf, nan, nextafter

import pytest

from apf_middleware.exceptions import InfeasibleError, InvalidValueError
from apf_middleware.fairqueuing.sharing.allocation import (
    LevelLimits,
    LevelShares,
    SeatClaim,
    limits_from_shares,
    solve,
)

# Limits

KUBERNETES = {
    "exempt": LevelShares(0, exempt=True),
    "leader-election": LevelShares(10, 0),
    "node-high": LevelShares(40, 25),
    "system": LevelShares(30, 33),
    "workload-high": LevelShares(40, 50),
    "workload-low": LevelShares(100, 90),
    "global-default": LevelShares(20, 50),
    "catch-all": LevelShares(5, 0),
}


def test_kubernetes_default_levels_get_kubernetes_seats() -> None:
    limits = limits_from_shares(600, KUBERNETES)

    assert [level.nominal for level in limits.values()] == [0, 25, 98, 74, 98, 245, 49, 13]
    assert [level.min for level in limits.values()] == [0, 25, 73, 50, 49, 24, 24, 13]
    assert [level.max for level in limits.values()] == [600, 625, 698, 674, 698, 845, 649, 613]
    assert list(limits) == list(KUBERNETES)


def test_nominal_seats_are_rounded_up_so_that_any_share_is_worth_a_seat() -> None:
    limits = limits_from_shares(2, {"elephant": LevelShares(1_000_000), "mouse": LevelShares(1)})

    assert (limits["elephant"].nominal, limits["mouse"].nominal) == (2, 1)


def test_lent_and_borrowed_seats_are_rounded_half_up() -> None:
    limits = limits_from_shares(5, {"only": LevelShares(1, lendable_percent=50, borrowing_percent=50)})["only"]

    assert (limits.lendable, limits.borrowing) == (3, 3)
    assert (limits.min, limits.max) == (2, 8)


def test_a_level_may_borrow_more_than_it_owns() -> None:
    limits = limits_from_shares(10, {"a": LevelShares(1, borrowing_percent=250), "b": LevelShares(1)})["a"]

    assert limits == LevelLimits(nominal=5, min=5, max=18)  # 5 + 12.5 rounded


def test_a_level_that_must_not_borrow_has_its_nominal_seats_at_most() -> None:
    limits = limits_from_shares(10, {"only": LevelShares(1, borrowing_percent=0)})["only"]

    assert limits.max == limits.nominal == 10
    assert limits.borrowing == 0


def test_zero_shares_are_zero_seats_and_borrow_none() -> None:
    """A level without seats stays one, though it leaves its borrowing unlimited."""
    limits = limits_from_shares(100, {"jail": LevelShares(0), "other": LevelShares(1)})

    assert limits["jail"] == LevelLimits(0, 0, 0)
    assert limits["other"] == LevelLimits(100, 100, 200)


def test_an_exempt_level_has_seats_by_its_shares_and_may_lend_them() -> None:
    limits = limits_from_shares(100, {"exempt": LevelShares(1, 50, exempt=True), "other": LevelShares(3)})

    assert limits["exempt"] == LevelLimits(nominal=25, min=12, max=125)


def test_an_exempt_level_without_shares_is_not_kept_from_borrowing() -> None:
    assert limits_from_shares(100, {"exempt": LevelShares(0, exempt=True)})["exempt"] == LevelLimits(0, 0, 100)


def test_without_any_shares_no_level_has_a_seat() -> None:
    assert limits_from_shares(100, {"jail": LevelShares(0)}) == {"jail": LevelLimits(0, 0, 0)}
    assert limits_from_shares(100, {}) == {}


def test_without_seats_no_level_has_one() -> None:
    assert limits_from_shares(0, {"some": LevelShares(3, 50)}) == {"some": LevelLimits(0, 0, 0)}


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"shares": -1}, "shares"),
        ({"shares": 1.5}, "shares"),
        ({"shares": 1, "lendable_percent": -1}, "lendable_percent"),
        ({"shares": 1, "lendable_percent": 101}, "lendable_percent"),
        ({"shares": 1, "borrowing_percent": -1}, "borrowing_percent"),
        ({"shares": 1, "borrowing_percent": "50"}, "borrowing_percent"),
        ({"shares": 1, "borrowing_percent": 50, "exempt": True}, "borrowing_percent"),
        ({"shares": 1, "exempt": 1}, "exempt"),
    ],
)
def test_shares_that_break_a_rule_are_refused(shares: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        LevelShares(**shares)  # type: ignore[arg-type]
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("limits", "name"),
    [((-1, 0, 0), "nominal"), ((5, 6, 7), "min"), ((5, -1, 7), "min"), ((5, 5, 4), "max"), ((5, 5, 2**53 + 1), "max")],
)
def test_min_nominal_and_max_come_in_this_order(limits: tuple[int, int, int], name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        LevelLimits(*limits)
    assert caught.value.name == name


@pytest.mark.parametrize("seats", [-1, 1.0, None])
def test_a_server_has_a_whole_number_of_seats(seats: int) -> None:
    with pytest.raises(InvalidValueError, match="seats is "):
        limits_from_shares(seats, {})


# The solver


def test_without_bounds_in_the_way_all_get_the_same_part_of_their_targets() -> None:
    allocation = solve(30, [SeatClaim(0, 100, 10), SeatClaim(0, 100, 50)])

    assert allocation.fair_fraction == 0.5
    assert allocation.amounts == (5, 25)


def test_a_claim_at_its_bound_leaves_the_rest_to_the_others() -> None:
    allocation = solve(60, [SeatClaim(20, 100, 20), SeatClaim(0, 10, 20), SeatClaim(0, 100, 20), SeatClaim(0, 100, 40)])

    assert allocation.fair_fraction == 0.5
    assert allocation.amounts == (20, 10, 10, 20)


def test_a_fraction_above_one_shares_out_more_than_was_asked_for() -> None:
    allocation = solve(30, [SeatClaim(1, 8, 5), SeatClaim(1, 100, 5), SeatClaim(1, 100, 6)])

    assert allocation.fair_fraction == 2.0
    assert allocation.amounts == (8, 10, 12)


def test_a_target_of_zero_shares_in_what_is_left_over() -> None:
    assert solve(10, [SeatClaim(0, 10, 0), SeatClaim(0, 10, 0)]).amounts == (5, 5)


def test_only_the_lower_bounds_when_there_is_no_more() -> None:
    allocation = solve(5, [SeatClaim(2, 9, 4), SeatClaim(3, 9, 4)])

    assert allocation.fair_fraction == 0.5  # the greatest at which nobody gets more
    assert allocation.amounts == (2, 3)


def test_all_of_the_upper_bounds_when_there_is_no_less() -> None:
    allocation = solve(18, [SeatClaim(2, 8, 4), SeatClaim(3, 10, 4)])

    assert allocation.fair_fraction == 2.5  # the least at which everybody gets all
    assert allocation.amounts == (8, 10)


@pytest.mark.parametrize("total", [6, 6 - 5e-8, 6 + 5e-8])
def test_rounding_errors_of_the_total_are_forgiven(total: float) -> None:
    assert solve(total, [SeatClaim(6, 6, 6)]).amounts == (6,)


@pytest.mark.parametrize("error", [0, 5e-8])
def test_a_rounding_error_of_the_total_does_not_move_the_fraction_to_another_knot(error: float) -> None:
    """The first claim can neither rise nor fall, so that making up for the error would be up to the second."""
    low, high = SeatClaim(1, 1, 10), SeatClaim(5, 9, 10)

    assert solve(6 + error, [low, high]).fair_fraction == 0.1
    assert solve(10 - error, [low, high]).fair_fraction == 0.9
    assert solve(7 - error, [SeatClaim(1, 2, 10), SeatClaim(5, 5, 10)]).fair_fraction == 0.5


def test_amounts_that_cannot_change_between_two_knots_do_not_hide_the_next_one() -> None:
    """From 0.1 to 0.9 of the targets nobody's amount grows."""
    allocation = solve(21, [SeatClaim(0, 1, 10), SeatClaim(18, 40, 20)])

    assert allocation.fair_fraction == 1.0
    assert allocation.amounts == (1, 20)


def test_bounds_nearer_to_each_other_than_their_ratios_can_tell_are_a_step() -> None:
    lower, target = 2.1e12, 4.0e12
    upper = nextafter(lower, inf)
    assert lower / target == upper / target

    allocation = solve(upper + 9, [SeatClaim(lower, upper, target), SeatClaim(9, 20, 10)])

    assert sum(allocation.amounts) == pytest.approx(upper + 9, rel=1e-10)


@pytest.mark.parametrize(
    ("total", "claims", "fraction", "amounts"),
    [
        (74, [(0, 1, 1), (0, 5, 0.0001), (0, 100, 0), (0, 1, 0)], 67000.00000002213, [1, 5, 67.00000000002214, 1]),
        (
            30,
            [(0, 1, 0), (0, 1, 1.01), (0, 7.13, 0), (5, 6, 5), (0, 4.59, 0), (0, 1, 1.21), (0, 5, 0), (0, 5, 2.28)],
            6409.999999994281,
            [1, 1, 6.409999999994281, 6, 4.59, 1, 5, 5],
        ),
        (
            8,
            [
                (5, 10, 5),
                (0, 5, 0),
                (0, 1, 2.75),
                (0, 1, 0),
                *[(0, 5, 0)] * 2,
                (0, 1, 0),
                (2, 11.61, 2.06),
                (0, 9.2, 0),
            ],
            0.362844702467344,
            [5, 0.00036284470246734403, 0.9978229317851961, *[0.00036284470246734403] * 4, 2, 0.00036284470246734403],
        ),
    ],
)
def test_results_equal_kubernetes_to_the_bit(
    total: int, claims: list[tuple[float, float, float]], fraction: float, amounts: list[float]
) -> None:
    """Computed by upstream's solver in Go; running sums and equal ratios leave errors in the last digits."""
    allocation = solve(total, [SeatClaim(*claim) for claim in claims])

    assert (allocation.fair_fraction, list(allocation.amounts)) == (fraction, amounts)


def test_targets_too_different_for_doubles_are_no_division_by_zero() -> None:
    """The slope of the second claim is lost beside the first one's, so its running sum is 0 when that one leaves."""
    allocation = solve(2**52 + 2, [SeatClaim(0, 2**52, 2.0**52), SeatClaim(0, 5, 0)])

    assert sum(allocation.amounts) == pytest.approx(2**52 + 2)


def test_nothing_is_divided_among_anybody() -> None:
    allocation = solve(0, [SeatClaim(0, 5, 5), SeatClaim(0, 9, 7)])

    assert allocation.fair_fraction == 0
    assert allocation.amounts == (0, 0)


def test_nothing_is_divided_among_no_claims() -> None:
    assert solve(0, []).amounts == ()
    assert solve(1e-8, []).amounts == ()


@pytest.mark.parametrize(
    ("total", "claims", "name"),
    [
        (5, [], "sum of upper bounds"),
        (5, [SeatClaim(0, 4, 1)], "sum of upper bounds"),
        (3, [SeatClaim(2, 4, 2), SeatClaim(2, 4, 2)], "sum of lower bounds"),
        (0, [SeatClaim(1, 4, 2)], "sum of lower bounds"),
    ],
)
def test_bounds_that_exclude_the_total_are_infeasible(total: float, claims: list[SeatClaim], name: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        solve(total, claims)
    assert caught.value.name == name
    assert f"the total of {total}" in str(caught.value)


@pytest.mark.parametrize(
    ("total", "claim", "name"),
    [
        (-1, SeatClaim(0, 2, 1), "total"),
        (nan, SeatClaim(0, 2, 1), "total"),
        (1, SeatClaim(-1, 2, 1), "claims[1].lower"),
        (1, SeatClaim(nan, 2, 1), "claims[1].lower"),
        (1, SeatClaim(0, 2, nan), "claims[1].target"),
        (1, SeatClaim(0, inf, 1), "claims[1].upper"),
        (1, SeatClaim(2, 3, 1), "claims[1].target"),
        (1, SeatClaim(2, 1, 3), "claims[1].upper"),
    ],
)
def test_a_claim_that_breaks_a_rule_is_named(total: float, claim: SeatClaim, name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        solve(total, [SeatClaim(0, 5, 3), claim])
    assert caught.value.name == name
    assert not isinstance(caught.value, InfeasibleError)
