"""One process in its fleet: joining, allocating, and what is logged and measured of it."""

import logging
from typing import TYPE_CHECKING

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.timing import FleetTiming
from tests.support.log_events import events

if TYPE_CHECKING:
    from apf_middleware.runtime.duration_sampler import DurationSampler

MS = 10**6
SECOND = 10**9


class World:
    """A participant in a fleet of three members at most, with its clock and its seats."""

    def __init__(self) -> None:
        self.time = 0
        self.seats = 8
        self.claims: dict[str, SeatDemand] = {}
        self.sampler: DurationSampler | None = None
        self.has_left = False
        self.limit = SeatGrant(0)
        self.lending = Lending(8, {"web": (QueueSetSettings(8, 4, 1, 100), LevelLimits(8, 4, 8))})
        self.participant = Participant(
            "shop",
            FleetTiming(100 * MS, SECOND),
            join=self.join,
            leave=self.leave,
            budget=lambda: Budget(self.seats, self.claims, floor=1),
            now=lambda: self.time,
            most_members=3,
        )

    def join(self, name: str) -> FleetMember:
        membership = Membership(name, lease_ns=SECOND, floor=1)
        return FleetMember(membership, self.lending, self, now=lambda: self.time, interval_ns=100 * MS)

    def leave(self) -> None:
        self.has_left = True

    def adopt_total(self, seats: int) -> None:
        self.total = seats

    def restrict(self, grant: SeatGrant, factors: object) -> None:  # noqa: ARG002
        self.limit = grant
        self.lending.restrict(self.time, grant)

    def arrive(self) -> Ticket:
        ticket = Ticket("flow", 7, Work())
        self.lending.arrive(self.time, self.lending.levels["web"], ticket)
        return ticket

    def release(self, ticket: Ticket) -> None:
        self.lending.release(self.time, self.lending.levels["web"], ticket)


def test_a_member_joins_and_leaves(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    woken: list[int] = []
    world.participant.begin()
    assert world.participant.reading() is None
    member = world.participant.join("m", lambda: woken.append(1))
    reading = world.participant.reading()
    assert reading is not None
    assert reading.granted == 1
    member.note_waiting(1)
    assert woken == [1]
    assert world.participant.leave()
    assert world.has_left
    assert world.participant.reading() is None
    assert world.limit == SeatGrant(0), "its seats and its floor are others' now"
    assert events(caplog) == ["apf.fleet-joined"]
    world.participant.warn_if_absent()
    assert events(caplog) == ["apf.fleet-joined", "apf.fleet-failed"]


def test_a_member_with_requests_doesn_t_give_its_seats_up() -> None:
    world = World()
    world.participant.join("m", lambda: None)
    ticket = world.arrive()
    assert ticket.is_seated
    assert not world.participant.leave()
    assert world.limit.fallback == 1
    world.release(ticket)
    assert world.participant.leave()


def test_an_epoch_begins_with_the_budget_in_force(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.seats = 5
    allocator = world.participant.allocate(3, ())
    assert (allocator.epoch, allocator.budget.seats) == (3, 5)
    assert "allocator" in repr(world.participant)
    assert not events(caplog), "it can't send any grants yet"
    world.participant.note_division(allocator)
    world.participant.note_division(allocator)
    world.participant.stop_allocating(allocator)
    assert "allocator" not in repr(world.participant)
    assert events(caplog) == ["apf.fleet-allocates", "apf.fleet-yields"]
    world.participant.stop_allocating(world.participant.allocate(4, ()))
    assert len(caplog.records) == 2, "an epoch that has never divided the seats isn't logged"


@pytest.mark.parametrize(("expected", "more"), [(None, " learns_for_s=1.1"), (("m",), " learns_for_s=1.1"), ((), "")])
def test_an_epoch_says_for_how_long_it_may_not_know_all_grants(
    expected: tuple[str, ...] | None, more: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.participant.note_division(world.participant.allocate(3, expected))
    assert [record.getMessage() for record in caplog.records] == [f"apf.fleet-allocates fleet=shop epoch=3{more}"]


def test_more_members_than_fallback_seats_are_set_aside_for_are_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    world = World()
    allocator = world.participant.allocate(1, ())
    for number in range(4):
        world.participant.note_division(allocator)
        assert not caplog.records
        allocator.receive(0, Report(str(number), 1, 1, 0, 0, 0))
    world.participant.note_division(allocator)
    world.participant.note_division(allocator)
    assert events(caplog) == ["apf.fleet-crowded"]
    allocator.leave(0, "0")
    world.participant.note_division(allocator)
    allocator.receive(0, Report("5", 1, 1, 0, 0, 0))
    world.participant.note_division(allocator)
    assert events(caplog) == ["apf.fleet-crowded"] * 2


def test_a_member_tells_its_parts_and_when_they_change() -> None:
    world = World()
    assert world.participant.parts() is None
    world.claims = {"web": SeatDemand(8, 0, 4, 6), "batch": SeatDemand(1, 0, 0, 0)}
    member = world.participant.join("1", lambda: None)
    assert world.participant.parts() == ((1, 8), {}), "the floor, of which nothing is divided"
    changes: list[SeatGrant] = []
    member.on_limit = lambda: changes.append(world.limit)
    report = member.report()
    member.receive(Grant(0, 1, report.number, 3, maxes={"web": 2, "batch": 0, "gone": 1}))

    assert world.participant.parts() == ((3, 8), {"web": (2, 6)}), "of a max of nothing, no part can be told"
    assert changes[-1].seats == 3


def test_a_server_that_never_begins_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.participant.warn_if_absent()
    world.participant.warn_if_absent()
    assert events(caplog) == ["apf.fleet-failed"]
    begun = World()
    begun.participant.begin()
    begun.participant.warn_if_absent()
    assert len(caplog.records) == 1


def test_messages_that_are_refused_again_and_again_don_t_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    error = InvalidValueError("version", 3, "it must be 2")
    for _ in range(102):
        world.participant.refuse(error)
        world.time += 100 * MS
    world.time += 10 * SECOND
    world.participant.refuse(error, "m")
    assert events(caplog) == ["apf.fleet-message-refused"] * 3
    assert caplog.messages[0] == f"apf.fleet-message-refused fleet=shop error={error}"
    assert caplog.messages[2] == f"apf.fleet-message-refused fleet=shop member=m error={error}"


def test_connections_that_are_refused_again_and_again_don_t_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.participant.refuse(InvalidValueError("version", 3, "it must be 2"))
    for _ in range(101):
        world.participant.refuse_connections(OSError("Too many open files"))
        world.time += 100 * MS
    assert events(caplog) == ["apf.fleet-message-refused"] + ["apf.fleet-refuses"] * 2
    assert caplog.messages[1] == "apf.fleet-refuses fleet=shop error=Too many open files"


def test_the_reading_has_the_numbers_of_this_process() -> None:
    world = World()
    member = world.participant.join("m", lambda: None)
    ticket = world.arrive()
    world.time = 50 * MS
    member.membership.report(world.time, 1, {})
    member.receive(Grant(0, 1, 1, 4, members=2))
    first = world.participant.allocate(1, ())
    first.overshoot = 7
    world.participant.stop_allocating(first)
    world.participant.allocate(2, ()).overshoot = 5
    world.time += 10 * MS

    reading = world.participant.reading()

    assert reading is not None
    assert (reading.seats, reading.granted, reading.in_use, reading.members) == (8, 4, 1, 2)
    assert (reading.age_ns, reading.epochs, reading.overshoot, reading.is_allocator) == (10 * MS, 2, 12, True)
    assert ticket.is_seated
