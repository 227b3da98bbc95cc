"""The guarantee in small worlds: no queue starves, however bad the discipline is.

Random worlds are in tests/property/test_guarantee.py, and those of the bound in test_service_bound.py there.
"""

from typing import Any, ClassVar

import pytest

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Discipline,
    QueueSet,
    QueueSetSettings,
    Ticket,
    UpstreamEqualSerial,
    Work,
)
from apf_middleware.fairqueuing.guarantee import Guarantee
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.testing import Caller, observe
from tests.support.first_queue_discipline import FirstQueue

SECOND = 10**9


class FirstQueueWithout(FirstQueue):
    """The same without the guarantee."""

    is_guaranteed: ClassVar[bool] = False


SETTINGS = QueueSetSettings(4, 1, 1, 1000, exact=16)
CALLERS = [Caller(8, (SECOND,), [(0, 100 * SECOND)]) for _ in range(4)]


def test_no_flow_starves_although_its_discipline_never_serves_it() -> None:
    starved = observe(SETTINGS, CALLERS, discipline=FirstQueueWithout).shortfall.worst
    kept = observe(SETTINGS, CALLERS, discipline=FirstQueue)

    assert starved is not None
    assert starved.ratio > 10
    assert kept.shortfall.worst is not None
    assert kept.shortfall.worst.ratio <= 1
    assert kept.queueset.guarantee is not None
    assert kept.queueset.guarantee.overridden > 200


def test_it_holds_when_the_level_is_resized() -> None:
    resizes = [(20 * SECOND, 1), (40 * SECOND, 9), (60 * SECOND, 2)]
    settings = [(at, QueueSetSettings(seats, 1, 1, 1000, exact=16)) for at, seats in resizes]

    worst = observe(SETTINGS, CALLERS, discipline=FirstQueue, resizes=settings).shortfall.worst

    assert worst is not None
    assert worst.ratio <= 1


