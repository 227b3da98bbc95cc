"""Fractions of seats in turn: long-run shares, turns that don't flutter, and turns for wide requests."""

import random
from itertools import pairwise

import pytest

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.rotation import MemberDemand, Rotation

MS = 10**6
TURN = 100 * MS


def average(shares: dict[str, float], total: int, rounds: int = 4000, step: int = 20 * MS) -> dict[str, float]:
    """Return the seats that each member had on average."""
    rotation, units = Rotation(TURN), {name: round(one * SEAT) for name, one in shares.items()}
    sums = dict.fromkeys(shares, 0)
    for number in range(rounds):
        seats = rotation.divide(number * step, units, total)
        assert sum(seats.values()) <= total
        for name, one in seats.items():
            sums[name] += one
    return {name: one / rounds for name, one in sums.items()}


@pytest.mark.parametrize(
    ("shares", "total"),
    [
        ({"a": 2.5, "b": 2.5}, 5),
        ({"a": 0.25, "b": 0.25, "c": 0.5}, 1),
        ({"a": 3.7, "b": 1.1, "c": 0.2}, 5),
        ({f"m{number}": 0.25 for number in range(40)}, 10),
    ],
)
def test_each_member_has_its_share_on_average(shares: dict[str, float], total: int) -> None:
    assert average(shares, total) == pytest.approx(shares, rel=0.01)


def test_whole_shares_stay() -> None:
    assert average({"a": 3, "b": 2}, 5) == {"a": 3, "b": 2}


