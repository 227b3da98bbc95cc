"""Whatever keeps a promise of a fleet: if it is broken, the tests of that promise fail."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import Phase, given, settings

from tests.property import test_fleet_safety as safety
from tests.property.test_fleet_shares import Fleet, check_factors, check_shares, fleets
from tests.support.fleet_world import SECOND, FleetWorld
from tests.support.mutants import Mutant

ACCOUNTS: Final = "apf_middleware.fleet.member_account"
ALLOCATOR: Final = "apf_middleware.fleet.allocator"
DEBT: Final = "apf_middleware.fleet.debt"
LEVEL_MAX: Final = "apf_middleware.fleet.level_max"
MEMBERSHIP: Final = "apf_middleware.fleet.membership"
ROTATION: Final = "apf_middleware.fleet.rotation"
SHARES: Final = "apf_middleware.fleet.shares"

SEEDS: Final = (*range(12), 40, 52, 57)  # some defects show in few worlds


# Promises, as functions that raise AssertionError for a fleet that breaks them


def the_budget_holds() -> None:
    for seed in SEEDS:
        safety.test_the_budget_holds_through_everything(seed)


def the_budget_holds_while_allocators_change() -> None:
    for seed in SEEDS:
        safety.Takeover(seed, knows_members=bool(seed % 2))


def a_late_grant_doesn_t_last_longer() -> None:
    safety.test_a_grant_that_comes_late_doesn_t_last_longer()


def seats_are_fair_after_five_intervals() -> None:
    for seed in SEEDS:
        safety.test_seats_are_within_one_of_the_fair_ones_five_intervals_after_a_change(seed)


def members_are_served_in_turn() -> None:
    world = FleetWorld(2, seed=4)
    for flow in range(6):
        world.add(f"m{flow}", {flow: 5})
    world.run(SECOND)
    assert len(world.measure(3 * SECOND)) == 6


def shares_are_those_of_the_twin() -> None:
    _check_examples(check_shares)


def each_flow_gets_its_part() -> None:
    _check_examples(check_factors)


def _check_examples(check: Callable[[Fleet], None]) -> None:
    quick = settings(max_examples=300, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    quick(given(fleets())(check))()


Row = tuple[Callable[[], None], Mutant]

MUTANTS: Final[tuple[Row, ...]] = (
    (
        the_budget_holds,
        Mutant("a grant that may be in force isn't owed", DEBT, ", *[seats for _, seats in self._unconfirmed])", ")"),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant("the former limit isn't owed", DEBT, "max(self.floor, self._confirmed,", "max(self.floor,"),
    ),
    (
        the_budget_holds,
        Mutant("seats in use aren't owed", DEBT, "self._confirmed, self._in_use,", "self._confirmed,"),
    ),
    (
        the_budget_holds,
        Mutant("any report confirms all grants", DEBT, "self._unconfirmed[0][0] <= sequence", "True"),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant("an old report counts", ACCOUNTS, "if report.number <= self.report.number:", "if False:"),
    ),
    (
        a_late_grant_doesn_t_last_longer,
        Mutant("a lease begins with the grant", MEMBERSHIP, "grant.seats, sent_at + self", "grant.seats, now + self"),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant(
            "a lease never ends",
            MEMBERSHIP,
            "self.limit.seats if now < self.limit.lease_until",
            "self.limit.seats if True",
        ),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant("an old grant counts", MEMBERSHIP, "and grant.sequence <= known.sequence", "and False"),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant("a grant of another epoch counts", MEMBERSHIP, "if grant.epoch != self.epoch:", "if False:"),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant("a new allocator knows everything", ALLOCATOR, "if self.is_learning(now):", "if False:"),
    ),
    (
        the_budget_holds,
        Mutant("floors aren't set aside", ALLOCATOR, "return self.budget.floor * max(", "return 0 * max("),
    ),
    (
        the_budget_holds_while_allocators_change,
        Mutant(
            "the allocator's leases end first",
            ALLOCATOR,
            "lease_until = now + self._lease_ns + self._margin_ns",
            "lease_until = now + self._lease_ns // 2",
        ),
    ),
    (
        the_budget_holds,
        Mutant(
            "seats are granted before they are given back",
            ALLOCATOR,
            "free = self.budget.seats - self.debt",
            "free = self.budget.seats - sum(one.debt.seats for one in self.accounts.values())",
        ),
    ),
    (
        the_budget_holds,
        Mutant(
            "parts of maxes are granted before they are given back",
            LEVEL_MAX,
            "free = most - owed",
            "free = most - sum(debt.seats for debt in debts.values())",
        ),
    ),
    (
        the_budget_holds,
        Mutant(
            "a new allocator knows all parts of maxes",
            LEVEL_MAX,
            "min(free, self._reported - owed) if is_learning else free",
            "free",
        ),
    ),
    (
        the_budget_holds,
        Mutant(
            "members use nothing of a max that an allocator divides for the first time",
            ACCOUNTS,
            "Debt(*self._use_of(name))",
            "Debt(0, 0)",
        ),
    ),
    (
        the_budget_holds,
        Mutant(
            "requests beyond a part of a max aren't owed",
            ACCOUNTS,
            "(part, report.exceeded.get(name, 0))",
            "(part, 0)",
        ),
    ),
    (
        seats_are_fair_after_five_intervals,
        Mutant("an allocator learns for ever", ALLOCATOR, "return now < self._learns_until and", "return"),
    ),
    (
        seats_are_fair_after_five_intervals,
        Mutant("no seat is taken back", DEBT, "{name: min(target, debts[name].seats)", "{name: debts[name].seats"),
    ),
    (
        seats_are_fair_after_five_intervals,
        Mutant("a member stays with its allocator", MEMBERSHIP, "max(self.epoch, epoch)", "self.epoch or epoch"),
    ),
    (
        members_are_served_in_turn,
        Mutant("remaining seats stay where they are", ROTATION, "return turn.lag + share", "return share"),
    ),
    (
        shares_are_those_of_the_twin,
        Mutant(
            "weights don't count",
            SHARES,
            "claims = [(demand, weight) for demand, weight",
            "claims = [(demand, WEIGHT_ONE) for demand, _",
        ),
    ),
    (
        shares_are_those_of_the_twin,
        Mutant("mins don't count", SHARES, "least=claim.least * SEAT", "least=0"),
    ),
    (
        shares_are_those_of_the_twin,
        Mutant("seats that no level has are lost", SHARES, "    _spread(spare, shares, usages)\n", ""),
    ),
    (
        each_flow_gets_its_part,
        Mutant("a flow has its whole weight everywhere", SHARES, "if seats != demand:", "if False:"),
    ),
)


@pytest.mark.parametrize(("promise", "mutant"), MUTANTS, ids=[mutant.defect for _, mutant in MUTANTS])
def test_a_promise_notices_a_defect(promise: Callable[[], None], mutant: Mutant) -> None:
    with mutant.alive(), pytest.raises(AssertionError):
        promise()
