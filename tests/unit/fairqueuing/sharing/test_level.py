"""A lone request of a level is recorded later, with the same results."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from apf_middleware.exceptions import ClockError, TicketStateError
from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    LevelLimits,
    QueueSetSettings,
    SharedLevel,
    Sharing,
    Ticket,
    Work,
    flow_hash,
)
from apf_middleware.fairqueuing.sharing.base import Wanted
from apf_middleware.fairqueuing.sharing.level import NO_CAP
from tests.support.builds import raises_for_wrong_type
from tests.support.examples import seeds

MS = 10**6
ONE = Work()
LEVELS: Wanted = {
    "queued": (QueueSetSettings(4, 8, 3, 5), LevelLimits(4, 2, 10)),
    "rejecting": (QueueSetSettings.without_queues(3), LevelLimits(3, 1, 3)),
    "exempt": (QueueSetSettings.without_limit(1), LevelLimits(1, 0, 10)),
    "promised nothing": (QueueSetSettings(2, 4, 2, 5), LevelLimits(2, 0, 4)),
}


def arrive_alone(sharing: Sharing, name: str, now: int, work: Work = ONE) -> tuple[SharedLevel, Ticket]:
    level, ticket = sharing.levels[name], Ticket("flow", 5, work)
    assert list(sharing.arrive(now, level, ticket)) == [ticket]
    return level, ticket


@dataclass
class Run:
    """The same random load, with and without resting; ``log`` has which ticket was seated when."""

    sharing: Sharing
    seed: int
    light: float
    now: int = 0
    log: list[tuple[int, str]] = field(default_factory=list)
    tickets: list[tuple[SharedLevel, Ticket]] = field(default_factory=list)

    def play(self, steps: int) -> None:
        rng = random.Random(self.seed)
        for step in range(steps):
            self.now += rng.choice((0, 1, 7, MS, 3 * MS + 1, 40 * MS)) if rng.random() < 0.9 else rng.randrange(10**11)
            while (due := self.sharing.next_event_at()) is not None and due < self.now:
                self._note(self.sharing.tick(due))
            inside = [pair for pair in self.tickets if pair[1].is_seated or pair[1].is_waiting]
            if inside and rng.random() < self.light:
                self._leave(*rng.choice(inside))
            elif rng.random() < 0.05:
                self._note(self.sharing.tick(self.now))
                self.sharing.snapshot()
            else:
                self._arrive(rng, step)
            self.sharing.check()
            self.tickets = [pair for pair in self.tickets if pair[1].is_seated or pair[1].is_waiting]

    def _arrive(self, rng: random.Random, step: int) -> None:
        level = self.sharing.levels[rng.choice(list(LEVELS))]
        work = rng.choice((ONE, ONE, ONE, ONE, Work(2), Work(1, 1, 2 * MS), Work(1, 2, MS)))
        ticket = Ticket(f"{step}", flow_hash("schema", str(rng.randrange(5))), work)
        self.tickets.append((level, ticket))
        self._note(self.sharing.arrive(self.now, level, ticket))

    def _leave(self, level: SharedLevel, ticket: Ticket) -> None:
        leave = self.sharing.release if ticket.is_seated else self.sharing.abandon
        self._note(leave(self.now, level, ticket))

    def _note(self, seated: object) -> None:
        assert isinstance(seated, list | tuple)
        self.log += [(self.now, ticket.flow) for ticket in seated]


@pytest.mark.parametrize("light", [0.97, 0.6])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("way", [Lending, Adjusting])
def test_resting_changes_no_decisions_statistics_or_meters(
    way: Callable[..., Sharing], seed: int, light: float
) -> None:
    quick, plain = (Run(way(6, LEVELS, may_rest=rests), seed, light) for rests in (True, False))
    quick.play(400)
    plain.play(400)
    quick.sharing.snapshot()

    assert quick.log == plain.log
    for name, level in quick.sharing.levels.items():
        ours, theirs = level.queueset, plain.sharing.levels[name].queueset
        assert ours.snapshot().meters == theirs.snapshot().meters
        assert ours.deck.choices == theirs.deck.choices
        assert (ours.dispatched, ours.rejected) == (theirs.dispatched, theirs.rejected)
        assert ours.demand.results(quick.now) == theirs.demand.results(quick.now)
    if light > 0.9:
        assert all(level.alone_count for level in quick.sharing.levels.values() if level.least or level.exempt)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("name", ["max-min-serial", "max-min-concurrent"])
def test_resting_changes_no_decision_of_the_max_min_disciplines(name: str, seed: int) -> None:
    quick, plain = (
        Run(Lending(6, LEVELS, may_rest=rests, discipline=DISCIPLINES[name]), seed, 0.9) for rests in (True, False)
    )
    quick.play(400)
    plain.play(400)
    quick.sharing.snapshot()

    assert quick.log == plain.log
    assert sum(level.alone_count for level in quick.sharing.levels.values())
    for level_name, level in quick.sharing.levels.items():
        assert level.queueset.dispatched == plain.sharing.levels[level_name].queueset.dispatched


def test_a_request_that_is_alone_arrives_in_the_queue_set_before_a_second_one() -> None:
    lending = Lending(6, LEVELS)
    level, first = arrive_alone(lending, "queued", 10)
    assert level.queueset.executing == 0

    arrive_alone(lending, "queued", 25)

    assert level.queueset.executing == 2
    assert (first.arrived_at, first.seated_at) == (10, 10)


def test_requests_that_came_and_went_alone_are_counted() -> None:
    lending = Lending(6, LEVELS)
    level = lending.levels["queued"]
    for now in (0, 100, 200):
        _, ticket = arrive_alone(lending, "queued", now)
        assert list(lending.release(now + 30, level, ticket)) == []
    assert (level.alone_count, level.alone_ns) == (3, 90)
    assert level.queueset.dispatched == 0

    [picture] = [one for one in lending.snapshot().levels if one.level == "queued"]

    assert (level.alone_count, picture.dispatched) == (3, 3)
    assert level.queueset.dispatched == 3


def test_reading_wakes_a_resting_level_only_briefly() -> None:
    lending = Lending(6, LEVELS)
    level, ticket = arrive_alone(lending, "queued", 0)
    lending.release(1, level, ticket)
    lending.snapshot()

    _, ticket = arrive_alone(lending, "queued", 2)

    assert level.alone is ticket


@pytest.mark.parametrize(
    ("name", "work"),
    [("queued", Work(2)), ("queued", Work(1, 1, 1)), ("promised nothing", ONE)],
    ids=["wide", "lingering", "promised nothing"],
)
def test_only_a_request_for_one_promised_seat_can_be_alone(name: str, work: Work) -> None:
    level, _ = arrive_alone(Lending(6, LEVELS), name, 0, work)

    assert level.alone is None
    assert level.queueset.executing == 1


def test_an_exempt_request_that_is_alone_counts_for_the_others() -> None:
    lending = Lending(3, {"exempt": LEVELS["exempt"], "promised nothing": LEVELS["promised nothing"]})
    other = lending.levels["promised nothing"]
    assert other.current == 3
    level, ticket = arrive_alone(lending, "exempt", 0)
    assert level.alone is ticket
    assert other.current == 2

    lending.release(1, level, ticket)

    assert other.current == 3


def test_the_end_of_an_exempt_request_that_was_alone_seats_one_of_another_level() -> None:
    lending = Lending(1, {"exempt": LEVELS["exempt"], "promised nothing": LEVELS["promised nothing"]})
    level, ticket = arrive_alone(lending, "exempt", 0)
    waits = Ticket("flow", 5, ONE)
    assert list(lending.arrive(1, lending.levels["promised nothing"], waits)) == []

    assert list(lending.release(2, level, ticket)) == [waits]


@pytest.mark.parametrize("way", [Lending, Adjusting])
def test_calls_out_of_turn_are_refused_as_everywhere(way: Callable[..., Sharing]) -> None:
    sharing = way(6, LEVELS)
    level, ticket = arrive_alone(sharing, "queued", 10)

    with pytest.raises(TicketStateError, match="has already arrived"):
        sharing.arrive(11, level, ticket)
    with pytest.raises(TicketStateError, match="doesn't wait"):
        sharing.abandon(11, level, ticket)
    with pytest.raises(TicketStateError, match="isn't seated"):
        sharing.release(11, sharing.levels["rejecting"], ticket)
    with pytest.raises(ClockError):
        sharing.release(9, level, ticket)
    assert ticket.is_seated
    sharing.release(12, level, ticket)
    with pytest.raises(TicketStateError, match="isn't seated"):
        sharing.release(13, level, ticket)


@pytest.mark.parametrize("way", [Lending, Adjusting])
def test_a_clock_that_runs_backwards_is_refused_by_a_level_at_rest(way: Callable[..., Sharing]) -> None:
    sharing = way(6, LEVELS)
    level, ticket = arrive_alone(sharing, "queued", 10)
    sharing.release(20, level, ticket)

    with pytest.raises(ClockError):
        sharing.arrive(19, level, Ticket("flow", 5, ONE))
    with raises_for_wrong_type(r"now is 21\.0"):
        sharing.arrive(21.0, level, Ticket("flow", 5, ONE))  # type: ignore[arg-type]


def test_with_strict_upstream_no_request_is_alone() -> None:
    level, _ = arrive_alone(Lending(6, LEVELS, strict_upstream=True), "queued", 0)

    assert level.alone is None


def test_a_level_at_its_cap_seats_no_request_unless_it_is_promised_more() -> None:
    level = Lending(6, LEVELS).levels["queued"]
    level.queueset.waiting, level.queueset.seats_in_use = 1, 2
    level.least = 2
    assert (level.is_open, level.is_stopped, level.wants_seats) == (True, False, True)
    level.set_cap(3)
    assert (level.is_open, level.is_stopped, level.wants_seats) == (False, False, True)
    level.set_cap(2)
    assert (level.is_stopped, level.wants_seats) == (True, False)
    level.set_cap(1)
    level.least = 3
    assert not level.is_stopped
    level.set_cap(0)
    assert level.cap == 1, "a level with a cap isn't held"
    level.is_held = True
    level.set_cap(NO_CAP)
    assert (level.is_open, level.is_stopped) == (False, True)


def test_a_pause_lengthens_requests_until_the_cap_is_lifted() -> None:
    level = Lending(6, LEVELS).levels["queued"]

    def linger(work: Work) -> int:
        ticket = Ticket("flow", 5, work)
        level.lengthen(ticket)
        return ticket.work.linger_ns

    assert linger(ONE) == 0
    level.set_cap(2, pause_ns=7 * MS)
    assert (linger(ONE), linger(Work(1, 1, MS))) == (7 * MS, MS)
    level.set_cap(NO_CAP, pause_ns=7 * MS)
    assert linger(ONE) == 0


def test_borrowers_are_ranked_by_priority_and_then_by_weight() -> None:
    level = Lending(6, LEVELS).levels["queued"]
    ranks = []
    for priority, weight in ((2, 1), (2, 0), (1, 1), (1, 0)):
        level.weight = weight
        level.rank_borrower(priority)
        ranks.append(level.borrows_as)

    assert ranks == sorted(set(ranks))
