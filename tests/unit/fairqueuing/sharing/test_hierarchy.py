"""Parents, priorities and levels that are held or closing, step by step; the twin in tests/property tries the rest."""

import heapq
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Adjusting, Lending, LevelLimits, QueueSetSettings, Reason, Sharing, Ticket, Work
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.builds import raises_for_wrong_type
from tests.support.sharing_steps import QUEUED, REJECTING, arrive, limits, release, seated

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.base import Wanted


def family(seats: int, most: int, least: int = 0, **children: LevelLimits) -> Lending:
    """Return the children of a parent of that max and min, beside a level ``web`` that is promised nothing."""
    wanted: Wanted = {name: (QUEUED, one) for name, one in ({"web": limits(1, 0)} | children).items()}
    parent = limits(least, least, most)
    return Lending(seats, wanted, hierarchy=Hierarchy({"tenants": parent}, dict.fromkeys(children, "tenants")))


# Parents


@pytest.mark.parametrize(("most", "least"), [(1, 1), (1, 0), (3, 3), (3, 2), (3, 0), (7, 7)])
@pytest.mark.parametrize("minimum", [0, 1])
def test_children_divide_their_parent_s_seats_by_weight(most: int, least: int, minimum: int) -> None:
    """Also a min of the parent of which each child deserves less than a seat."""
    shares = {"free": LevelShares(1), "paid": LevelShares(5)}
    wanted: Wanted = {"web": (QUEUED, limits(1, minimum)), **{name: (QUEUED, limits(1, 0)) for name in shares}}
    hierarchy = Hierarchy({"tenants": limits(least, least, most)}, dict.fromkeys(shares, "tenants"), {}, shares)
    lending, dice = Lending(most + 1, wanted, hierarchy=hierarchy), random.Random(1)
    running: list[tuple[int, int, Ticket]] = []
    used, now = dict.fromkeys(shares, 0), 0
    for turn in range(4000):
        for name in shares:
            level = lending.levels[name]
            while level.queueset.waiting < 2:
                ticket = Ticket(name, turn, Work())
                for one in {ticket, *lending.arrive(now, level, ticket)}:
                    if one.is_seated:
                        heapq.heappush(running, (now + dice.randint(20, 60), id(one), one))
        now, _, ended = heapq.heappop(running)
        used[ended.flow] += now - ended.seated_at
        for one in lending.release(now, lending.levels[ended.flow], ended):
            heapq.heappush(running, (now + dice.randint(20, 60), id(one), one))
    assert used["paid"] / used["free"] == pytest.approx(5, rel=0.03)


def test_children_together_never_use_more_than_their_parent_s_max() -> None:
    lending = family(20, 6, free=limits(2, 0), paid=limits(4, 0))

    assert seated(arrive(lending, "free", 9)) == 6
    assert seated(arrive(lending, "paid", 9)) == 0
    assert seated(arrive(lending, "web", 30)) == 14


def test_within_its_parent_s_max_a_child_s_min_stays_free() -> None:
    lending = family(20, 6, free=limits(2, 0), paid=limits(4, 2))

    assert seated(arrive(lending, "free", 9)) == 4
    assert seated(arrive(lending, "paid", 9)) == 2


def test_what_a_parent_is_promised_is_kept_for_any_of_its_children() -> None:
    lending = family(10, 10, 4, free=limits(2, 0), paid=limits(4, 0))

    assert seated(arrive(lending, "web", 20)) == 6
    assert seated(arrive(lending, "free", 3)) == 3
    assert seated(arrive(lending, "paid", 3)) == 1


def test_a_child_within_its_parent_s_min_comes_before_a_borrower() -> None:
    lending = family(4, 4, 2, free=limits(1, 0), paid=limits(1, 0))
    running = arrive(lending, "web", 9)
    assert seated(running) == 2
    [first, *_] = arrive(lending, "free", 3)

    assert first.is_seated
    assert release(lending, first) == ["free"]
    assert release(lending, running[0]) == ["web"]


def test_a_wide_child_that_its_parent_s_max_holds_back_has_seats_saved_up_only_among_its_siblings() -> None:
    lending = family(20, 4, free=limits(2, 0), paid=limits(2, 0))
    running = arrive(lending, "free", 4)
    [wide] = arrive(lending, "paid", 1, Work(3))
    arrive(lending, "free", 3)

    assert [release(lending, ticket) for ticket in running[:2]] == [[], []]
    assert seated(arrive(lending, "web", 5)) == 5
    assert release(lending, running[2]) == ["paid"]
    assert wide.is_seated


