"""When the allocator of a simulated fleet divides."""

from typing import TYPE_CHECKING

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.messages import LevelUsage, Report
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.simulation.fleet.allocation import SimulatedAllocation

if TYPE_CHECKING:
    from apf_middleware.fleet.messages import Grant

MS = 10**6


class Round:
    """An allocator of ten seats, and the grants that it sends."""

    def __init__(self) -> None:
        self.events = EventQueue()
        self.sent: list[tuple[int, str, Grant]] = []
        allocator = Allocator(
            Budget(10, {"all": SeatDemand(1, 0)}),
            epoch=1,
            now=0,
            lease_ns=1000 * MS,
            margin_ns=50 * MS,
            turn_ns=100 * MS,
            expected=["a", "b"],
        )
        self.live = ["a", "b"]
        self.allocation = SimulatedAllocation(
            allocator,
            self.events,
            division_ns=5 * MS,
            interval_ns=250 * MS,
            send=lambda name, grant: self.sent.append((self.events.now, name, grant)),
            live_members=lambda: self.live,
        )

    def report(self, name: str, number: int, epoch: int = 1) -> None:
        demand = {"all": LevelUsage(rest_flows=1, rest_seats=10)}
        self.allocation.receive(Report(name, number, epoch, 0, 0, 0, "", demand))


def test_reports_that_arrive_together_are_taken_together() -> None:
    played = Round()
    played.events.at(MS, lambda _: played.report("a", 1), None)
    played.events.at(2 * MS, lambda _: played.report("b", 1), None)
    played.events.run(100 * MS)

    assert [(at // MS, name) for at, name, _ in played.sent] == [(6, "a"), (6, "b")]
    assert sum(grant.seats for _, _, grant in played.sent) == 10
    assert played.allocation.divisions == 1


def test_it_divides_at_each_interval() -> None:
    played = Round()
    played.events.run(1001 * MS)

    assert played.allocation.divisions == 4


def test_it_learns_who_is_alive() -> None:
    played = Round()
    played.report("a", 1)
    played.events.run(10 * MS)
    assert sum(grant.seats for _, _, grant in played.sent) == 0, "b may have seats of an earlier epoch"
    played.live.remove("b")
    played.events.run(300 * MS)

    assert played.sent[-1][1:] == ("a", played.sent[-1][2])
    assert played.sent[-1][2].seats == 10


def test_a_member_that_has_ended_is_forgotten_and_other_epochs_are_ignored() -> None:
    played = Round()
    played.report("a", 1)
    played.report("b", 1)
    played.report("c", 1, epoch=2)
    played.events.run(10 * MS)
    assert set(played.allocation.allocator.accounts) == {"a", "b"}
    played.allocation.forget("b")
    played.events.run(20 * MS)

    assert set(played.allocation.allocator.accounts) == {"a"}
    assert played.sent[-1][2].seats == 10


def test_after_its_end_it_does_nothing() -> None:
    played = Round()
    played.allocation.end()
    played.report("a", 1)
    played.allocation.forget("a")
    played.events.run(1000 * MS)

    assert not played.sent
    assert not played.allocation.divisions
