"""`Adjusting`: Kubernetes' periodic borrowing, driven by hand."""

from unittest.mock import Mock

import pytest

from apf_middleware.fairqueuing import (
    Adjusting,
    Lending,
    LevelLimits,
    LevelShares,
    QueueSetSettings,
    Reason,
    Ticket,
    Work,
    limits_from_shares,
)
from apf_middleware.fairqueuing.demand import DemandStatistics
from apf_middleware.fairqueuing.sharing.adjusting import ADJUSTMENT_PERIOD_NS, MOST_MADE_UP
from apf_middleware.fairqueuing.sharing.base import Wanted
from apf_middleware.fairqueuing.sharing.borrowing import forget_demand, smooth_demand

SECOND = 10**9
PERIOD = ADJUSTMENT_PERIOD_NS

DEFAULTS = {
    "exempt": LevelShares(0, exempt=True),
    "leader-election": LevelShares(10, 0),
    "node-high": LevelShares(40, 25),
    "system": LevelShares(30, 33),
    "workload-high": LevelShares(40, 50),
    "workload-low": LevelShares(100, 90),
    "global-default": LevelShares(20, 50),
    "catch-all": LevelShares(5, 0),
}
"""Kubernetes' own levels."""


def wanted(seats: int, levels: dict[str, LevelShares]) -> Wanted:
    limits = limits_from_shares(seats, levels)
    return {
        name: (
            QueueSetSettings.without_limit(limits[name].nominal)
            if shares.exempt
            else QueueSetSettings(limits[name].nominal, 64, 6, 1000),
            limits[name],
        )
        for name, shares in levels.items()
    }


def adjusting(seats: int, levels: dict[str, LevelShares], **options: bool) -> Adjusting:
    return Adjusting(seats, wanted(seats, levels), **options)  # type: ignore[arg-type]


def fill(sharing: Adjusting, now: int, name: str, number: int) -> list[Ticket]:
    tickets = [Ticket("flow", flow, Work()) for flow in range(number)]
    for ticket in tickets:
        sharing.arrive(now, sharing.levels[name], ticket)
    return tickets


def currents(sharing: Adjusting) -> list[int]:
    return [level.current for level in sharing.levels.values()]


TWO = {"a": LevelShares(10, 50), "b": LevelShares(10, 50)}


# The reference's figures


def test_idle_levels_begin_with_what_they_do_not_lend_scaled_up() -> None:
    sharing = adjusting(600, DEFAULTS)

    assert currents(sharing) == [0, 58, 170, 117, 114, 56, 56, 30]
    assert sharing.fair_fraction == pytest.approx(602 / 258)


@pytest.mark.parametrize(("deduct_exempt", "low"), [(False, 368), (True, 318)])
def test_after_a_period_of_demand_the_limits_are_kubernetes_own(deduct_exempt: bool, low: int) -> None:  # noqa: FBT001
    sharing = adjusting(600, DEFAULTS, deduct_exempt=deduct_exempt)
    fill(sharing, 0, "exempt", 50)
    fill(sharing, 0, "workload-low", 400)
    assert sharing.levels["workload-low"].queueset.executing == 56

    seated = sharing.tick(PERIOD)

    assert currents(sharing) == [50, 25, 73, 50, 49, low, 24, 13]
    assert len(seated) == low - 56
    record = sharing.levels["workload-low"].record
    assert record is not None
    assert (record.demand.maximum, record.demand.average, record.demand.deviation) == (400, 400.0, 0.0)
    assert (record.adjustment.smoothed, record.adjustment.target) == (400, 400)


@pytest.mark.parametrize(
    ("lender", "borrower"),
    [
        pytest.param(LevelShares(100, 33, 50), LevelShares(100, 50, 67), id="limited by lending"),
        pytest.param(LevelShares(100, 67, 50), LevelShares(100, 50, 33), id="limited by borrowing"),
    ],
)
def test_a_level_with_unlimited_demand_borrows_up_to_the_bound(lender: LevelShares, borrower: LevelShares) -> None:
    sharing = adjusting(24, {"borrower": borrower, "lender": lender, "catch-all": LevelShares(5)})
    fill(sharing, 0, "borrower", 24)
    fill(sharing, 0, "lender", 6)

    sharing.tick(PERIOD)

    assert currents(sharing) == [16, 8, 1]


# Time


