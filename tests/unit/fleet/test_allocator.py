"""The allocator grants only what is free, and what each member should have."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import pytest

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.membership import MemberConfiguration, Membership
from apf_middleware.fleet.messages import FlowTable, LevelUsage, Report
from apf_middleware.fleet.total import FleetTotal
from tests.support.instant_fleet import LEASE, MARGIN, TURN, InstantFleet


def test_a_single_member_gets_all_that_it_wants() -> None:
    fleet = InstantFleet()
    assert fleet.exchange(a=30) == {"a": 10}
    assert fleet.allocator.shares.is_contended


def test_a_decrease_is_granted_at_once_and_an_increase_when_it_is_confirmed() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    assert fleet.exchange(b=30) == {"a": 5, "b": 0}
    assert fleet.divide("b") == {"b": 0}, "a hasn't confirmed"
    fleet.report("a", 30, in_use=8)
    assert fleet.divide("b")["b"] == 2, "eight requests still run"
    fleet.report("a", 30, in_use=5)
    assert fleet.divide("b")["b"] == 5
    assert fleet.allocator.debt == 10


def test_without_contention_members_keep_their_seats() -> None:
    fleet = InstantFleet(20)
    fleet.exchange(a=3, b=3)
    fleet.exchange(a=3, b=3)
    before = fleet.seats()
    fleet.now += 10 * TURN
    for wanted in (1, 2, 3):
        assert fleet.exchange(a=wanted, b=3) == before
    assert not fleet.allocator.shares.is_contended


def test_a_member_that_needs_more_gets_it_from_the_seats_that_were_kept() -> None:
    fleet = InstantFleet(20)
    fleet.exchange(a=1, b=1)
    fleet.exchange(a=1, b=1)
    before = fleet.seats()
    assert sum(before.values()) < 20
    assert fleet.exchange(a=before["a"] + 1)["a"] > before["a"]


def test_a_silent_member_loses_its_seats_after_its_lease_and_the_margin() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    fleet.exchange(b=30)
    fleet.now = LEASE + MARGIN - 1
    assert fleet.exchange(b=30)["b"] == 0
    assert fleet.members["a"].seats(fleet.now) == 0, "its lease has ended before"
    fleet.now += 1
    assert fleet.exchange(b=30) == {"b": 10}


def test_grants_to_a_silent_member_don_t_extend_its_lease() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    for _ in range(30):
        fleet.now += LEASE // 10
        fleet.exchange(b=30)
        fleet.exchange(b=1)
    assert "a" not in fleet.allocator.accounts


def test_the_seats_of_a_member_that_leaves_are_free_at_once() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    fleet.exchange(b=30)
    fleet.allocator.leave(fleet.now, "a")
    fleet.allocator.leave(fleet.now, "unknown")
    assert fleet.exchange(b=30) == {"b": 10}


@pytest.mark.parametrize("expected", [None, ("a", "b"), ("a", "z")])
def test_a_new_allocator_grants_nothing_while_unknown_members_may_have_seats(expected: Collection[str] | None) -> None:
    fleet = InstantFleet(expected=expected)
    assert fleet.exchange(a=30) == {"a": 0}
    fleet.now = LEASE + MARGIN - 1
    assert fleet.exchange(a=30) == {"a": 0}
    assert fleet.allocator.is_learning(fleet.now)
    fleet.now += 1
    assert not fleet.allocator.is_learning(fleet.now)
    assert fleet.exchange(a=30) == {"a": 10}


def test_a_new_allocator_grants_as_soon_as_all_expected_members_have_reported() -> None:
    fleet = InstantFleet(expected=("a", "b", "c"))
    assert fleet.exchange(a=30, b=30) == {"a": 0, "b": 0}
    fleet.allocator.expect(("a", "b"))  # c has ended
    assert fleet.exchange(a=30, b=30) == {"a": 5, "b": 5}


def test_members_keep_what_an_earlier_allocator_has_granted() -> None:
    fleet = InstantFleet(expected=("a", "b"))
    member = fleet.members["a"] = Membership("a", lease_ns=LEASE)
    member.report(0, 0, {})
    member.join(0)
    earlier = InstantFleet()
    earlier.members["a"] = member
    member.join(1)
    earlier.exchange(a=6)
    assert member.seats(0) >= 6
    fleet.report("a", 30, in_use=member.seats(0))
    assert fleet.allocator.debt == member.seats(0)
    fleet.report("b", 30)
    fleet.divide("a", "b")
    assert fleet.allocator.debt <= 10


def test_floors_are_set_aside_for_members_that_are_not_known() -> None:
    fleet = InstantFleet(20, floor=2, most_members=4)
    assert fleet.allocator.debt == 8
    assert fleet.exchange(a=30) == {"a": 14}
    assert fleet.allocator.debt == 20
    fleet.report("b", 30, in_use=2)
    assert fleet.divide("b") == {"a": 8, "b": 2}


def test_no_grant_is_below_the_floor() -> None:
    fleet = InstantFleet(10, floor=2, most_members=3)
    for _ in range(10):
        fleet.exchange(a=30, b=0, c=0)
    assert fleet.seats() == {"a": 6, "b": 2, "c": 2}


def budget_of(seats: int, floor: int) -> MemberConfiguration:
    """Return a configuration of this many seats, in force since the beginning."""
    return MemberConfiguration(f"{seats}-{floor}", 0, Budget(seats, {"web": SeatDemand(1, 0)}, floor=floor))


def round_of(fleet: InstantFleet, configuration: MemberConfiguration, *names: str) -> None:
    """Let members with this configuration report that they want many seats, and send them grants."""
    for name in names:
        member = fleet.members.setdefault(name, Membership(name, lease_ns=LEASE, floor=5))
        member.join(1)
        flows = {"web": LevelUsage(0, 0, 0, FlowTable.of({sum(name.encode()): 99}))}
        fleet.allocator.receive(fleet.now, member.report(fleet.now, 0, flows, configuration))
    fleet.divide(*names)
    fleet.now += TURN


def test_floors_follow_a_configuration_with_fewer_seats() -> None:
    fleet = InstantFleet(40, floor=5, most_members=4)
    for _ in range(4):
        round_of(fleet, budget_of(40, 5), "a", "b", "c", "d")
    assert sum(fleet.seats().values()) == 40
    for _ in range(8):
        round_of(fleet, budget_of(8, 1), "a", "b", "c", "d")
    assert sum(fleet.seats().values()) == 8
    assert fleet.allocator.debt == 8
    fleet.now += 2 * LEASE
    assert set(fleet.seats().values()) == {1}, "without a lease"


def test_a_member_keeps_its_floor_as_long_as_it_has_an_older_configuration() -> None:
    fleet = InstantFleet(40, floor=5, most_members=2)
    for _ in range(4):
        round_of(fleet, budget_of(40, 5), "a", "b")
    for _ in range(8):
        fleet.now += 1
        round_of(fleet, replace(budget_of(8, 1), since=fleet.now), "a")
        round_of(fleet, budget_of(40, 5), "b")
    assert fleet.allocator.budget.seats == 8
    assert (fleet.allocator.accounts["a"].debt.floor, fleet.allocator.accounts["b"].debt.floor) == (1, 5)
    assert fleet.allocator.accounts["b"].debt.owed == 5, "it may use them when its lease has ended"


def test_a_member_that_begins_with_an_older_configuration_has_the_floor_of_that() -> None:
    fleet = InstantFleet(8, floor=1, most_members=2)
    for _ in range(8):
        fleet.now += 1
        round_of(fleet, replace(budget_of(8, 1), since=fleet.now), "a")
    round_of(fleet, budget_of(40, 5), "b")
    assert fleet.allocator.budget.seats == 8
    assert fleet.allocator.accounts["b"].debt.floor == 5
    assert fleet.allocator.accounts["b"].debt.owed >= 5


def test_seats_beyond_the_budget_are_measured() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    fleet.report("b", 4, in_use=4)  # requests that have outlived the lease of this member
    assert fleet.allocator.debt == 14
    fleet.now += 7
    fleet.report("b", 0, in_use=0)
    assert fleet.allocator.overshoot == 4 * 7
    fleet.now += 100
    fleet.divide()
    assert fleet.allocator.overshoot == 4 * 7


def test_the_parts_of_levels_promise_no_more_than_the_seats() -> None:
    fleet = InstantFleet(10)
    fleet.allocator.budget = Budget(10, {"web": SeatDemand(1, 0, 6), "b": SeatDemand(1, 0, 4)})
    fleet.report("a", 30)
    [grant] = fleet.allocator.divide(0, {"a"}).values()
    assert sum(part.least for part in grant.levels.values()) <= grant.seats
    assert grant.levels["web"].least >= 5
    assert grant.levels["web"].weight >= 5 * 1024
    assert grant.members == 1


def test_nothing_is_granted_while_requests_that_outlived_a_lease_exceed_the_budget() -> None:
    """Not even seats that they use: the member would begin other requests before the others have ended theirs."""
    fleet = InstantFleet()
    fleet.exchange(b=30)
    fleet.report("a", 30, in_use=10)  # it was silent for longer than its lease
    assert fleet.divide("a", "b") == {"a": 0, "b": 5}
    fleet.report("b", 30, in_use=9)
    fleet.report("a", 30, in_use=2)
    assert fleet.divide("a")["a"] == 0, "eleven requests run"
    fleet.report("b", 30, in_use=7)
    assert fleet.divide("a")["a"] == 3, "now one seat is free, and two are its own"


def test_a_smaller_budget_is_kept_by_decreases() -> None:
    fleet = InstantFleet(20)
    fleet.exchange(a=30, b=30)
    fleet.allocator.budget = Budget(9, {"web": SeatDemand(1, 0)})
    granted = fleet.divide()
    assert sum(granted.values()) == 9
    assert fleet.allocator.debt == 20
    fleet.exchange(a=30, b=30)
    assert sum(fleet.seats().values()) == fleet.allocator.debt == 9


def test_reports_to_another_epoch_are_ignored() -> None:
    """Their member still obeys another allocator, which may raise its limit."""
    fleet = InstantFleet(expected=("a",))
    fleet.allocator.receive(0, Report("a", 1, 0, 0, 3, 3))
    fleet.allocator.receive(0, Report("b", 1, 2, 0, 0, 0))
    assert not fleet.allocator.accounts
    assert fleet.allocator.is_learning(0)


def test_while_it_learns_an_allocator_moves_only_seats_that_members_have_reported() -> None:
    """Of 10 seats, a had 6 by an earlier allocator, and a member that hasn't reported yet may have the other 4."""
    fleet = InstantFleet(expected=None)
    fleet.allocator.receive(0, Report("a", 1, 1, 0, 6, 2))
    fleet.report("b", 30)
    assert {name: grant.seats for name, grant in fleet.allocator.divide(0, ()).items()} == {"a": 0}
    fleet.allocator.receive(0, Report("a", 2, 1, 1, 0, 2))
    assert fleet.divide("b") == {"b": 4}, "two requests of a run"
    fleet.allocator.receive(0, Report("a", 3, 1, 1, 0, 0))
    assert fleet.divide("b") == {"b": 6}
    fleet.allocator.leave(0, "a")
    assert fleet.divide("b") == {"b": 6}
    fleet.report("c", 30)
    assert fleet.divide("c") == {"b": 5, "c": 0}
    fleet.now = LEASE + MARGIN
    assert fleet.exchange(c=30) == {"c": 10}, "the lease of b has ended"


