"""One queue set, step by step. Whole worlds are in tests/property, tests/simulation and tests/differential."""

import pytest

from apf_middleware.exceptions import ClockError, InvalidValueError, TicketStateError
from apf_middleware.fairqueuing import (
    QueueSet,
    QueueSetSettings,
    Reason,
    Ticket,
    TicketState,
    UpstreamEqualSerial,
    Work,
)
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import HIGH_R, R_DECREMENT

SECOND = 10**9
ONE_QUEUE = QueueSetSettings(1, queues=1, hand_size=1, queue_length_limit=5)


def ticket(entropy: int = 0, work: Work | None = None) -> Ticket:
    return Ticket(f"flow {entropy}", entropy, work or Work())


# Arriving


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


def test_a_lone_flow_goes_round_its_hand() -> None:
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


def test_a_ticket_arrives_once() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)

    with pytest.raises(TicketStateError, match="has already arrived: make a new ticket"):
        queueset.arrive(1, one)


# Levels without queues


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


def test_an_exempt_level_admits_everybody_and_counts() -> None:
    queueset = QueueSet(QueueSetSettings.without_limit(1))
    for now in range(10):
        queueset.arrive(now, ticket(0, Work(3, 50, 1)))

    assert queueset.executing == 10
    assert queueset.seats_in_use == 500
    assert queueset.demand.results(10).maximum == 500
    queueset.check()


# Width


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


# Lingering


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


# Leaving


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


def test_a_seated_ticket_is_not_abandoned() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)

    with pytest.raises(TicketStateError, match="a seated ticket is released, not abandoned"):
        queueset.abandon(1, one)


def test_a_reason_that_is_none_is_refused_before_anything_happens() -> None:
    queueset, waiting = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, ticket())
    queueset.arrive(0, waiting)

    with pytest.raises(InvalidValueError, match="reason is 'boredom', but it must be a Reason"):
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


# Reconfiguration


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
    assert not queueset.snapshot().is_idle
    queueset.release(4, waiting)
    assert queueset.is_idle

    queueset.quiesce(reopen=True)
    assert list(queueset.arrive(5, one := ticket())) == [one]


# Time and input


def test_time_does_not_run_backwards() -> None:
    queueset = QueueSet(ONE_QUEUE, now=10)

    with pytest.raises(ClockError, match=r"now is 9, but it must not be before 10. Use one monotonic clock"):
        queueset.arrive(9, ticket())


@pytest.mark.parametrize("now", [1.0, None, "1", True])
def test_time_is_an_integer(now: int) -> None:
    with pytest.raises(InvalidValueError, match=r"now is .* it must be an integer of nanoseconds"):
        QueueSet(ONE_QUEUE).tick(now)


def test_a_call_that_is_refused_changes_nothing() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(5, one)
    before = queueset.snapshot()

    with pytest.raises(ClockError):
        queueset.release(4, one)
    with pytest.raises(InvalidValueError):
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


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"concurrency": -1}, "concurrency is -1, but it must be at least 0"),
        ({"concurrency": 1.5}, "concurrency is 1.5, but it must be an integer"),
        ({"concurrency": 1, "queues": -1}, "queues is -1"),
        ({"concurrency": 1, "queues": 10_000_001}, "queues is 10000001, but it must be at most 10000000"),
        ({"concurrency": 1, "hand_size": 65}, "a hand can't exceed the deck of 64"),
        ({"concurrency": 1, "hand_size": 11}, "bits of entropy"),
        ({"concurrency": 1, "queue_length_limit": 0}, "queue_length_limit is 0, but it must be at least 1"),
        ({"concurrency": 1, "exempt": True}, "an exempt level has none"),
        ({"concurrency": 1, "exempt": 1}, "exempt is 1, but it must be True or False"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], rule: str) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        QueueSetSettings(**settings)  # type: ignore[arg-type]


def test_what_is_not_settings_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"settings is \{\}, but it must be a QueueSetSettings"):
        QueueSet({})  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="it must be a QueueSetSettings"):
        QueueSet(ONE_QUEUE).reconfigure(1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("guess_ns", [0, -1, 0.5])
def test_the_guess_is_a_duration(guess_ns: int) -> None:
    with pytest.raises(InvalidValueError, match="guess_ns is"):
        QueueSet(ONE_QUEUE, guess_ns=guess_ns)


def test_a_ticket_asks_for_work_with_entropy() -> None:
    with pytest.raises(InvalidValueError, match="work is 3, but it must be a Work"):
        Ticket("flow", 0, 3)  # type: ignore[arg-type]
    for entropy in (1.5, -1, 2**64, True):
        with pytest.raises(InvalidValueError, match=r"entropy is .* it must be an integer of 64 bits"):
            Ticket("flow", entropy, Work())  # type: ignore[arg-type]


# Looking


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
    assert not picture.is_idle


def test_a_snapshot_shows_the_meters_of_kubernetes_with_strict_upstream() -> None:
    queueset = QueueSet(ONE_QUEUE, strict_upstream=True)
    for now in range(3):
        queueset.arrive(now, ticket(0, Work(1)))

    picture = queueset.snapshot()

    assert picture.queues[0].next_dispatch_r == 300_000
    assert picture.meters["active_queues"] == 1
    assert picture.meters["latest_s"] == picture.meters["dispatch_r"] == 0


def test_everything_shows_itself() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    queueset.arrive(0, one)
    queueset.arrive(1, waiting := ticket())

    assert repr(queueset) == "<QueueSet equal-serial: 1 waiting, 1 executing, 0 lingering, 1 of 1 seats in use>"
    assert repr(waiting) == "<Ticket 'flow 0' waiting width=1 queue=0>"
    assert repr(one.queue) == "<EqualSerialQueue 0: 1 waiting, 1 executing, 1 seats in use>"
    assert repr(queueset.deck) == "<Deck of 1 queues, 1 desired>"
    assert repr(queueset.discipline) == "<EqualSerial R=0 waiting=1 last served=0>"
    assert repr(queueset.guarantee) == "<Guarantee: 1 queues wait, 0 served out of turn>"


def test_a_ticket_pictures_itself_at_every_stage() -> None:
    queueset, one = QueueSet(ONE_QUEUE), ticket()
    assert (one.snapshot().state, one.snapshot().arrived_at) == (TicketState.NEW, None)

    queueset.arrive(3, one)

    assert (one.snapshot().state, one.snapshot().seated_at) == (TicketState.SEATED, 3)


def test_epochs_keep_the_meters_within_64_bits_as_upstream_shows_them() -> None:
    discipline = UpstreamEqualSerial(1, initial_r=HIGH_R - 1)
    queueset = QueueSet(ONE_QUEUE, discipline=lambda _concurrency, _guess_ns: discipline)
    queueset.arrive(0, ticket())
    assert discipline.current_r == HIGH_R - 1

    queueset.tick(100)

    assert discipline.epochs == 1
    assert discipline.current_r == HIGH_R - 1 + 10 - R_DECREMENT
    assert discipline.r == HIGH_R - 1 + 10
