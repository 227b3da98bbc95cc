"""Virtual-time worlds."""

import pytest

from apf_middleware.exceptions import ClockError, InvalidValueError
from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Reason, Ticket, Work
from apf_middleware.testing import Call, Rank, World


@pytest.fixture
def world() -> World:
    return World(QueueSet(QueueSetSettings(1, queues=1, hand_size=1)))


def test_calls_run_one_after_the_other_for_their_duration(world: World) -> None:
    first, second = Call("a", 0, Work(), 10), Call("b", 0, Work(), 5)
    world.arrive_at(0, first)
    world.arrive_at(1, second)

    world.run()

    assert (first.seated_at, first.finished_at, first.released_at) == (0, 10, 10)
    assert (second.seated_at, second.finished_at, second.released_at) == (10, 15, 15)
    assert world.now == 15


def test_seats_linger_in_virtual_time_too(world: World) -> None:
    first, second = Call("a", 0, Work(1, 1, 7), 10), Call("b", 0, Work(), 5)
    world.arrive_at(0, first)
    world.arrive_at(1, second)

    world.run()

    assert (first.finished_at, first.released_at) == (10, 17)
    assert second.seated_at == 17


def test_an_abandoned_call_never_runs(world: World) -> None:
    first, second = Call("a", 0, Work(), 10), Call("b", 0, Work(), 5)
    world.arrive_at(0, first)
    world.arrive_at(1, second)
    world.abandon_at(3, second, Reason.CANCELLED)
    world.abandon_at(4, first)

    world.run()

    assert second.reason is Reason.CANCELLED
    assert second.finished_at == 3
    assert first.finished_at == 10


def test_events_of_one_instant_keep_their_rank() -> None:
    order: list[Rank] = []
    world = World(QueueSet(QueueSetSettings(1)))
    for rank in sorted(Rank, reverse=True):
        world.at(5, lambda rank=rank: order.append(rank), rank)  # type: ignore[misc]

    world.run()

    assert order == sorted(Rank)


def test_a_world_can_be_run_step_by_step(world: World) -> None:
    call = Call("a", 0, Work(), 10)
    world.arrive_at(0, call)

    world.run(until=9)
    assert call.is_seated
    assert world.now == 9

    world.run(until=10)
    assert call.finished_at == 10


def test_settings_change_in_virtual_time(world: World) -> None:
    calls = [Call(str(number), 0, Work(), 10) for number in range(3)]
    for call in calls:
        world.arrive_at(0, call)
    world.reconfigure_at(4, QueueSetSettings(3, queues=1, hand_size=1))

    world.run()

    assert [call.seated_at for call in calls] == [0, 4, 4]


def test_events_in_the_past_are_refused(world: World) -> None:
    world.run(until=5)

    with pytest.raises(ClockError, match="time is 4, but it must not be before now, 5"):
        world.at(4, lambda: None)
    with pytest.raises(InvalidValueError, match=r"time is 5.5, but it must be an integer"):
        world.at(5.5, lambda: None)  # type: ignore[arg-type]


def test_a_world_refuses_other_tickets(world: World) -> None:
    world.queueset.arrive(0, seated := Ticket("a", 0, Work()))
    world.queueset.arrive(0, Ticket("b", 0, Work()))

    with pytest.raises(InvalidValueError, match="a world can only run a Call"):
        world._seat(world.queueset.release(1, seated))
