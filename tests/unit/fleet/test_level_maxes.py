"""All maxes of a fleet are divided, and the members learn their parts with the seats."""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import MemberConfiguration, Membership
from apf_middleware.fleet.messages import FlowTable, LevelUsage
from apf_middleware.fleet.rotation import MemberDemand
from tests.support.examples import seeds

if TYPE_CHECKING:
    from apf_middleware.fleet.messages import Grant

BATCH = {"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0, 0, 2)}
TENANTS = {"paid": SeatDemand(1, 0, 0, None, "p"), "free": SeatDemand(1, 0, 0, 1, "p"), "p": SeatDemand(1, 0, 0, 3)}


class Fleet:
    """Members whose messages arrive at once, and which use what they get; requests don't end."""

    def __init__(self, claims: Mapping[str, SeatDemand], seats: int = 12) -> None:
        self.now = 0
        self.budget = Budget(seats, claims)
        self.allocator = Allocator(self.budget, epoch=1, now=0, lease_ns=1000, margin_ns=0, turn_ns=50, expected=())
        self.members: dict[str, Membership] = {}
        self.grants: dict[str, Grant] = {}
        self.leaving: Mapping[str, SeatDemand] = {}

    def report(self, name: str, wanted: Mapping[str, int], widest: int = 0, used: Mapping[str, int] = {}) -> None:
        if name not in self.members:
            self.members[name] = Membership(name, lease_ns=1000)
            self.members[name].join(1)
        usages = {
            level: LevelUsage(0, 0, widest, FlowTable.of({sum(name.encode()): one})) for level, one in wanted.items()
        }
        configuration = MemberConfiguration("c", 0, self.budget)
        report = self.members[name].report(self.now, 0, usages, configuration, used=used, leaving=self.leaving)
        self.allocator.receive(self.now, report)

    def exchange(self, widest: int = 0, **wanted: Mapping[str, int]) -> dict[str, Mapping[str, int]]:
        """Let the members report until nothing changes; return their parts."""
        for _ in range(3):
            for name, one in wanted.items():
                self.report(name, one, widest)
            for name, grant in self.allocator.divide(self.now, wanted).items():
                self.grants[name] = grant
                self.members[name].receive(self.now, grant)
        return {name: member.maxes(self.now) for name, member in self.members.items()}


def test_a_member_alone_has_the_whole_max_and_a_second_one_gets_a_part() -> None:
    fleet = Fleet(BATCH)
    assert fleet.exchange(a={"batch": 9}) == {"a": {"batch": 2}}
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {"batch": 1}, "b": {"batch": 1}}
    assert fleet.grants["a"].scarce == ("batch",)


def test_levels_without_a_max_are_not_divided() -> None:
    assert Fleet({"web": SeatDemand(1, 0)}).exchange(a={"web": 9}) == {"a": {}}
    assert Fleet({"web": SeatDemand(1, 0, 0, 12)}).exchange(a={"web": 9}) == {"a": {}}


def test_the_children_of_a_parent_share_its_max() -> None:
    fleet = Fleet(TENANTS)
    found = fleet.exchange(a={"paid": 9, "free": 9}, b={"paid": 9})
    assert sum(parts["p"] for parts in found.values()) == 3
    assert sum(parts["free"] for parts in found.values()) == 1
    amounts = {name: share.amount / SEAT for name, share in fleet.allocator.shares.members.items()}
    spare = {name: share.spare / SEAT for name, share in fleet.allocator.shares.members.items()}
    assert all(amounts[name] - spare[name] <= found[name]["p"] for name in found), "shares fit into the parts"


