"""A queue for each flow: who gets a place, who keeps it, and who has to share."""

from dataclasses import replace

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import DISCIPLINES, QueueSet, QueueSetSettings, SharedLevel, Ticket, Work
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.ticket import Queue

SHARED = 2


class Level:
    """A queue set with two shared queues and some places."""

    def __init__(self, exact: int, seats: int = 1, discipline: str = "equal-serial", *, strict: bool = False) -> None:
        self.now = 0
        self.settings = QueueSetSettings(seats, SHARED, 1, 10, exact=exact)
        self.queueset = QueueSet(self.settings, discipline=DISCIPLINES[discipline], strict_upstream=strict)

    def arrive(self, flow: int) -> Ticket:
        self.now += 1
        ticket = Ticket(f"flow {flow}", flow, Work())
        self.queueset.arrive(self.now, ticket)
        return ticket

    def release(self, ticket: Ticket) -> None:
        self.now += 1_000_000
        self.queueset.release(self.now, ticket)


def queue_of(ticket: Ticket) -> Queue:
    assert ticket.queue is not None
    return ticket.queue


def test_flows_have_queues_of_their_own() -> None:
    level = Level(exact=100)

    queues = [queue_of(level.arrive(flow)) for flow in range(100)]

    assert len(set(map(id, queues))) == 100
    assert min(queue.index for queue in queues) == SHARED
    assert queue_of(level.arrive(7)) is queues[7]


def test_a_flow_that_was_idle_finds_its_queue_again() -> None:
    level = Level(exact=2)
    first = level.arrive(1)
    level.release(first)
    level.arrive(2)

    assert level.arrive(1).queue is first.queue


@pytest.mark.parametrize("strict", [False, True])
def test_an_idle_queue_beyond_fewer_places_is_removed(strict: bool) -> None:  # noqa: FBT001
    level = Level(exact=2, seats=2, strict=strict)
    level.arrive(1)
    level.release(level.arrive(2))

    level.queueset.reconfigure(level.now, replace(level.settings, exact=1))
    assert len(list(level.queueset.deck)) == SHARED + 1
    level.arrive(3)
    level.queueset.check()


def test_beyond_the_places_flows_share() -> None:
    level = Level(exact=2)
    for flow in (1, 2):
        level.arrive(flow)

    guests = [level.arrive(flow) for flow in range(3, 9)]

    assert {queue_of(ticket).index for ticket in guests} == {0, 1}


def test_a_guest_stays_in_one_queue_while_it_is_at_work() -> None:
    level = Level(exact=1)
    elephant = level.arrive(1)
    guest = level.arrive(2)
    level.release(elephant)  # the place is free, but the guest is at work elsewhere

    assert guest.is_seated
    again = level.arrive(2)
    assert again.queue is guest.queue
    level.release(guest)
    level.release(again)

    assert queue_of(level.arrive(2)).index == SHARED


def test_the_place_of_an_idle_flow_goes_to_one_that_comes() -> None:
    level = Level(exact=2, seats=3)
    idle, busy = level.arrive(1), level.arrive(2)
    level.release(idle)

    newcomer = level.arrive(3)

    assert queue_of(newcomer).index == queue_of(idle).index
    assert newcomer.queue is not idle.queue  # what flow 1 owed isn't flow 3's
    assert queue_of(level.arrive(1)).index < SHARED
    assert level.arrive(2).queue is busy.queue
    level.queueset.check()


def test_a_rejected_request_takes_no_place() -> None:
    level = Level(exact=1, seats=1)
    level.arrive(1)
    for _ in range(10):
        level.arrive(2)
    rejected = level.arrive(2)

    assert rejected.is_rejected
    level.queueset.check()


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_debt_of_a_heavy_flow_is_forgotten_with_its_queue(discipline: str) -> None:
    level = Level(exact=1, seats=1, discipline=discipline)
    elephant = level.arrive(1)
    level.now += 10**10
    level.release(elephant)
    mouse = level.arrive(2)
    level.release(mouse)

    level.queueset.check()
    assert level.queueset.is_idle


