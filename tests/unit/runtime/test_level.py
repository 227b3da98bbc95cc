"""The times for which a level had so many requests and seats in use, alone or together."""

import pytest

from apf_middleware.fairqueuing import Reason, Work
from tests.support.level_world import LevelWorld, configuration


@pytest.mark.parametrize("looking", [False, True])
def test_time_alone_and_time_together_add_up(looking: bool) -> None:  # noqa: FBT001 - a parameter of the test
    world = LevelWorld()
    for _ in range(3):  # alone: 10 of 15 each time
        one = world.arrive()
        world.time += 4
        if looking:
            world.times()
        world.time += 6
        world.release(one)
        world.time += 5
    first = world.arrive()
    world.time += 7
    second = world.arrive()
    world.time += 2
    world.release(first)
    world.time += 3
    world.release(second)
    world.time += 4

    assert world.times()[0] == {0: 3 * 5 + 4, 1: 3 * 10 + 7 + 3, 2: 2}


def test_time_of_one_that_is_charged_while_alone_counts_from_its_beginning() -> None:
    world = LevelWorld()
    world.time += 5
    one = world.arrive()
    world.time += 4
    assert one.charge(3)
    world.time += 6
    world.release(one)
    world.time += 5

    assert world.times()[0] == {0: 10, 1: 10}


def test_time_of_waiting_is_counted() -> None:
    world = LevelWorld()
    running = [world.arrive() for _ in range(4)]
    waiting = [world.arrive() for _ in range(3)]
    assert [admission.is_waiting for admission in waiting] == [True] * 3
    world.time += 10
    world.controller.abandon(waiting[0], Reason.CANCELLED)
    world.time += 5
    world.release(running[0])
    world.time += 2

    seats, lengths = world.times()
    assert seats == {4: 17}
    assert lengths == {3: 10, 2: 5, 1: 2}


def test_wide_requests_are_counted_by_their_seats_while_they_wait_and_run() -> None:
    world = LevelWorld(configuration(level=", lendablePercent: 0"))
    counters = world.crowd.counters_of("all")
    first, second = world.arrive(Work(3)), world.arrive(Work(2, 9, 5))
    assert (counters.seats_executing, counters.seats_waiting) == (3, 9)
    world.time += 1
    world.release(first)

    assert second.is_seated
    assert second.width == 4, "its final seats are cut to what there is"
    assert (counters.seats_executing, counters.seats_waiting, counters.waiting) == (4, 0, 0)
    assert counters.estimated_widths() == {1: 0, 3: 1, 9: 1}
    world.time += 1
    world.release(second)
    assert (counters.seats_executing, counters.executing) == (0, 0)
    [schema] = world.read().schemas
    assert schema.lingering_seats == 4
    world.time += 100
    world.controller.tick()
    [schema] = world.read().schemas
    assert schema.lingering_seats == 0


@pytest.mark.parametrize("field", ["waiting", "at_once", "suspended"])
@pytest.mark.parametrize("writes", [False, True])
def test_counters_of_a_schema_are_forgotten_with_its_last_request(field: str, writes: bool) -> None:  # noqa: FBT001
    level = LevelWorld().crowd
    counters = level.counters_of("all", writes=writes)
    setattr(counters, field, 1)
    assert not level.forget_schemas((), 0)
    assert level.schema_counters.keys() == {"all"}

    setattr(counters, field, 0)
    assert level.forget_schemas((), 0)
    assert not level.schema_counters


@pytest.mark.parametrize(
    ("level", "server", "seconds"),
    [("", "", 15), ("", ", requestTimeout: 8s", 2), ("", ", requestTimeout: 10m", 60), (", waitLimit: 90s", "", 90)],
)
def test_how_long_one_may_wait(level: str, server: str, seconds: int) -> None:
    """A quarter of the request's time-out, at most a minute, unless the level says otherwise."""
    assert LevelWorld(configuration(level, server)).crowd.wait_limit_ns == seconds * 10**9
