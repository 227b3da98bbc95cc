"""The solver against its definition, and against two twins.

One twin pours seats in by bisection instead of solving. The other adds up in Kubernetes' order, and its results are the
same to the bit.

The definition has three clauses: the amounts add up to the total; each is the common fraction of its target, clamped
to its bounds; and there is an error if and only if the bounds exclude the total.
"""

import random
from fractions import Fraction
from itertools import groupby, pairwise
from math import ceil, fsum
from sys import float_info

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apf_middleware.exceptions import InfeasibleError
from apf_middleware.fairqueuing.sharing.allocation import Allocation, SeatClaim, solve
from apf_middleware.fairqueuing.sharing.limits import LevelShares, limits_from_shares
from apf_middleware.fairqueuing.work import round_half_away


def amounts_at(fraction: float, claims: list[SeatClaim]) -> list[float]:
    return [min(max(fraction * max(claim.target, 0.001), claim.lower), claim.upper) for claim in claims]


def poured(total: float, claims: list[SeatClaim]) -> list[float]:
    """Raise or lower the fraction until the amounts add up, as the plain twin."""
    low, high = 0.0, 1.0
    while fsum(amounts_at(high, claims)) < total:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if fsum(amounts_at(middle, claims)) < total else (low, middle)
    return amounts_at(high, claims)


def in_upstream_s_order(total: float, claims: list[SeatClaim]) -> tuple[float, list[float]]:  # noqa: C901 (as plain as upstream)
    """Return fraction and amounts as Kubernetes computes them: a list of knots, visited one ratio after the other.

    Up to six claims, for Go's sort is stable up to twelve knots.
    """
    targets = [max(claim.target, 0.001) for claim in claims]
    lowest = highest = wanted = 0.0
    for claim, target in zip(claims, targets, strict=True):
        lowest, highest, wanted = lowest + claim.lower, highest + claim.upper, wanted + target
    lows = [claim.lower / target for claim, target in zip(claims, targets, strict=True)]
    highs = [claim.upper / target for claim, target in zip(claims, targets, strict=True)]
    if total == 0:
        return 0.0, [0.0 for _ in claims]
    if total - lowest < 1e-7:
        return min(lows), [claim.lower for claim in claims]
    if highest - total < 1e-7:
        return max(highs), [claim.upper for claim in claims]
    fraction = total / wanted
    if max(lows) <= fraction <= min(highs):
        return fraction, [target * fraction for target in targets]
    knots = [knot for place, target in enumerate(targets) for knot in ((lows[place], target), (highs[place], -target))]
    ratios = [
        (ratio, [change for _, change in same])
        for ratio, same in groupby(sorted(knots, key=lambda k: k[0]), lambda k: k[0])
    ]
    reached, slope, free = lowest, 0.0, 0
    for (here, changes), (there, _) in pairwise(ratios):
        fraction = there
        for change in changes:
            slope += change
            free += 1 if change > 0 else -1
        if free == 0:
            continue
        if here + (total - reached) / slope <= there:
            fraction = here + (total - reached) / slope
            break
        reached += (there - here) * slope
        if reached >= total:
            break
    amounts = [
        max(claim.lower, min(claim.upper, fraction * target)) for claim, target in zip(claims, targets, strict=True)
    ]
    return fraction, amounts


def assert_solves(allocation: Allocation, total: float, claims: list[SeatClaim]) -> None:
    """Check the conditions of a solution."""
    assert fsum(allocation.amounts) == pytest.approx(total, rel=1e-9, abs=1e-6)  # slopes may differ by 10^6
    if total:
        # Below the least normal number a double has fewer digits, and so has the ratio of such a bound to its target.
        expected = pytest.approx(amounts_at(allocation.fair_fraction, claims), rel=1e-12, abs=float_info.min)
        assert list(allocation.amounts) == expected


def upstream_problem(rng: random.Random) -> tuple[int, list[SeatClaim]]:
    """Distributed as Kubernetes draws them for its own test of its solver."""
    claims = []
    for _ in range(rng.choice((0, 1, 2, 3, 4, 6, 9))):
        lower = max(0.0, 5 * rng.random() - 1)
        claims.append(SeatClaim(lower, lower + 3 * rng.random(), lower + 2 * rng.random()))
    while rng.random() < 0.25:
        claims.append(SeatClaim(0, 0.1 + rng.random() / 2, 0))
    lowest, highest = sum(claim.lower for claim in claims), sum(claim.upper for claim in claims)
    kind = rng.randrange(20)
    if kind == 0:
        return round(lowest), [claim._replace(upper=claim.lower) for claim in claims]
    if kind == 1:
        return round(highest), claims
    return round(lowest + (highest - lowest) * rng.random()), claims


def test_random_problems_of_upstream_s_kind_are_solved_or_refused_by_the_definition() -> None:
    rng = random.Random(1040)
    outcomes = {"solved": 0, "too little": 0, "too much": 0}
    for _ in range(10_000):
        total, claims = upstream_problem(rng)
        lowest, highest = fsum(claim.lower for claim in claims), fsum(claim.upper for claim in claims)
        if lowest - 1e-10 <= total <= highest + 1e-10:
            assert_solves(solve(total, claims), total, claims)
            outcomes["solved"] += 1
        else:
            with pytest.raises(InfeasibleError, match="lower" if total < lowest else "upper"):
                solve(total, claims)
            outcomes["too little" if total < lowest else "too much"] += 1
    assert min(outcomes.values()) > 100, f"the draw is too one-sided to tell: {outcomes}"


