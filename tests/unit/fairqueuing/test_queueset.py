"""Queue sets: dispatching, limits and reconfiguration."""

import random

import pytest

from apf_middleware.exceptions import ClockError, InvalidValueError, TicketStateError
from apf_middleware.fairqueuing import (
    DISCIPLINES,
    QueueSet,
    QueueSetSettings,
    Reason,
    Ticket,
    TicketState,
    Work,
    flow_hash,
)
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.builds import BOOL_FOR_A_NUMBER, raises_for_wrong_type
from tests.support.tickets import ONE_QUEUE, ticket


def test_a_ticket_is_seated_at_once_while_seats_are_free() -> None:
    queueset, first = QueueSet(ONE_QUEUE), ticket()

    assert list(queueset.arrive(1, first)) == [first]

    assert first.is_seated
    assert (first.arrived_at, first.seated_at) == (1, 1)
    assert (queueset.executing, queueset.seats_in_use, queueset.dispatched) == (1, 1, 1)
    queueset.check()


def test_a_ticket_waits_when_all_seats_are_taken_and_is_seated_when_one_comes_free() -> None:
    queueset, first, second = QueueSet(ONE_QUEUE), ticket(), ticket()
    queueset.arrive(1, first)

    assert list(queueset.arrive(2, second)) == []
    assert second.is_waiting

    assert list(queueset.release(3, first)) == [second]
    assert first.state is TicketState.RELEASED
    assert second.seated_at == 3
    queueset.check()


def test_a_full_queue_rejects() -> None:
    queueset = QueueSet(ONE_QUEUE)
    tickets = [ticket() for _ in range(7)]
    for now, one in enumerate(tickets):
        queueset.arrive(now, one)

    assert tickets[-1].is_rejected
    assert tickets[-1].reason is Reason.QUEUE_FULL
    assert queueset.waiting == 5
    assert queueset.rejected[Reason.QUEUE_FULL] == 1


def test_a_lone_flow_uses_all_queues_of_its_hand() -> None:
    queueset = QueueSet(QueueSetSettings(100, queues=8, hand_size=3))
    hand = queueset.settings.dealer().deal(400900100100)  # type: ignore[union-attr]

    queues = []
    for now in range(6):
        one = ticket(400900100100)
        queueset.arrive(now, one)
        assert one.queue is not None
        queues.append(one.queue.index)

    assert tuple(queues) == hand + hand


def test_the_queue_with_the_least_waiting_work_is_chosen() -> None:
    queueset = QueueSet(QueueSetSettings(1, queues=2, hand_size=2))
    queueset.arrive(0, ticket())
    queueset.arrive(1, ticket(0, Work(3)))
    heavy = queueset.deck.queues[0] if queueset.deck.queues[0].length else queueset.deck.queues[1]

    for now in range(2, 5):
        one = ticket()
        queueset.arrive(now, one)
        assert one.queue is not heavy


def test_without_queues_a_request_that_does_not_fit_is_rejected() -> None:
    queueset, first, second = QueueSet(QueueSetSettings.without_queues(2)), ticket(0, Work(2)), ticket()
    queueset.arrive(0, first)
    queueset.arrive(1, second)

    assert first.is_seated
    assert second.reason is Reason.CONCURRENCY_LIMIT
    queueset.check()


def test_without_queues_the_too_wide_run_alone() -> None:
    queueset = QueueSet(QueueSetSettings.without_queues(2))
    wide, narrow, late = ticket(0, Work(9)), ticket(), ticket(0, Work(9))
    queueset.arrive(0, wide)
    queueset.arrive(1, narrow)
    assert wide.is_seated
    assert narrow.is_rejected

    queueset.release(2, wide)
    queueset.arrive(3, late)
    assert late.is_seated


def test_an_exempt_level_admits_and_counts_all_requests() -> None:
    queueset = QueueSet(QueueSetSettings.without_limit(1))
    for now in range(10):
        queueset.arrive(now, ticket(0, Work(3, 50, 1)))

    assert queueset.executing == 10
    assert queueset.seats_in_use == 500
    assert queueset.demand.results(10).maximum == 500
    queueset.check()


def test_a_wide_head_keeps_its_turn_until_its_seats_are_free() -> None:
    """Saving up seats is the price of serving the wide at all."""
    queueset = QueueSet(QueueSetSettings(4, queues=2, hand_size=1))
    running = [ticket() for _ in range(3)]
    for now, one in enumerate(running):
        queueset.arrive(now, one)
    wide, narrow = ticket(0, Work(3)), ticket()
    queueset.arrive(3, wide)
    queueset.arrive(4, narrow)
    assert wide.is_waiting
    assert narrow.is_waiting

    assert list(queueset.release(5, running[0])) == []
    assert list(queueset.release(6, running[1])) == [wide]
    assert queueset.no_accommodation == 3
    assert list(queueset.release(7, running[2])) == [narrow]
    queueset.check()


