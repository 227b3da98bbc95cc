"""For how long how many were there, whether they came alone or not."""

import threading
from collections.abc import Callable

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.metrics import ServerReading
from apf_middleware.runtime import Admission, Controller, LevelRuntime, NamedQueues, read_server

PLACE = Classification("all", "crowd", "alice", 7)


def configuration(level: str = "", server: str = "") -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
metadata: {{name: server}}
spec: {{seats: 4, defaults: none{server}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec: {{shares: 1000{level}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: crowd, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class Turned:
    """A controller and a clock that the test turns."""

    def __init__(self, config: Configuration | None = None) -> None:
        self.time = 0
        self.controller = Controller(config or configuration(), now=lambda: self.time)

    @property
    def crowd(self) -> LevelRuntime:
        return self.controller.levels["crowd"]

    def comes(self, work: Work | None = None) -> Admission:
        admission = Admission(self.controller.destination(PLACE, work or Work()))
        self.controller.arrive(self.time, admission)
        return admission

    def goes(self, admission: Admission) -> None:
        self.controller.release(admission)

    def times(self) -> tuple[dict[int, int], dict[int, int]]:
        """Nanoseconds by seats in use, and by requests waiting."""
        self.controller.look(self.time)
        seats, _, waiting, _ = self.crowd.occupancy.times(self.time)
        return {n: t for n, t in seats.items() if t}, {n: t for n, t in waiting.items() if t}


@pytest.mark.parametrize("looking", [False, True])
def test_time_alone_and_time_together_add_up(looking: bool) -> None:  # noqa: FBT001 - a parameter of the test
    world = Turned()
    for _ in range(3):  # alone: 10 of 15 each time
        one = world.comes()
        world.time += 4
        if looking:
            world.times()
        world.time += 6
        world.goes(one)
        world.time += 5
    first = world.comes()
    world.time += 7
    second = world.comes()
    world.time += 2
    world.goes(first)
    world.time += 3
    world.goes(second)
    world.time += 4

    assert world.times()[0] == {0: 3 * 5 + 4, 1: 3 * 10 + 7 + 3, 2: 2}


def test_time_of_one_that_is_charged_while_alone_counts_from_its_beginning() -> None:
    world = Turned()
    world.time += 5
    one = world.comes()
    world.time += 4
    assert one.charge(3)
    world.time += 6
    world.goes(one)
    world.time += 5

    assert world.times()[0] == {0: 10, 1: 10}


def test_time_of_waiting_is_counted() -> None:
    world = Turned()
    running = [world.comes() for _ in range(4)]
    waiting = [world.comes() for _ in range(3)]
    assert [admission.is_waiting for admission in waiting] == [True] * 3
    world.time += 10
    world.controller.abandon(waiting[0], Reason.CANCELLED)
    world.time += 5
    world.goes(running[0])
    world.time += 2

    seats, lengths = world.times()
    assert seats == {4: 17}
    assert lengths == {3: 10, 2: 5, 1: 2}


def test_wide_requests_are_counted_by_their_seats_while_they_wait_and_run() -> None:
    world = Turned(configuration(level=", lendablePercent: 0"))
    tally = world.crowd.tally("all")
    first, second = world.comes(Work(3)), world.comes(Work(2, 9, 5))
    assert (tally.seats_executing, tally.seats_waiting) == (3, 9)
    world.time += 1
    world.goes(first)

    assert second.is_seated
    assert second.width == 4, "its final seats are cut to what there is"
    assert (tally.seats_executing, tally.seats_waiting, tally.waiting) == (4, 0, 0)
    assert tally.estimated_widths() == {1: 0, 3: 1, 9: 1}
    world.time += 1
    world.goes(second)
    assert (tally.seats_executing, tally.executing) == (0, 0)
    [schema] = read_server(
        world.controller, NamedQueues(world.controller), authentication_failures={}, version="1"
    ).schemas
    assert schema.lingering_seats == 4
    world.time += 100
    world.controller.tick()
    [schema] = read_server(
        world.controller, NamedQueues(world.controller), authentication_failures={}, version="1"
    ).schemas
    assert schema.lingering_seats == 0


@pytest.mark.parametrize(
    ("level", "server", "seconds"),
    [("", "", 15), ("", ", requestTimeout: 8s", 2), ("", ", requestTimeout: 10m", 60), (", waitLimit: 90s", "", 90)],
)
def test_how_long_one_may_wait(level: str, server: str, seconds: int) -> None:
    """A quarter of the request's time-out, at most a minute, unless the level says otherwise."""
    assert Turned(configuration(level, server)).crowd.wait_limit_ns == seconds * 10**9


def test_a_picture_has_all_levels_and_their_numbers() -> None:
    world = Turned(configuration(server=", borrowing: periodic"))
    world.comes()
    world.time = 11 * 10**9
    world.controller.tick()
    picture = read_server(
        world.controller, NamedQueues(world.controller), authentication_failures={"expired": 2}, version="1.2.3"
    )
    levels = {level.name: level for level in picture.levels}

    assert set(levels) == {"crowd", "catch-all", "exempt"}
    assert (levels["crowd"].kind, levels["catch-all"].kind, levels["exempt"].kind) == ("queue", "reject", "exempt")
    assert picture.seats == 4
    assert picture.authentication_failures == {"expired": 2}
    adjusted = levels["crowd"].adjusted
    assert adjusted is not None
    assert adjusted.high_watermark == 1
    assert picture.fair_fraction is not None


@pytest.mark.parametrize("aborted", [False, True])
def test_what_never_arrived_has_not_failed_either(aborted: bool) -> None:  # noqa: FBT001
    world = Turned()
    admission = Admission(world.controller.destination(PLACE, Work()))
    admission.fail(aborted=aborted)
    served = world.comes()
    world.goes(served)

    status = NamedQueues(world.controller).status("crowd")
    assert (status.arrived, status.completed, status.failed, status.aborted) == (1, 1, 0, 0)


# Lingers that end while nothing else happens


class Alarm:
    """Notes when it is asked to ring; the test rings."""

    def __init__(self, ring: Callable[[], None], _now: Callable[[], int]) -> None:
        self.ring = ring
        self.asked: list[int] = []

    def ask(self, at: int) -> None:
        self.asked.append(at)


def test_seats_are_free_when_a_linger_has_ended_and_somebody_looks() -> None:
    world = Turned()
    world.goes(world.comes(Work(1, 3, 800)))
    world.time += 800

    [crowd] = [one for one in picture(world).levels if one.name == "crowd"]

    assert {seats: ns for seats, ns in crowd.seats_in_use.items() if ns} == {3: 800}
    assert all(one.lingering_seats == 0 for one in picture(world).schemas)
    assert world.crowd.shared.is_idle


def test_the_alarm_rings_at_the_end_of_each_linger_though_nobody_waits() -> None:
    alarms: list[Alarm] = []
    world = Turned()

    def alarm(ring: Callable[[], None], now: Callable[[], int]) -> Alarm:
        alarms.append(Alarm(ring, now))
        return alarms[-1]

    world.controller = Controller(configuration(), now=lambda: world.time, alarm=alarm)
    first, second = world.comes(Work(1, 1, 50)), world.comes(Work(1, 1, 90))
    world.goes(first)
    world.goes(second)
    at_ends = alarms[0]  # others are for bodies
    assert set(at_ends.asked) == {50}

    world.time = 50
    at_ends.ring()
    assert at_ends.asked[-1] == 90
    assert world.crowd.shared.queueset.seats_in_use == 1
    world.time = 90
    at_ends.ring()

    assert world.crowd.shared.is_idle


def test_a_registry_that_is_read_in_another_thread_changes_no_seats() -> None:
    world = Turned()
    world.goes(world.comes(Work(1, 1, 50)))
    world.time = 60
    reader = threading.Thread(target=lambda: picture(world))
    reader.start()
    reader.join()
    assert world.crowd.shared.queueset.seats_in_use == 1

    picture(world)

    assert world.crowd.shared.queueset.seats_in_use == 0


def picture(world: Turned) -> ServerReading:
    return read_server(world.controller, NamedQueues(world.controller), authentication_failures={}, version="1")
