"""Tickets: their states, and calls that are refused; and the flows of a queue's tickets."""

from random import Random

import pytest

from apf_middleware.exceptions import InvalidValueError, TicketStateError
from apf_middleware.fairqueuing import (
    QueueSet,
    Ticket,
    TicketState,
    Work,
)
from apf_middleware.fairqueuing.ticket import Queue
from tests.support.builds import BOOL_FOR_A_NUMBER, raises_for_wrong_type
from tests.support.tickets import ONE_QUEUE, ticket


def test_a_ticket_arrives_once() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)

    with pytest.raises(TicketStateError, match="has already arrived: make a new ticket"):
        queueset.arrive(1, one)


def test_a_seated_ticket_is_not_abandoned() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)

    with pytest.raises(TicketStateError, match="a seated ticket is released, not abandoned"):
        queueset.abandon(1, one)


def test_an_invalid_reason_is_refused_without_side_effects() -> None:
    queueset, waiting = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, ticket())
    queueset.arrive(0, waiting)

    with raises_for_wrong_type("reason is 'boredom', but it must be a Reason"):
        queueset.abandon(1, waiting, "boredom")  # type: ignore[arg-type]

    assert waiting.is_waiting
    queueset.check()


def test_a_ticket_is_released_once() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)
    queueset.release(1, one)

    with pytest.raises(TicketStateError, match="each seated ticket is released once"):
        queueset.release(2, one)


def test_a_ticket_of_another_queue_set_is_refused() -> None:
    queueset, other, seated, waiting = QueueSet(ONE_QUEUE), QueueSet(ONE_QUEUE), ticket(), ticket()
    other.arrive(0, seated)
    other.arrive(0, waiting)

    with pytest.raises(TicketStateError):
        queueset.release(1, seated)
    with pytest.raises(TicketStateError):
        queueset.abandon(1, waiting)


NO_ENTROPY = r"entropy is .* it must be an integer from 0 to 2\*\*64 - 1"


def test_a_ticket_asks_for_work() -> None:
    with raises_for_wrong_type("work is 3, but it must be a Work"):
        Ticket("flow", 0, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("entropy", [-1, 2**64])
def test_the_entropy_of_a_ticket_has_64_bits(entropy: int) -> None:
    with pytest.raises(InvalidValueError, match=NO_ENTROPY):
        Ticket("flow", entropy, Work())


@pytest.mark.parametrize("entropy", [1.5, None, BOOL_FOR_A_NUMBER])
def test_the_entropy_of_a_ticket_is_an_integer(entropy: int) -> None:
    with raises_for_wrong_type(NO_ENTROPY):
        Ticket("flow", entropy, Work())


def test_a_ticket_has_a_snapshot_in_every_state() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    assert (one.snapshot().state, one.snapshot().arrived_at) == (TicketState.NEW, None)

    queueset.arrive(3, one)

    assert (one.snapshot().state, one.snapshot().seated_at) == (TicketState.SEATED, 3)


@pytest.mark.parametrize("asked", [0, 1, 50])
@pytest.mark.parametrize("seed", range(5))
def test_a_queue_knows_whose_tickets_it_holds(seed: int, asked: int) -> None:
    """Before the question ``asked``, nothing is counted."""
    chance = Random(seed)
    queue, waiting, parked = Queue(0), list[Ticket](), list[Ticket]()
    for number in range(400):
        what = chance.random()
        if what < 0.5 or not waiting:
            one = ticket(chance.randrange(3))
            one.queue, one.state, one.arrived_at, one.total_work = queue, TicketState.WAITING, number, 1
            waiting.append(one)
            queue.append(one)
        elif what < 0.6:
            parked.append(waiting.pop(chance.randrange(len(waiting))))
            queue.remove(parked[-1])
        elif what < 0.7 and parked:
            queue.insert(one := parked.pop(0))
            waiting = sorted([*waiting, one], key=lambda other: other.arrived_at)
        else:
            queue.remove(waiting.pop(0))
        queue.check()
        if number >= asked:
            flows = [one.entropy for one in waiting]
            assert [queue.is_mostly(flow) for flow in range(4)] == [2 * flows.count(n) >= len(flows) for n in range(4)]
