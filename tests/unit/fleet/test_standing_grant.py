"""Standing grants: who is next for a seat, who may give one back, and that the debts include them."""

from dataclasses import replace

import pytest

from apf_middleware.fleet.messages import FlowTable, Grant, LevelUsage, Report
from apf_middleware.fleet.standing_grant import Holding, StandingGrant
from tests.support.instant_fleet import TURN, InstantFleet


def stand(fleet: InstantFleet, *asking: str) -> StandingGrant | None:
    """Send grants, and keep the standing one."""
    fleet.now += TURN
    fleet.divide(*asking)
    fleet.allocator.standing = fleet.allocator.stand(fleet.now)
    return fleet.allocator.standing


def settle(fleet: InstantFleet, **wanted: int) -> StandingGrant | None:
    """Return the standing grant when all members have what they get."""
    for _ in range(3):
        for name, one in wanted.items():
            fleet.report(name, one)
        stand(fleet, *wanted)
    return fleet.allocator.standing


def give_back(fleet: InstantFleet, name: str) -> Report:
    fleet.members[name].lower(fleet.now, 0)
    return fleet.report(name, 0)


def test_the_member_that_wants_more_is_next() -> None:
    fleet = InstantFleet()
    standing = settle(fleet, a=30, b=1)
    assert standing is not None
    assert (standing.member, standing.grant.seats) == ("a", 10)
    assert standing.givers == {"b": Holding.under(fleet.allocator.accounts["b"].sequence, "", 0)}


def test_a_passed_seat_belongs_to_the_next_member() -> None:
    fleet = InstantFleet()
    standing = settle(fleet, a=30, b=1)
    assert standing is not None
    assert fleet.allocator.debt == 10
    assert standing.is_due(give_back(fleet, "b"))
    assert fleet.allocator.debt == 9
    fleet.allocator.take(fleet.now)
    assert fleet.allocator.debt == 10
    assert fleet.allocator.accounts["a"].sequence == standing.grant.sequence
    assert fleet.members["a"].receive(fleet.now, standing.grant)
    assert fleet.members["a"].seats(fleet.now) == 10
    fleet.allocator.take(fleet.now)
    assert fleet.allocator.debt == 10, "it comes into force once"
    fleet.report("a", 30)
    fleet.report("b", 1)
    stand(fleet, "a", "b")
    assert fleet.members["a"].seats(fleet.now) == 9, "the next grant isn't taken for an earlier one"
    assert fleet.allocator.overshoot == 0


def test_a_member_that_waits_for_its_share_is_next_to_others() -> None:
    fleet = InstantFleet()
    settle(fleet, a=30, c=30)
    fleet.report("b", 1)
    standing = stand(fleet, "b")
    assert standing is not None
    assert (standing.member, standing.grant.seats) == ("b", 1)
    assert standing.givers.keys() == {"a", "c"}
    lowered = next(name for name in ("a", "c") if fleet.members[name].seats(fleet.now) == 4)
    assert not standing.is_due(fleet.report(lowered, 30, in_use=5)), "its five requests still run"
    assert standing.is_due(fleet.report(lowered, 30, in_use=4))


def test_a_report_by_another_grant_or_configuration_passes_nothing_on() -> None:
    standing = StandingGrant("a", Grant(1, 2, 1, 5), {"b": Holding("3/new", 2)})
    assert standing.is_due(Report("b", 9, 1, 3, 2, 1, "new"))
    assert not standing.is_due(Report("b", 9, 1, 2, 2, 1, "new"))
    assert not standing.is_due(Report("b", 9, 1, 3, 2, 1, "old"))
    assert not standing.is_due(Report("b", 9, 1, 3, 2, 3, "new"))
    assert not standing.is_due(Report("b", 9, 1, 3, 3, 0, "new"))
    assert not standing.is_due(Report("c", 9, 1, 3, 0, 0, "new"))


def test_nobody_is_next_while_all_have_what_they_want() -> None:
    assert settle(InstantFleet(), a=3, b=1) is None


def test_nobody_is_next_where_a_seat_alone_is_no_use() -> None:
    """The max of a level is divided, too, or a request needs several seats."""
    assert settle(InstantFleet(most=9), a=30, b=1) is None
    fleet = InstantFleet()
    settle(fleet, a=30, b=1)
    fleet.report("a", 30, widest=4)
    assert stand(fleet, "a") is None


