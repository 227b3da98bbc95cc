"""Levels that lend each other seats continuously."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Reason, Ticket, Work
from apf_middleware.fairqueuing.sharing.base import Wanted
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.builds import raises_for_wrong_type
from tests.support.sharing_steps import QUEUED, REJECTING, arrive, limits, release, seated

EXEMPT = QueueSetSettings.without_limit()


class Counting(Ticket):
    __slots__ = ("passed_over",)

    def __init__(self, work: Work) -> None:
        super().__init__("flow", 1, work)
        self.passed_over = 0

    def pass_over(self) -> None:
        self.passed_over += 1


def test_a_level_borrows_seats_that_no_other_is_promised() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 10)), "b": (QUEUED, limits(10, 4))})

    assert seated(arrive(lending, "a", 30)) == 16
    assert seated(arrive(lending, "b", 10)) == 4


def test_a_level_does_not_borrow_beyond_its_max() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0, 12)), "b": (QUEUED, limits(10, 0))})

    assert seated(arrive(lending, "a", 30)) == 12


def test_mins_that_exceed_the_server_s_seats_are_kept_all_the_same() -> None:
    lending = Lending(3, {name: (QUEUED, limits(2, 2)) for name in "abc"})

    assert [seated(arrive(lending, name, 5)) for name in "abc"] == [2, 2, 2]


def test_each_level_has_its_current_limit() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 5)), "b": (QUEUED, limits(10, 5)), "x": (EXEMPT, limits(0, 0))})
    arrive(lending, "a", 12)
    arrive(lending, "x", 3)

    assert {level.level: level.current for level in lending.snapshot().levels} == {"a": 12, "b": 5, "x": None}


def test_exempt_load_counts_and_is_never_limited() -> None:
    lending = Lending(10, {"x": (EXEMPT, limits(0, 0)), "a": (QUEUED, limits(10, 4))})
    assert seated(arrive(lending, "x", 25)) == 25

    assert seated(arrive(lending, "a", 10)) == 4


def test_a_level_that_can_have_no_seats_rejects_everything_at_once() -> None:
    lending = Lending(10, {"jail": (QUEUED, limits(0, 0, 0)), "a": (QUEUED, limits(10, 4))})
    [ticket] = arrive(lending, "jail")

    assert ticket.reason is Reason.CONCURRENCY_LIMIT


def test_a_level_to_which_the_others_mins_leave_no_seat_rejects_everything_too() -> None:
    lending = Lending(10, {"left out": (QUEUED, limits(3, 0)), "a": (QUEUED, limits(10, 10))})
    [ticket] = arrive(lending, "left out")

    assert ticket.reason is Reason.CONCURRENCY_LIMIT


def test_levels_under_their_min_come_first_then_those_under_their_nominal_seats() -> None:
    lending = Lending(
        6,
        {
            "borrower": (QUEUED, limits(1, 0)),
            "nominal": (QUEUED, limits(3, 0)),
            "min": (QUEUED, limits(2, 2)),
        },
    )
    running = arrive(lending, "borrower", 6)
    assert seated(running) == 4
    arrive(lending, "nominal", 4)
    promised = arrive(lending, "min", 3)
    assert seated(promised) == 2

    assert [release(lending, ticket) for ticket in running[:4]] == [["nominal"]] * 3 + [["borrower"]]


def test_within_a_group_the_smaller_part_of_the_nominal_seats_comes_first() -> None:
    lending = Lending(12, {"x": (QUEUED, limits(1, 0)), "a": (QUEUED, limits(4, 0)), "b": (QUEUED, limits(8, 0))})
    running = arrive(lending, "x", 12)
    arrive(lending, "a", 10)
    arrive(lending, "b", 10)

    order = [release(lending, ticket)[0] for ticket in running]

    assert order == ["a", "b", "b"] * 4


def test_a_level_without_nominal_seats_comes_last() -> None:
    lending = Lending(8, {"none": (QUEUED, limits(0, 0)), "a": (QUEUED, limits(2, 0)), "b": (QUEUED, limits(2, 0))})
    running = arrive(lending, "a", 8)
    arrive(lending, "none", 2)
    arrive(lending, "a", 2)

    assert release(lending, running[0]) == ["a"]


def test_a_wide_request_that_is_first_has_seats_saved_up_for_it() -> None:
    lending = Lending(6, {"a": (QUEUED, limits(3, 0)), "b": (QUEUED, limits(3, 0))})
    running = arrive(lending, "b", 6)
    [wide] = arrive(lending, "a", 1, Work(3))
    arrive(lending, "b", 5)

    assert [release(lending, ticket) for ticket in running[:3]] == [[], [], ["a"]]
    assert wide.is_seated


def test_only_levels_within_their_min_pass_a_wide_request() -> None:
    lending = Lending(
        7,
        {
            "a": (QUEUED, limits(3, 0)),
            "b": (QUEUED, limits(3, 0)),
            "c": (QUEUED, limits(1, 1)),
            "d": (QUEUED, limits(9, 0)),
        },
    )
    running = arrive(lending, "b", 6)
    [wide] = arrive(lending, "a", 1, Work(3))
    release(lending, running[0])
    lending.levels["d"].turn = 9  # among equals, the turn of d is later

    assert seated(arrive(lending, "d")) == 0
    assert seated(arrive(lending, "c")) == 1
    assert not wide.is_seated


def test_a_level_without_queues_does_not_take_seats_that_are_saved_up() -> None:
    lending = Lending(6, {"a": (QUEUED, limits(3, 0)), "b": (QUEUED, limits(1, 0)), "r": (REJECTING, limits(2, 1))})
    running = arrive(lending, "b", 5)
    [wide] = arrive(lending, "a", 1, Work(3))
    release(lending, running[0])
    first, second = arrive(lending, "r", 2)

    assert first.is_seated
    assert second.reason is Reason.CONCURRENCY_LIMIT
    assert wide.is_waiting


def test_a_level_that_is_held_back_by_its_own_max_saves_nothing_up() -> None:
    lending = Lending(6, {"a": (QUEUED, limits(3, 0, 3)), "b": (QUEUED, limits(3, 0))})
    arrive(lending, "a", 4)

    assert seated(arrive(lending, "b", 5)) == 3
    assert lending.levels["a"].queueset.waiting == 1


def test_a_request_wider_than_its_level_s_max_runs_when_nothing_else_of_the_level_does() -> None:
    lending = Lending(10, {"a": (QUEUED, limits(4, 0, 4)), "b": (QUEUED, limits(4, 4))})
    [running] = arrive(lending, "a")
    [wide] = arrive(lending, "a", 1, Work(9))
    assert wide.is_waiting

    assert release(lending, running) == ["a"]
    assert lending.levels["a"].queueset.seats_in_use == 9
    assert seated(arrive(lending, "b", 4)) == 4


def test_final_seats_are_cut_to_the_level_s_max() -> None:
    lending = Lending(10, {"a": (QUEUED, limits(4, 0, 4)), "b": (QUEUED, limits(4, 4))})
    [ticket] = arrive(lending, "a", 1, Work(1, 8, 10))

    assert (ticket.work.final_seats, ticket.work.linger_ns) == (4, 20)


def test_a_ticket_that_does_not_fit_counts_that_it_is_passed_over() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 0)), "b": (QUEUED, limits(2, 0))})
    [one, *_] = arrive(lending, "b", 3)
    wide = Counting(Work(2))
    lending.arrive(0, lending.levels["a"], wide)
    assert (wide.passed_over, lending.levels["a"].queueset.no_accommodation) == (1, 1)
    arrive(lending, "b")

    release(lending, one)

    assert wide.passed_over == 2  # once more when another one came and couldn't pass
    assert wide.is_seated


def test_the_end_of_a_linger_frees_seats_for_another_level() -> None:
    lending = Lending(1, {"a": (QUEUED, limits(1, 0)), "b": (QUEUED, limits(1, 0))})
    [lingers] = arrive(lending, "a", 1, Work(1, 1, 50))
    release(lending, lingers, now=10)
    assert list(lending.levels["a"].queueset.lingering) == [lingers]
    assert lending.next_event_at() == 60
    [waits] = arrive(lending, "b", now=20)
    assert lending.next_event_at() == 60

    assert list(lending.tick(59)) == []
    assert list(lending.tick(60)) == [waits]
    assert lending.next_event_at() is None


def test_a_late_call_ends_lingers_first() -> None:
    lending = Lending(2, {"a": (QUEUED, limits(1, 0)), "b": (QUEUED, limits(1, 0)), "c": (QUEUED, limits(1, 0))})
    [lingers] = arrive(lending, "a", 1, Work(2, 1, 50))
    release(lending, lingers, now=10)
    [waits, gives_up] = arrive(lending, "b", 2, now=20)

    seated_late = lending.abandon(70, lending.levels["b"], gives_up, Reason.TIME_OUT)

    assert {id(ticket) for ticket in seated_late} == {id(waits), id(gives_up)}
    assert gives_up.is_seated


@pytest.mark.parametrize("call", ["arrive", "release"])
def test_the_late_call_of_a_request_that_is_alone_ends_lingers_too(call: str) -> None:
    lending = Lending(2, {"a": (QUEUED, limits(1, 0)), "b": (QUEUED, limits(1, 0)), "c": (QUEUED, limits(1, 1))})
    [lingers] = arrive(lending, "a", 1, Work(1, 1, 50))
    release(lending, lingers, now=10)
    [waits] = arrive(lending, "b", now=20)
    alone = Ticket("c", 1, Work())
    if call == "arrive":
        assert list(lending.arrive(70, lending.levels["c"], alone)) == [waits, alone]
    else:
        assert list(lending.arrive(30, lending.levels["c"], alone)) == [alone]
        assert list(lending.release(70, lending.levels["c"], alone)) == [waits]


def test_seats_that_are_added_are_used_at_once() -> None:
    wanted: Wanted = {"a": (QUEUED, limits(2, 0)), "b": (QUEUED, limits(2, 0))}
    lending = Lending(4, wanted)
    waits = arrive(lending, "a", 6)
    assert seated(waits) == 4

    assert len(lending.reconfigure(1, 5, wanted)) == 1
    assert seated(waits) == 5


def test_a_removed_level_keeps_its_seats_until_it_has_drained() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2)), "b": (QUEUED, limits(2, 2))})
    gone = lending.levels["a"]
    tickets = arrive(lending, "a", 4)
    lending.reconfigure(1, 4, {"b": (QUEUED, limits(4, 4))})
    arrive(lending, "b", 8, now=1)
    assert seated(tickets) == 2
    assert lending.draining == [gone]
    assert lending.ledger.total == 4

    first, second, third, fourth = tickets
    assert list(lending.release(2, gone, first)) == [third]
    assert list(lending.release(2, gone, second)) == [fourth]
    assert [ticket.flow for ticket in lending.release(2, gone, third)] == ["b"]
    lending.release(2, gone, fourth)

    lending.check()
    assert lending.draining == []
    assert lending.ledger.total == 4


def test_a_draining_level_admits_no_request_until_it_is_wanted_again() -> None:
    wanted: Wanted = {"a": (QUEUED, limits(2, 2)), "b": (QUEUED, limits(2, 2))}
    lending = Lending(4, wanted)
    level = lending.levels["a"]
    arrive(lending, "a", 2)
    lending.reconfigure(1, 4, {"b": wanted["b"]})
    late = Ticket("a", 1, Work())
    lending.arrive(1, level, late)
    assert late.reason is Reason.QUEUE_CLOSED

    lending.reconfigure(2, 4, wanted)

    assert lending.levels["a"] is level
    assert arrive(lending, "a", 1, now=2)[0].is_waiting
    assert lending.draining == []


def test_a_level_that_becomes_exempt_is_another_one_of_the_same_name() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2)), "b": (QUEUED, limits(2, 2))})
    old = lending.levels["a"]
    [ticket] = arrive(lending, "a")
    lending.reconfigure(1, 4, {"a": (EXEMPT, limits(0, 0)), "b": (QUEUED, limits(2, 2))})

    assert lending.levels["a"] is not old
    lending.release(2, old, ticket)
    assert lending.draining == []


def test_an_idle_level_that_is_removed_is_forgotten_at_once() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2)), "b": (QUEUED, limits(2, 2))})
    gone = lending.levels["a"]
    lending.reconfigure(1, 4, {"b": (QUEUED, limits(2, 2))})
    late = Ticket("a", 1, Work())

    assert list(lending.arrive(2, gone, late)) == []
    assert late.reason is Reason.QUEUE_CLOSED
    lending.check()


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({"a": (None, limits(1, 1))}, "settings"),
        ({"a": (QUEUED, (1, 1, 1))}, "limits of a"),
        ({7: (QUEUED, limits(1, 1))}, "name"),
    ],
)
def test_levels_cannot_be_made_of_other_types_and_nothing_changes(wanted: Wanted, name: str) -> None:
    lending = Lending(4, {"b": (QUEUED, limits(2, 2))})
    for call in (lambda: Lending(4, wanted), lambda: lending.reconfigure(1, 4, wanted)):
        with raises_for_wrong_type(f"^{name} is "):
            call()
    assert list(lending.levels) == ["b"]


def test_a_negative_number_of_seats_is_refused_and_changes_nothing() -> None:
    lending = Lending(4, {"b": (QUEUED, limits(2, 2))})
    for call in (lambda: Lending(-1, {}), lambda: lending.reconfigure(1, -1, {})):
        with pytest.raises(InvalidValueError, match=r"^seats is -1"):
            call()
    assert list(lending.levels) == ["b"]


def test_a_total_that_falls_and_rises_gives_the_mins_back_while_a_level_drains() -> None:
    def wanted(part: float, **more: LevelLimits) -> tuple[Wanted, Hierarchy]:
        a, parent = (limits(20, round(most * part)) for most in (8, 6))
        levels = {"a": a, "c": limits(2, 0)} | more
        return {name: (QUEUED, one) for name, one in levels.items()}, Hierarchy({"p": parent}, {"c": "p"})

    levels, hierarchy = wanted(1, b=limits(10, 4))
    lending = Lending(20, levels, hierarchy=hierarchy)
    arrive(lending, "b", 3)
    mins = []
    for part in (1, 0.5, 1, 2):
        lending.reconfigure(0, round(20 * part), *wanted(part))
        mins.append((lending.levels["a"].least, lending.parents["p"].least))

    assert mins == [(8, 6), (4, 3), (8, 6), (8, 6)]


@pytest.mark.parametrize("seats", [0, 1])
def test_a_level_that_has_no_seats_gets_none_when_it_drains(seats: int) -> None:
    other = QUEUED, limits(1, 1)
    lending = Lending(2, {"a": other, "goes": (QUEUED, limits(1, 1))})
    running, waits = arrive(lending, "goes", 2)
    goes = lending.levels["goes"]
    lending.reconfigure(0, seats, {"a": other, "goes": (QUEUED, LevelLimits(0, 0, 0))})
    lending.check()
    lending.reconfigure(0, seats, {"a": other})

    lending.check()
    assert (goes.least, goes.most) == (0, 0)
    lending.release(1, goes, running)
    lending.check()
    lending.abandon(2, goes, waits)
    assert not lending.draining


def test_a_level_that_drains_and_one_that_needs_its_seat_do_not_wait_for_each_other() -> None:
    """Nothing runs, and the wide request of one can't be seated before the other has drained."""
    stays = QueueSetSettings(5, 1, 1, 10), LevelLimits(5, 1, 7)
    goes = QueueSetSettings(2, 1, 1, 10), LevelLimits(2, 1, 3)
    lending = Lending(7, {"first by name": stays, "goes": goes})
    old, level = lending.levels["goes"], lending.levels["first by name"]
    everything, little = Ticket("a", 1, Work(6)), Ticket("b", 2, Work(1))
    wide, draining = Ticket("a", 1, Work(7)), Ticket("b", 2, Work(3))
    for ticket, where in ((everything, level), (little, old), (wide, level), (draining, old)):
        lending.arrive(0, where, ticket)
    lending.reconfigure(1, 7, {"first by name": stays})
    assert (level.most, wide.is_waiting, draining.is_waiting) == (7, True, True)

    lending.release(2, old, little)
    assert [*lending.release(3, level, everything)] == [draining]
    assert [*lending.release(4, old, draining)] == [wide]
    lending.check()


