"""Seats in use: lingering, charged and cut to the level."""

from apf_middleware.fairqueuing import (
    QueueSet,
    QueueSetSettings,
    Ticket,
    Work,
)
from tests.support.tickets import ONE_QUEUE, ticket

SECOND = 10**9


def test_seats_linger_after_the_reply() -> None:
    queueset = QueueSet(ONE_QUEUE)
    first, second = ticket(0, Work(1, 1, 10)), ticket()
    queueset.arrive(0, first)
    queueset.arrive(1, second)

    assert list(queueset.release(5, first)) == []
    assert str(first) == "<Ticket 'flow 0' lingering width=1 queue=0>"
    assert queueset.next_event_at() == 15
    assert not queueset.is_idle

    assert list(queueset.tick(14)) == []
    assert list(queueset.tick(15)) == [second]
    assert str(first) == "<Ticket 'flow 0' released width=1 queue=0>"
    assert queueset.next_event_at() is None


def test_any_call_ends_the_lingers_that_are_due() -> None:
    queueset = QueueSet(QueueSetSettings(2, queues=1, hand_size=1))
    first, second = ticket(0, Work(1, 1, 10)), ticket(0, Work(1, 1, 20))
    waiting = [ticket(), ticket()]
    for one in (first, second, *waiting):
        queueset.arrive(0, one)
    queueset.release(1, first)
    queueset.release(1, second)

    assert list(queueset.arrive(50, ticket())) == waiting
    assert [one.seated_at for one in waiting] == [50, 50]
    queueset.check()


def test_a_ticket_abandoned_after_a_linger_was_due_has_been_seated() -> None:
    """Otherwise those that the linger's end seats would be lost, and hang."""
    queueset = QueueSet(QueueSetSettings(2, queues=1, hand_size=1))
    lingering, waiting = [ticket(0, Work(1, 1, 10)) for _ in range(2)], [ticket(), ticket()]
    for one in (*lingering, *waiting):
        queueset.arrive(0, one)
    for one in lingering:
        queueset.release(1, one)

    assert list(queueset.abandon(50, waiting[0])) == waiting

    assert waiting[0].is_seated
    assert sum(queueset.rejected.values()) == 0
    queueset.check()


def test_lingers_that_end_late_are_charged_until_they_were_due() -> None:
    """The meters run as if each linger had ended at its own time."""
    punctual, late = QueueSet(ONE_QUEUE), QueueSet(ONE_QUEUE)
    for queueset in (punctual, late):
        queueset.arrive(0, ticket := Ticket("flow", 0, Work(1, 1, 10)))
        queueset.release(1, ticket)
    punctual.tick(11)

    assert punctual.demand.results(100) != late.demand.results(100)
    punctual.tick(100)
    late.tick(100)
    assert punctual.demand.results(100) == late.demand.results(100)
    assert punctual.snapshot() == late.snapshot()


def test_final_seats_are_cut_to_the_level() -> None:
    queueset = QueueSet(QueueSetSettings(4, queues=1, hand_size=1))
    one = ticket(0, Work(1, final_seats=10, linger_ns=60 * SECOND))

    queueset.arrive(0, one)

    assert one.work == Work(1, 4, 150 * SECOND)
    assert queueset.seats_in_use == 4
