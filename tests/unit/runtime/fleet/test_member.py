"""A member reports in time, and applies what it is granted."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.flow_labels import FlowLabels
from apf_middleware.fleet.membership import UNKNOWN_CONFIGURATION, MemberConfiguration, Membership
from apf_middleware.fleet.messages import FlowTable, Grant, LevelPart, LevelSum, MemberRow
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.snapshots.fleet import FleetMemberSnapshot
from tests.support.log_events import events

if TYPE_CHECKING:
    from apf_middleware.runtime.duration_sampler import DurationSampler

MS = 10**6
SECOND = 10**9


class World:
    """A member with one level, whose clock the test sets; ``woken`` counts the calls for an exchange."""

    def __init__(self, floor: int = 0, labels: FlowLabels | None = None) -> None:
        self.time = 0
        self.woken = 0
        self.sent: list[tuple[int, int]] = []  # the seats and those in use in reports that were sent at once
        self.steps: list[str] = []
        self.total = 8
        self.configuration = UNKNOWN_CONFIGURATION
        self.sampler: DurationSampler | None = None
        self.factors: Mapping[str, Mapping[int, int]] = {}
        self.lending = Lending(8, {"web": (QueueSetSettings(8, 4, 1, 100), LevelLimits(8, 4, 8))})
        membership = Membership("m", lease_ns=SECOND, floor=floor)
        self.member = FleetMember(
            membership,
            self.lending,
            self,
            now=lambda: self.time,
            interval_ns=100 * MS,
            configured=lambda: self.configuration,
            labels=labels,
            fleet="shop",
        )
        self.member.wake = self.wake
        self.sequence = 0

    def wake(self) -> None:
        self.woken += 1

    def send_now(self) -> bool:
        report = self.member.report()
        self.sent.append((report.seats, report.in_use))
        self.steps.append("sent")
        return True

    def adopt_total(self, seats: int) -> None:
        self.total = seats

    def restrict(self, grant: SeatGrant, factors: Mapping[str, Mapping[int, int]]) -> None:
        self.factors = factors
        self.steps.append("restricted")
        self.lending.restrict(self.time, grant)

    def arrive(self, width: int = 1) -> Ticket:
        ticket = Ticket("flow", 7, Work(width))
        self.lending.arrive(self.time, self.lending.levels["web"], ticket)
        if ticket.is_waiting and ticket.queue is not None:
            self.member.note_waiting(ticket.queue.length)
        return ticket

    def release(self, ticket: Ticket) -> None:
        self.lending.release(self.time, self.lending.levels["web"], ticket)
        self.member.note_released()

    def grant(
        self,
        seats: int,
        *,
        least: int = 0,
        is_contended: bool = False,
        report: int = 0,
        keep: int = 0,
        configuration: str = "",
        maxes: Mapping[str, int] | None = None,
        scarce: tuple[str, ...] = (),
        total: int = 0,
    ) -> None:
        self.sequence += 1
        parts = {"web": LevelPart(1024, least, {7: 9})}
        number = report or self.member.report().number
        grant = Grant(
            0,
            self.sequence,
            number,
            seats,
            2,
            keep,
            is_contended,
            parts,
            configuration=configuration,
            maxes=maxes or {},
            scarce=scarce,
            total=total,
        )
        self.member.receive(grant)


def test_a_member_begins_with_its_floor() -> None:
    world = World(floor=1)

    assert [world.arrive().is_seated for _ in range(3)] == [True, False, False]
    assert world.member.report().seats == 1


def test_a_lower_floor_of_a_new_configuration_is_applied_at_once() -> None:
    world = World(floor=3)
    world.configuration = MemberConfiguration("new", 0, Budget(8, floor=1))
    world.member.report()

    assert [world.arrive().is_seated for _ in range(3)] == [True, False, False]


def test_another_floor_does_not_revive_a_lease_that_has_ended() -> None:
    world = World(floor=2)
    world.configuration = MemberConfiguration("former", 0, Budget(8, floor=2))
    world.grant(8, configuration="former")
    world.time = SECOND
    tickets = [world.arrive() for _ in range(4)]
    world.configuration = MemberConfiguration("new", 0, Budget(8, floor=1))
    assert world.member.report().seats == 1
    assert [ticket.is_seated for ticket in tickets] == [True, True, False, False]


def test_a_grant_is_applied_with_its_factors() -> None:
    world = World()
    world.grant(3, least=2)

    assert [world.arrive().is_seated for _ in range(4)] == [True, True, True, False]
    assert world.factors == {"web": {7: 9}}
    assert world.member.exchanges.count == 1
    assert world.lending.levels["web"].least == 2


def test_the_first_request_that_waits_in_a_queue_wakes_the_exchange() -> None:
    world = World()
    world.grant(1)
    world.arrive()
    assert world.woken == 0
    world.arrive()
    world.arrive()
    assert world.woken == 1


def test_a_lower_grant_is_confirmed_at_once() -> None:
    world = World()
    world.grant(5)
    world.grant(3)
    assert world.woken == 1
    assert world.member.report().seats == 3
    world.grant(4)
    assert world.woken == 1


def test_seats_beyond_a_lower_grant_are_reported_as_they_come_free() -> None:
    world = World()
    world.grant(4)
    tickets = [world.arrive() for _ in range(4)]
    world.grant(2, least=1)
    assert world.woken == 0, "nothing is free yet"
    assert world.lending.levels["web"].least == 0, "nothing is promised while more seats are in use than granted"
    world.release(tickets[0])
    assert world.woken == 1
    report = world.member.report()
    assert (report.seats, report.in_use) == (2, 3)
    world.release(tickets[1])
    assert world.woken == 2
    assert world.member.report().in_use == 2
    assert world.lending.levels["web"].least == 1, "the promise holds again"
    world.release(tickets[2])
    assert world.woken == 2, "it isn't beyond its grant any more"


def test_a_promise_holds_once_the_seats_that_it_needs_have_come_free() -> None:
    world = World()
    level = (QueueSetSettings(8, 4, 1, 100), LevelLimits(4, 2, 8))
    world.lending.reconfigure(0, 8, {"web": level, "batch": level})
    world.grant(4)
    tickets = [world.arrive() for _ in range(3)]
    promises = {"web": LevelPart(1024, 0), "batch": LevelPart(1024, 2)}
    world.member.receive(Grant(0, 2, world.member.report().number, 4, 2, levels=promises))
    assert world.lending.levels["batch"].least == 0
    world.release(tickets[0])
    assert world.lending.levels["batch"].least == 2


def test_in_a_contended_fleet_a_free_seat_is_reported() -> None:
    world = World()
    world.grant(2, is_contended=True)
    first, second, third = (world.arrive() for _ in range(3))
    woken = world.woken
    world.release(first)
    assert third.is_seated
    assert world.woken == woken + 1, "no request waits any more"
    world.grant(2, is_contended=False)
    woken = world.woken
    world.release(second)
    assert world.woken == woken


def test_in_a_contended_fleet_seats_that_are_saved_up_are_reported() -> None:
    world = World()
    world.grant(2, is_contended=True)
    first, _, wide = world.arrive(), world.arrive(), world.arrive(3)
    woken = world.woken
    world.release(first)
    assert wide.is_waiting
    assert world.woken == woken + 1
    assert world.member.report().seats == 2, "it keeps them for the request that waits"


def test_in_a_contended_fleet_a_member_gives_seats_back_before_it_reports() -> None:
    world = World()
    world.grant(4, least=3, keep=1, is_contended=True)
    tickets = [world.arrive() for _ in range(3)]
    assert world.member.report().seats == 4, "it may keep one seat"
    world.release(tickets[0])
    world.release(tickets[1])
    report = world.member.report()
    assert (report.seats, report.in_use) == (2, 1)
    assert [world.arrive().is_seated for _ in range(2)] == [True, False]
    assert world.member.report().seats == 2, "a request waits"
    world.grant(4, least=3, keep=1, is_contended=False)
    world.release(tickets[2])
    assert world.member.report().seats == 4


def test_a_part_of_a_max_that_others_want_is_given_back_when_requests_end() -> None:
    world = World()
    world.grant(8, maxes={"web": 2}, scarce=("web",))
    assert world.woken == 1, "the first part of a max must be confirmed"
    first, second, third = (world.arrive() for _ in range(3))
    assert (second.is_seated, third.is_waiting) == (True, True)
    assert world.member.report().maxes == {"web": 2}
    world.member.send_now = world.send_now
    world.release(first)
    assert third.is_seated
    assert not world.sent, "the part is used again"
    world.release(second)
    assert world.sent == [(8, 1)]
    assert world.member.report().maxes == {"web": 1}
    assert world.arrive().is_waiting


def test_requests_beyond_a_smaller_part_of_a_max_are_reported() -> None:
    world = World()
    world.grant(8, maxes={"web": 2})
    tickets = [world.arrive() for _ in range(2)]
    world.grant(8, maxes={"web": 1})
    report = world.member.report()
    assert (report.maxes, report.exceeded) == ({"web": 1}, {"web": 2})
    world.member.send_now = world.send_now
    world.release(tickets[0])
    assert world.sent == [(8, 1)]
    report = world.member.report()
    assert (report.maxes, report.exceeded) == ({"web": 1}, {})


def test_without_a_lease_maxes_are_not_divided() -> None:
    world = World(floor=2)
    world.grant(8, maxes={"web": 1})
    world.time += SECOND
    world.lending.tick(world.time)
    assert world.member.report().maxes == {}
    assert [world.arrive().is_seated for _ in range(3)] == [True, True, False]


def test_seats_that_are_free_for_others_are_reported_at_once() -> None:
    world = World()
    world.member.send_now = world.send_now
    world.grant(4)
    tickets = [world.arrive() for _ in range(3)]
    world.grant(3)
    assert world.sent == [(3, 3)], "the lower limit is confirmed"
    world.grant(2)
    assert len(world.sent) == 1, "nothing is free"
    for ticket in tickets[:2]:
        world.release(ticket)
    assert world.sent[1:] == [(2, 2)], "then it isn't beyond its grant any more"
    world.grant(2, is_contended=True)
    world.release(tickets[2])
    assert world.sent[2:] == [(0, 0)]
    assert world.woken == 0
    world.arrive()
    assert world.woken == 1, "no seat is idle when a request begins to wait"


def test_levels_are_restricted_after_a_report_that_is_sent_at_once() -> None:
    world = World()
    world.member.send_now = world.send_now
    world.grant(3, is_contended=True)
    tickets = [world.arrive() for _ in range(3)]
    world.steps.clear()
    world.release(tickets[0])
    assert world.sent[-1] == (2, 2)
    assert world.steps == ["sent", "restricted"], "others wait for the report"
    assert world.arrive().is_waiting


def test_levels_are_restricted_although_the_report_can_not_be_sent() -> None:
    def fail() -> bool:
        world.member.report()
        raise OSError("gone")

    world = World()
    world.grant(3, is_contended=True)
    tickets = [world.arrive() for _ in range(3)]
    world.member.send_now = fail
    with pytest.raises(OSError, match="gone"):
        world.release(tickets[0])
    assert world.arrive().is_waiting


def test_the_levels_of_a_regular_report_are_restricted_before_it_is_sent() -> None:
    world = World()
    world.grant(3, is_contended=True)
    world.steps.clear()
    assert world.member.report().seats == 0
    assert world.steps == ["restricted"]
    assert world.arrive().is_waiting


def test_seats_for_requests_that_have_ended_meanwhile_are_reported_at_once() -> None:
    world = World()
    world.member.send_now = world.send_now
    world.grant(1, is_contended=True)
    first, _, _ = (world.arrive() for _ in range(3))
    number = world.member.report().number
    world.release(first)
    assert world.sent == [], "one request waits, and no seat is free"
    world.grant(3, is_contended=True, report=number)
    assert world.sent == [(2, 2)]
    world.grant(3, is_contended=True)
    assert len(world.sent) == 1, "the allocator knows how many requests there are, and gives more seats than that"


def test_seats_that_no_other_member_needs_are_reported_at_the_next_interval() -> None:
    world = World()
    world.member.send_now = world.send_now
    world.grant(2)
    first, _ = (world.arrive() for _ in range(2))
    number = world.member.report().number
    world.release(first)
    world.grant(2, report=number)
    assert world.sent == []


def test_reports_of_free_seats_wait_for_no_gap() -> None:
    world = World()
    world.grant(4)
    tickets = [world.arrive() for _ in range(4)]
    world.grant(3)
    world.release(tickets[0])
    assert world.member.gap_s() == 0, "although there was a report at this moment"
    world.member.report()
    world.arrive()
    assert world.member.gap_s() == 0.001, "a request waits, but no seat is idle"


def test_reports_that_are_sent_at_once_are_limited() -> None:
    world = World()
    world.lending.reconfigure(0, 40, {"web": (QueueSetSettings(8, 4, 1, 100), LevelLimits(40, 4, 40))})
    world.member.send_now = world.send_now
    world.grant(40)
    tickets = [world.arrive() for _ in range(40)]
    world.grant(0)
    for ticket in tickets[:20]:
        world.release(ticket)
    assert (len(world.sent), world.woken) == (9, 11)
    world.time += 2 * MS
    for ticket in tickets[20:]:
        world.release(ticket)
    assert (len(world.sent), world.woken) == (11, 29), "one more for each gap"


def test_reports_are_more_frequent_while_requests_wait() -> None:
    world = World()
    world.grant(1)
    assert world.member.pause_s() == 0.1
    world.arrive()
    world.arrive()
    assert world.member.pause_s() == 0.02
    world.time = 15 * MS
    assert world.member.pause_s() == 0.005
    world.time = 50 * MS
    assert world.member.pause_s() == 0
    assert world.member.gap_s() == 0
    world.member.report()
    assert world.member.gap_s() == 0.001


def test_another_configuration_is_logged_once_if_it_outlasts_a_lease(caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> int:
        return events(caplog).count("apf.fleet-configuration-differs")

    world = World()
    world.configuration = MemberConfiguration("mine", 0, Budget(8, floor=0))
    world.grant(3, configuration="newer")
    assert world.member.is_outdated
    world.time += 900 * MS
    world.grant(3, configuration="newer")
    assert warnings() == 0  # a reload is on its way to all members
    world.grant(3, configuration="mine")
    world.time += 900 * MS
    world.grant(3, configuration="newest")
    assert warnings() == 0
    for _ in range(4):
        world.time += 500 * MS
        world.grant(3, configuration="newest")
    assert warnings() == 1
    assert caplog.messages == ["apf.fleet-configuration-differs fleet=shop member=m"]


def test_outdated_grants_change_nothing() -> None:
    world = World()
    world.grant(4)
    number = world.member.report().number
    world.time = 2 * SECOND
    world.grant(8, report=number)
    assert world.member.report().seats == 0
    assert not world.arrive().is_seated


def test_members_of_large_fleets_report_less_often() -> None:
    world = World()
    for members, gap_s in ((1, 0.001), (15, 0.001), (40, 0.005), (1000, 0.02)):
        world.sequence += 1
        number = world.member.report().number
        world.member.receive(Grant(0, world.sequence, number, 2, members))
        assert world.member.gap_s() == gap_s


def test_levels_of_the_fleet_have_the_names_that_this_member_knows() -> None:
    labels = FlowLabels(b"key")
    for world, label in ((World(), 7), (World(labels=labels), labels.label(7))):
        table = FlowTable.of({label: 5, 99: 1}, {label: 131072, 99: 65536})
        assert world.member.levels({7: "alice"}) == ()
        world.member.ask()
        assert world.woken == 1
        world.grant(4)
        assert world.member.members() == ()
        report = world.member.report()
        assert report.asks, "that grant was no answer"
        rows, sums = (MemberRow("m", 4, 3, 9, 2 * SECOND, "new"),), {"web": LevelSum(3, 9, 120, table)}
        world.member.receive(Grant(0, 2, report.number, 4, 1, rows=rows, sums=sums, allocator="m"))

        assert not world.member.report().asks
        assert world.member.members() == (
            FleetMemberSnapshot("m", is_allocator=True, seats=4, seats_in_use=3, demand=9, age=2, is_outdated=True),
        )
        [level] = world.member.levels({7: "alice"})
        assert (level.level, level.seats_in_use, level.demand, level.arrivals) == ("web", 3, 9, 120)
        assert [(one.flow, one.demand, one.weight) for one in level.flows] == [("alice", 5, 2), (None, 1, 1)]
        assert level.flows[1].label == f"{99:016x}"


def reloaded(world: World) -> None:
    """Let the member read a configuration with a max for its level."""
    world.configuration = MemberConfiguration("new", 0, Budget(8, {"web": SeatDemand(1, 0, 0, 2)}))
    world.member.note_reconfigured()


def test_no_request_begins_beyond_a_new_max_until_it_is_divided() -> None:
    world = World()
    world.grant(6)
    for _ in range(3):
        world.arrive()
    reloaded(world)
    assert world.woken == 1
    assert not world.arrive().is_seated
    assert world.member.report().maxes == {"web": 3}
    world.grant(6, maxes={"web": 4})
    assert world.lending.levels["web"].queueset.seats_in_use == 4


def test_a_max_that_is_divided_already_is_kept_through_a_reload() -> None:
    world = World()
    world.grant(6, maxes={"web": 2})
    reloaded(world)
    assert [world.arrive().is_seated for _ in range(3)] == [True, True, False]


def test_without_a_lease_a_new_max_is_that_of_the_fallback_seats() -> None:
    world = World(floor=2)
    reloaded(world)
    assert [world.arrive().is_seated for _ in range(2)] == [True, True]
    world = World(floor=2)
    world.grant(6)
    world.time = SECOND
    reloaded(world)
    assert [world.arrive().is_seated for _ in range(2)] == [True, True]


def test_flows_are_called_by_their_labels_between_members() -> None:
    labels = FlowLabels(b"key")
    world = World(labels=labels)
    world.grant(1)
    world.arrive()
    world.arrive()
    [flow] = world.member.report().levels["web"].flows.flows
    assert labels.flow(flow) == 7
    assert flow != 7
    number = world.member.report().number
    world.member.receive(Grant(0, 2, number, 1, levels={"web": LevelPart(1024, 0, {flow: 9})}))
    assert world.factors == {"web": {7: 9}}


def test_the_time_without_a_lease_is_measured() -> None:
    world = World()
    world.time = 2 * SECOND
    assert world.member.fallback_ns == 2 * SECOND, "there was none yet"
    world.grant(4)
    world.time += SECOND // 2
    assert world.member.fallback_ns == 2 * SECOND
    world.time += SECOND
    assert world.member.fallback_ns == 2 * SECOND + SECOND // 2
    world.grant(4)
    world.time += SECOND // 2
    assert world.member.fallback_ns == 2 * SECOND + SECOND // 2


def test_a_total_of_the_fleet_is_adopted_if_the_grant_has_one() -> None:
    world = World()
    world.grant(3, total=12)
    assert world.total == 12
    world.grant(3)
    assert world.total == 12


def test_what_a_member_tells_is_reported_at_once() -> None:
    world = World()
    world.member.tell("mode", "off")
    assert world.woken == 1
    report = world.member.report()
    assert {key: notice.value for key, notice in report.notices.items()} == {"mode": "off"}
    world.member.receive(Grant(0, 1, report.number, 1, board="of others"))
    assert world.woken == 2, "the board of the others lacks it"