def test_a_level_can_move_to_another_parent_while_it_works() -> None:
    lending = family(20, 3, free=limits(2, 0), paid=limits(2, 0))
    arrive(lending, "free", 5)
    wanted: Wanted = {name: (QUEUED, one.limits) for name, one in lending.levels.items()}

    let_in = lending.reconfigure(0, 20, wanted, Hierarchy({"tenants": limits(0, 0, 3)}, {"paid": "tenants"}))

    lending.check()
    assert len(let_in) == 2
    assert seated(arrive(lending, "paid", 5)) == 3


@pytest.mark.parametrize(
    ("hierarchy", "name"),
    [
        (Hierarchy(parent_of={"a": "nobody"}), "parent of a"),
        (Hierarchy({"a": limits(1, 1)}), "parents"),
        (Hierarchy(priorities={"a": 10**7}), "priority of a"),
    ],
)
def test_invalid_hierarchies_are_refused(hierarchy: Hierarchy, name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Lending(4, {"a": (QUEUED, limits(1, 1))}, hierarchy=hierarchy)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("hierarchy", "name"),
    [(None, "hierarchy"), (Hierarchy({"p": (1, 1, 1)}), "limits of p")],  # type: ignore[dict-item]
)
def test_hierarchies_of_wrong_types_are_refused(hierarchy: Hierarchy, name: str) -> None:
    with raises_for_wrong_type(f"^{name} is "):
        Lending(4, {"a": (QUEUED, limits(1, 1))}, hierarchy=hierarchy)


# Guarantees in aggregate, and priorities


def test_two_borrowers_together_leave_the_guarantee_of_a_third() -> None:
    lending = Lending(9, {name: (QUEUED, limits(2, 2)) for name in "abc"})
    borrowed = arrive(lending, "a", 4) + arrive(lending, "b", 4)

    assert seated(borrowed) == 7
    assert seated(arrive(lending, "c", 4)) == 2


def test_a_queue_at_its_max_waits_though_seats_are_free_and_one_beyond_its_nominal_seats_borrows() -> None:
    lending = Lending(10, {"capped": (QUEUED, limits(2, 0, 3)), "free": (QUEUED, limits(2, 0))})

    assert seated(arrive(lending, "capped", 5)) == 3
    assert seated(arrive(lending, "free", 5)) == 5


@pytest.mark.parametrize(("priority", "first"), [(5, "high"), (-5, "low"), (0, "taking turns")])
def test_the_priority_decides_among_borrowers_and_only_there(priority: int, first: str) -> None:
    names = ("filler", "high", "low")
    lending = Lending(
        6, {name: (QUEUED, limits(1, 0)) for name in names}, hierarchy=Hierarchy(priorities={"high": priority})
    )
    running = arrive(lending, "filler", 6)
    arrive(lending, "low", 5)
    arrive(lending, "high", 5)

    order = [name for ticket in running[:5] for name in release(lending, ticket)]

    assert order[:2] == ["high", "low"]  # each within its nominal seats
    assert order[2:] == {"high": ["high"] * 3, "low": ["low"] * 3}.get(first, ["high", "low", "high"])


def test_symmetric_load_does_not_swing() -> None:
    lending = Lending(10, {name: (QueueSetSettings(5, 1, 1, 10**6), limits(5, 0)) for name in "ab"})
    tickets = arrive(lending, "a", 30) + arrive(lending, "b", 30)
    for ticket in tickets[:5]:
        release(lending, ticket)
    used = []
    for turn in range(400):
        tickets += arrive(lending, "ab"[turn % 2])
        oldest = next(ticket for ticket in tickets if ticket.is_seated)
        release(lending, oldest)
        tickets.remove(oldest)
        used.append(lending.levels["a"].queueset.seats_in_use)

    assert max(used) - min(used) <= 1


# Levels that go


def test_a_level_without_a_min_waits_while_another_one_drains_instead_of_being_shut_out() -> None:
    lending = Lending(1, {"old": (QUEUED, limits(1, 0))})
    old = lending.levels["old"]
    [running, waits] = arrive(lending, "old", 2)
    lending.reconfigure(0, 1, {"new": (QUEUED, limits(1, 0))})

    [newcomer] = arrive(lending, "new")
    assert newcomer.is_waiting
    assert list(lending.release(0, old, running)) == [waits]
    assert list(lending.release(0, old, waits)) == [newcomer]
    lending.check()