def test_seats_stay_with_a_member_for_a_turn() -> None:
    rotation = Rotation(TURN)
    before, moves = "", []
    for now in range(0, 10_000 * MS, MS):
        seats = rotation.divide(now, {"a": SEAT // 2, "b": SEAT // 2}, 1)
        [holder] = [name for name, one in seats.items() if one]
        if holder != before:
            moves.append(now)
        before = holder
    assert len(moves) > 20
    assert min(later - earlier for earlier, later in pairwise(moves[1:])) >= TURN


def test_no_more_seats_are_given_than_the_shares_come_to() -> None:
    assert Rotation(TURN).divide(0, {"a": SEAT, "b": SEAT + SEAT // 2}, 10) == {"a": 1, "b": 2}
    assert Rotation(TURN).divide(0, {"a": SEAT // 4, "b": SEAT // 4}, 10) == {"a": 1, "b": 0}


def test_the_first_seats_go_to_the_largest_fractions() -> None:
    assert Rotation(TURN).divide(0, {"a": SEAT // 4, "b": SEAT * 3 // 4}, 1) == {"a": 0, "b": 1}


def test_a_member_whose_share_is_whole_gets_no_other_seat_however_large_its_lag_is() -> None:
    rotation, half = Rotation(TURN), SEAT // 2
    for number in range(3):
        rotation.divide(number * TURN // 2, {"a": half, "b": half}, 1)
    assert rotation.lag("b") > 0
    assert rotation.divide(2 * TURN, {"a": half, "b": 0, "c": half}, 1) == {"a": 1, "b": 0, "c": 0}


def test_a_member_that_comes_back_is_new() -> None:
    rotation, half = Rotation(TURN), SEAT // 2
    for number, members in enumerate(("ab", "ab", "ac", "abc")):
        rotation.divide(number * TURN, dict.fromkeys(members, half), 1)
    assert rotation.lag("b") == 0


class WideMembers:
    """Members whose ``wide`` requests run alone, as soon as they have the seats; the others use all that they get."""

    def __init__(self, shares: dict[str, int], total: int, wide: dict[str, int], floor: int = 0) -> None:
        self.rotation, self.now = Rotation(TURN), 0
        self.shares = {name: share * SEAT for name, share in shares.items()}
        self.total, self.wide, self.floor = total, wide, floor
        self.seats = dict.fromkeys(shares, 0)
        self.running = dict.fromkeys(wide, 0)
        self.turns = dict.fromkeys(wide, 0)

    def demand(self, name: str) -> MemberDemand:
        if name not in self.wide:
            return MemberDemand(99, self.seats[name])
        width = self.wide[name]
        return MemberDemand(99, width if self.running[name] else 0, width, self.turns[name])

    def divide(self, elapsed: int = TURN // 10) -> dict[str, int]:
        self.now += elapsed
        demands = {name: self.demand(name) for name in self.shares}
        self.seats = self.rotation.divide(self.now, self.shares, self.total, demands, self.floor)
        assert sum(self.seats.values()) <= self.total
        for name, width in self.wide.items():
            self.running[name] = max(0, self.running[name] - 1)
            free = self.total - sum(self.wide[one] for one, left in self.running.items() if left)
            if not self.running[name] and self.seats[name] >= width <= free:
                self.running[name] = 3
                self.turns[name] += 1
        return self.seats


def test_a_wide_request_gets_its_seats_at_once() -> None:
    members = WideMembers(dict.fromkeys("abcd", 2), 8, {"c": 5})
    assert members.divide()["c"] == 5
    members.wide["c"] = 1
    assert members.divide() == {"a": 2, "b": 2, "c": 2, "d": 2}


def test_members_that_wait_for_a_turn_save_no_seats_up() -> None:
    members = WideMembers(dict.fromkeys("abc", 4), 12, {"b": 8, "c": 8})
    assert members.divide() == {"a": 4, "b": 8, "c": 0}


def test_wide_requests_of_several_members_take_turns() -> None:
    members = WideMembers(dict.fromkeys("abc", 2), 6, dict.fromkeys("abc", 6))
    for _ in range(90):
        members.divide()
    assert max(members.turns.values()) - min(members.turns.values()) <= 1
    assert sum(members.turns.values()) >= 20


def test_as_many_wide_requests_run_as_the_seats_suffice_for() -> None:
    members = WideMembers(dict.fromkeys("abcdefghij", 4), 40, dict.fromkeys("abcdefghij", 6))
    for _ in range(100):
        members.divide()
        assert sum(one >= 6 for one in members.seats.values()) == 6
    assert max(members.turns.values()) - min(members.turns.values()) <= 2


def test_members_without_wide_requests_have_their_share_beside_others() -> None:
    members, seats = WideMembers(dict.fromkeys("ab", 4), 8, {"a": 6}), 0
    for _ in range(300):
        seats += members.divide()["b"]
    assert seats / 300 == pytest.approx(4, abs=0.7)
    assert members.turns["a"] >= 40


def test_a_wide_request_leaves_the_others_their_floors() -> None:
    members = WideMembers(dict.fromkeys("abc", 4), 12, {"a": 8}, floor=2)
    assert members.divide() == {"a": 8, "b": 2, "c": 2}


def test_the_turn_of_a_request_that_has_given_up_goes_to_the_next_member() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", 2 * SEAT)
    demands = {"a": MemberDemand(9, 0, 4, 0), "b": MemberDemand(9, 0, 4, 0)}
    assert rotation.divide(0, shares, 4, demands) == {"a": 4, "b": 0}
    assert rotation.divide(TURN, shares, 4, demands) == {"a": 4, "b": 0}
    assert rotation.divide(2 * TURN, shares, 4, {**demands, "a": MemberDemand(9, 0, 4, 1)}) == {"a": 0, "b": 4}


def test_a_member_that_wanted_nothing_has_no_claim_from_that_time() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("abc", 2 * SEAT)
    demands = {"a": MemberDemand(9, 0, 4), "b": MemberDemand(9, 0, 4), "c": MemberDemand()}
    for number in range(9):
        assert rotation.divide(number * TURN, shares, 6, demands)["a"] == 4


@pytest.mark.parametrize("seed", range(50))
def test_the_total_is_never_exceeded(seed: int) -> None:
    dice, rotation, now = random.Random(seed), Rotation(TURN), 0
    for _ in range(100):
        now += dice.randint(0, 200) * MS
        names = dice.sample("abcdefgh", dice.randint(1, 8))
        shares = {name: dice.randint(0, 4 * SEAT) for name in names}
        total = max(sum(one // SEAT for one in shares.values()), -(-sum(shares.values()) // SEAT) + dice.randint(-2, 3))
        floor = dice.randint(0, 1) if total >= len(names) else 0
        most = total - floor * (len(names) - 1)
        demands = {
            name: MemberDemand(
                dice.randint(0, 20), dice.randint(0, 9), min(most, dice.randint(0, 9)), dice.randint(0, 1)
            )
            for name in names
        }
        seats = rotation.divide(now, shares, total, demands, floor)
        assert seats.keys() == shares.keys()
        assert all(one >= floor for one in seats.values())
        assert sum(seats.values()) <= total


def test_a_long_wait_is_not_made_up_for_without_end() -> None:
    """While one member's wide request has all seats for a hundred turns, the lag of the other is bounded."""
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", SEAT + SEAT // 2)
    for number in range(100):
        rotation.divide(number * TURN, shares, 3, {"a": MemberDemand(9, 3, 3), "b": MemberDemand(9, 0)})
    assert rotation.lag("b") == -rotation.lag("a") == 8 * 3 * SEAT * TURN
    seats = {"a": 3, "b": 0}
    parts = []
    for number in range(100, 200):
        seats = rotation.divide(number * TURN, shares, 3, {name: MemberDemand(9, one) for name, one in seats.items()})
        parts.append(seats["a"])
    assert parts[:3] == [1, 1, 1], "the other one is first"
    assert 2 in parts[:60]


def test_a_wide_request_has_its_turn_although_nobody_uses_any_seat() -> None:
    """Members may keep each other from using what they have, while all lags stay as they are."""
    rotation, shares = Rotation(TURN), {"a": 2 * SEAT, "b": SEAT}
    for number in range(4):
        rotation.divide(number * TURN, shares, 3, {"a": MemberDemand(9, 3, 3, 0, 3), "b": MemberDemand(9, 0)})
    idle = {"a": MemberDemand(9, 0, 3, 1, 0), "b": MemberDemand(9, 0)}
    seats = [rotation.divide((4 + number) * TURN, shares, 3, idle)["a"] for number in range(40)]
    assert seats[0] < 3, "it is ahead"
    assert seats[-1] == 3


def test_a_running_request_that_stops_the_next_wide_one_counts_with_its_seats() -> None:
    """While it runs, no wide request is next, and its member has its share; but the other one has too few seats."""
    rotation, shares, seats, served = Rotation(TURN), dict.fromkeys("ab", 2 * SEAT), {"a": 4, "b": 0}, {"a": 0, "b": 0}
    begun = 0
    for number in range(400):
        is_running = number % 4 < 3 and seats["a"] == 4
        begun += is_running and number % 4 == 0
        a = MemberDemand(9, 4, 0, begun, 4) if is_running else MemberDemand(9, 0, 4, begun, seats["a"])
        b = MemberDemand(9, seats["b"], 1, 0, seats["b"])
        found = rotation.divide(number * TURN // 4, shares, 4, {"a": a, "b": b})
        seats = {"a": 4, "b": 0} if is_running else found
        served = {name: served[name] + seats[name] for name in served}
    assert served["b"] >= 0.35 * sum(served.values())


def test_lags_stay_near_zero_when_more_seats_are_given_than_the_shares_come_to() -> None:
    """Otherwise a member that comes later would have a seat until it has caught up with the others."""
    rotation, thirds = Rotation(TURN), dict.fromkeys("abc", SEAT * 2 // 5)
    for number in range(100):
        assert sum(rotation.divide(number * TURN, thirds, 9).values()) == 2
    halves = dict.fromkeys("abcd", SEAT // 2)
    seats = [rotation.divide((100 + number) * TURN, halves, 9)["d"] for number in range(8)]
    assert 2 <= sum(seats) <= 5


def test_a_small_share_that_a_member_loses_at_times_adds_up() -> None:
    rotation, seats = Rotation(TURN), 0
    for number in range(400):
        has_share = number // 10 % 2
        shares = {"small": SEAT // 10, "large": SEAT * 9 // 10} if has_share else {"small": 0, "large": SEAT}
        seats += rotation.divide(number * TURN // 10, shares, 1)["small"]
    assert 10 <= seats <= 30, "a tenth of half the time"


def test_a_wide_request_whose_turn_has_come_keeps_its_seats() -> None:
    """Also if its member would have as many seats in turn, because it would lose them in turn, too."""
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", SEAT + SEAT // 2)
    demands = {"a": MemberDemand(9, 1), "b": MemberDemand(9, 0, 2)}
    seats = [rotation.divide(number * TURN // 4, shares, 3, demands)["b"] for number in range(60)]
    assert set(seats) == {2}


def test_a_turn_counts_from_when_the_seats_are_granted_though_reports_show_it_late() -> None:
    """Reports that come between the requests of a member say that it uses nothing; another one must not starve."""
    rotation, now = Rotation(TURN), 0
    had = dict.fromkeys("ab", 0)
    granted = dict.fromkeys("ab", 0)
    waits = [0]
    for _ in range(200):
        now += TURN // 2
        demands = {
            "a": MemberDemand(20, 0, 6, had["a"], granted["a"]),
            "b": MemberDemand(20, 1, 6, had["b"], granted["b"]),  # a request of one seat always runs, too
        }
        granted = rotation.divide(now, dict.fromkeys("ab", 4 * SEAT), 8, demands)
        had = {name: had[name] + (seats >= 6) for name, seats in granted.items()}  # it has ended before the next report
        waits.append(0 if granted["b"] >= 6 else waits[-1] + 1)
    assert had["b"] > 50
    assert max(waits) < 5


def test_a_new_member_has_waited_only_since_it_came() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("bc", 2 * SEAT)
    demands = {"b": MemberDemand(9, 0, 4), "c": MemberDemand(9, 0, 4)}
    for number in range(3):
        assert rotation.divide((1000 + number) * TURN, shares, 4, demands) == {"b": 4, "c": 0}
    shares = dict.fromkeys("abc", SEAT)
    demands = {"a": MemberDemand(9, 0, 4), "b": MemberDemand(9, 0, 4, 1), "c": MemberDemand(9, 0, 4)}
    assert rotation.divide(1003 * TURN, shares, 4, demands) == {"a": 0, "b": 0, "c": 4}


def test_a_lag_grows_only_for_seats_that_a_member_wants() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("abc", 2 * SEAT)
    for number in range(3):
        wide = MemberDemand(9, 5, 5)
        rotation.divide(number * TURN, shares, 6, {"a": wide, "b": MemberDemand(1), "c": MemberDemand(9)})
    assert rotation.lag("c") == 2 * rotation.lag("b") > 0


def test_wide_requests_that_fit_move_no_seats() -> None:
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", 3 * SEAT)
    for number in range(2):
        rotation.divide(number * TURN, shares, 6, {"a": MemberDemand(9, 5, 5), "b": MemberDemand(9, 0)})
    assert rotation.lag("b") > 0
    fits = {"a": MemberDemand(9, 0, 2, 1), "b": MemberDemand(9, 3)}
    assert rotation.divide(2 * TURN, shares, 6, fits) == {"a": 3, "b": 3}


def test_a_wide_request_that_fits_hides_none_that_does_not() -> None:
    demands = {"a": MemberDemand(9, 0, 2), "b": MemberDemand(9, 0, 5)}
    assert Rotation(TURN).divide(0, {"a": 3 * SEAT, "b": 4 * SEAT}, 7, demands) == {"a": 2, "b": 5}


def test_no_wide_request_overtakes_one_whose_turn_comes_first() -> None:
    demands = {"a": MemberDemand(9, 0, 6), "b": MemberDemand(9, 0, 4), "c": MemberDemand(9, 0, 2)}
    shares = {"a": 3 * SEAT, "b": 3 * SEAT, "c": 2 * SEAT}
    assert Rotation(TURN).divide(0, shares, 8, demands) == {"a": 6, "b": 2, "c": 0}


def test_members_leave_a_wide_request_no_more_than_it_needs() -> None:
    demands = {"a": MemberDemand(9, 0, 5), "b": MemberDemand(9, 2), "c": MemberDemand(9, 4)}
    shares = {"a": 2 * SEAT, "b": 2 * SEAT, "c": 4 * SEAT}
    assert Rotation(TURN).divide(0, shares, 8, demands) == {"a": 5, "b": 2, "c": 1}


def test_a_member_that_wants_no_more_than_it_uses_has_no_claim_left() -> None:
    """One that is ahead stays ahead."""
    rotation, shares = Rotation(TURN), dict.fromkeys("ab", 2 * SEAT)
    for number in range(3):
        rotation.divide(number * TURN, shares, 4, {"a": MemberDemand(4, 4, 4), "b": MemberDemand(9, 0)})
    assert rotation.lag("b") == -rotation.lag("a") > 0
    rotation.divide(3 * TURN, shares, 4, {"a": MemberDemand(4, 4, 4), "b": MemberDemand()})
    assert rotation.lag("b") == 0
    assert rotation.lag("a") < 0


def test_demands_are_needed_until_a_few_turns_after_the_last_wide_request() -> None:
    rotation, shares, wide = Rotation(TURN), dict.fromkeys("ab", 2 * SEAT), MemberDemand(9, 0, 4)
    assert not rotation.is_wide
    for turn, demand, is_wide in (
        (0, wide, True),
        (1, wide, True),
        (8, MemberDemand(), True),
        (9, MemberDemand(), False),
    ):
        rotation.divide(turn * TURN, shares, 4, {"a": demand, "b": MemberDemand()})
        assert rotation.is_wide is is_wide


def test_floors_are_at_the_cost_of_those_with_the_most_seats() -> None:
    shares = {"a": 0, "b": 3 * SEAT, "c": 5 * SEAT}
    assert Rotation(TURN).divide(0, shares, 8, floor=2) == {"a": 2, "b": 3, "c": 3}
    assert Rotation(TURN).divide(0, {**shares, "d": 0}, 8, floor=2) == dict.fromkeys("abcd", 2)
    assert Rotation(TURN).divide(0, shares, 99, floor=2) == {"a": 2, "b": 3, "c": 5}
