"""The shortfall: exact over any interval, compared with hand-computed histories and a reference implementation."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.exceptions import ClockError, InvalidValueError
from apf_middleware.testing import Shortfall

SECOND = 10**9


def shortfalls(oracle: Shortfall) -> dict[object, float]:
    """Return the largest shortfall of each flow, in seat-seconds."""
    return {flow: finding.seconds for flow, finding in oracle.largest.items()}


def test_a_flow_falls_behind_by_its_share_while_another_has_all_seats() -> None:
    oracle = Shortfall(4)
    oracle.occupy(0, "elephant", 4)
    oracle.wait(0, "elephant", 1, 4)
    oracle.wait(1 * SECOND, "mouse", 1, 8)
    oracle.advance(4 * SECOND)

    assert shortfalls(oracle) == {"mouse": 6}  # two seats for three seconds


def test_a_flow_that_wants_little_falls_behind_by_what_it_wants() -> None:
    oracle = Shortfall(4)
    oracle.occupy(0, "elephant", 4)
    oracle.wait(0, "elephant", 1, 4)
    oracle.wait(0, "mouse", 1)
    oracle.advance(3 * SECOND)

    assert shortfalls(oracle) == {"mouse": 3}


def test_seats_left_by_small_demands_are_shared_by_the_others() -> None:
    oracle = Shortfall(7)
    oracle.occupy(0, "small", 1)
    oracle.occupy(0, "hog", 6)
    oracle.wait(0, "hog", 1, 100)
    oracle.wait(0, "late", 1, 100)
    oracle.advance(SECOND)

    assert shortfalls(oracle) == {"late": 3}  # of seven seats one is the small flow's


def test_service_before_the_interval_does_not_count() -> None:
    oracle = Shortfall(2)
    for flow in "ab":
        oracle.wait(0, flow, 1, 10)
    oracle.occupy(0, "a", 2)  # ten seconds ahead
    oracle.occupy(10 * SECOND, "a", -2)
    oracle.occupy(10 * SECOND, "b", 2)
    oracle.advance(14 * SECOND)

    assert shortfalls(oracle) == {"a": 4, "b": 10}


def test_surplus_seats_reduce_the_shortfall() -> None:
    oracle = Shortfall(2)
    for flow in "ab":
        oracle.wait(0, flow, 1, 10)
    for second in range(6):
        oracle.occupy(second * SECOND, "ab"[second % 2], 2)
        oracle.occupy((second + 1) * SECOND, "ab"[second % 2], -2)

    assert shortfalls(oracle) == {"a": 1, "b": 1}


def test_an_interval_ends_when_nothing_waits() -> None:
    oracle = Shortfall(1)
    oracle.occupy(0, "hog", 1)
    oracle.wait(0, "hog", 1)
    for begin in (0, 3, 6):
        oracle.wait(begin * SECOND, "mouse", 1)
        oracle.wait((begin + 2) * SECOND, "mouse", 1, -1)

    assert shortfalls(oracle) == {"mouse": 1}


def test_an_interval_ends_when_nothing_waits_for_a_moment() -> None:
    oracle = Shortfall(1)
    oracle.occupy(0, "hog", 1)
    oracle.wait(0, "hog", 1)
    oracle.wait(0, "mouse", 1)
    oracle.wait(SECOND, "mouse", 1, -1)
    oracle.wait(SECOND, "mouse", 1)
    oracle.advance(2 * SECOND)

    assert shortfalls(oracle) == {"mouse": 0.5}


def test_idle_seats_count_while_a_request_of_one_seat_waits() -> None:
    oracle = Shortfall(4)
    oracle.wait(0, "mouse", 1, 3)
    oracle.advance(SECOND)

    assert shortfalls(oracle) == {"mouse": 3}


def test_seats_reserved_for_a_wide_request_are_not_shared_out() -> None:
    oracle = Shortfall(4)
    oracle.occupy(0, "a", 2)
    oracle.wait(0, "a", 1, 9)
    oracle.wait(0, "b", 4)
    oracle.advance(SECOND)

    assert shortfalls(oracle) == {"b": 1}  # half of the two seats in use


def test_resizing_changes_shares_and_the_bound_uses_the_maximum() -> None:
    oracle = Shortfall(4)
    oracle.serve(1, SECOND)
    oracle.occupy(0, "a", 4)
    oracle.wait(0, "a", 1, 9)
    oracle.wait(0, "b", 1, 9)
    oracle.resize(SECOND, 2)
    oracle.advance(2 * SECOND)

    assert oracle.worst is not None
    assert oracle.worst.seconds == 2 + 1
    assert oracle.worst.bound == 5 * SECOND
    assert oracle.worst.ratio == pytest.approx(3 / 5)


def test_the_bound_grows_with_the_longest_work() -> None:
    oracle = Shortfall(3)
    oracle.serve(1, 5 * SECOND)
    oracle.serve(2, 4 * SECOND)
    oracle.serve(1, SECOND)

    assert oracle.bound == 4 * 8 * SECOND


def test_the_worst_finding_has_the_largest_ratio_to_its_bound() -> None:
    oracle = Shortfall(1)
    oracle.serve(1, SECOND)
    oracle.occupy(0, "hog", 1)
    oracle.wait(0, "hog", 1)
    oracle.wait(0, "mouse", 1)
    oracle.wait(10 * SECOND, "mouse", 1, -1)
    oracle.serve(1, 100 * SECOND)
    oracle.wait(10 * SECOND, "cat", 1)
    oracle.advance(50 * SECOND)

    assert oracle.worst is not None
    assert (oracle.worst.flow, oracle.worst.ratio) == ("mouse", 2.5)
    assert shortfalls(oracle) == {"mouse": 5, "cat": 20}
    assert oracle.seat_seconds == 20


def test_a_drought_ends_when_no_further_request_would_fit_into_the_share() -> None:
    oracle = Shortfall(5)
    oracle.serve(1, SECOND)
    oracle.occupy(0, "a", 5)
    oracle.wait(0, "a", 1, 9)
    oracle.wait(0, "b", 1, 9)
    oracle.occupy(3 * SECOND, "a", -1)
    oracle.occupy(3 * SECOND, "b", 1)  # of two and a half
    oracle.occupy(4 * SECOND, "a", -1)
    oracle.occupy(4 * SECOND, "b", 1)
    oracle.advance(9 * SECOND)

    assert oracle.worst_drought is not None
    assert (oracle.worst_drought.flow, oracle.worst_drought.seconds) == ("b", 4)
    assert oracle.worst_drought.bound == (5 + 2) * SECOND
    assert oracle.longest_drought.keys() == {"b"}


def test_a_flow_with_less_than_a_seat_to_its_share_is_in_a_drought_until_it_has_one() -> None:
    oracle = Shortfall(1)
    oracle.occupy(0, "a", 1)
    for flow in "abc":
        oracle.wait(0, flow, 1)
    oracle.occupy(2 * SECOND, "a", -1)
    oracle.occupy(2 * SECOND, "b", 1)
    oracle.advance(3 * SECOND)

    assert {flow: finding.seconds for flow, finding in oracle.longest_drought.items()} == {"a": 1, "b": 2, "c": 3}


def test_only_watched_flows_are_judged_but_all_have_demand() -> None:
    oracle = Shortfall(3, watched=["b"])
    oracle.occupy(0, "a", 3)
    for flow in "abc":
        oracle.wait(0, flow, 1, 9)
    oracle.advance(SECOND)

    assert shortfalls(oracle) == {"b": 1}


def test_the_drought_bound_grows_with_the_number_of_waiting_flows() -> None:
    """The last flow's share is a twelfth of the seat, then an eleventh, and so on: the harmonic series."""
    oracle = Shortfall(1)
    oracle.serve(1, SECOND)
    for flow in range(12):
        oracle.wait(0, flow, 1)
    for flow in range(12):
        oracle.wait(flow * SECOND, flow, 1, -1)
        oracle.occupy(flow * SECOND, flow, 1)
        oracle.occupy((flow + 1) * SECOND, flow, -1)

    assert oracle.largest[11].amount == SECOND * sum(Fraction(1, parts) for parts in range(2, 13))
    assert oracle.worst is not None
    assert oracle.worst.ratio > 1  # though no other order would be fairer