def test_nothing_changes_before_the_period_is_over() -> None:
    sharing = adjusting(20, TWO)
    fill(sharing, 0, "a", 40)
    assert sharing.next_event_at() == PERIOD

    assert list(sharing.tick(PERIOD - 1)) == []
    assert currents(sharing) == [10, 10]
    assert len(sharing.tick(PERIOD)) == 5
    assert currents(sharing) == [15, 5]
    assert sharing.next_event_at() == 2 * PERIOD


@pytest.mark.parametrize("call", ["arrive", "abandon", "release"])
def test_any_call_makes_up_for_an_adjustment_that_was_due(call: str) -> None:
    sharing = adjusting(20, TWO)
    tickets = fill(sharing, 0, "a", 40)
    level = sharing.levels["a"]
    waits = next(ticket for ticket in reversed(tickets) if ticket.is_waiting)

    if call == "arrive":
        seated = sharing.arrive(PERIOD + 1, sharing.levels["b"], other := Ticket("other", 1, Work()))
        assert seated[-1] is other
        seated = seated[:-1]
    elif call == "abandon":
        seated = sharing.abandon(PERIOD + 1, level, waits, Reason.CANCELLED)
    else:
        seated = sharing.release(PERIOD + 1, level, tickets[0])[:-1]

    assert len(seated) == 5
    assert level.current == 15


def test_while_no_request_waits_no_tick_is_due() -> None:
    sharing = adjusting(20, TWO)
    fill(sharing, 0, "a", 3)

    assert sharing.next_event_at() is None


def test_the_end_of_a_linger_is_an_event_where_no_request_waits() -> None:
    sharing = adjusting(2, {"a": LevelShares(1)})
    level = sharing.levels["a"]
    lingers = Ticket("flow", 1, Work(1, 1, SECOND))
    sharing.arrive(0, level, lingers)
    sharing.release(1, level, lingers)
    assert sharing.next_event_at() == SECOND + 1

    sharing.tick(SECOND + 1)

    assert level.is_idle
    assert sharing.next_event_at() is None


def test_a_linger_counts_as_demand_until_its_end() -> None:
    sharing = adjusting(20, TWO)
    ticket = Ticket("flow", 1, Work(1, 1, 4 * SECOND))
    sharing.arrive(0, sharing.levels["a"], ticket)
    sharing.release(SECOND, sharing.levels["a"], ticket)
    fill(sharing, PERIOD, "b", 1)

    record = sharing.levels["a"].record
    assert record is not None
    assert record.demand.average == pytest.approx(0.5)


def test_an_exempt_level_needs_no_limits() -> None:
    exempt = QueueSetSettings.without_limit(), LevelLimits(0, 0, 0)
    for way in (Adjusting, Lending):
        sharing = way(4, {"x": exempt, "a": (QueueSetSettings(4, 1, 1, 9), LevelLimits(4, 2, 4))})
        tickets = [Ticket("flow", 1, Work()) for _ in range(9)]
        for ticket in tickets:
            sharing.arrive(0, sharing.levels["x"], ticket)

        assert all(ticket.is_seated for ticket in tickets)


def test_a_linger_for_which_a_request_waits_is_an_event() -> None:
    sharing = adjusting(2, {"a": LevelShares(1)})
    level = sharing.levels["a"]
    first, second, third = (Ticket("flow", 1, Work(1, 1, SECOND)) for _ in range(3))
    for ticket in (first, second, third):
        sharing.arrive(0, level, ticket)
    sharing.release(1, level, first)
    assert sharing.next_event_at() == SECOND + 1

    assert list(sharing.tick(SECOND + 1)) == [third]


def test_missed_adjustments_come_to_the_same_as_timely_ones() -> None:
    late, timely = (adjusting(600, DEFAULTS) for _ in range(2))
    for sharing in (late, timely):
        tickets = fill(sharing, 3 * SECOND, "workload-low", 300)
        for ticket in tickets[:56]:
            sharing.release(7 * SECOND, sharing.levels["workload-low"], ticket)
    for period in range(1, 31):
        timely.tick(period * PERIOD)
        if period == 30:
            late.tick(period * PERIOD)

    # The late one can't seat anybody in the past, so what waited went on waiting; the records say the same of demand.
    for name, level in late.levels.items():
        theirs = timely.levels[name].record
        assert level.record is not None
        assert theirs is not None
        assert level.record.demand == theirs.demand
        assert level.record.adjustment.smoothed == theirs.adjustment.smoothed
    assert currents(late) == currents(timely)


