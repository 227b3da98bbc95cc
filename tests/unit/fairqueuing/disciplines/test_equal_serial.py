"""Equal shares of the virtual time: what queues owe and are owed."""

from collections import Counter

import pytest

from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.disciplines.equal_serial import EqualSerialQueue
from apf_middleware.fairqueuing.work import WEIGHT_ONE

SECOND = 10**9


class Level:
    """A queue set with a queue for each flow; ``running`` are its tickets that have seats, the earliest first."""

    def __init__(self, seats: int, flows: int = 4) -> None:
        self.settings = QueueSetSettings(seats, flows, 1, queue_length_limit=1_000)
        self.queueset = QueueSet(self.settings)
        self.queueset.guarantee = None
        self.now = 0
        self.running: list[Ticket] = []

    def arrive(self, flow: int, times: int = 1, work: Work | None = None) -> list[Ticket]:
        tickets = [Ticket(f"{flow}", flow, work or Work()) for _ in range(times)]
        for ticket in tickets:
            self.running += self.queueset.arrive(self.now, ticket)
        self.queueset.check()
        return tickets

    def release(self, *tickets: Ticket) -> list[int]:
        """Return the flows that are seated when ``tickets`` give their seats back."""
        flows = []
        for ticket in tickets:
            self.running.remove(ticket)
            seated = self.queueset.release(self.now, ticket)
            self.running += seated
            flows += [int(other.flow) for other in seated]
        self.queueset.check()
        return flows

    def serve(self, turns: int, each_ns: int = SECOND) -> Counter[int]:
        """Let the earliest request end ``turns`` times, each time after so long; return how many each flow got."""
        served = Counter[int]()
        for _ in range(turns):
            self.now += each_ns
            served.update(self.release(self.running[0]))
        return served


def test_a_flow_that_was_alone_for_long_owes_nothing() -> None:
    level = Level(seats=1)
    level.arrive(0, 400)
    assert level.serve(300) == {0: 300}
    level.arrive(1, 20)

    assert level.serve(20) == {0: 10, 1: 10}


def test_a_flow_that_used_idle_seats_owes_nothing() -> None:
    """The other one has a single request, so it never waits."""
    level = Level(seats=4)
    [long] = level.arrive(1)
    level.arrive(0, 400)
    level.running = [*level.running[1:], long]
    for _ in range(300):
        level.now += SECOND // 3
        assert level.release(level.running[0]) == [0]
        level.running.remove(long)
        level.running.append(long)
    level.arrive(1, 40)

    served = level.serve(20)
    assert served[0] >= 9


def test_a_flow_that_was_idle_has_saved_nothing_up() -> None:
    level = Level(seats=1)
    level.arrive(0, 400)
    level.arrive(1, 5)
    assert level.serve(10) == {0: 5, 1: 5}
    level.arrive(2, 400)
    level.serve(200)
    level.arrive(1, 40)

    assert level.serve(30) == {0: 10, 1: 10, 2: 10}


def test_a_request_is_charged_while_it_runs() -> None:
    level = Level(seats=2)
    [endless] = level.arrive(0)
    level.arrive(0, 40)
    level.arrive(1, 40)
    level.running = [ticket for ticket in level.running if ticket is not endless]

    served = level.serve(20)

    assert served[1] >= 18, "the flow with a request that runs on has a seat already"


def test_seats_that_come_free_at_once_are_dealt_in_turn() -> None:
    level = Level(seats=4)
    blockers = level.arrive(3, 4)
    for _ in range(4):
        level.arrive(0)
        level.arrive(1)
    level.now += SECOND

    assert level.release(*blockers) == [0, 1, 0, 1]


def test_flows_that_come_at_the_same_virtual_time_keep_their_order() -> None:
    level = Level(seats=1)
    level.arrive(3)
    for flow in (2, 0, 1):
        level.now += 1
        level.arrive(flow)

    assert [next(iter(level.serve(1, 1))) for _ in range(3)] == [2, 0, 1]


def test_a_queue_that_is_opened_again_owes_and_is_owed_nothing() -> None:
    level = Level(seats=1)
    level.arrive(0, 100)
    level.arrive(3, 10)
    level.serve(21)
    level.running += level.queueset.reconfigure(level.now, QueueSetSettings(1, 1, 1, 1_000))
    assert len(level.queueset.deck.queues) == 1
    level.serve(20)
    level.running += level.queueset.reconfigure(level.now, level.settings)
    level.arrive(3, 40)

    assert level.serve(40) == {0: 20, 3: 20}