def test_a_max_that_a_reload_removes_isn_t_divided_any_more() -> None:
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9}, b={"batch": 9})
    fleet.budget = Budget(12, {"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0)})
    fleet.allocator.budget = fleet.budget
    fleet.allocator._budgets.clear()  # as if all members had a new configuration
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {}, "b": {}}
    assert not any(account.maxes for account in fleet.allocator.accounts.values())


def test_a_level_that_drains_keeps_its_max_until_no_member_has_it() -> None:
    fleet, old = Fleet(BATCH), {"web": 20, "batch": 9}
    fleet.exchange(a=old, b=old)
    fleet.budget = fleet.allocator.budget = Budget(12, {"web": SeatDemand(1, 0, 12)})
    fleet.allocator._budgets.clear()
    fleet.leaving = {"batch": BATCH["batch"]}
    assert fleet.exchange(a=old, b=old) == {"a": {"batch": 1}, "b": {"batch": 1}}
    assert fleet.allocator.shares.levels["batch"] > 0, "a seat is promised to it, whatever the mins of others are"
    fleet.leaving = {}
    assert fleet.exchange(a=old, b=old) == {"a": {}, "b": {}}


def test_a_max_is_divided_until_members_have_given_back_the_seats_that_exceed_it() -> None:
    fleet, hungry = Fleet(BATCH), {"batch": 9}
    fleet.exchange(a=hungry, b=hungry)
    fleet.budget = fleet.allocator.budget = Budget(2, BATCH)
    fleet.allocator._budgets.clear()
    for name in "ab":
        fleet.report(name, hungry)
    for name, grant in fleet.allocator.divide(fleet.now, "ab").items():
        assert grant.maxes == {"batch": 1}, "until they have confirmed, they may use more than two seats"
        fleet.members[name].receive(fleet.now, grant)
    assert fleet.exchange(a=hungry, b=hungry) == {"a": {}, "b": {}}


def test_a_new_max_counts_what_members_may_use_until_they_have_a_part() -> None:
    fleet = Fleet({"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0)})
    fleet.exchange(a={"batch": 9}, b={"batch": 9})
    fleet.allocator.budget = fleet.budget = Budget(12, BATCH)
    fleet.allocator._budgets.clear()
    for name in "ab":
        fleet.report(name, {"batch": 9})
    grants = fleet.allocator.divide(fleet.now, "ab")
    assert sum(grant.maxes["batch"] for grant in grants.values()) <= 2
    assert fleet.allocator.accounts["a"].maxes["batch"].owed == 6, "it may use all its seats until it has confirmed"
    for name, grant in grants.items():
        fleet.members[name].receive(fleet.now, grant)
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {"batch": 1}, "b": {"batch": 1}}


def test_a_max_that_comes_back_counts_grants_without_it_that_are_on_their_way() -> None:
    fleet, hungry = Fleet(BATCH), {"batch": 9}
    fleet.exchange(a=hungry, b=hungry)
    fleet.allocator.budget = Budget(12, {"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0)})
    fleet.allocator._budgets.clear()
    late = fleet.allocator.divide(fleet.now, "ab")
    fleet.allocator.budget = fleet.budget
    account = fleet.allocator.accounts["a"]
    for _ in range(2):
        fleet.report("a", hungry)
        fleet.allocator.divide(fleet.now, "ab")
        assert account.maxes["batch"].owed == account.debt.owed, "it may soon use all its seats"
    fleet.members["a"].receive(fleet.now, late["a"])
    assert fleet.members["a"].maxes(fleet.now) == {}
    fleet.now += 50  # until then, a lost grant isn't repeated
    assert fleet.exchange(a=hungry, b=hungry) == {"a": {"batch": 1}, "b": {"batch": 1}}


def test_a_part_that_was_given_back_is_granted_again_at_once() -> None:
    """Although its last grant said the same, and the member has had an answer a moment ago."""
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    fleet.members["a"].lower_maxes({"batch": 0})
    fleet.report("a", {"batch": 9})
    assert fleet.allocator.divide(fleet.now, "a")["a"].maxes == {"batch": 2}


def test_a_max_that_nobody_wants_keeps_its_parts() -> None:
    fleet = Fleet(BATCH)
    before = fleet.exchange(a={"batch": 9}, b={"batch": 9})
    assert fleet.exchange(a={"web": 1}, b={"web": 1}) == before
    assert fleet.allocator._maxes.scarce == ()
    fleet.now += 20 * 50
    fleet.exchange(a={"web": 1}, b={"web": 1})
    assert sum(fleet.allocator._maxes._maxes["batch"].targets.values()) == 2, "it is divided anew from time to time"


def test_requests_beyond_a_part_count_until_they_have_ended() -> None:
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    for _ in range(3):
        fleet.report("a", {"batch": 9}, used={"batch": 2})
        fleet.report("b", {"batch": 9})
        for name, grant in fleet.allocator.divide(fleet.now, "ab").items():
            fleet.members[name].receive(fleet.now, grant)
    assert [member.maxes(fleet.now)["batch"] for member in fleet.members.values()] == [1, 0]
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {"batch": 1}, "b": {"batch": 1}}


def test_a_request_that_outlives_a_lease_is_no_part_of_a_max() -> None:
    """It may belong to any level, but that doesn't let another request begin while all seats of a max are in use."""
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    fleet.members["b"] = late = Membership("b", lease_ns=1000)
    late.join(1)
    usage = LevelUsage(0, 0, 0, FlowTable.of({7: 9}))
    for _ in range(3):
        fleet.report("a", {"batch": 9}, used={"batch": 2})
        in_use = {"web": LevelUsage(1, 0, 0, FlowTable.of({8: 1})), "batch": usage}
        fleet.allocator.receive(fleet.now, late.report(fleet.now, 1, in_use))
        for name, grant in fleet.allocator.divide(fleet.now, "ab").items():
            fleet.members[name].receive(fleet.now, grant)
    assert fleet.members["b"].maxes(fleet.now) == {"batch": 0}
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {"batch": 1}, "b": {"batch": 1}}


def test_requests_that_outlive_a_lease_at_a_level_are_no_part_of_its_max() -> None:
    """Otherwise one could begin when these have ended, while others use all seats of the max."""
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    for _ in range(3):
        fleet.report("a", {"batch": 9}, used={"batch": 2})
        fleet.report("b", {"batch": 9}, used={"batch": 1})
        for name, grant in fleet.allocator.divide(fleet.now, "ab").items():
            fleet.members[name].receive(fleet.now, grant)
        assert fleet.members["b"].maxes(fleet.now) == {"batch": 0}
    assert fleet.exchange(a={"batch": 9}, b={"batch": 9}) == {"a": {"batch": 1}, "b": {"batch": 1}}


def test_a_part_that_has_shrunk_is_owed_until_that_is_confirmed() -> None:
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    fleet.report("b", {"batch": 9})
    for _ in range(3):
        grants = fleet.allocator.divide(fleet.now, "ab")
        assert (grants["a"].maxes["batch"] if "a" in grants else 1) == 1
        assert (grants["b"].maxes["batch"] if "b" in grants else 0) == 0, "a may still use both seats"
        fleet.now += 30


def test_the_seats_and_promises_of_a_level_are_where_its_parts_are() -> None:
    fleet = Fleet({"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0, 2, 2)}, seats=9)
    wanted = {"web": 9, "batch": 9}
    found = fleet.exchange(a=wanted, b=wanted, c=wanted)
    parts = {name: one["batch"] for name, one in found.items()}
    assert sorted(parts.values()) == [0, 1, 1]
    shares = fleet.allocator.shares.members
    assert {name: share.amount_of("batch") / SEAT for name, share in shares.items()} == pytest.approx(parts)
    assert {name: grant.levels["batch"].least for name, grant in fleet.grants.items() if parts[name]} == {
        name: part for name, part in parts.items() if part
    }
    without = next(name for name, part in parts.items() if not part)
    assert fleet.grants[without].levels["batch"].least == 0


def test_the_parts_of_siblings_fill_those_of_their_parent() -> None:
    """Otherwise both levels would have their parts at the same members, and the parent's other parts were idle."""
    claims = {
        "paid": SeatDemand(1, 0, 0, 2, "p"),
        "free": SeatDemand(1, 0, 0, 2, "p"),
        "web": SeatDemand(1, 0),
        "p": SeatDemand(1, 0, 4, 4),
    }
    fleet = Fleet(claims, seats=15)
    wanted = dict.fromkeys(("web", "paid", "free"), 9)
    usable = 0
    for _ in range(20):
        found = fleet.exchange(a=wanted, b=wanted, c=wanted, d=wanted, e=wanted).values()
        usable += sum(min(parts["p"], parts["paid"] + parts["free"]) for parts in found)
        fleet.now += 50
    assert usable / 20 >= 3, "while turns change, some parts don't meet"


def test_a_request_wider_than_the_max_needs_all_of_it() -> None:
    fleet = Fleet({"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0, 0, 3)})
    found = fleet.exchange(7, a={"batch": 14}, b={"batch": 14})
    first, second = sorted(found, key=lambda name: -found[name]["batch"])
    assert (found[first]["batch"], found[second]["batch"]) == (3, 0)
    batch, web = ({name: LevelUsage(0, 0, 7, FlowTable.of({1: 14}))} for name in ("batch", "web"))
    maxes = fleet.allocator._maxes
    assert maxes.usable(first, batch) == MemberDemand(3, 0, 7)
    assert maxes.usable(second, batch) == MemberDemand(0, 0, 0), "it needs no seats yet"
    assert maxes.usable(second, web) == MemberDemand(14, 0, 7)


def test_seats_are_kept_together_only_where_the_max_allows_the_request() -> None:
    """Two members wait for requests of the whole max; the seats that they need are saved up at one of them."""
    fleet = Fleet({"web": SeatDemand(1, 0), "batch": SeatDemand(1, 0, 0, 4)}, seats=6)
    found = fleet.exchange(4, a={"batch": 8}, b={"batch": 8})
    [first] = [name for name, parts in found.items() if parts["batch"] == 4]
    seats = {name: member.seats(fleet.now) for name, member in fleet.members.items()}
    assert seats[first] >= 4


def test_mins_within_a_parent_leave_its_part_to_a_request_of_the_whole_max() -> None:
    claims = {
        "paid": SeatDemand(5, 0, 1, None, "p"),
        "free": SeatDemand(1, 0, 1, None, "p"),
        "p": SeatDemand(1, 0, 0, 5),
    }
    fleet = Fleet(claims, seats=14)
    fleet.exchange(1, a={"paid": 1})
    assert fleet.grants["a"].levels["free"].least == 1, "both have room"
    fleet.now += 50
    assert fleet.exchange(5, a={"paid": 20})["a"]["p"] == 5
    assert fleet.grants["a"].levels["free"].least == 0


FAMILY = {"paid": SeatDemand(5, 0, 1, None, "p"), "free": SeatDemand(1, 0, 1, None, "p"), "p": SeatDemand(1, 0, 0, 5)}


def wants(demand: int, widest: int = 0, in_use: int = 0) -> LevelUsage:
    return LevelUsage(in_use, 0, widest, FlowTable.of({1: demand}))


@pytest.mark.parametrize(
    ("usages", "least", "left"),
    [
        ({"paid": wants(0)}, (0, 5), (0, 5)),
        ({"paid": wants(1, 1)}, (0, 4), (0, 4)),
        ({"paid": wants(1, 1)}, (0, 5), (0, 4)),
        ({"paid": wants(1, 0, in_use=1)}, (0, 5), (0, 4)),
        ({"paid": wants(9, 9)}, (0, 2), (0, 0)),
        ({"paid": wants(9, 3)}, (1, 4), (0, 1)),
        ({"paid": wants(2, 2), "free": wants(4, 4)}, (0, 2), (0, 1)),
        ({"paid": wants(9, 5)}, (5, 0), (5, 0)),
    ],
    ids=["nothing wanted", "fits", "no room", "in use", "too wide", "in proportion", "the widest", "promised itself"],
)
def test_promises_leave_a_parent_s_part_to_the_widest_request_beyond_them(
    usages: Mapping[str, LevelUsage], least: tuple[int, int], left: tuple[int, int]
) -> None:
    fleet = Fleet(FAMILY, seats=14)
    assert fleet.exchange(1, a={"paid": 1}) == {"a": {"p": 5}}
    promised = dict(zip(("paid", "free"), least, strict=True))
    fleet.allocator._maxes.leave_room("a", usages, promised)
    assert tuple(promised.values()) == left


def test_a_member_can_use_no_more_than_its_part_of_a_parent_s_max() -> None:
    fleet = Fleet(TENANTS)
    assert fleet.exchange(a={"paid": 9, "free": 9}) == {"a": {"p": 3, "free": 1}}
    usable = fleet.allocator._maxes.usable
    assert usable("a", {}) == MemberDemand()
    assert usable("a", {"paid": wants(2, 1)}) == MemberDemand(2, 0, 1)
    assert usable("a", {"paid": wants(9, 1), "free": wants(9, 1), "web": wants(9, 4)}) == MemberDemand(12, 0, 4)
    beyond = {"paid": wants(9, 0, in_use=3), "free": wants(9, 0, in_use=2)}
    assert usable("a", beyond) == MemberDemand(5, 5, 0), "what requests use that had begun before"


def test_a_reload_that_leaves_a_max_as_it_is_moves_no_part() -> None:
    fleet, wanted = Fleet(BATCH), {name: {"batch": 9} for name in "abc"}
    before = fleet.exchange(0, **wanted)
    while before["a"]["batch"]:  # until the turn of the others
        fleet.now += 50
        before = fleet.exchange(0, **wanted)
    fleet.budget = fleet.allocator.budget = Budget(12, {**BATCH, "new": SeatDemand(1, 0)})
    fleet.allocator._budgets.clear()
    assert fleet.exchange(0, **wanted) == before


def can_begin(fleet: Fleet, wanted: Mapping[str, Mapping[str, int]], widest: int) -> bool:
    """Return whether any member has the seats and the parts for a request that is as wide as the maxes allow."""
    claims = fleet.budget.claims
    for name, levels in wanted.items():
        member = fleet.members[name]
        for level in levels:
            maxes = [one for one in (level, claims[level].parent) if one in fleet.budget.maxes]
            needed = min([widest, *[fleet.budget.maxes[one] for one in maxes]])
            parts = [member.maxes(fleet.now)[one] for one in maxes]
            if min([member.seats(fleet.now), *parts]) >= needed:
                return True
    return False


@pytest.mark.parametrize("seed", seeds(20))
def test_turns_of_levels_and_their_parent_and_of_seats_meet_at_one_member(seed: int) -> None:
    """Otherwise one member waited with a part of a level's max, and another one with one of the parent's max."""
    dice = random.Random(seed + 100)
    most = dice.randint(2, 4)
    fleet = Fleet(
        {
            "paid": SeatDemand(dice.choice((1, 5)), 0, 0, dice.choice((None, most)), "p"),
            "free": SeatDemand(1, 0, 0, dice.choice((1, most)), "p"),
            "web": SeatDemand(dice.choice((1, 5)), 0, 0, dice.choice((None, 3))),
            "p": SeatDemand(2, 0, 0, most),
        },
        seats=dice.randint(4, 6),
    )
    wanted: dict[str, dict[str, int]] = {}
    for _ in range(5):
        for name in dice.sample("abc", dice.randint(1, 3)):
            wanted[name] = {level: dice.choice((1, 9)) * most for level in dice.sample(["paid", "free", "web"], 2)}
        for _ in range(20):
            fleet.now += 50
            fleet.exchange(most, **wanted)
        assert can_begin(fleet, wanted, most)


def test_the_scarce_maxes_and_the_parts_are_shown() -> None:
    fleet = Fleet(BATCH)
    fleet.exchange(a={"batch": 9})
    assert "LevelMax of 2 seats" in repr(fleet.allocator._maxes)