def test_lingers_that_end_together_are_all_noticed_also_when_the_first_changes_what_the_levels_may_have() -> None:
    """The one level is closed then, so its min is lent; the other one has drained, and keeps no seat any more."""
    closes, goes = (QueueSetSettings(2, 1, 1, 10), LevelLimits(2, 2, 6)), (QueueSetSettings(2, 1, 1, 10), limits(2, 1))
    lending = Lending(6, {"closes": closes, "goes": goes})
    tickets = {name: Ticket(name, 1, Work(1, 1, 10)) for name in lending.levels}
    for name, ticket in tickets.items():
        lending.arrive(0, lending.levels[name], ticket)
    for name, ticket in tickets.items():
        lending.release(5, lending.levels[name], ticket)
    lending.reconfigure(6, 6, {"closes": closes})
    lending.operate(7, lending.levels["closes"], closing=True)
    assert len(lending.draining) == 1

    lending.tick(15)
    lending.check()
    assert not lending.draining
    assert lending.levels["closes"].least == 0


def test_a_level_uses_its_min_again_when_a_request_ends_although_exempt_load_has_every_seat() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 2)), "x": (EXEMPT, limits(0, 0))})
    arrive(lending, "x", 10)
    tickets = arrive(lending, "a", 3)
    assert seated(tickets) == 2

    assert release(lending, tickets[0], now=1) == ["a"]


