"""The demand that a report states is that of the levels."""

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, SharedLevel, Ticket, Work
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.ticket import TicketState
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.messages import MOST_FLOWS, FlowTable, LevelUsage
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.fleet.usage import UsageReader
from tests.support.virtual_alarm import NullAlarm

SECOND = 10**9


def lending(seats: int = 4, exact: int = 0, queues: int = 8) -> Lending:
    web = QueueSetSettings(seats, queues, 1, 1000, exact=exact)
    wanted = {
        "web": (web, LevelLimits(seats, 0, seats)),
        "exempt": (QueueSetSettings.without_limit(0), LevelLimits(0, 0, 0)),
    }
    return Lending(seats, wanted)


def arrive(
    sharing: Lending, level: SharedLevel, flow: int, *, times: int = 1, width: int = 1, now: int = 0
) -> list[Ticket]:
    tickets = [Ticket(str(flow), flow, Work(width)) for _ in range(times)]
    for ticket in tickets:
        sharing.arrive(now, level, ticket)
    return tickets


def test_an_idle_member_reports_nothing() -> None:
    sharing = lending()
    reader = UsageReader(sharing, 0)

    assert reader.read(0) == {}
    assert reader.in_use() == 0


def test_flows_with_queues_of_their_own_are_listed_with_their_seats() -> None:
    sharing = lending(exact=8)
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=3)
    arrive(sharing, level, 2, times=5)
    arrive(sharing, level, 3, times=1)
    reader = UsageReader(sharing, 0)

    usage = reader.read(0)["web"]
    assert usage.in_use == 4
    assert set(usage.flows.rows()) == {(1, 3, 0), (2, 5, WEIGHT_ONE), (3, 1, WEIGHT_ONE)}, "flow 1 doesn't wait here"
    assert (usage.rest_flows, usage.rest_seats) == (0, 0)
    assert usage.demand == 9


def test_flows_that_share_a_queue_divide_its_seats_by_their_waiting_requests() -> None:
    sharing = lending(queues=1)
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=4)
    arrive(sharing, level, 1, times=9)
    arrive(sharing, level, 2, times=3)

    usage = UsageReader(sharing, 0).read(0)["web"]
    assert set(usage.flows.rows()) == {(1, 12, WEIGHT_ONE), (2, 4, WEIGHT_ONE)}
    assert usage.demand == 16


def test_each_flow_is_reported_with_its_weight() -> None:
    sharing = lending(exact=2, queues=1)
    level = sharing.levels["web"]
    for flow, weight in ((1, 1), (2, 4), (3, 8), (4, 0.5), (1, 1), (2, 4), (3, 8), (4, 0.5)):
        for _ in range(4):
            sharing.arrive(0, level, Ticket(str(flow), flow, Work(1), round(weight * WEIGHT_ONE)))

    usage = UsageReader(sharing, 0).read(0)["web"]
    assert {flow: weight / WEIGHT_ONE for flow, _, weight in usage.flows.rows()} == {1: 1, 2: 4, 3: 8, 4: 0.5}


def test_a_factor_of_an_earlier_grant_does_not_reduce_the_reported_weight() -> None:
    text = "apiVersion: apf/v1\nkind: Server\nspec: {seats: 1}"
    controller = Controller(load_text(text), now=lambda: 0, alarm=lambda *_: NullAlarm())
    destination = controller.destination(Classification("s", "users", "gold", 7, weight=4), Work(1))
    controller.levels["users"].factors = {7: WEIGHT_ONE // 2}
    admissions = [Admission(destination) for _ in range(3)]
    for admission in admissions:
        controller.arrive(0, admission)

    assert [one.weight / WEIGHT_ONE for one in admissions[1:]] == [2, 2]
    usage = UsageReader(controller.sharing, 0).read(0)["users"]
    assert usage.flows == FlowTable((7,), (3,), (4 * WEIGHT_ONE,))


def test_wide_requests_count_with_their_seats() -> None:
    sharing = lending(seats=8, exact=4)
    sharing.restrict(0, SeatGrant(4))
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=2, width=2)
    arrive(sharing, level, 1, times=2, width=3)

    usage = UsageReader(sharing, 0).read(0)["web"]
    assert usage.flows == FlowTable.of({1: 10})
    assert usage.widest == 3


def test_the_next_request_of_a_level_is_reported_and_counted_when_it_waits_no_more() -> None:
    sharing = lending(seats=8, exact=4)
    sharing.restrict(0, SeatGrant(4))
    level = sharing.levels["web"]
    running = arrive(sharing, level, 1, times=4)
    narrow = arrive(sharing, level, 2)
    wide = arrive(sharing, level, 1, width=3)
    reader = UsageReader(sharing, 0)

    def widest_and_turns(now: int) -> tuple[int, int]:
        usage = reader.read(now)["web"]
        return usage.widest, usage.turns

    assert widest_and_turns(0) == (1, 0), "another flow is next"
    sharing.release(10, level, running[0])
    assert narrow[0].state is TicketState.SEATED
    assert widest_and_turns(10) == (3, 0)
    sharing.abandon(20, level, wide[0])
    assert widest_and_turns(20) == (0, 1)


