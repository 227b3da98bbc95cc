"""The seats that waiting levels deserve, and their lags behind that."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import LevelLimits, QueueSet, QueueSetSettings, SharedLevel, Ticket, Work
from apf_middleware.fairqueuing.sharing.balance import SEAT, Balance, Claim, fill


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


@st.composite
def claims_of_any_kind(draw: st.DrawFn) -> list[Claim]:
    bounds = st.integers(0, draw(st.sampled_from([2, 40, 10**7])))
    lowers, more = draw(st.lists(st.tuples(bounds, bounds), max_size=6)), st.sampled_from([0, 1, 1, 2, 30])
    return [(draw(more), lower, lower + above) for lower, above in lowers]


@given(claims_of_any_kind(), st.integers(-2, 200) | st.integers(0, 10**8))
def test_parts_are_in_proportion_wherever_no_bound_applies(claims: list[Claim], total: int) -> None:
    parts = fill(total, claims)
    divided = list(zip(parts, claims, strict=True))

    assert all(lower <= part <= upper for part, (_, lower, upper) in divided)
    if total <= sum(lower for _, lower, _ in claims):
        assert parts == [lower for _, lower, _ in claims]
        return
    assert sum(parts) <= total
    if sum(parts) <= total - len(parts):  # more than what is lost by rounding
        assert all(part == upper for part, (weight, _, upper) in divided if weight)
    # what may still fall has no more for its weight than what may still rise, except for rounding
    for part, (weight, lower, _) in divided:
        for other, (other_weight, _, other_upper) in divided:
            if part > lower and other < other_upper:
                assert part * other_weight < (other + 1) * weight or not other_weight


class Levels:
    """Levels with these seats in use, and one waiting request of this width each, in front of ``seats`` seats."""

    def __init__(self, seats: int, **levels: tuple[int, int]) -> None:
        self.balance = Balance(0)
        settings = QueueSetSettings(seats, 1, 1, 100)
        self.levels = []
        for name, (used, width) in levels.items():
            queueset = QueueSet(settings, ceiling=seats)
            queueset.concurrency = used
            for _ in range(used):
                queueset.arrive(0, Ticket(name, 1, Work()))
            queueset.concurrency = 0
            queueset.arrive(0, Ticket(name, 1, Work(width)))
            level = SharedLevel(name, settings, LevelLimits(1, 0, seats), queueset)
            level.most = level.ceiling = seats
            level.counted = used
            self.levels.append(level)
        self.balance.entitle(self.levels, (), seats)
        self.free = seats - sum(used for used, _ in levels.values())
        self.balance.divide(self.levels, self.free)

    def lags_after(self, duration: int) -> list[float]:
        """Let ``duration`` pass, and return the lags in seat-nanoseconds."""
        self.balance.advance(self.balance.clock + duration, self.levels)
        return [level.lag / SEAT for level in self.levels]


def test_a_lag_is_what_is_deserved_and_not_used_up_to_twice_the_longest_work() -> None:
    levels = Levels(4, behind=(1, 1), ahead=(3, 1))
    levels.balance.observe(50)
    assert levels.lags_after(30) == [30, -30]
    assert levels.lags_after(1000) == [100, -100]


def test_the_longest_work_fades_as_shorter_requests_end() -> None:
    levels = Levels(4, behind=(1, 1), ahead=(3, 1))
    levels.balance.observe(1000)
    for _ in range(1024):
        levels.balance.observe(1)
    [lag, _] = levels.lags_after(10_000)
    assert lag == pytest.approx(2 * 1000 / math.e, rel=0.01)


def test_beside_empty_seats_a_level_deserves_its_part_of_those_in_use() -> None:
    levels = Levels(8, wide=(0, 8), narrow=(4, 1))
    levels.balance.observe(1000)
    levels.levels[0].lag = SEAT  # so it is its turn
    levels.balance.divide(levels.levels, levels.free)
    parts = [level.deserved / SEAT for level in levels.levels]
    used = 4 / sum(parts)
    assert levels.lags_after(10) == pytest.approx([1 + 10 * parts[0] * used, 10 * (parts[1] * used - 4)])


def test_a_level_that_is_ahead_recovers_in_full_beside_empty_seats_if_nobody_comes_before_it() -> None:
    levels = Levels(8, wide=(1, 8), narrow=(3, 1))
    levels.balance.observe(1000)
    for level in levels.levels:
        level.lag = -500 * SEAT
    wide, narrow = (level.deserved / SEAT for level in levels.levels)
    assert levels.lags_after(10) == pytest.approx([-500 + 10 * (wide - 1), -500 + 10 * (narrow - 3)])
    assert levels.lags_after(10_000)[0] == 0, "it isn't behind for that"
