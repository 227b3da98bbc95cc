"""The controller's times: seats come free when a linger has ended, also while no request waits."""

from collections.abc import Callable

from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.gates import Gates, Reject
from apf_middleware.runtime import Admission, Controller
from tests.support.level_world import LevelWorld, configuration

MS = 10**6


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


def test_a_request_that_its_gate_rejects_at_the_end_of_its_wait_is_counted_once() -> None:
    gates = Gates()
    gates.condition("db")(lambda _: Reject())
    world = LevelWorld()
    world.controller = Controller(configuration(), gates, now=lambda: world.time, alarm=Alarm)
    seats = world.crowd.shared.current
    running = [world.arrive(Work(1, 1, 100)) for _ in range(seats)]
    waits = Admission(world.controller.destination(running[0].destination.classification, Work()))
    waits.destination.gates = ("db",)
    world.controller.arrive(world.time, waits)
    assert waits.is_waiting
    for one in running:
        world.release(one)
    world.time += 100
    world.controller.abandon(waits, Reason.TIME_OUT)

    assert waits.reason is Reason.GATE
    counters = waits.destination.counters
    assert (counters.waiting, sum(counters.rejected.values())) == (0, 1)
    assert world.controller.backlog.waiting == 0


def test_the_guess_for_an_upload_ends_when_it_gives_its_seats_back() -> None:
    world = LevelWorld(configuration(", minSeats: 1", ", discipline: max-min-serial"))
    beside, upload = world.arrive(), world.arrive()
    world.time = MS
    world.controller.release(upload)
    world.controller.release(beside)
    world.time = 2 * MS
    world.controller.release(world.arrive())
    alone = world.arrive()
    assert world.crowd.shared.alone is alone, "the model is at rest"
    world.time = 9 * MS
    world.controller.release(alone)
    upload.renew()
    world.controller.arrive(world.time, upload)
    assert world.crowd.shared.alone is upload
    others = [world.arrive() for _ in range(2)]
    assert all(one.is_seated for one in (upload, *others))
    for one in (upload, *others):
        world.controller.release(one)
    world.controller.sharing.check()
