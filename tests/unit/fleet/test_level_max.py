"""The max of a level is divided by the fair shares, and its parts never add up to more."""

from collections.abc import Mapping

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fleet.debt import Debt
from apf_middleware.fleet.level_max import CALM_TURNS, LevelMax, MaxDemand
from apf_middleware.fleet.rotation import MemberDemand

TURN = 50


class Members:
    """Members that obey and confirm each grant at once."""

    def __init__(self, most: int, *names: str) -> None:
        self.now = 0
        self.most = most
        self.max = LevelMax(TURN, 0)
        self.debts = {name: Debt(0, 0) for name in names}
        self.sequence = 0

    def divide(self, demands: Mapping[str, MaxDemand], *, is_learning: bool = False) -> dict[str, int]:
        self.now += TURN
        for _ in range(2):  # increases must wait for the decreases
            self.max.divide(self.now, self.most, demands, self.debts, is_learning=is_learning)
            self.sequence += 1
            for name, seats in self.max.granted.items():
                self.debts[name].grant(self.sequence, seats)
                self.debts[name].confirm(self.sequence, seats, 0)
        assert sum(self.max.granted.values()) <= self.most
        return self.max.granted


def wants(seats: int, share: float | None = None, arrivals: int = 0, widest: int = 1) -> MaxDemand:
    share = seats if share is None else share
    return MaxDemand(round(share * SEAT), MemberDemand(seats, 0, widest), arrivals)


def test_members_take_turns_with_a_max_that_is_scarce() -> None:
    members = Members(2, *"abc")
    had = dict.fromkeys("abc", 0)
    for _ in range(30):
        for name, seats in members.divide(dict.fromkeys("abc", wants(9, 2 / 3))).items():
            had[name] += seats
    assert members.max.is_scarce
    assert sum(had.values()) == 60
    assert all(abs(seats - 20) <= 2 for seats in had.values())


def test_shares_that_come_to_more_than_the_max_count_in_proportion() -> None:
    """A member's share is more than the max while others lack seats of the parent's max."""
    members, had = Members(1, *"ab"), 0
    for _ in range(100):
        had += members.divide({"a": wants(9, 1.2), "b": wants(9, 0.3)})["b"]
    assert 18 <= had <= 22


def test_what_the_shares_leave_goes_where_requests_arrive_except_for_a_quarter() -> None:
    members = Members(10, *"ab")
    assert members.divide({"a": wants(2, arrivals=99), "b": wants(0)}) == {"a": 8, "b": 0}
    assert not members.max.is_scarce
    assert repr(members.max) == "<LevelMax of 10 seats for 2 members>"


def test_a_member_alone_has_the_whole_max() -> None:
    assert Members(7, "a").divide({"a": wants(1)}) == {"a": 7}


def test_a_part_that_is_enough_stays_for_some_time() -> None:
    members = Members(8, *"ab")
    first = dict(members.divide({"a": wants(1, arrivals=50), "b": wants(1)}))
    assert first["a"] > first["b"]
    now_at_b = {"a": wants(1), "b": wants(1, arrivals=50)}
    for _ in range(CALM_TURNS - 1):
        assert members.divide(now_at_b) == first
    found = members.divide(now_at_b)
    assert found["b"] > found["a"]


def test_a_member_that_needs_more_gets_it_at_once() -> None:
    members = Members(8, *"ab")
    members.divide({"a": wants(1, arrivals=50), "b": wants(0)})
    assert members.divide({"a": wants(1), "b": wants(6)})["b"] >= 6


def test_a_wide_request_gets_its_seats_in_turn() -> None:
    members = Members(4, *"ab")
    demands = dict.fromkeys("ab", wants(8, 2, widest=4))
    assert sorted(members.divide(demands).values()) == [0, 4]


def test_an_allocator_that_learns_moves_only_what_members_have_reported() -> None:
    members = Members(8, "a")
    members.debts["b"] = Debt(3, 0)
    members.max.open(members.debts["b"])
    assert sum(members.divide({"a": wants(8, 4), "b": wants(8, 4)}, is_learning=True).values()) == 3
    assert members.divide({"a": wants(8, 7), "b": wants(1, 1)}, is_learning=True) == {"a": 2, "b": 1}
    assert members.divide({"a": wants(8, 4), "b": wants(8, 4)}) == {"a": 4, "b": 4}


def test_an_allocator_that_learns_keeps_to_a_max_below_what_members_have_reported() -> None:
    """A reload has made the max smaller while an earlier allocator's grants of 10 seats were in force."""
    level, debts = LevelMax(TURN, 0), {"a": Debt(5, 0), "b": Debt(5, 0)}
    for debt in debts.values():
        level.open(debt)
    rounds = ({"a": wants(9, 0), "b": wants(9, 4)}, {"a": wants(9, 4), "b": wants(9, 0)})
    for sequence, demands in enumerate(rounds, 1):
        level.divide(sequence * TURN, 4, demands, debts, is_learning=True)
        for name, seats in level.granted.items():
            debts[name].grant(sequence, seats)
        debts["a"].confirm(sequence, level.granted["a"], 0)
        assert debts["a"].owed == 0, "b has confirmed nothing, and may still use 5 seats"


def test_what_is_just_enough_is_not_scarce() -> None:
    members = Members(4, *"ab")
    members.divide({"a": wants(2), "b": wants(2)})
    assert not members.max.is_scarce
    members.divide({"a": wants(2), "b": wants(3, 2)})
    assert members.max.is_scarce


def test_parts_are_divided_anew_if_more_is_owed_than_there_is() -> None:
    members = Members(4, *"ab")
    members.divide({"a": wants(2), "b": wants(2)})
    members.most = 3
    assert members.divide({"a": wants(1), "b": wants(1)}) != {"a": 2, "b": 2}


def test_a_part_that_is_scarce_moves_although_each_member_has_what_it_wants() -> None:
    """The demands of members with fewer seats than they want come first."""
    members = Members(4, *"ab")
    assert members.divide({"a": wants(9, 4), "b": wants(0)}) == {"a": 4, "b": 0}
    assert members.divide({"a": wants(4, 2), "b": wants(2)}) == {"a": 2, "b": 2}


def test_a_smaller_max_is_reached_by_decreases_first() -> None:
    members = Members(8, *"ab")
    members.divide({"a": wants(9, 4), "b": wants(9, 4)})
    members.most = 3
    members.max.divide(members.now, 3, {"a": wants(9, 0), "b": wants(9, 3)}, members.debts, is_learning=False)
    assert members.max.granted == {"a": 0, "b": 3}
    members.debts["a"].grant(99, 0)
    assert members.debts["a"].owed == 4, "it isn't confirmed"