def test_promises_shrink_with_the_seats_that_a_member_gets() -> None:
    """Two levels with mins of 4 seats: a member with one seat can't promise it to one of them."""
    fleet = InstantFleet(8)
    fleet.allocator.budget = Budget(8, {"one": SeatDemand(1, 0, 4), "two": SeatDemand(1, 0, 4)})
    flows = {name: LevelUsage(0, 0, 0, FlowTable.of({1: 30})) for name in ("one", "two")}
    for name in ("a", "b"):
        seats = 4 if name == "a" else 0
        fleet.allocator.receive(0, Report(name, 1, 1, 0, seats, seats, levels=flows))
    fleet.allocator.receive(0, Report("c", 1, 1, 0, 4, 4))
    grants = fleet.allocator.divide(0, ("a", "b"))
    assert {name: (grant.seats, *(part.least for part in grant.levels.values())) for name, grant in grants.items()} == {
        "a": (4, 2, 2),
        "b": (0, 0, 0),
        "c": (0,),
    }
    fleet.allocator.receive(0, Report("c", 2, 1, 1, 0, 3))
    grants = fleet.allocator.divide(0, ("b",))
    assert [grants["b"].seats, *(part.least for part in grants["b"].levels.values())] == [1, 0, 0]


@pytest.mark.parametrize(("seats", "widest", "promised"), [(8, 1, 4), (8, 6, 2), (8, 8, 0), (1, 1, 0)])
def test_an_idle_min_leaves_seats_for_the_levels_that_need_them(seats: int, widest: int, promised: int) -> None:
    fleet = InstantFleet(seats)
    least = (seats + 1) // 2
    fleet.allocator.budget = Budget(seats, {"web": SeatDemand(1, 0), "idle": SeatDemand(1, 0, least)})
    flows = FlowTable.of({1: 30})
    levels = {"web": LevelUsage(0, 0, widest, flows), "idle": LevelUsage()}
    fleet.allocator.receive(0, Report("a", 1, 1, 0, 0, 0, levels=levels))
    [grant] = fleet.allocator.divide(0, {"a"}).values()
    assert (grant.seats, grant.levels["idle"].least) == (seats, promised)