def test_a_request_within_its_level_s_min_needs_no_room_in_a_queue_while_others_wait() -> None:
    rooms = [10]
    levels = {"a": (QUEUED, limits(1, 1)), "b": (QUEUED, limits(3, 3))}
    lending = Lending(4, levels, room=lambda _waiting: rooms[0], may_rest=False)
    arrive(lending, "b", 5)
    rooms[0] = 0

    (ticket,) = arrive(lending, "a")

    assert ticket.is_seated


def test_a_capped_level_leaves_its_seats_to_others() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 4))})
    lending.cap(0, {"a": 3})
    first = arrive(lending, "a", 10)
    assert (seated(first), lending.levels["a"].current) == (3, 3)

    assert seated(arrive(lending, "b", 30)) == 17  # nothing is saved up for those that wait in the other level
    assert release(lending, first[0]) == ["a"]


def test_a_cap_takes_nothing_from_requests_that_run() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    running = arrive(lending, "a", 12)
    lending.cap(0, {"a": 10})
    lending.check()
    assert seated(running) == 12
    arrive(lending, "a", 1)
    assert [release(lending, running.pop()) for _ in range(4)] == [[], [], ["a"], []]


def test_a_higher_cap_seats_requests_at_once() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"a": 1})
    tickets = arrive(lending, "a", 10)

    assert len(lending.cap(0, {"a": 4})) == 3
    assert len(lending.cap(0, {})) == 6
    assert seated(tickets) == 10
    assert lending.levels["a"].current == 16 + 4