def test_requests_that_wait_at_a_held_level_want_no_seats() -> None:
    sharing = lending(seats=4, exact=4)
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=9)
    sharing.operate(0, level, held=True)
    reader = UsageReader(sharing, 0)

    assert reader.read(0)["web"].flows == FlowTable.of({1: 4}, {1: 0}), "those that run"
    sharing.operate(1, level)
    assert reader.read(1)["web"].flows == FlowTable.of({1: 9})


def test_wide_requests_that_have_begun_are_counted_for_each_level() -> None:
    wanted = {name: (QueueSetSettings(4, 1, 1, 1000), LevelLimits(4, 0, 4)) for name in ("a", "b")}
    sharing = Lending(4, wanted)
    a, b = sharing.levels.values()
    running = arrive(sharing, a, 1, times=4)
    reader = UsageReader(sharing, 0)
    arrive(sharing, a, 2, width=3)
    arrive(sharing, b, 3, width=2)
    assert [usage.turns for usage in reader.read(0).values()] == [0, 0]
    for ticket in running[:3]:
        sharing.release(10, a, ticket)
    found = reader.read(10)
    assert (found["a"].turns, found["b"].turns) == (0, 1), "the max of a has no room for its request"


def test_a_request_that_a_part_of_a_max_stops_needs_a_turn() -> None:
    sharing = lending(seats=4, exact=4)
    level = sharing.levels["web"]
    sharing.restrict(0, SeatGrant(4, maxes={"web": 2}))
    arrive(sharing, level, 1, width=3)

    assert UsageReader(sharing, 0).read(0)["web"].widest == 3


def test_a_request_that_the_max_of_its_level_stops_needs_no_turn() -> None:
    sharing = lending(seats=4, exact=4)
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=3)
    arrive(sharing, level, 1, width=3)
    assert UsageReader(sharing, 0).read(0)["web"].widest == 0
    sharing.operate(0, level, held=True)
    assert UsageReader(sharing, 0).read(0)["web"].widest == 0, "no request of a held level begins"


def test_the_lightest_of_too_many_flows_are_summed_up() -> None:
    sharing = lending(seats=1, exact=200)
    level = sharing.levels["web"]
    arrive(sharing, level, 999)
    for flow in range(MOST_FLOWS + 20):
        arrive(sharing, level, flow, times=1 if flow < 20 else 2)

    usage = UsageReader(sharing, 0).read(0)["web"]
    assert len(usage.flows) == MOST_FLOWS
    assert set(usage.flows.seats) == {2}
    assert (usage.rest_flows, usage.rest_seats) == (21, 21)


def test_requests_that_run_in_a_shared_queue_count_as_a_flow_of_their_own() -> None:
    sharing = lending()
    level = sharing.levels["web"]
    arrive(sharing, level, 1, times=3)

    usage = UsageReader(sharing, 0).read(0)["web"]
    assert usage == LevelUsage(3, 0, 0, FlowTable(), 1, 3)


def test_a_request_that_is_alone_counts_as_one_seat() -> None:
    sharing = Lending(4, {"web": (QueueSetSettings(4, 8, 1, 10), LevelLimits(4, 2, 4))})
    level = sharing.levels["web"]
    arrive(sharing, level, 1)
    assert level.alone is not None

    assert UsageReader(sharing, 0).read(0) == {"web": LevelUsage(1, 0, 0, FlowTable.of({1: 1}))}


def test_exempt_levels_are_not_reported() -> None:
    sharing = lending()
    arrive(sharing, sharing.levels["exempt"], 1, times=3)
    reader = UsageReader(sharing, 0)

    assert (reader.read(0), reader.in_use()) == ({}, 0)


def test_arrivals_are_averaged_over_seconds() -> None:
    sharing = lending()
    level = sharing.levels["web"]
    reader = UsageReader(sharing, 0)
    reader.read(SECOND)
    for _ in range(40):
        sharing.release(SECOND, level, arrive(sharing, level, 1, now=SECOND)[0])

    assert reader.read(SECOND + 1) == {}, "rates change once a second"
    assert reader.read(2 * SECOND)["web"].arrivals == 10
    assert reader.read(3 * SECOND)["web"].arrivals == 8
    later = [reader.read(second * SECOND) for second in range(4, 20)]
    assert later[-1]["web"].arrivals <= 3


def test_levels_that_drain_are_told_with_their_claims() -> None:
    web = QueueSetSettings(4, 8, 1, 1000)
    wanted = {"web": (web, LevelLimits(3, 1, 3)), "batch": (web, LevelLimits(1, 0, 4))}
    hierarchy = Hierarchy({"p": LevelLimits(4, 0, 4)}, {"web": "p"}, shares={"web": LevelShares(50)})
    sharing = Lending(4, wanted, hierarchy=hierarchy)
    reader = UsageReader(sharing, 0)
    assert reader.leaving() == {}
    for level in list(sharing.levels.values()):
        arrive(sharing, level, 1)
    sharing.reconfigure(1, 2, {}, Hierarchy({"p": LevelLimits(2, 0, 2)}))  # other members may still have more seats
    assert reader.leaving() == {"web": SeatDemand(50, 0, 1, 3, "p"), "batch": SeatDemand(1, 0, 0, 4)}