def test_promises_that_are_reduced_for_one_level_leave_enough_seats_for_the_others() -> None:
    fleet = InstantFleet(35)
    fleet.allocator.budget = Budget(35, {"wide": SeatDemand(1, 0, 16), "web": SeatDemand(1, 0, 17)})
    widths = {"wide": 16, "web": 6}
    levels = {"wide": LevelUsage(0, 0, 16, FlowTable.of({1: 160})), "web": LevelUsage(0, 0, 6, FlowTable.of({2: 40}))}
    fleet.allocator.receive(0, Report("a", 1, 1, 0, 0, 0, levels=levels))
    others = {"web": LevelUsage(15, 0, 3, FlowTable.of({3: 40, 4: 40}))}
    fleet.allocator.receive(0, Report("b", 1, 1, 0, 15, 15, levels=others))
    grant = fleet.allocator.divide(0, {"a", "b"})["a"]
    free = grant.seats - sum(part.least for part in grant.levels.values())
    assert grant.seats == 20
    assert all(width <= grant.levels[name].least + free for name, width in widths.items())


def test_without_contention_seats_are_divided_anew_from_time_to_time() -> None:
    fleet = InstantFleet(20)
    fleet.exchange(a=8, b=1)
    fleet.exchange(a=8, b=1)
    before = fleet.seats()
    fleet.exchange(a=1, b=1)
    fleet.now += 19 * TURN
    assert fleet.exchange(a=1, b=1) == before
    fleet.now += TURN
    fleet.exchange(a=1, b=1)
    assert fleet.seats()["a"] < before["a"]