def test_a_capped_level_has_its_min() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 6)), "b": (QUEUED, limits(10, 4))})
    lending.cap(0, {"a": 2})

    assert seated(arrive(lending, "a", 10)) == 6


def test_a_request_that_is_wider_than_the_cap_runs_alone() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"a": 3})
    wide = arrive(lending, "a", 3, Work(8))

    assert [one.is_seated for one in wide] == [True, False, False]
    assert release(lending, wide[0]) == ["a"]


def test_a_level_without_queues_rejects_beyond_its_cap() -> None:
    lending = Lending(20, {"a": (REJECTING, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"a": 3})
    tickets = arrive(lending, "a", 5)

    assert seated(tickets) == 3
    assert {one.reason for one in tickets if one.is_rejected} == {Reason.CONCURRENCY_LIMIT}


def test_seats_of_a_capped_level_stay_taken_for_the_pause() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"a": 1}, 5)
    first, second = arrive(lending, "a", 2)
    assert release(lending, first, 10) == []
    assert lending.next_event_at() == 15
    assert lending.tick(14) == ()
    assert lending.tick(15) == [second]
    lending.cap(20, {})
    [third] = arrive(lending, "a", now=20)
    assert release(lending, second, 30) == []

    assert third.work.linger_ns == 0


def test_exempt_levels_have_no_caps() -> None:
    lending = Lending(20, {"x": (EXEMPT, limits(0, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"x": 1})

    assert seated(arrive(lending, "x", 5)) == 5


def test_a_level_that_drains_has_no_cap() -> None:
    lending = Lending(20, {"a": (QUEUED, limits(10, 0)), "b": (QUEUED, limits(10, 0))})
    lending.cap(0, {"a": 1})
    tickets = arrive(lending, "a", 5)
    lending.reconfigure(0, 20, {"b": (QUEUED, limits(10, 0))})
    lending.check()

    assert seated(tickets) == 5


def test_a_level_that_was_paused_is_not_compensated_for_what_it_lacked_before() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 0)), "b": (QUEUED, limits(2, 0))})
    arrive(lending, "b", 6)
    arrive(lending, "a", 2)
    paused = lending.levels["a"]
    paused.lag = 10**12
    lending.operate(0, paused, held=True)
    lending.operate(0, paused)

    assert paused.lag == 0


