"""The controller's times: seats come free when a linger has ended, also while no request waits."""

from collections.abc import Callable

from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Controller
from tests.support.level_world import LevelWorld, configuration


class Alarm:
    """Records the times that are asked for; the test rings."""

    def __init__(self, ring: Callable[[], None], _now: Callable[[], int]) -> None:
        self.ring = ring
        self.asked: list[int] = []

    def ask(self, at: int) -> None:
        self.asked.append(at)


def test_seats_are_free_when_a_linger_has_ended_and_the_server_is_read() -> None:
    world = LevelWorld()
    world.release(world.arrive(Work(1, 3, 800)))
    world.time += 800

    [crowd] = [one for one in world.read().levels if one.name == "crowd"]

    assert {seats: ns for seats, ns in crowd.seats_in_use.items() if ns} == {3: 800}
    assert all(one.lingering_seats == 0 for one in world.read().schemas)
    assert world.crowd.shared.is_idle


def test_the_alarm_rings_at_the_end_of_each_linger_though_no_request_waits() -> None:
    alarms: list[Alarm] = []
    world = LevelWorld()

    def alarm(ring: Callable[[], None], now: Callable[[], int]) -> Alarm:
        alarms.append(Alarm(ring, now))
        return alarms[-1]

    world.controller = Controller(configuration(), now=lambda: world.time, alarm=alarm)
    first, second = world.arrive(Work(1, 1, 50)), world.arrive(Work(1, 1, 90))
    world.release(first)
    world.release(second)
    at_ends = alarms[0]  # others are for bodies
    assert set(at_ends.asked) == {50}

    world.time = 50
    at_ends.ring()
    assert at_ends.asked[-1] == 90
    assert world.crowd.shared.queueset.seats_in_use == 1
    world.time = 90
    at_ends.ring()

    assert world.crowd.shared.is_idle