def test_a_level_that_is_over_does_not_come_back() -> None:
    wanted: Wanted = {"a": (QUEUED, limits(1, 0))}
    lending = Lending(2, wanted)
    old = lending.levels["a"]
    [ticket] = arrive(lending, "a")
    old.is_over = True
    lending.reconfigure(0, 2, {})
    lending.reconfigure(0, 2, wanted)

    assert lending.levels["a"] is not old
    assert lending.draining == [old]
    lending.release(0, old, ticket)
    assert lending.draining == []
    lending.check()


# Levels that are held or closing

BOTH = pytest.mark.parametrize("kind", [Lending, Adjusting])


@BOTH
def test_in_a_level_that_is_held_new_requests_wait(kind: Callable[..., Sharing]) -> None:
    sharing = kind(4, {"a": (QUEUED, limits(4, 0))})
    [running] = arrive(sharing, "a")
    level = sharing.levels["a"]
    sharing.operate(0, level, held=True)
    waits = arrive(sharing, "a", 2)
    assert level.current == 0

    assert release(sharing, running) == []
    assert [ticket.is_waiting for ticket in waits] == [True, True]
    assert list(sharing.operate(0, level)) == waits


@BOTH
def test_a_level_that_closes_serves_waiting_requests_and_rejects_new_ones(kind: Callable[..., Sharing]) -> None:
    sharing = kind(1, {"a": (QUEUED, limits(1, 0))})
    [running, waits] = arrive(sharing, "a", 2)
    level = sharing.levels["a"]
    sharing.operate(0, level, closing=True)
    assert arrive(sharing, "a")[0].reason is Reason.QUEUE_CLOSING

    assert release(sharing, running) == ["a"]
    assert release(sharing, waits) == []
    assert arrive(sharing, "a")[0].reason is Reason.QUEUE_CLOSED
    sharing.operate(0, level)
    assert arrive(sharing, "a")[0].is_seated


@BOTH
def test_a_request_that_is_alone_is_known_when_its_level_closes(kind: Callable[..., Sharing]) -> None:
    sharing = kind(4, {"a": (QUEUED, limits(4, 4))})
    [alone] = arrive(sharing, "a")
    level = sharing.levels["a"]
    sharing.operate(0, level, closing=True)

    assert arrive(sharing, "a")[0].reason is Reason.QUEUE_CLOSING
    release(sharing, alone)
    assert level.is_idle
    assert arrive(sharing, "a")[0].reason is Reason.QUEUE_CLOSED


def test_a_level_without_queues_rejects_while_it_is_held() -> None:
    lending = Lending(4, {"a": (REJECTING, limits(4, 2))})
    lending.operate(0, lending.levels["a"], held=True)

    assert arrive(lending, "a")[0].reason is Reason.CONCURRENCY_LIMIT


def test_a_held_level_keeps_its_min_and_a_closed_one_lends_it() -> None:
    lending = Lending(6, {"a": (QUEUED, limits(4, 4)), "b": (QUEUED, limits(2, 0))})
    [running] = arrive(lending, "a")
    waits = arrive(lending, "b", 9)
    assert seated(waits) == 2
    lending.operate(0, lending.levels["a"], held=True)
    assert seated(waits) == 2
    lending.operate(0, lending.levels["a"], closing=True)
    assert seated(waits) == 2

    assert release(lending, running) == ["b"] * 4


def test_a_parent_lends_its_min_when_its_last_child_is_closed_and_idle() -> None:
    lending = family(6, 6, least=4, free=limits(1, 0), paid=limits(1, 1))
    [running] = arrive(lending, "free")
    waits = arrive(lending, "web", 9)
    for name in ("free", "paid"):
        lending.operate(0, lending.levels[name], closing=True)
        lending.check()
    assert seated(waits) == 2

    assert release(lending, running) == ["web"] * 4
    lending.operate(0, lending.levels["paid"])
    assert lending.parents["tenants"].least == 4


def test_a_held_level_does_not_block_others() -> None:
    lending = Lending(2, {"a": (QUEUED, limits(1, 0)), "b": (QUEUED, limits(1, 0))})
    lending.operate(0, lending.levels["a"], held=True)
    arrive(lending, "a", 3)

    assert seated(arrive(lending, "b", 3)) == 2