def test_a_paused_level_is_charged_for_seats_that_others_wait_for() -> None:
    lending = Lending(4, {"a": (QUEUED, limits(2, 0)), "b": (QUEUED, limits(2, 0))})
    running = arrive(lending, "a", 6)
    arrive(lending, "b", 2)
    paused = lending.levels["a"]
    release(lending, running[0], 100)
    before = paused.lag
    lending.operate(100, paused, held=True)
    release(lending, running[1], 300)

    assert paused.lag < before


def test_a_paused_level_that_uses_less_than_its_nominal_seats_is_charged_if_it_deserves_even_less() -> None:
    """A level that doesn't wait has borrowed seats, so the others deserve less than they would on a busy server."""
    lending = Lending(10, {"a": (QUEUED, limits(4, 0)), "b": (QUEUED, limits(3, 0)), "c": (QUEUED, limits(3, 0))})
    running = arrive(lending, "c", 6)
    arrive(lending, "a", 3)
    arrive(lending, "b", 1)
    arrive(lending, "a")
    arrive(lending, "b", 2)
    paused = lending.levels["a"]
    lending.operate(0, paused, held=True)
    release(lending, running[0], 100)

    assert paused.lag < 0


def test_seats_that_are_given_back_while_too_many_are_in_use_are_charged_to_no_level() -> None:
    """No level gets them, because there are fewer seats now."""
    wanted: Wanted = {name: (QUEUED, limits(4, 0)) for name in ("few", "many")}
    lending = Lending(8, wanted)
    few, many = arrive(lending, "few", 4), arrive(lending, "many", 4)
    for name in wanted:
        arrive(lending, name)
    lending.reconfigure(0, 2, wanted)
    for ticket in few:
        assert release(lending, ticket, 100) == []
    for ticket in many[:2]:
        assert release(lending, ticket, 1000) == []

    assert lending.levels["few"].lag > 0 > lending.levels["many"].lag