@pytest.mark.parametrize("discipline", [*DISCIPLINES.values(), FirstQueue], ids=[*DISCIPLINES, "first-queue"])
def test_a_flow_that_waits_for_room_again_and_again_does_not_fall_behind_ever_more(
    discipline: type[Discipline[Any]],
) -> None:
    """Its short requests need four seats, then two, so that it has its fair share whenever another one could run."""
    end = 400 * SECOND
    callers = [
        Caller(4, (3 * SECOND,), [(0, end)], (Work(2),)),
        Caller(30, (SECOND // 20,), [(0, end)], (Work(4), Work(2), Work(2))),
    ]

    observation = observe(SETTINGS, callers, discipline=discipline, windows=(0, end))

    worst = observation.shortfall.worst
    assert worst is not None
    assert worst.ratio < 0.5  # it was 10 in this time while a queue was never overdue that had its fair share
    long, short = observation.seats[0]
    assert short > 0.9 * long


class Level:
    def __init__(self, seats: int, flows: int, *, ceiling: int | None = None) -> None:
        settings = QueueSetSettings(seats, flows, 1, queue_length_limit=1_000)
        self.queueset = QueueSet(settings, discipline=FirstQueue, ceiling=ceiling)
        assert self.queueset.guarantee is not None
        self.guarantee = self.queueset.guarantee
        self.now = 0
        self.running: list[Ticket] = []

    def arrive(self, flow: int, times: int = 1, work: Work | None = None) -> list[Ticket]:
        tickets = [Ticket(f"{flow}", flow, work or Work()) for _ in range(times)]
        for ticket in tickets:
            self.running += self.queueset.arrive(self.now, ticket)
        self.queueset.check()
        return tickets

    def serve(self, turns: int) -> list[int]:
        served = []
        for _ in range(turns):
            self.now += SECOND
            seated = self.queueset.release(self.now, self.running.pop(0))
            self.running += seated
            served += [int(ticket.flow) for ticket in seated]
            self.queueset.check()
        return served


def test_a_queue_is_served_out_of_turn_once_it_lacks_most_of_a_request() -> None:
    level = Level(seats=1, flows=2)
    level.arrive(0, 20)
    level.arrive(1, 20)

    served = level.serve(12)

    assert served.count(1) in {5, 6}
    assert level.guarantee.overridden == served.count(1)


def is_tracking(level: Level) -> bool:
    return level.guarantee.is_tracking


def test_demands_are_kept_only_while_there_is_competition() -> None:
    level = Level(seats=2, flows=4)
    level.arrive(0)
    assert not is_tracking(level)
    level.arrive(1)
    level.arrive(2)
    assert is_tracking(level)
    level.serve(1)
    for flow in range(4):  # no more than there are queues
        level.serve(1)
        level.arrive(flow)
    assert is_tracking(level)

    level.serve(1)
    level.arrive(0)

    assert not is_tracking(level)
    assert all(queue.service_meter is None for queue in level.queueset.deck)
    level.arrive(1, 2)
    assert is_tracking(level)


def test_service_meters_are_used_again() -> None:
    level = Level(seats=1, flows=100)
    for flow in range(100):
        level.arrive(flow)
        level.arrive((flow + 1) % 100)
        level.serve(1)
        level.serve(1)
        assert not level.running

    assert level.guarantee.is_tracking
    assert len(level.guarantee._meters) <= 4


def test_a_request_that_leaves_takes_its_demand_along() -> None:
    level = Level(seats=1, flows=2)
    level.arrive(0, 3)
    waiting = level.arrive(1, 3)
    for ticket in waiting:
        level.queueset.abandon(level.now, ticket)
        level.queueset.check()
    assert level.queueset.deck.queues[1].service_meter is None

    assert level.serve(2) == [0, 0]
    assert level.guarantee.overridden == 0


def test_nothing_is_lacking_while_a_gate_keeps_requests_waiting() -> None:
    level = Level(seats=1, flows=2)
    level.arrive(0, 40)
    waiting = level.arrive(1, 10)
    for ticket in waiting:
        level.queueset.park(level.now, ticket)
        level.queueset.check()
    assert level.serve(20) == [0] * 20
    for ticket in waiting:
        level.running += level.queueset.unpark(level.now, ticket)
        level.queueset.check()

    assert level.serve(10).count(1) in {4, 5}


def test_the_seats_in_use_are_shared_where_seats_are_steered() -> None:
    level = Level(seats=1, flows=2, ceiling=8)
    level.queueset.concurrency = 4
    level.arrive(0, 60)
    level.arrive(1, 60)
    served = []
    for _ in range(10):
        served += level.serve(4)
    level.queueset.concurrency = 2
    for _ in range(20):
        served += level.serve(1)

    assert served.count(1) == pytest.approx(len(served) / 2, abs=5)


def test_lingering_seats_are_service() -> None:
    level = Level(seats=1, flows=2)
    level.arrive(0, 40)
    level.arrive(1, 40, Work(1, 1, 2 * SECOND))
    served: list[int] = []
    while len(served) < 40:
        level.now += SECOND
        seated = [*level.queueset.release(level.now, level.running.pop())]
        if not seated:
            level.now += 2 * SECOND
            seated += level.queueset.tick(level.now)
        level.running += seated
        served += [int(ticket.flow) for ticket in seated]
        level.queueset.check()

    assert served.count(0) == pytest.approx(30, abs=2)


def test_there_is_none_with_strict_upstream_nor_where_nothing_waits() -> None:
    assert QueueSet(SETTINGS, strict_upstream=True).guarantee is None
    assert QueueSet(SETTINGS, discipline=UpstreamEqualSerial).guarantee is None
    assert QueueSet(QueueSetSettings.without_limit()).guarantee is None


def test_a_queue_that_waits_is_overdue_also_where_no_queue_is_limited() -> None:
    """The seats in use may be enough for all demands while the queue that waits has none of them."""
    guarantee = Guarantee(seats=2)
    deck = [Queue(0), Queue(1)]
    waiting = Ticket("waiting", 1, Work())
    waiting.total_work = 0
    deck[0].seats_in_use = 2
    deck[1].append(waiting)
    guarantee.wait(0, deck[1], 1, deck)
    guarantee.vacate(3 * SECOND, deck[0], 1, SECOND)
    deck[0].seats_in_use = 1

    assert guarantee.overdue(3 * SECOND, 2) is deck[1]


def test_a_queue_is_listed_first_that_begins_to_wait_after_a_charge_below_what_was_held() -> None:
    """The charge sets the time of fair shares back, so that a newcomer is listed before those that were looked at."""
    queueset = QueueSet(QueueSetSettings(1, 1, 1, 50, exact=10))
    tickets: list[Ticket] = []

    def arrive(now: int, flow: int, seats: int) -> None:
        tickets.append(Ticket(f"flow {flow}", flow, Work(seats)))
        queueset.arrive(now, tickets[-1])

    def release(now: int, number: int, seats: float) -> None:
        queueset.charge(tickets[number], seats)
        queueset.release(now, tickets[number])

    arrive(0, 4, 2)
    release(0, 0, 0.1)
    arrive(10, 1, 3)
    release(20, 1, 0)
    arrive(20, 1, 3)
    for now, seats in ((30, 3), (31, 2), (41, 1)):
        arrive(now, 1, seats)
    release(141, 2, 5)
    release(241, 3, 0.1)
    arrive(242, 3, 3)
    queueset.check()