def test_of_very_many_missed_adjustments_the_forgetting_is_done_in_one_step() -> None:
    late, timely = (adjusting(600, DEFAULTS) for _ in range(2))
    periods = 10 * MOST_MADE_UP
    for sharing in (late, timely):
        level = sharing.levels["workload-low"]
        for ticket in fill(sharing, 0, "workload-low", 40):
            sharing.release(9 * SECOND, level, ticket)
    for period in range(1, periods + 1):
        timely.tick(period * PERIOD)
    late.tick(periods * PERIOD)

    assert currents(late) == currents(timely)
    for name, level in late.levels.items():
        theirs = timely.levels[name].record
        assert level.record is not None
        assert theirs is not None
        assert level.record.adjustment.smoothed == pytest.approx(theirs.adjustment.smoothed)


def test_after_any_number_of_missed_adjustments_the_next_one_is_at_its_time() -> None:
    sharing = adjusting(20, TWO)
    sharing.tick(10**10 * PERIOD)  # one by one, so many adjustments would take a week
    fill(sharing, 10**10 * PERIOD + 1, "a", 40)

    assert sharing.next_event_at() == (10**10 + 1) * PERIOD


def test_forgetting_in_one_step_is_forgetting_step_by_step() -> None:
    steady = DemandStatistics(PERIOD, 7.0, 0.0, 7, 7)
    smoothed = 100.0
    for _ in range(50):
        smoothed = smooth_demand(smoothed, steady)

    assert forget_demand(100.0, 7, 50) == pytest.approx(smoothed)
    assert forget_demand(3.0, 7, 50) == 7


# Levels


def test_a_level_that_can_have_no_seats_rejects_everything_at_once() -> None:
    sharing = adjusting(20, TWO | {"jail": LevelShares(0)})
    [ticket] = fill(sharing, 0, "jail", 1)

    assert ticket.reason is Reason.CONCURRENCY_LIMIT


def test_limits_change_without_losing_requests() -> None:
    sharing = adjusting(20, TWO)
    tickets = fill(sharing, 0, "a", 30)

    seated = sharing.reconfigure(SECOND, 40, wanted(40, TWO))

    assert len(seated) == 20  # a wants all and has its nominal 20, and b lends what it may
    assert sharing.levels["a"].current == 30
    assert all(ticket.is_seated for ticket in tickets)


def test_an_adjustment_after_a_change_does_not_move_the_next_one() -> None:
    sharing = adjusting(20, TWO)
    fill(sharing, 0, "a", 40)

    sharing.reconfigure(SECOND, 20, wanted(20, TWO))

    assert sharing.next_event_at() == PERIOD


def test_a_removed_level_drains_and_is_forgotten() -> None:
    sharing = adjusting(20, TWO)
    gone = sharing.levels["a"]
    tickets = fill(sharing, 0, "a", 12)
    sharing.reconfigure(SECOND, 20, wanted(20, {"b": TWO["b"]}))
    assert sharing.draining == [gone]
    late = Ticket("late", 1, Work())
    sharing.arrive(2 * SECOND, gone, late)
    assert late.reason is Reason.QUEUE_CLOSED

    for ticket in tickets:
        assert ticket.is_seated
        sharing.release(3 * SECOND, gone, ticket)
        sharing.check()

    assert sharing.draining == []


def test_a_draining_level_keeps_its_seats_while_requests_wait_and_then_those_in_use() -> None:
    sharing = adjusting(12, TWO)
    gone = sharing.levels["b"]
    leaving = fill(sharing, 0, "b", 9)
    sharing.reconfigure(SECOND, 12, wanted(12, {"a": TWO["a"]}))
    fill(sharing, SECOND, "a", 30)
    sharing.tick(PERIOD)
    assert [gone.current, *currents(sharing)] == [6, 6], "the limits as they were, although a's nominal seats are 12"

    for ticket in leaving[:5]:
        sharing.release(PERIOD, gone, ticket)
    sharing.tick(2 * PERIOD)
    assert gone.in_use == 4
    assert [gone.current, *currents(sharing)] == [4, 8]