seats = st.integers(0, 1000) | st.floats(0, 1000)


@st.composite
def claims_of_any_kind(draw: st.DrawFn) -> SeatClaim:
    lower = draw(st.just(0) | seats)
    return SeatClaim(lower, upper=lower + draw(st.just(0) | seats), target=lower + draw(st.just(0) | seats))


@st.composite
def problems(draw: st.DrawFn) -> tuple[float, list[SeatClaim]]:
    """Feasible ones, at and between the sums of the bounds; with whole numbers too, so that knots coincide."""
    claims = draw(st.lists(claims_of_any_kind(), min_size=1, max_size=12))
    lowest, highest = fsum(claim.lower for claim in claims), fsum(claim.upper for claim in claims)
    total = lowest + (highest - lowest) * draw(st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0, 1))
    return min(max(draw(st.sampled_from((total, float(round(total))))), lowest), highest), claims


@given(problems())
def test_a_solution_meets_the_definition(problem: tuple[float, list[SeatClaim]]) -> None:
    total, claims = problem

    assert_solves(solve(total, claims), total, claims)


@given(problems())
def test_solving_agrees_with_progressive_filling(problem: tuple[float, list[SeatClaim]]) -> None:
    total, claims = problem

    assert solve(total, claims).amounts == pytest.approx(poured(total, claims), rel=1e-9, abs=1e-6)


def test_a_bound_of_less_than_double_precision_is_solved() -> None:
    lower = 6.5159297272e-313
    problem = [SeatClaim(lower, upper=5, target=788.7233511355132)]

    assert_solves(solve(lower, problem), lower, problem)


@st.composite
def whole_problems(draw: st.DrawFn) -> tuple[int, list[SeatClaim]]:
    """Feasible ones of at most six claims that divide a whole number of seats, as Kubernetes does."""
    claims = draw(st.lists(claims_of_any_kind(), min_size=1, max_size=6))
    lowest, highest = fsum(claim.lower for claim in claims), fsum(claim.upper for claim in claims)
    assume(ceil(lowest) <= int(highest))
    return draw(st.integers(ceil(lowest), int(highest))), claims


@given(whole_problems())
def test_sums_in_the_order_of_upstream_are_equal_bit_by_bit(problem: tuple[int, list[SeatClaim]]) -> None:
    total, claims = problem
    try:
        allocation = solve(total, claims)
    except InfeasibleError:  # sums with rounding errors may miss the bounds that exact sums keep
        assume(False)  # noqa: FBT003

    assert (allocation.fair_fraction, list(allocation.amounts)) == in_upstream_s_order(total, claims)


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_demands_does_not_matter(problem: tuple[float, list[SeatClaim]], rng: random.Random) -> None:
    total, claims = problem
    order = list(range(len(claims)))
    rng.shuffle(order)

    straight, shuffled = solve(total, claims), solve(total, [claims[place] for place in order])

    # The order changes rounding errors. Targets differ by up to 10^6, and the error of a large one stays in the sum.
    assert shuffled.fair_fraction == pytest.approx(straight.fair_fraction, rel=1e-6)
    assert list(shuffled.amounts) == pytest.approx([straight.amounts[place] for place in order], rel=1e-9, abs=1e-6)


@given(problems(), st.floats(1e-6, 100), st.booleans())
def test_a_total_beyond_the_bounds_is_refused(
    problem: tuple[float, list[SeatClaim]],
    beyond: float,
    is_above: bool,  # noqa: FBT001
) -> None:
    claims = problem[1]
    total = fsum(claim.upper for claim in claims) + beyond if is_above else fsum(c.lower for c in claims) - beyond
    assume(total >= 0)

    with pytest.raises(InfeasibleError):
        solve(total, claims)


@given(problems(), st.floats(0, 1))
def test_more_seats_never_reduce_a_share(problem: tuple[float, list[SeatClaim]], part: float) -> None:
    total, claims = problem
    lowest = fsum(claim.lower for claim in claims)

    fewer = solve(lowest + (total - lowest) * part, claims)

    assert all(
        before <= after + 1e-6 for before, after in zip(fewer.amounts, solve(total, claims).amounts, strict=True)
    )


levels = st.builds(
    LevelShares,
    shares=st.integers(0, 1000),
    lendable_percent=st.integers(0, 100),
    borrowing_percent=st.none() | st.integers(0, 1000),
)


@given(st.integers(0, 100_000), st.lists(levels, max_size=10))
def test_limits_are_the_proportions_rounded_once(total: int, shares: list[LevelShares]) -> None:
    named = {str(place): level for place, level in enumerate(shares)}
    share_sum = sum(level.shares for level in shares)

    limits = limits_from_shares(total, named)

    for name, level in named.items():
        got = limits[name]
        if not level.shares:
            assert got.max == 0
            continue
        assert got.nominal == ceil(Fraction(total * level.shares, share_sum))
        assert got.nominal - got.min == round_half_away(got.nominal * level.lendable_percent / 100)
        percent = level.borrowing_percent
        assert got.max - got.nominal == (total if percent is None else round_half_away(got.nominal * percent / 100))
    assert not share_sum or total <= sum(level.nominal for level in limits.values()) <= total + len(shares)


@given(st.integers(-(2**53), 2**53), st.integers(1, 1000))
def test_rounding_agrees_with_exact_fractions(numerator: int, denominator: int) -> None:
    x = numerator / denominator
    exact = Fraction(x)

    expected = int(abs(exact) + Fraction(1, 2)) * (1 if x >= 0 else -1)

    assert round_half_away(x) == expected