def test_backward_time_and_negative_counts_are_errors() -> None:
    oracle = Shortfall(1, now=5)
    with pytest.raises(ClockError):
        oracle.advance(4)
    with pytest.raises(InvalidValueError):
        oracle.occupy(6, "a", -1)


def test_a_finding_shows_flow_time_and_amount() -> None:
    oracle = Shortfall(1)
    oracle.serve(1, SECOND)
    oracle.wait(0, "mouse", 1)
    oracle.advance(SECOND)

    assert str(oracle.worst) == "flow mouse at 1.000000 s: 1.000000 of 2.000000"


# The reference implementation: whole histories, all pairs of times, fractions, and step-by-step filling.


@dataclass(frozen=True)
class Stretch:
    """An interval without changes, with the waiting widths and the seats of each flow."""

    begin: int
    end: int
    capacity: int
    waiting: Mapping[int, Sequence[int]]
    seats: Mapping[int, int]

    def shares(self) -> dict[int, Fraction]:
        """Return the shares: all rise alike, step by step, until the next demand is met or nothing is left."""
        demands = {flow: sum(self.waiting[flow]) + self.seats[flow] for flow in self.seats}
        in_use = sum(self.seats.values())
        widest = max((width for widths in self.waiting.values() for width in widths), default=0)
        left = Fraction(self.capacity if widest <= self.capacity - in_use else min(in_use, self.capacity))
        shares = dict.fromkeys(demands, Fraction(0))
        while left and (rising := [flow for flow in demands if shares[flow] < demands[flow]]):
            step = min(left / len(rising), *(demands[flow] - shares[flow] for flow in rising))
            for flow in rising:
                shares[flow] += step
            left -= step * len(rising)
        return shares


