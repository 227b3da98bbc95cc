"""The total of a fleet follows what its members report."""

import pytest

from apf_middleware.adaptive import LimitReason, RequestOutcome
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.messages import FlowTable, LevelUsage, Report
from apf_middleware.fleet.samples import DurationSamples
from apf_middleware.fleet.total import FleetTotal

MS = 1_000_000
BOUNDS = SeatRange(4, 100)
CLAIMS = {"web": SeatDemand(3, 0, 2), "batch": SeatDemand(1, 0, 4, None, "all"), "all": SeatDemand(1, 0, 9)}


class ManyMembers:
    """Ten members of a fleet, in front of a backend that serves ``capacity`` requests at once at full speed."""

    def __init__(self, capacity: int, seats: int = 10) -> None:
        self.now = 0
        self.capacity = capacity
        self.total = FleetTotal(BOUNDS, seats, 0)
        self.budget = Budget(seats, CLAIMS, bounds=BOUNDS)
        self.answered = 0.0

    def run(self, seconds: float, *, wanted: int = 1000) -> list[int]:
        """Let each member report every 50 ms, and return the totals."""
        totals = []
        end = self.now + int(seconds * 1000) * MS
        while self.now < end:
            self.now += 50 * MS
            in_use = min(self.total.seats, wanted)
            duration = 20 * MS * max(self.capacity, in_use) // self.capacity
            self.answered += 50 * MS * in_use / duration
            number, self.answered = int(self.answered), self.answered % 1
            for member in range(10):
                mine = number // 10 + (member < number % 10)
                ages = tuple(50 * MS * step // max(1, mine) for step in range(mine))
                self.total.observe(self.now, DurationSamples(0, (5,) * mine, (duration,) * mine, ages, (0,) * mine))
            totals.append(self.total.decide(self.now, self.budget, [self.report(in_use, wanted)]))
        return totals

    @staticmethod
    def report(in_use: int, wanted: int) -> Report:
        usage = LevelUsage(in_use, 0, 0, FlowTable.of({7: wanted}))
        return Report("m", 1, 1, 1, in_use, in_use, levels={"web": usage})


@pytest.mark.parametrize("seats", [4, 10, 100])
def test_it_finds_the_capacity_of_the_backend(seats: int) -> None:
    fleet = ManyMembers(40, seats)
    fleet.run(20)
    late = fleet.run(10)
    assert 36 <= sum(late) / len(late) <= 48
    assert fleet.total.decisions.keys() & {"grew", "shrank"}


def test_it_follows_a_capacity_that_changes() -> None:
    fleet = ManyMembers(40)
    fleet.run(20)
    fleet.capacity = 20
    fleet.run(10)
    late = fleet.run(5)
    assert 17 <= sum(late) / len(late) <= 26


def test_seats_that_nobody_waits_for_are_not_made_more() -> None:
    fleet = ManyMembers(40)
    assert max(fleet.run(20, wanted=3)) <= 10
    assert fleet.total.controller.reason is LimitReason.UNUSED


def test_rejections_for_lack_of_seats_count_as_requests_that_wait() -> None:
    """At a level without queues nobody waits."""
    totals = {}
    for rejected in (0, 1):
        fleet = ManyMembers(40)
        for _ in range(200):
            fleet.total.observe(fleet.now, DurationSamples(rejected))
            in_use = fleet.total.seats
            fleet.run(0.05, wanted=in_use)
        totals[rejected] = fleet.total.seats
    assert totals[0] <= 10 < totals[1]


def test_mins_that_are_not_used_do_not_count_as_free_seats() -> None:
    """Six seats of nine are in use, and no other could be: three are promised to a level without requests."""
    fleet = FleetTotal(SeatRange(2, 100), 9, 0)
    budget = Budget(9, {"web": SeatDemand(1, 0, 2), "batch": SeatDemand(1, 0, 3)})
    fleet.decide(0, budget, [ManyMembers.report(6, 50)])
    fleet.decide(MS, budget, [ManyMembers.report(6, 50)])
    seen = fleet.controller.window.summary(MS)
    assert (seen.in_use, seen.usable) == (9, 6 / 9)


def test_outcomes_are_those_that_members_have_noted() -> None:
    fleet = FleetTotal(SeatRange(2, 100), 50, 0)
    budget = Budget(50, {"web": SeatDemand(1, 0)})
    number = [*RequestOutcome].index(RequestOutcome.REFUSED)
    now = 0
    for _ in range(100):
        now += 50 * MS
        fleet.observe(now, DurationSamples(0, (1, 2), (MS, MS), (0, 0), (number, 0)))
        fleet.decide(now, budget, [ManyMembers.report(50, 80)])
    assert fleet.controller.reason is LimitReason.REFUSED
    assert fleet.seats < 30


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_wrong_bounds_are_refused(least: int, most: int) -> None:
    with pytest.raises(InvalidValueError, match="it must be at least"):
        SeatRange(least, most)