@pytest.mark.parametrize("unknown", ["", "c"])
def test_nobody_is_next_while_members_may_have_grants_that_the_allocator_doesn_t_know(unknown: str) -> None:
    """Requests that have outlived a lease may use seats that an unknown member has, too."""
    fleet = InstantFleet(expected=("a", "b", *unknown))
    for name, wanted, used in (("a", 30, 8), ("b", 1, 2)):
        usage = LevelUsage(used, 0, 1, FlowTable.of({sum(name.encode()): wanted}))
        fleet.allocator.receive(0, Report(name, 1, 1, 0, used, used, levels={"web": usage}))
    fleet.allocator.divide(0, ())
    standing = fleet.allocator.stand(0)
    assert (standing is None) == bool(unknown)


def test_nobody_is_next_while_more_is_used_than_there_is() -> None:
    fleet = InstantFleet()
    assert settle(fleet, a=30, b=1) is not None
    fleet.allocator.budget = replace(fleet.allocator.budget, seats=8)
    assert stand(fleet, "a") is None
    fleet.report("a", 30, in_use=6)
    assert settle(fleet, a=30, b=1) is not None


def test_nobody_is_next_in_a_large_fleet() -> None:
    names = [f"m{number}" for number in range(65)]
    assert settle(InstantFleet(130), **dict.fromkeys(names[:64], 9)) is not None
    assert settle(InstantFleet(130), **dict.fromkeys(names, 9)) is None


def test_a_floor_is_not_given_back() -> None:
    fleet = InstantFleet(floor=1)
    standing = settle(fleet, a=30, b=1, c=2)
    assert standing is not None
    assert standing.member == "a"
    assert {name: holding.seats for name, holding in standing.givers.items()} == {"c": 1}


def test_a_standing_grant_for_a_member_that_has_gone_counts_for_nobody() -> None:
    fleet = InstantFleet()
    assert settle(fleet, a=30, b=1) is not None
    fleet.allocator.leave(fleet.now, "a")
    fleet.allocator.take(fleet.now)
    assert fleet.allocator.debt == 1


@pytest.mark.parametrize("seats_of_a", [30, 0])
def test_refused_grants_count_for_nobody_and_are_sent_again(seats_of_a: int) -> None:
    fleet = InstantFleet()
    standing = settle(fleet, a=30, b=1)
    assert standing is not None
    fleet.report("a", seats_of_a)
    fleet.report("c", 3)
    refused = fleet.allocator.divide(fleet.now, ("a", "c"))
    before = {name: grant.seats for name, grant in refused.items()}
    fleet.allocator.retract(fleet.now, refused.keys())
    accounts = fleet.allocator.accounts
    assert {name: one.debt.seats for name, one in accounts.items()} == {"a": 9, "b": 1, "c": 0}
    assert fleet.allocator.debt == 10
    give_back(fleet, "b")
    fleet.allocator.take(fleet.now)
    assert {name: one.debt.seats for name, one in accounts.items()} == {"a": 10, "b": 0, "c": 0}
    again = fleet.allocator.divide(fleet.now, refused.keys())
    assert again.keys() >= before.keys()
    assert again["a"].sequence > max(standing.grant.sequence, refused["a"].sequence)


def test_a_max_that_a_refused_division_has_opened_counts_for_the_heir() -> None:
    """The standing grant says nothing about it, so the heir may use all its seats for the level."""
    fleet = InstantFleet(8, most=9)
    standing = settle(fleet, a=30, b=1)
    assert standing is not None
    fleet.allocator.budget = replace(fleet.allocator.budget, seats=12)
    refused = fleet.allocator.divide(fleet.now, ("a", "b"))
    assert refused["a"].maxes
    fleet.allocator.retract(fleet.now, refused.keys())
    give_back(fleet, "b")
    fleet.allocator.take(fleet.now)
    account = fleet.allocator.accounts["a"]
    assert account.debt.seats == account.maxes["web"].owed == 8


def test_a_standing_grant_for_a_member_whose_lease_has_just_ended_counts_for_nobody() -> None:
    fleet = InstantFleet()
    assert settle(fleet, a=30, b=1) is not None
    fleet.allocator.take(fleet.allocator.accounts["a"].lease_until)
    assert (fleet.allocator.accounts, fleet.allocator.debt) == ({}, 0)
