from math import inf, nan, nextafter

import pytest

from apf_middleware.exceptions import InfeasibleError, InvalidValueError
from apf_middleware.fairqueuing.sharing.allocation import SeatClaim, solve


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


def test_dividing_nothing_gives_nothing() -> None:
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
