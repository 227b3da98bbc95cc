"""Behind a wide ticket others may pass, and it sits within (rounds + 1) times the longest request all the same."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Lending,
    LevelLimits,
    QueueSet,
    QueueSetSettings,
    SharedLevel,
    Ticket,
    Work,
)
from apf_middleware.fairqueuing.seats import Reservation
from tests.support.examples import examples

MS = 10**6


class PassLog(dict[Ticket, tuple[Reservation, ...]]):
    """The mapping of tickets that have passed others; it notes those that passed the head of the ``watched`` one."""

    def __init__(self, watched: Reservation, *others: Reservation) -> None:
        super().__init__()
        self.tickets: list[Ticket] = []
        self._watched = watched
        self._noted: set[Ticket] = set()
        for reservation in (watched, *others):
            reservation.join(self)

    def __setitem__(self, ticket: Ticket, reservations: tuple[Reservation, ...]) -> None:
        super().__setitem__(ticket, reservations)
        if self._watched in reservations and ticket not in self._noted:
            self._noted.add(ticket)
            self.tickets.append(ticket)


def log_of(lending: Lending, watched: str) -> PassLog:
    """Return a log of the tickets that pass the head of the level ``watched``."""
    reservations = {name: level.queueset.reservation for name, level in lending.levels.items()}
    return PassLog(reservations.pop(watched), *reservations.values())


class Watch:
    """How long one ticket has waited while it was its turn and nobody took that turn away."""

    def __init__(self, ticket: Ticket, bound: int) -> None:
        self.ticket = ticket
        self.bound = bound
        self.since: int | None = None
        self.longest = 0

    def look(self, now: int, *, is_first: bool, others: Sequence[Ticket]) -> None:
        """After a step: is it its turn, and were ``others`` seated who came first by right?"""
        if self.ticket.is_waiting and is_first:
            if self.since is None or others:
                self.since = now
            self.longest = max(self.longest, now - self.since)
            assert now - self.since <= self.bound
        else:
            if self.ticket.is_seated and self.since is not None and not others:
                assert now - self.since <= self.bound
            self.since = None


class Crowd:
    """Random requests that last at most ``longest``, before one queue set or before levels that lend."""

    def __init__(self, chance: random.Random, longest: int) -> None:
        self.chance = chance
        self.longest = longest
        self.now = 0
        self.running: list[tuple[int, int, Ticket]] = []
        self.made = 0

    def ticket(self, flow: int, width: int) -> Ticket:
        linger = self.chance.choice([0, 0, self.longest // 4])
        return Ticket(f"flow {flow}", flow, Work(width, width if linger else 0, linger))

    def seat(self, seated: Sequence[Ticket]) -> None:
        for ticket in seated:
            self.made += 1
            # The linger counts: the seats are taken for so long.
            lasts = most = self.longest - ticket.work.linger_ns
            if self.chance.random() < 0.3:
                lasts = self.chance.randint(1, most)
            self.running.append((self.now + lasts, self.made, ticket))
        self.running.sort()

    def wait(self, event: int | None) -> None:
        """Let a little time pass, but nothing that is due."""
        due = [end for end, _, _ in self.running[:1]] + ([] if event is None else [event])
        self.now = min([self.now + self.chance.randint(0, 20 * MS), *due])

    def is_next(self, event: int | None) -> bool:
        """Whether the end of a linger comes before any release; then it has come."""
        if event is None or (self.running and self.running[0][0] < event):
            return False
        self.now = max(self.now, event)
        return True


@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(8)
@given(
    seats=st.integers(2, 12),
    over=st.integers(0, 3),
    rounds=st.integers(0, 4),
    narrow=st.sampled_from([(1,), (1, 2), (1, 2, 3)]),
    load=st.sampled_from([0.2, 0.6, 2.0]),
    seed=st.integers(0, 10**6),
)
def test_in_a_queue_set_the_wait_of_a_wide_ticket_is_bounded(
    discipline: str, *, seats: int, over: int, rounds: int, narrow: Sequence[int], load: float, seed: int
) -> None:
    crowd = Crowd(random.Random(seed), 100 * MS)
    queueset = QueueSet(
        QueueSetSettings(seats, 8, 1, 20, exact=20, backfill=rounds), discipline=DISCIPLINES[discipline]
    )
    log = PassLog(queueset.reservation)
    wide = crowd.ticket(99, max(1, seats - 2 + over))
    watch = Watch(wide, (rounds + 1) * crowd.longest)
    for step in range(250):
        log.tickets.clear()
        if step == 20:
            seated = [*queueset.arrive(crowd.now, wide)]
        elif crowd.is_next(queueset.next_event_at()):
            seated = [*queueset.tick(crowd.now)]
        elif crowd.running and crowd.chance.random() > load / (1 + load):
            crowd.now, _, ticket = crowd.running.pop(0)
            seated = [*queueset.release(crowd.now, ticket)]
        else:
            crowd.wait(queueset.next_event_at())
            seated = [
                *queueset.arrive(crowd.now, crowd.ticket(crowd.chance.randrange(12), crowd.chance.choice(narrow)))
            ]
        crowd.seat(seated)
        queueset.check()
        others = [ticket for ticket in seated if ticket not in log.tickets and ticket is not wide]
        is_first = wide.is_waiting and queueset.head() is wide
        watch.look(crowd.now, is_first=is_first, others=others)
        if is_first:
            nobody_stands_for_nothing(queueset)


def nobody_stands_for_nothing(queueset: QueueSet) -> None:
    """While a round lasts, whoever fits has been seated, unless the queue of the head is far behind."""
    head, reservation = queueset.head(), queueset.reservation
    free = queueset.concurrency - queueset.seats_in_use
    assert queueset.guarantee is not None
    if queueset.guarantee.bars_passing(queueset._now, queueset.concurrency, head.queue):
        return
    if free > 0 and 0 < reservation.rounds.get(head, 0) <= queueset.rounds:
        firsts = [queue.oldest for queue in queueset.deck if queue.oldest is not None]
        assert all(first.width > free for first in firsts)


@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(6)
@given(
    seats=st.integers(4, 10),
    rounds=st.integers(1, 5),
    flows=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=2, max_size=5),
    seed=st.integers(0, 10**6),
)
@example(seats=10, rounds=2, flows=[[1, 3], [4, 3], [2], [1], [2, 3]], seed=0)
def test_flows_whose_requests_are_passed_fall_no_further_behind(
    discipline: str, *, seats: int, rounds: int, flows: Sequence[Sequence[int]], seed: int
) -> None:
    """Flows that always have something waiting get the same seats in the long run, though narrow requests may pass."""
    crowd = Crowd(random.Random(seed), 100 * MS)
    settings = QueueSetSettings(seats, len(flows), 1, 1000, backfill=rounds)
    queueset = QueueSet(settings, discipline=DISCIPLINES[discipline])
    sent, held = [0] * len(flows), [0] * len(flows)

    def send(flow: int) -> None:
        width = flows[flow][sent[flow] % len(flows[flow])]
        sent[flow] += 1
        crowd.seat(queueset.arrive(crowd.now, Ticket(f"{flow}", flow, Work(width))))

    for flow in range(len(flows)):
        for _ in range(20):
            send(flow)
    slack = 3 * (seats + 1) * crowd.longest  # twice what a flow is ahead of another in the worst of many worlds
    while sum(held) < 3 * slack * len(flows):
        crowd.now, _, ticket = crowd.running.pop(0)
        held[int(ticket.flow)] += ticket.width * (crowd.now - ticket.seated_at)
        crowd.seat(queueset.release(crowd.now, ticket))
        send(int(ticket.flow))
    queueset.check()
    assert max(held) - min(held) < slack


@examples(9)
@given(
    seats=st.integers(3, 12),
    rounds=st.integers(0, 4),
    least=st.integers(0, 2),
    load=st.sampled_from([0.3, 1.0, 2.0]),
    seed=st.integers(0, 10**6),
)
def test_among_levels_the_wait_of_a_wide_ticket_is_bounded(
    *, seats: int, rounds: int, least: int, load: float, seed: int
) -> None:
    crowd = Crowd(random.Random(seed), 100 * MS)
    queues = QueueSetSettings(seats, 8, 1, 20, exact=20, backfill=rounds)
    limits = LevelLimits(seats // 2 + 1, least, seats)
    lending = Lending(seats + 2 * least, {"wide": (queues, limits), "a": (queues, limits), "b": (queues, limits)})
    level = lending.levels["wide"]
    log = log_of(lending, "wide")
    wide, homes = crowd.ticket(99, seats - 1), dict[Ticket, SharedLevel]()
    watch = Watch(wide, (rounds + 1) * crowd.longest)
    for step in range(250):
        log.tickets.clear()
        if step == 20:
            homes[wide] = level
            seated = [*lending.arrive(crowd.now, level, wide)]
        elif crowd.is_next(lending.next_event_at()):
            seated = [*lending.tick(crowd.now)]
        elif crowd.running and crowd.chance.random() > load / (1 + load):
            crowd.now, _, ticket = crowd.running.pop(0)
            seated = [*lending.release(crowd.now, homes[ticket], ticket)]
        else:
            crowd.wait(lending.next_event_at())
            ticket = crowd.ticket(crowd.chance.randrange(12), crowd.chance.choice([1, 1, 2]))
            homes[ticket] = lending.levels[crowd.chance.choice(["wide", "a", "b"])]
            seated = [*lending.arrive(crowd.now, homes[ticket], ticket)]
        crowd.seat(seated)
        lending.check()
        is_saver = wide.is_waiting and lending._scheduler.survey(crowd.now).saver is level
        by_right = [ticket for ticket in seated if ticket not in log.tickets and ticket is not wide]
        others = [one for one in by_right if homes[one].queueset.seats_in_use > homes[one].least]
        watch.look(crowd.now, is_first=is_saver and level.queueset.head() is wide, others=others)


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_the_number_of_backfill_rounds_is_kept(rounds: int) -> None:
    """Two seats, and requests that overlap: without a bound the one that needs both would wait for ever."""
    queueset = QueueSet(QueueSetSettings(2, 8, 1, 1000, exact=20, backfill=rounds))
    log = PassLog(queueset.reservation)
    running = [*queueset.arrive(0, Ticket("flow", 1, Work())), *queueset.arrive(0, Ticket("flow", 2, Work()))]
    wide = Ticket("wide", 99, Work(2))
    queueset.arrive(0, wide)
    for flow in (1, 2, 3, 4):
        for _ in range(50):
            queueset.arrive(0, Ticket("flow", flow, Work()))
    now = 0
    while wide.is_waiting:
        now += 5 * MS
        running += queueset.release(now, running.pop(0))

    assert len(log.tickets) == rounds  # in each round one that ran before it ends, and one takes its seat


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("others", ["in another level", "in its own level"])
def test_the_number_of_backfill_rounds_is_kept_among_levels(rounds: int, others: str) -> None:
    """As above; somebody always waits elsewhere too, so that seats are dispatched among levels.

    A request of a second has ended before, so that no level is far behind in these few ms.
    """
    queues, limits = QueueSetSettings(2, 8, 1, 1000, exact=20, backfill=rounds), LevelLimits(2, 0, 2)
    small = LevelLimits(1, 0, 1)
    lending = Lending(3, {"wide": (queues, limits), "other": (queues, limits), "third": (queues, small)})
    own, other, third = (lending.levels[name] for name in ("wide", "other", "third"))
    crowded = own if others == "in its own level" else other
    log = log_of(lending, "wide")
    homes: dict[Ticket, SharedLevel] = {}

    def arrive(level: SharedLevel, flow: int, width: int = 1) -> Ticket:
        ticket = Ticket(level.name, flow, Work(width))
        homes[ticket] = level
        running.extend(lending.arrive(now, level, ticket))
        return ticket

    now = 0
    running: list[Ticket] = []
    for _ in range(3):
        arrive(third, 5)  # the level has one seat
    now = 1000 * MS
    arrive(crowded, 1)
    arrive(crowded, 2)
    wide = arrive(own, 99, 2)
    for flow in (1, 2, 3, 4):
        for _ in range(50):
            arrive(crowded, flow)
    running += lending.release(now, third, running.pop(0))
    bystander = running.pop()
    while wide.is_waiting:
        now += 5 * MS
        ticket = running.pop(0)
        running += lending.release(now, homes[ticket], ticket)
        lending.check()

    assert bystander.is_seated
    assert len(log.tickets) == rounds


def test_guaranteed_seats_do_not_depend_on_other_levels() -> None:
    """Within its min a level lets its own pass, though seats are saved up in another level that lets nobody pass."""
    queues = QueueSetSettings(8, 8, 1, 1000, exact=20)
    lets_pass = QueueSetSettings(8, 8, 1, 1000, exact=20, backfill=1)
    levels = {"saver": LevelLimits(3, 0, 8), "promised": LevelLimits(3, 2, 3), "third": LevelLimits(2, 0, 8)}
    lending = Lending(8, {name: (lets_pass if name == "promised" else queues, one) for name, one in levels.items()})

    def arrive(name: str, flow: int, width: int = 1, now: int = 0) -> Ticket:
        ticket = Ticket(name, flow, Work(width))
        lending.arrive(now, lending.levels[name], ticket)
        return ticket

    for _ in range(3):
        arrive("third", 1)
    arrive("promised", 2)
    too_wide, saver = arrive("promised", 3, 4), arrive("saver", 4, 4)
    narrow = arrive("promised", 5, now=1000 * MS)  # so late that it isn't its turn

    assert too_wide.is_waiting
    assert saver.is_waiting
    assert narrow.is_seated
