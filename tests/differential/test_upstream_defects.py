"""Known defects of upstream, each present with strict_upstream and absent without it."""

import pytest

from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Reason, Ticket, Work
from tests.support.tickets import ticket

SECOND = 10**9


def blocked_by_a_wide_head(*, strict: bool) -> tuple[QueueSet, Ticket, Ticket]:
    """Ten seats, one of them in use; the head of the only queue wants all ten."""
    settings = QueueSetSettings(10, queues=1, hand_size=1, queue_length_limit=5)
    queueset, running, wide = QueueSet(settings, strict_upstream=strict), ticket(), ticket(0, Work(10))
    queueset.arrive(0, running)
    queueset.arrive(1, wide)
    assert wide.is_waiting
    return queueset, running, wide


@pytest.mark.parametrize(("strict", "accepted"), [(True, 1000), (False, 4)])
def test_bounded_queues_a_queue_is_full_at_its_limit_also_while_a_wide_head_waits(
    *, strict: bool, accepted: int
) -> None:
    """Upstream lets a queue grow without bound as long as a seat is free, though nobody can have it."""
    queueset, _, _ = blocked_by_a_wide_head(strict=strict)

    arrivals = [ticket() for _ in range(1000)]
    for now, one in enumerate(arrivals, 2):
        queueset.arrive(now, one)

    assert sum(one.is_waiting for one in arrivals) == accepted
    assert all(one.reason is Reason.QUEUE_FULL for one in arrivals if one.is_rejected)


@pytest.mark.parametrize("strict", [True, False])
def test_leaving_seats_those_behind_a_wide_head_that_gives_up(*, strict: bool) -> None:
    """Upstream leaves them standing before free seats until somebody else arrives or finishes."""
    queueset, running, wide = blocked_by_a_wide_head(strict=strict)
    behind = [ticket() for _ in range(3)]
    for now, one in enumerate(behind, 2):
        queueset.arrive(now, one)

    seated = queueset.abandon(10, wide)

    assert list(seated) == ([] if strict else behind)
    assert queueset.waiting == (3 if strict else 0)
    if strict:
        assert list(queueset.release(11, running)) == behind


@pytest.mark.parametrize(("strict", "phantom"), [(True, 500), (False, 0)])
def test_no_phantom_demand_remains_of_final_seats_that_were_cut(*, strict: bool, phantom: int) -> None:
    """Upstream keeps the seats that it cut as demand for ever: 5 of each request here."""
    settings = QueueSetSettings(5, queues=1, hand_size=1, queue_length_limit=1000)
    queueset = QueueSet(settings, strict_upstream=strict)
    tickets = [ticket(0, Work(1, final_seats=10)) for _ in range(100)]
    for now, one in enumerate(tickets):
        queueset.arrive(now, one)
    now = 1000
    for one in tickets:
        queueset.release(now := now + 1, one)
    queueset.demand.reset(now)

    assert queueset.is_idle
    assert queueset.demand.results(now + SECOND).average == phantom


@pytest.mark.parametrize(("strict", "left"), [(True, 8), (False, 2)])
def test_surplus_queues_that_are_idle_already_go_at_once(*, strict: bool, left: int) -> None:
    """Upstream removes a queue only when seats are given back in it."""
    queueset = QueueSet(QueueSetSettings(1, queues=8, hand_size=1), strict_upstream=strict)

    queueset.reconfigure(1, QueueSetSettings(1, queues=2, hand_size=1))

    assert len(list(queueset.deck)) == left


@pytest.mark.parametrize("strict", [True, False])
def test_surplus_queues_go_when_their_last_ticket_gives_up(*, strict: bool) -> None:
    queueset = QueueSet(QueueSetSettings(1, queues=4, hand_size=1), strict_upstream=strict)
    running, waiting = ticket(0), ticket(3)
    queueset.arrive(0, running)
    queueset.arrive(1, waiting)
    assert waiting.queue is queueset.deck.queues[3]
    queueset.reconfigure(2, QueueSetSettings(1, queues=1, hand_size=1))

    queueset.abandon(3, waiting)

    assert (waiting.queue in queueset.deck.queues) is strict


@pytest.mark.parametrize("strict", [True, False])
def test_surplus_queues_leave_the_others_where_they_are(*, strict: bool) -> None:
    """Upstream removes whichever queue runs empty, and moves flows into other queues."""
    queueset = QueueSet(QueueSetSettings(9, queues=4, hand_size=1), strict_upstream=strict)
    tickets = [ticket(entropy) for entropy in range(4)]
    for now, one in enumerate(tickets):
        queueset.arrive(now, one)
    second = tickets[1].queue
    queueset.reconfigure(5, QueueSetSettings(9, queues=3, hand_size=1))

    queueset.release(6, tickets[0])

    assert second is not None
    assert second.index == (0 if strict else 1)
    assert len(list(queueset.deck)) == (3 if strict else 4)
    queueset.release(7, tickets[3])
    assert len(list(queueset.deck)) == 3
    queueset.check()


def test_removing_a_surplus_queue_twice_loses_no_request() -> None:
    """Upstream, with two lingers in one surplus queue, removes another queue with who waits there, or panics."""
    queueset = QueueSet(QueueSetSettings(2, queues=4, hand_size=1), strict_upstream=True)
    lingering = [ticket(0, Work(1, 1, 10)), ticket(0, Work(1, 1, 20))]
    waiting = [ticket(entropy) for entropy in (1, 2, 3)]
    for one in (*lingering, *waiting):
        queueset.arrive(0, one)
    queueset.reconfigure(1, QueueSetSettings(2, queues=1, hand_size=1))
    for one in lingering:
        queueset.release(2, one)

    seated = [*queueset.tick(12), *queueset.tick(22)]

    assert sorted(one.entropy for one in seated) == [1, 2]
    assert list(queueset.release(23, seated[0])) == [one for one in waiting if one not in seated]
    queueset.check()


@pytest.mark.parametrize("strict", [True, False])
def test_a_level_without_seats_and_queues_admits_no_request(*, strict: bool) -> None:
    """Upstream runs one at a time there, as too wide."""
    queueset, one = QueueSet(QueueSetSettings.without_queues(0), strict_upstream=strict), ticket()

    queueset.arrive(0, one)

    assert one.is_seated is strict
    assert (one.reason is Reason.CONCURRENCY_LIMIT) is not strict


@pytest.mark.parametrize("strict", [True, False])
def test_a_level_without_seats_seats_no_waiting_request(*, strict: bool) -> None:
    queueset = QueueSet(QueueSetSettings(0, queues=1, hand_size=1), strict_upstream=strict)
    queueset.arrive(0, one := ticket())

    assert one.is_waiting
    assert list(queueset.reconfigure(1, QueueSetSettings(1, queues=1, hand_size=1))) == [one]


@pytest.mark.parametrize(("strict", "seats"), [(True, 10), (False, 4)])
def test_cut_anywhere_final_seats_are_cut_without_queues_too(*, strict: bool, seats: int) -> None:
    """Upstream forgot it on that path."""
    queueset = QueueSet(QueueSetSettings.without_queues(4), strict_upstream=strict)

    queueset.arrive(0, ticket(0, Work(1, final_seats=10, linger_ns=SECOND)))

    assert queueset.seats_in_use == seats