def test_wider_than_the_level_runs_when_nothing_else_does() -> None:
    queueset = QueueSet(QueueSetSettings(2, queues=1, hand_size=1))
    first, wide, last = ticket(), ticket(0, Work(5)), ticket()
    for now, one in enumerate((first, wide, last)):
        queueset.arrive(now, one)
    assert wide.is_waiting

    assert list(queueset.release(3, first)) == [wide]
    assert queueset.seats_in_use == 5
    assert list(queueset.release(4, wide)) == [last]


@pytest.mark.parametrize("reason", [Reason.TIME_OUT, Reason.CANCELLED])
def test_an_abandoned_ticket_leaves_the_queue(reason: Reason) -> None:
    queueset, first, second, third = QueueSet(ONE_QUEUE), ticket(), ticket(), ticket()
    for now, one in enumerate((first, second, third)):
        queueset.arrive(now, one)

    queueset.abandon(3, second, reason)

    assert second.is_rejected
    assert second.reason is reason
    assert queueset.rejected[reason] == 1
    assert list(queueset.release(4, first)) == [third]
    queueset.check()


def test_more_seats_are_taken_at_once() -> None:
    queueset, tickets = QueueSet(ONE_QUEUE), [ticket() for _ in range(4)]
    for now, one in enumerate(tickets):
        queueset.arrive(now, one)

    seated = queueset.reconfigure(5, QueueSetSettings(3, queues=1, hand_size=1))

    assert list(seated) == tickets[1:3]
    queueset.check()


def test_a_lower_limit_takes_no_seat_from_a_running_request() -> None:
    queueset = QueueSet(QueueSetSettings(3, queues=1, hand_size=1))
    tickets = [ticket() for _ in range(4)]
    for now, one in enumerate(tickets):
        queueset.arrive(now, one)

    queueset.reconfigure(5, ONE_QUEUE)

    assert queueset.executing == 3
    assert list(queueset.release(6, tickets[0])) == []
    assert list(queueset.release(7, tickets[1])) == []
    assert list(queueset.release(8, tickets[2])) == [tickets[3]]


def test_queues_can_be_taken_away_and_given_back() -> None:
    queueset, first, waiting = QueueSet(ONE_QUEUE), ticket(), ticket()
    queueset.arrive(0, first)
    queueset.arrive(1, waiting)

    queueset.reconfigure(2, QueueSetSettings.without_queues(1))
    queueset.arrive(3, late := ticket())
    assert late.reason is Reason.CONCURRENCY_LIMIT
    assert waiting.is_waiting

    assert list(queueset.release(4, first)) == [waiting]
    queueset.release(5, waiting)
    assert queueset.deck.queues == []

    queueset.reconfigure(6, ONE_QUEUE)
    queueset.arrive(7, ticket())
    queueset.arrive(8, again := ticket())
    assert again.is_waiting
    queueset.check()


def test_exempt_and_limited_do_not_turn_into_each_other() -> None:
    with pytest.raises(InvalidValueError, match="a level stays exempt or limited"):
        QueueSet(ONE_QUEUE).reconfigure(1, QueueSetSettings.without_limit())


def test_a_quiescing_queue_set_admits_no_request_and_serves_waiting_ones() -> None:
    queueset, first, waiting, late = QueueSet(ONE_QUEUE), ticket(), ticket(), ticket()
    queueset.arrive(0, first)
    queueset.arrive(1, waiting)

    queueset.quiesce()
    queueset.arrive(2, late)

    assert late.reason is Reason.QUEUE_CLOSED
    assert list(queueset.release(3, first)) == [waiting]
    assert queueset.executing == 1
    queueset.release(4, waiting)
    assert queueset.is_idle

    queueset.quiesce(reopen=True)
    assert list(queueset.arrive(5, one := ticket())) == [one]


def test_time_does_not_run_backwards() -> None:
    queueset = QueueSet(ONE_QUEUE, now=10)

    with pytest.raises(ClockError, match=r"now is 9, but it must not be before 10. Use one monotonic clock"):
        queueset.arrive(9, ticket())


@pytest.mark.parametrize("now", [1.0, None, "1", BOOL_FOR_A_NUMBER])
def test_time_is_an_integer(now: int) -> None:
    with raises_for_wrong_type(r"now is .* it must be an integer of nanoseconds"):
        QueueSet(ONE_QUEUE).tick(now)


def test_a_call_that_is_refused_changes_nothing() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(5, one)
    before = queueset.snapshot()

    with pytest.raises(ClockError):
        queueset.release(4, one)
    with raises_for_wrong_type("integer"):
        queueset.arrive(5.0, ticket())  # type: ignore[arg-type]
    with pytest.raises(TicketStateError):
        queueset.arrive(9, one)
    with pytest.raises(TicketStateError):
        queueset.release(9, ticket())
    with pytest.raises(TicketStateError):
        queueset.abandon(9, one)

    assert queueset.snapshot() == before
    queueset.check()
    assert list(queueset.release(6, one)) == []