def test_neither_a_draining_level_nor_the_one_that_takes_its_place_is_left_without_seats() -> None:
    """The first one was promised nothing, and only borrowed seats; the second one finds all seats taken."""
    settings = QueueSetSettings(4, 1, 1, 100)
    others: Wanted = {
        "x": (QueueSetSettings.without_limit(), LevelLimits(0, 0, 4)),
        "a": (settings, LevelLimits(4, 4, 4)),
    }
    sharing = Adjusting(4, {**others, "b": (settings, LevelLimits(0, 0, 4))})
    fill(sharing, 0, "x", 9)
    [ticket] = fill(sharing, 0, "b", 1)
    assert ticket.is_waiting
    assert list(sharing.reconfigure(SECOND, 4, others)) == [ticket]

    sharing = Adjusting(4, {"a": (settings, LevelLimits(4, 4, 4))})
    fill(sharing, 0, "a", 8)
    sharing.reconfigure(SECOND, 4, {"b": (settings, LevelLimits(4, 4, 4))})
    assert [ticket.is_seated for ticket in fill(sharing, SECOND, "b", 2)] == [True, False]


@pytest.mark.parametrize("strict_upstream", [False, True])
def test_limits_are_adjusted_as_soon_as_a_level_has_drained(strict_upstream: bool) -> None:  # noqa: FBT001
    sharing = adjusting(20, TWO, strict_upstream=strict_upstream)
    gone = sharing.levels["a"]
    leaving = fill(sharing, 0, "a", 10)
    sharing.reconfigure(SECOND, 20, wanted(20, {"b": TWO["b"]}))
    waiting = fill(sharing, SECOND, "b", 40)
    for ticket in leaving[1:]:
        sharing.release(2 * SECOND, gone, ticket)
    before = sharing.levels["b"].current

    seated = sharing.release(3 * SECOND, gone, leaving[0])

    assert before < sharing.levels["b"].current == 20
    assert len(seated) == 20 - before
    assert sum(ticket.is_seated for ticket in waiting) == 20
    assert sharing.next_event_at() == PERIOD, "the regular adjustments keep their times"
    sharing.check()


def test_limits_are_adjusted_when_a_gate_has_rejected_the_last_request_of_a_draining_level() -> None:
    sharing = adjusting(20, TWO)
    gone = sharing.levels["a"]
    sharing.arrive_parked(0, gone, ticket := Ticket("flow", 1, Work()))
    sharing.reconfigure(SECOND, 20, wanted(20, {"b": TWO["b"]}))
    fill(sharing, SECOND, "b", 40)
    gone.queueset.gatekeeper = Mock(is_parked=Mock(return_value=True))
    gone.queueset.refuse(2 * SECOND, ticket)
    before = sharing.levels["b"].current

    assert len(sharing.forget_drained(2 * SECOND)) == 20 - before > 0
    assert sharing.levels["b"].current == 20


def test_when_no_division_is_possible_it_says_so_and_levels_keep_their_limits() -> None:
    limits = LevelLimits(20, 15, 20)
    sharing = Adjusting(
        30,
        {
            "exempt": (QueueSetSettings.without_limit(10), LevelLimits(10, 0, 100)),
            "limited": (QueueSetSettings(20, 8, 2, 50), limits),
        },
    )

    assert sharing.failure is not None
    assert sharing.levels["limited"].current == 20


def test_a_cap_is_a_limit_but_not_below_the_min() -> None:
    adjusting = Adjusting(100, wanted(100, DEFAULTS))
    low, high = adjusting.levels["workload-low"], adjusting.levels["workload-high"]
    adjusting.cap(0, {"workload-low": 7, "workload-high": 2})
    assert (low.current, high.current) == (7, high.limits.min)

    tickets = [Ticket("flow", number, Work()) for number in range(20)]
    for ticket in tickets:
        adjusting.arrive(0, low, ticket)
    assert sum(ticket.is_seated for ticket in tickets) == 7
    assert len(adjusting.cap(1, {"workload-low": 9})) == 2
    adjusting.tick(PERIOD)
    assert low.current == 9
    assert len(adjusting.cap(PERIOD, {})) == 11


def test_seats_of_a_capped_level_linger() -> None:
    adjusting = Adjusting(100, wanted(100, DEFAULTS))
    low = adjusting.levels["workload-low"]
    adjusting.cap(0, {"workload-low": 12}, 5)
    ticket = Ticket("flow", 1, Work())
    adjusting.arrive(0, low, ticket)
    adjusting.release(10, low, ticket)
    assert low.queueset.seats_in_use == 1
    adjusting.tick(15)

    assert low.queueset.seats_in_use == 0