def test_a_request_without_a_queue_that_changes_the_turns_lets_others_have_what_was_saved_up() -> None:
    """While seats are saved up for a wide request, a newcomer takes one; the rest suffices for another level."""
    one_queue = QueueSetSettings(3, 1, 1, 20)
    wanted: Wanted = {
        "any": (REJECTING, LevelLimits(2, 0, 2)),
        "narrow": (one_queue, LevelLimits(1, 1, 2)),
        "wide": (one_queue, LevelLimits(3, 3, 6)),
        "other": (one_queue, LevelLimits(1, 0, 21)),
    }
    lending = Lending(9, wanted)
    for name, width in (("narrow", 1), ("wide", 3), ("other", 3)):
        assert all(ticket.is_seated for ticket in arrive(lending, name, work=Work(width)))
    [wide] = arrive(lending, "wide", work=Work(3))
    [narrow] = arrive(lending, "narrow")
    assert (wide.is_waiting, narrow.is_waiting) == (True, True)

    ticket = Ticket("any", 1, Work())
    assert list(lending.arrive(0, lending.levels["any"], ticket)) == [ticket, narrow]
    lending.check()


def test_an_exempt_request_that_changes_the_turns_lets_others_have_what_was_saved_up() -> None:
    """While seats are saved up for a wide request, an exempt one takes one; the rest suffices for another level."""
    wanted: Wanted = {
        "wide": (QUEUED, LevelLimits(3, 1, 12)),
        "other": (QUEUED, LevelLimits(4, 2, 7)),
        "exempt": (EXEMPT, LevelLimits(0, 0, 8)),
    }
    shares = {"wide": LevelShares(0), "other": LevelShares(1)}
    lending = Lending(8, wanted, hierarchy=Hierarchy({"parent": limits(2, 2)}, {"wide": "parent"}, shares=shares))
    for name, width in (("other", 4), ("wide", 2)):
        assert all(ticket.is_seated for ticket in arrive(lending, name, work=Work(width)))
    [wide] = arrive(lending, "wide", work=Work(3))
    [narrow] = arrive(lending, "other")
    assert (wide.is_waiting, narrow.is_waiting) == (True, True)

    ticket = Ticket("exempt", 1, Work())
    assert list(lending.arrive(0, lending.levels["exempt"], ticket)) == [ticket, narrow]
    lending.check()


def test_a_rejected_request_that_finds_other_turns_lets_others_have_what_was_saved_up() -> None:
    """Time changes the turns, and a newcomer without a queue is the first to look at them again."""
    queued = {name: (QUEUED, limits(2, 0)) for name in ("a", "b", "c")}
    lending = Lending(6, queued | {"r": (REJECTING, limits(1, 1, 1))})
    running = arrive(lending, "c", 5)
    [wide] = arrive(lending, "a", work=Work(3))
    release(lending, running[0])
    [narrow] = arrive(lending, "b")
    [first] = arrive(lending, "r")
    assert (wide.is_waiting, narrow.is_waiting, first.is_seated) == (True, True, True)

    lending.levels["b"].lag = 10**12
    rejected = Ticket("r", 1, Work())
    assert list(lending.arrive(0, lending.levels["r"], rejected)) == [narrow]
    assert rejected.reason is Reason.CONCURRENCY_LIMIT
    lending.check()