def worst_of(history: Sequence[Stretch], shares: Sequence[Mapping[int, Fraction]], flow: int) -> Fraction:
    worst = Fraction(0)
    for first in range(len(history)):
        shortfall = Fraction(0)
        for stretch, fair in list(zip(history, shares, strict=True))[first:]:
            if not stretch.waiting[flow]:
                break
            shortfall += (fair[flow] - stretch.seats[flow]) * (stretch.end - stretch.begin)
            worst = max(worst, shortfall)
    return worst


def longest_drought_of(history: Sequence[Stretch], shares: Sequence[Mapping[int, Fraction]], flow: int) -> int:
    longest = drought = 0
    for stretch, fair in zip(history, shares, strict=True):
        widths, seats = stretch.waiting[flow], stretch.seats[flow]
        is_dry = widths and (not seats or seats + max(widths) <= fair[flow])
        if is_dry:
            drought += stretch.end - stretch.begin
        elif stretch.end > stretch.begin or not widths:
            drought = 0
        longest = max(longest, drought)
    return longest


def random_history(chance: random.Random) -> tuple[Shortfall, list[Stretch]]:
    """Return an oracle that has recorded a random history, and that history."""
    flows = range(chance.randint(1, 5))
    capacity = chance.randint(0, 6)
    oracle = Shortfall(capacity)
    waiting: dict[int, list[int]] = {flow: [] for flow in flows}
    seats = dict.fromkeys(flows, 0)
    history: list[Stretch] = []
    now = 0
    for _ in range(30):
        flow, what = chance.choice(flows), chance.random()
        if what < 0.4:
            waiting[flow].append(chance.choice((1, 1, 2, 5)))
            oracle.wait(now, flow, waiting[flow][-1])
        elif what < 0.7 and waiting[flow]:
            width = waiting[flow].pop(0)
            oracle.wait(now, flow, width, -1)
            oracle.occupy(now, flow, width)
            seats[flow] += width
        elif what < 0.9 and seats[flow]:
            freed = chance.randint(1, seats[flow])
            oracle.occupy(now, flow, -freed)
            seats[flow] -= freed
        elif what > 0.95:
            capacity = chance.randint(0, 6)
            oracle.resize(now, capacity)
        elapsed = chance.choice((0, 1, 2, 7))  # for a moment counts too
        kept = {one: tuple(widths) for one, widths in waiting.items()}
        history.append(Stretch(now, now + elapsed, capacity, kept, dict(seats)))
        now += elapsed
    oracle.advance(now)
    return oracle, history


@given(seed=st.integers(0, 10**9))
def test_the_oracle_agrees_with_its_plain_twin(seed: int) -> None:
    oracle, history = random_history(random.Random(seed))

    shares = [stretch.shares() for stretch in history]
    for flow in history[0].seats:
        found, drought = oracle.largest.get(flow), oracle.longest_drought.get(flow)
        assert (found.amount if found else 0) == worst_of(history, shares, flow)
        assert (drought.amount if drought else 0) == longest_drought_of(history, shares, flow)