def test_a_charge_counts() -> None:
    level = Level(seats=1)
    level.arrive(0, 100)
    level.arrive(1, 100)
    served = Counter[int]()
    for _ in range(80):
        ticket = level.running[0]
        if ticket.flow == "1":
            level.queueset.charge(ticket, 3)
        served += level.serve(1)

    assert served[0] == pytest.approx(60, abs=2)


def test_a_linger_counts() -> None:
    level = Level(seats=1)
    level.arrive(0, 100)
    level.arrive(1, 100, Work(1, 1, 2 * SECOND))
    served = Counter[int]()
    while sum(served.values()) < 80:
        level.now += SECOND
        ticket = level.running.pop()
        seated = [*level.queueset.release(level.now, ticket)]
        if not seated:
            level.now += 2 * SECOND
            seated += level.queueset.tick(level.now)
        level.running += seated
        served.update(int(other.flow) for other in seated)
        level.queueset.check()

    assert served[0] == pytest.approx(60, abs=2)


def test_a_parked_request_saves_nothing_up() -> None:
    level = Level(seats=1)
    level.arrive(0, 200)
    waiting = level.arrive(1, 40)
    for ticket in waiting:
        level.queueset.park(level.now, ticket)
    assert level.serve(100) == {0: 100}
    for ticket in waiting:
        level.running += level.queueset.unpark(level.now, ticket)
    level.queueset.check()

    assert level.serve(20) == {0: 10, 1: 10}


def test_the_guess_follows_what_requests_take() -> None:
    """So where seats come free at once, a flow that is behind isn't given all of them."""
    level = Level(seats=2)
    level.arrive(0, 100)
    level.arrive(1, 100)
    level.serve(60)

    queues = [queue for queue in level.queueset.deck if isinstance(queue, EqualSerialQueue)]
    guesses = {queue.guess_ns for queue in queues if queue.length}

    assert all(guess == pytest.approx(2 * SECOND, rel=0.05) for guess in guesses)


def test_a_queue_that_is_served_out_of_turn_loses_its_lead() -> None:
    level = Level(seats=1, flows=2)
    level.arrive(0, 30)
    level.arrive(1, 30)
    level.now += 20 * SECOND
    assert level.release(level.running[0]) == [1]  # the first request took twenty times as long
    first = next(queue for queue in level.queueset.deck.queues if queue.executing == 0)

    level.queueset.discipline.forget_lead(first)

    assert level.serve(10) == {0: 5, 1: 5}
    level.queueset.discipline.forget_lead(first)
    assert level.serve(10) == {0: 5, 1: 5}, "a queue without a lead keeps its meter"


def test_a_queue_is_ahead_by_the_same_work_when_its_weight_changes() -> None:
    level = Level(seats=2)
    level.arrive(0, 40)
    level.arrive(1, 40)
    level.serve(10)
    discipline = level.queueset.discipline
    queue, other = (ticket.queue for ticket in level.running)
    assert isinstance(queue, EqualSerialQueue)
    assert isinstance(other, EqualSerialQueue)
    assert queue is not other, "each flow has a seat"
    level.now += 7 * SECOND
    level.queueset.tick(level.now)
    queue.move(8 * SECOND)  # ahead of the virtual time, which follows the other queue
    discipline.reweigh(queue, WEIGHT_ONE)
    lead = position(queue, level.now) - position(other, level.now)

    for weight in (WEIGHT_ONE // 1000, WEIGHT_ONE * 3, WEIGHT_ONE):
        discipline.reweigh(queue, weight)
        found = position(queue, level.now) - position(other, level.now)
        assert found == pytest.approx(lead * WEIGHT_ONE / weight, rel=1e-6)
        discipline.check()


def position(queue: EqualSerialQueue, now: int) -> int:
    """Return what the queue has attained by ``now``, divided by its weight."""
    return queue.scale(queue.finished + queue.attained + queue.seats_in_use * (now - queue.since))


def test_a_queue_that_is_behind_gets_no_more_when_its_weight_changes() -> None:
    level = Level(seats=2)
    level.arrive(0, 40)
    level.arrive(1, 40)
    level.serve(10)
    discipline, queues = level.queueset.discipline, level.queueset.deck.queues
    queue, other = (ticket.queue for ticket in level.running)
    assert isinstance(queue, EqualSerialQueue)
    assert isinstance(other, EqualSerialQueue)
    other.move(8 * SECOND)
    discipline.reweigh(other, WEIGHT_ONE)
    assert queues[discipline.pick()] is queue
    before = position(queue, level.now)

    discipline.reweigh(queue, WEIGHT_ONE // 1000)
    assert before - 1000 <= position(queue, level.now) <= before
