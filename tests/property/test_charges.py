"""What a request is charged is what its flow is billed, in every discipline, to the nanosecond of its seats."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Discipline,
    Lending,
    QueueSet,
    QueueSetSettings,
    Ticket,
    TicketState,
    Work,
)
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import UpstreamEqualSerial, UpstreamEqualSerialQueue
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, WEIGHT_ONE, round_half_away, seat_seconds
from tests.support.delegating_discipline import DelegatingDiscipline
from tests.support.examples import examples

MS = 10**6
CHARGES = st.none() | st.integers(0, 50) | st.floats(0, 50)
REQUESTS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 200 * MS), CHARGES, st.integers(0, 3)), min_size=1, max_size=12
)


class Noted(DelegatingDiscipline, of=UpstreamEqualSerial):
    """Notes what its queues are billed: what was taken on account, and what settling makes of it."""

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        super().__init__(concurrency, guess_ns)
        self.billed = 0

    def serve(self, queue: Queue, ticket: Ticket) -> None:
        super().serve(queue, ticket)
        self.billed += ticket.total_work

    def dispatch(self, queue: Queue, ticket: Ticket) -> None:
        super().dispatch(queue, ticket)
        self.billed += ticket.total_work

    def settle(self, queue: Queue, ticket: Ticket, duration_ns: int) -> None:
        assert isinstance(queue, UpstreamEqualSerialQueue)
        before = queue.next_dispatch_r
        waits = queue.oldest
        super().settle(queue, ticket, duration_ns)
        if waits is None:  # nothing lifts the meter then
            self.billed += queue.next_dispatch_r - before


@given(REQUESTS)
@examples(50)
def test_billed_work_equals_charged_work(
    requests: list[tuple[int, int, float | None, int]],
) -> None:
    queueset = QueueSet(QueueSetSettings(10**6, 4, 1, 100), discipline=Noted)
    now, expected, running = 0, 0, []
    for seats, duration, charge, flow in requests:
        ticket = Ticket(f"{flow}", flow, Work(seats))
        queueset.arrive(now, ticket)
        if charge is not None:
            queueset.charge(ticket, 77)
            queueset.charge(ticket, charge)
        held = duration if charge is None else round_half_away(duration * charge / seats)
        expected += seat_seconds(seats, DEFAULT_GUESS_NS) - seat_seconds(seats, DEFAULT_GUESS_NS - held)
        if charge is not None:
            assert abs(held * seats - charge * duration) <= seats / 2 + 1e-6 * duration
        running.append((now + duration, ticket))
        now += 3 * MS
    for ends, ticket in sorted(running, key=lambda one: one[0]):
        now = max(now, ends)
        ticket.seated_at = now - (ends - ticket.seated_at)  # as long as it says, whenever its turn to end is
        queueset.release(now, ticket)
        queueset.check()
    discipline = queueset.discipline
    assert isinstance(discipline, Noted)
    assert discipline.billed == expected
    assert queueset.seats_in_use == 0
    assert not queueset.charges.seats, "nobody is remembered"


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow whose requests wait all the time: what they hold, how long, and the part of it that they are charged."""

    widths: list[int]
    duration_ms: int
    charged_part: float
    weight: int

    def counted(self, width: int) -> float:
        """Return the work that the guarantee counts, divided by the weight."""
        return width * self.duration_ms * max(self.charged_part, 1 / 16) / self.weight


# Only long requests are charged nothing: of short ones, tens of thousands would be needed.
CHARGED = [(10, 0.25), (10, 1), (10, 2), (20, 0.25), (20, 1), (20, 2), (50, 0), (50, 0.25), (50, 1), (50, 2)]
FLOWS = st.builds(
    lambda widths, charged, weight: Flow(widths, charged[0], charged[1], weight),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from(CHARGED),
    st.sampled_from([1, 2]),
)