def test_the_flow_that_came_alone_has_its_place() -> None:
    settings = QueueSetSettings(2, SHARED, 1, 10, exact=1)
    shared = SharedLevel("a", settings, LevelLimits(2, 2, 2), QueueSet(settings, ceiling=2))
    shared.least = 2
    shared.allow_alone(0)
    for flow in (1, 2, 3):
        ticket = Ticket("flow", flow, Work())
        assert shared.seat_alone(flow * 10, ticket)
        shared.release_alone(flow * 10 + 5, ticket)
        shared.alone_width = 1
    shared.settle_alone()

    assert [queue.owner for queue in shared.queueset.deck if queue.owner is not None] == [3]
    shared.check()


def test_exact_queues_stay_in_place_also_with_strict_upstream() -> None:
    level = Level(exact=2, strict=True)
    seated, waiting = level.arrive(1), level.arrive(2)
    level.queueset.abandon(level.now, waiting)
    level.release(seated)

    assert {queue_of(level.arrive(flow)).index for flow in (3, 4)} == {SHARED, SHARED + 1}


def test_fewer_places_are_left_when_their_flows_are_idle() -> None:
    level = Level(exact=4, seats=4)
    tickets = [level.arrive(flow) for flow in range(4)]
    level.queueset.reconfigure(level.now, QueueSetSettings(4, SHARED, 1, 10, exact=1))
    assert level.arrive(3).queue is tickets[3].queue
    for ticket in tickets[:3]:
        level.release(ticket)

    assert len(list(level.queueset.deck)) == SHARED + 2
    assert queue_of(level.arrive(0)).index == SHARED


def test_only_the_queues_that_more_shared_ones_take_in_lose_their_flows() -> None:
    level = Level(exact=3)
    queues = [queue_of(level.arrive(flow)) for flow in (11, 12, 13)]

    level.queueset.reconfigure(level.now, replace(level.settings, queues=SHARED + 1))

    assert [queue.owner for queue in queues] == [None, 12, 13]
    assert [queue_of(level.arrive(flow)) for flow in (12, 13)] == queues[1:]
    level.queueset.check()


def test_places_need_shared_queues_for_those_beyond() -> None:
    with pytest.raises(InvalidValueError, match="exact is 5, but there must be queues"):
        QueueSetSettings(1, queues=0, hand_size=0, exact=5)


def test_a_guest_is_not_forgotten_because_of_what_it_has_where_its_own_queue_was() -> None:
    level = Level(exact=1)
    own = [level.arrive(1), level.arrive(1)]
    level.queueset.reconfigure(level.now, QueueSetSettings(1, SHARED + 1, SHARED + 1, 10, exact=1))
    level.arrive(9)  # has the only place, and what was flow 1's own queue is shared
    guest = level.arrive(1)
    assert guest.queue is not own[0].queue
    level.queueset.abandon(level.now, own[1])

    for _ in range(SHARED + 1):  # whose turn it is among equals
        assert level.arrive(1).queue is guest.queue


@pytest.mark.parametrize("strict", [False, True])
def test_a_queue_with_a_parked_request_is_not_closed(strict: bool) -> None:  # noqa: FBT001
    """Also not as upstream closes queues, which knows nobody who is parked."""
    queueset = QueueSet(QueueSetSettings(1, 4, 1, 10), strict_upstream=strict)
    parked, seated = Ticket("flow", 1, Work()), Ticket("flow", 1, Work())
    queueset.gatekeeper = _AllParked()
    queueset.arrive_parked(0, parked)
    queueset.arrive(1, seated)
    assert parked.queue is seated.queue
    queueset.reconfigure(2, QueueSetSettings(1, 1, 1, 10))
    queueset.release(3, seated)

    assert parked.queue in list(queueset.deck)
    assert list(queueset.unpark(4, parked)) == [parked]


class _AllParked:
    def admits(self, now: int, ticket: Ticket) -> bool:  # noqa: ARG002
        return True

    def bars(self, now: int, ticket: Ticket) -> bool:  # noqa: ARG002
        return False

    def is_parked(self, ticket: Ticket) -> bool:  # noqa: ARG002
        return True