def test_a_member_that_was_answered_a_short_time_ago_gets_no_answer_that_changes_nothing() -> None:
    fleet = InstantFleet()
    fleet.report("a", 30)
    assert fleet.allocator.divide(0, {"a"})["a"].seats == 10
    fleet.allocator.receive(0, Report("a", 2, 1, 1, 10, 10))
    assert not fleet.allocator.divide(TURN // 2 - 1, {"a"})
    assert fleet.allocator.divide(TURN // 2, {"a"})["a"].seats == 10
    fleet.report("b", 30)
    assert set(fleet.allocator.divide(TURN // 2, {"b"})) == {"a", "b"}, "the first answer, and a decrease"


def test_seats_that_a_member_has_given_back_are_free_at_once() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=30)
    fleet.report("b", 5)
    fleet.divide()
    fleet.report("a", 30)
    fleet.divide()
    assert fleet.seats() == {"a": 5, "b": 5}
    assert fleet.members["b"].lower(0, 1)
    fleet.report("b", 1)
    fleet.report("a", 30)
    assert fleet.divide() == {"a": 9}
    assert fleet.exchange(b=1) == {"b": 1}
    assert fleet.allocator.debt == 10


def test_the_next_free_seats_go_to_the_member_with_the_smallest_part_of_its_target() -> None:
    fleet = InstantFleet(12)
    fleet.exchange(a=30)
    fleet.report("b", 30)
    fleet.report("c", 30)
    fleet.divide()
    fleet.report("a", 30, in_use=9)
    fleet.divide()
    assert fleet.seats() == {"a": 4, "b": 3, "c": 0}
    fleet.report("a", 30, in_use=8)
    fleet.divide()
    assert fleet.seats() == {"a": 4, "b": 3, "c": 1}


def test_a_late_report_doesn_t_extend_the_lease_of_a_silent_member() -> None:
    fleet = InstantFleet()
    fleet.report("a", 3)
    late = fleet.members["a"].report(0, 0, {})
    fleet.report("a", 3)
    fleet.now = LEASE
    fleet.allocator.receive(fleet.now, late)
    fleet.now = LEASE + MARGIN
    fleet.divide()
    assert not fleet.allocator.accounts


def test_a_member_that_has_left_is_not_waited_for() -> None:
    fleet = InstantFleet(expected=("a", "b"))
    fleet.report("a", 30)
    fleet.allocator.leave(0, "b")
    assert not fleet.allocator.is_learning(0)
    assert fleet.divide("a") == {"a": 10}


def test_a_member_that_waits_for_seats_is_promised_none_of_them() -> None:
    fleet = InstantFleet(10)
    fleet.allocator.budget = Budget(10, {"web": SeatDemand(1, 0, 8)})
    fleet.exchange(a=30)
    fleet.report("b", 30)
    grant = fleet.allocator.divide(0, {"b"})["b"]
    assert (grant.seats, grant.levels["web"].least) == (0, 0)
    assert grant.levels["web"].weight == 5 * 1024


def test_a_wide_request_gets_its_seats_after_a_turn() -> None:
    fleet = InstantFleet(8)
    fleet.exchange(a=30, b=30)
    for _ in range(4):
        fleet.report("a", 30)
        flows = FlowTable.of({7: 30})
        fleet.allocator.receive(fleet.now, fleet.members["b"].report(fleet.now, 0, {"web": LevelUsage(0, 0, 6, flows)}))
        fleet.divide("a", "b")
        fleet.now += TURN
    assert fleet.seats()["b"] == 6


def test_a_wide_request_gets_all_seats_but_the_floors_of_the_others() -> None:
    fleet = InstantFleet(12, floor=2, most_members=3)
    fleet.exchange(a=30, b=30)
    for _ in range(4):
        fleet.report("a", 30)
        member = fleet.members["b"]
        levels = {"web": LevelUsage(0, 0, 10, FlowTable.of({7: 30}))}
        fleet.allocator.receive(fleet.now, member.report(fleet.now, 0, levels))
        fleet.divide("a", "b")
        fleet.now += TURN
    assert fleet.seats() == {"a": 2, "b": 8}
    assert fleet.members["b"].limit.most == 8
    assert fleet.allocator.debt == 12


def configured(
    fleet: InstantFleet, member: str, name: str, age: int, seats: int | None = None, *, number: int = 1
) -> None:
    """Let a member report that it has had the configuration ``name`` for this time."""
    budget = None if seats is None else Budget(seats, {"web": SeatDemand(1, 0)})
    flows = {"web": LevelUsage(0, 0, 0, FlowTable.of({1: 99}))}
    fleet.allocator.receive(fleet.now, Report(member, number, 1, 0, 0, 0, name, flows, age, budget))


def test_the_newest_configuration_divides_the_seats() -> None:
    """The one that no member has had for long; that another member has had it for longer makes it older."""
    fleet = InstantFleet(7)
    fleet.now = 10_000
    configured(fleet, "a", "old", 9_000, 10)
    assert fleet.allocator.divide(fleet.now, {"a"})["a"].configuration == "old"
    assert fleet.allocator.budget.seats == 10
    configured(fleet, "b", "new", 50, 20)
    fleet.now += 10
    configured(fleet, "c", "old", 5)  # has been restarted with the old files
    grants = fleet.allocator.divide(fleet.now, {"a", "b", "c"})
    assert {grant.configuration for grant in grants.values()} == {"new"}
    assert fleet.allocator.budget.seats == 20


def test_a_member_that_reloads_brings_the_newest_configuration() -> None:
    """However long it has run, also if the files are those of an earlier time again."""
    fleet = InstantFleet(7)
    fleet.now = 10_000
    for member, age in (("a", 9_000), ("b", 3_000)):
        configured(fleet, member, "old", age, 10)
    for number, (name, seats) in enumerate((("new", 20), ("old", 10), ("new", 20)), 2):
        for member in "ab":
            fleet.now += 100
            configured(fleet, member, name, 5, seats, number=number)
            fleet.allocator.divide(fleet.now, ())
            assert (fleet.allocator.configuration, fleet.allocator.budget.seats) == (name, seats)


def test_a_configuration_is_used_as_soon_as_its_budget_is_known() -> None:
    fleet = InstantFleet(7)
    fleet.now = 10_000
    configured(fleet, "a", "old", 9_000, 10)
    configured(fleet, "b", "new", 50)
    assert fleet.allocator.divide(fleet.now, {"a"})["a"].configuration == "old"
    configured(fleet, "b", "new", 60, 20, number=2)
    assert fleet.allocator.divide(fleet.now, {"b"})["b"].configuration == "new"


def test_a_configuration_that_no_member_has_any_more_is_forgotten() -> None:
    fleet = InstantFleet(7)
    fleet.now = 10_000
    configured(fleet, "a", "old", 9_000, 10)
    configured(fleet, "b", "new", 50, 20)
    fleet.allocator.divide(fleet.now, ())
    fleet.allocator.leave(fleet.now, "b")
    fleet.allocator.divide(fleet.now, ())
    assert (fleet.allocator.configuration, fleet.allocator.budget.seats) == ("old", 10)


def test_what_one_member_tells_reaches_the_others_and_newcomers() -> None:
    fleet = InstantFleet()
    for name in ("a", "b"):
        fleet.exchange(**{name: 1})
    fleet.members["a"].board.post("a", "queue:x", "closed")
    fleet.report("a", 1)
    grants = fleet.allocator.divide(fleet.now + TURN, ())
    assert set(grants) == {"b"}, "the other one knows it"
    assert grants["b"].notices.keys() == {"queue:x"}
    fleet.members["b"].receive(fleet.now, grants["b"])
    fleet.members["b"].board.merge(grants["b"].notices)
    fleet.report("b", 1)
    assert not fleet.allocator.divide(fleet.now + 2 * TURN, ())
    fleet.report("c", 1)
    assert fleet.allocator.divide(fleet.now + 2 * TURN, ())["c"].notices.keys() == {"queue:x"}


def test_a_new_allocator_learns_what_members_have_told() -> None:
    first, second = InstantFleet(), InstantFleet()
    first.exchange(a=1)
    member = first.members["a"]
    member.board.post("a", "queue:x", "closed")
    second.members["a"] = member
    second.report("a", 1)
    second.divide("a")
    second.report("a", 1)
    assert second.allocator.board.digest == member.board.digest


class FixedTotal(FleetTotal):
    """A total that stays as it is."""

    def decide(self, now: int, budget: Budget, reports: Iterable[Report]) -> int:  # noqa: ARG002
        return self.seats


class AdaptiveFleet(InstantFleet):
    """A fleet whose total of seats is what the test says."""

    def __init__(self, seats: int = 10) -> None:
        super().__init__(seats)
        self.bounds = SeatRange(2, 40)
        self.allocator.budget = Budget(seats, {"web": SeatDemand(1, 0)}, bounds=self.bounds)
        self.allocator.total = FixedTotal(self.bounds, seats, 0)

    @property
    def total(self) -> FleetTotal:
        assert self.allocator.total is not None
        return self.allocator.total

    def become(self, seats: int) -> None:
        self.total.controller.limit = seats


def test_a_larger_total_is_divided_at_once() -> None:
    fleet = AdaptiveFleet()
    fleet.exchange(a=50, b=50)
    fleet.exchange(a=50, b=50)
    assert fleet.seats() == {"a": 5, "b": 5}
    fleet.become(20)
    fleet.exchange(a=50, b=50)
    assert fleet.seats() == {"a": 10, "b": 10}
    grant = fleet.members["a"].grant
    assert grant is not None
    assert (grant.total, grant.claimed, grant.reason) == (20, 10, "start")


def test_a_smaller_total_is_kept_as_requests_end_and_is_no_overshoot() -> None:
    fleet = AdaptiveFleet()
    fleet.exchange(a=50, b=50)
    fleet.exchange(a=50, b=50)
    fleet.become(4)
    fleet.exchange(a=50, b=50)
    assert fleet.seats() == {"a": 2, "b": 2}
    for used in (5, 3, 2):
        fleet.now += 10
        for name in ("a", "b"):
            fleet.report(name, 50, in_use=used)
        assert sum(fleet.divide("a", "b").values()) == 4
        assert fleet.allocator.debt == 2 * used
    assert fleet.allocator.overshoot == 0
    fleet.now += 10
    fleet.report("a", 50, in_use=5)
    fleet.now += 10
    fleet.divide()
    assert fleet.allocator.overshoot == 3 * 10, "these were not granted"


def test_the_claims_of_levels_are_those_of_the_total_as_soon_as_a_member_tells_them() -> None:
    fleet = AdaptiveFleet()
    fleet.exchange(a=50)
    fleet.become(20)
    claims = {"web": SeatDemand(7, 0)}
    member = MemberConfiguration("c", 0, Budget(20, claims, bounds=fleet.bounds))
    fleet.now += TURN
    fleet.allocator.receive(fleet.now, fleet.members["a"].report(fleet.now, 0, {}, member))
    [grant] = fleet.allocator.divide(fleet.now, ["a"]).values()
    assert (grant.total, grant.claimed) == (20, 20)
    assert fleet.allocator.budget.claims == claims


def test_another_configuration_moves_the_total_into_its_bounds() -> None:
    fleet = AdaptiveFleet()
    fleet.exchange(a=50)
    for bounds, seats in ((SeatRange(2, 6), 6), (SeatRange(8, 60), 8), (None, 30)):
        fleet.now += 1
        member = MemberConfiguration(str(bounds), fleet.now, Budget(30, {"web": SeatDemand(1, 0)}, bounds=bounds))
        fleet.allocator.receive(fleet.now, fleet.members["a"].report(fleet.now, 0, {}, member))
        fleet.divide("a")
        assert fleet.allocator.budget.seats == seats
    assert fleet.allocator.total is None


def test_a_member_that_asks_learns_of_all_members_and_levels() -> None:
    fleet = InstantFleet()
    fleet.exchange(a=3, b=4)
    flows = FlowTable.of({7: 5})
    report = fleet.members["a"].report(fleet.now, 3, {"web": LevelUsage(3, 20, 0, flows)}, asks=True)
    fleet.now += TURN
    fleet.allocator.receive(fleet.now, report)
    grants = fleet.allocator.divide(fleet.now, ["a", "b"])

    assert [row.member for row in grants["a"].rows] == ["a", "b"]
    web = grants["a"].sums["web"]
    assert (web.demand, web.arrivals, dict(zip(web.flows.flows, web.flows.seats, strict=True))[7]) == (9, 20, 5)
    assert (grants["b"].rows, grants["b"].sums) == ((), {})