@pytest.mark.parametrize("name", DISCIPLINES)
@given(st.lists(FLOWS, min_size=2, max_size=5), st.integers(4, 10))
@example([Flow([1], 10, 1, 1), Flow([1], 10, 3, 1)], 4)
@example([Flow([2], 10, 1, 1), Flow([2], 10, 0.5, 1)], 4)
@example([Flow([1], 10, 1, 1), Flow([1], 10, 0, 1)], 4)
@example([Flow([4, 2], 50, 0.25, 1), Flow([1], 5, 1, 1)], 4)
@examples(10)
def test_flows_that_wait_are_charged_the_same_work(name: str, flows: list[Flow], concurrency: int) -> None:
    """Whatever their requests hold, flows that always have something waiting are charged in proportion to weights."""
    queueset = QueueSet(QueueSetSettings(concurrency, len(flows), 1, 10**5), discipline=DISCIPLINES[name])
    counted, sent = [0.0] * len(flows), [0] * len(flows)
    running: list[tuple[int, int, Ticket]] = []
    order = count()
    longest_ms = max(flow.duration_ms * max(1, flow.charged_part) for flow in flows)
    slack = 4 * (concurrency + 1) * longest_ms  # twice what a flow is ahead of another in the worst of many worlds

    def seat(now: int, seated: Iterable[Ticket]) -> None:
        for ticket in seated:
            flow = flows[int(ticket.flow)]
            queueset.charge(ticket, flow.charged_part * ticket.work.seats)
            heappush(running, (now + flow.duration_ms * MS, next(order), ticket))

    def send(now: int, index: int) -> None:
        widths = flows[index].widths
        sent[index] += 1
        work = Work(widths[sent[index] % len(widths)])
        seat(now, queueset.arrive(now, Ticket(f"{index}", index, work, flows[index].weight * WEIGHT_ONE)))

    for index in range(len(flows)):
        for _ in range(20):
            send(0, index)
    now = 0
    while sum(counted) < 2 * slack * len(flows):
        now, _, ticket = heappop(running)
        index = int(ticket.flow)
        counted[index] += flows[index].counted(ticket.work.seats)
        seat(now, queueset.release(now, ticket))
        send(now, index)
    queueset.check()
    assert max(counted) - min(counted) < slack


@pytest.mark.parametrize("name", DISCIPLINES)
def test_a_charge_equal_to_the_estimate_changes_nothing(name: str) -> None:
    worlds = [QueueSet(QueueSetSettings(3, 4, 2, 100), discipline=DISCIPLINES[name]) for _ in range(2)]
    records: list[list[object]] = [[], []]
    for world, queueset in enumerate(worlds):
        running: list[Ticket] = []
        for step in range(60):
            now = step * 7 * MS
            ticket = Ticket(f"{step % 3}", step % 3 * 977, Work(1 + step % 2))
            running += queueset.arrive(now, ticket)
            if running and step % 2:
                ends = running.pop(0)
                if world:
                    queueset.charge(ends, ends.work.seats)
                running += queueset.release(now + MS, ends)
            shown = [(queue.meters(), [one.snapshot() for one in queue]) for queue in queueset.deck]
            records[world].append((queueset.snapshot().queues, shown, queueset.discipline.meters()))
    assert records[0] == records[1]


def _level(discipline: Callable[[int, int], Discipline[Any]], *, queues: int = 2) -> Any:  # noqa: ANN401
    settings = QueueSetSettings(4, queues, 1, 9) if queues else QueueSetSettings.without_queues(4)
    sharing = Lending(4, {"a": (settings, LevelLimits(4, 4, 4))}, discipline=discipline)
    return sharing, sharing.levels["a"]


@pytest.mark.parametrize("queues", [0, 2])
@pytest.mark.parametrize("name", DISCIPLINES)
def test_a_request_alone_in_its_level_can_be_charged(name: str, queues: int) -> None:
    sharing, level = _level(DISCIPLINES[name], queues=queues)
    ticket = Ticket("a", 1, Work())
    sharing.arrive(5, level, ticket)
    level.charge(ticket, 4)
    assert level.queueset.charges.billed_ns(ticket, 10) == 40
    sharing.check()
    sharing.release(25, level, ticket)

    assert ticket.state is TicketState.RELEASED
    assert not level.queueset.charges.seats
    assert level.queueset.charges.billed_ns(ticket, 10) == 10
    sharing.check()
    later = Ticket("a", 1, Work())
    sharing.arrive(500 * MS, level, later)
    sharing.release(501 * MS, level, later)
    assert later.state is TicketState.RELEASED