@pytest.mark.parametrize("guess_ns", [0, -1])
def test_the_guess_is_a_duration(guess_ns: int) -> None:
    with pytest.raises(InvalidValueError, match="guess_ns is"):
        QueueSet(ONE_QUEUE, guess_ns=guess_ns)


def test_the_guess_is_an_integer() -> None:
    with raises_for_wrong_type("guess_ns is"):
        QueueSet(ONE_QUEUE, guess_ns=0.5)  # type: ignore[arg-type]


def test_a_snapshot_shows_queues_and_tickets() -> None:
    queueset = QueueSet(ONE_QUEUE)
    for now in range(3):
        queueset.arrive(now, ticket(0, Work(1)))

    picture = queueset.snapshot()

    assert (picture.waiting, picture.seats_waiting, picture.executing, picture.seats_in_use) == (2, 2, 1, 1)
    assert [queue.index for queue in picture.queues] == [0]
    assert picture.queues[0].waiting == 2
    assert picture.queues[0].initial_seats_waiting == 2
    assert picture.queues[0].next_dispatch_r == 300_000
    assert picture.meters == {"current_r": 0, "robin_index": 0, "active_queues": 1}


def test_all_classes_have_a_repr() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)
    queueset.arrive(1, waiting := ticket())

    assert repr(queueset) == "<QueueSet equal-serial: 1 waiting, 1 executing, 0 lingering, 1 of 1 seats in use>"
    assert repr(waiting) == "<Ticket 'flow 0' waiting width=1 queue=0>"
    assert repr(one.queue) == "<EqualSerialQueue 0: 1 waiting, 1 executing, 1 seats in use>"
    assert repr(queueset.deck) == "<Deck of 1 queues, 1 desired>"
    assert repr(queueset.discipline) == "<EqualSerial R=0 waiting=1 last served=0>"
    assert repr(queueset.guarantee) == "<Guarantee: 1 queues wait, 0 served out of turn>"


MS = 1_000_000


def order_of_service(discipline: str, begin: int) -> list[tuple[int, str]]:
    """Who is seated when, of three flows with requests that outlast every guess."""
    queueset = QueueSet(QueueSetSettings(2, queues=16, hand_size=2), discipline=DISCIPLINES[discipline], now=begin)
    rng, now, seated, served = random.Random(1), begin, list[Ticket](), list[tuple[int, str]]()
    for number in range(200):
        now += rng.randint(1, 20) * MS
        flow = f"flow-{rng.randrange(3)}"
        if seated and (number % 3 or len(seated) > 1):
            new = list(queueset.release(now, seated.pop(rng.randrange(len(seated)))))
        else:
            new = []
        new += queueset.arrive(now, Ticket(flow, flow_hash("all", flow), Work(rng.randint(1, 2))))
        new += queueset.tick(now)
        seated += new
        served += [(now - begin, ticket.flow) for ticket in new]
        queueset.check()
    return served


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_it_does_not_matter_when_a_level_begins(discipline: str) -> None:
    served = order_of_service(discipline, 0)

    assert len(served) > 100
    assert order_of_service(discipline, 10**15) == served
    assert order_of_service(discipline, -(10**15)) == served


@pytest.mark.parametrize(("exact", "latest"), [(4, 2), (0, 4)])
def test_a_queue_of_one_flow_takes_the_latest_of_weights_that_change_with_time(exact: int, latest: int) -> None:
    level = QueueSet(QueueSetSettings(1, 1, 1, queue_length_limit=10, exact=exact))
    level.has_changing_weights = True
    tickets = [Ticket("flow", 1, Work(), weight * WEIGHT_ONE) for weight in (6, 6, 2)]
    for one in tickets:
        level.arrive(0, one)

    queue = tickets[0].queue
    assert queue is not None
    assert queue.length == 2
    assert queue.weight == latest * WEIGHT_ONE, "otherwise the average of those that wait"


def test_a_request_that_is_rejected_leaves_the_weight_of_its_queue_as_it_is() -> None:
    level = QueueSet(QueueSetSettings(1, 1, 1, queue_length_limit=2))
    first = Ticket("flow", 1, Work(), 3 * WEIGHT_ONE)
    level.arrive(0, first)
    queue = first.queue
    assert queue is not None
    assert queue.weight == 3 * WEIGHT_ONE
    level.arrive(0, Ticket("flow", 1, Work()))
    level.arrive(0, Ticket("flow", 1, Work(), 7 * WEIGHT_ONE))
    assert queue.weight == 4 * WEIGHT_ONE, "the average of those that wait"

    level.arrive(0, full := Ticket("flow", 1, Work(), 99 * WEIGHT_ONE))
    assert full.is_rejected
    assert queue.weight == 4 * WEIGHT_ONE
