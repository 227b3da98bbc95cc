"""Levels with headroom on a controller, and reloads that change it."""

from apf_middleware.classification import ANONYMOUS, RequestDigest
from apf_middleware.config.gating import Gating
from apf_middleware.fairqueuing import Work
from apf_middleware.gates import HeadroomGate
from apf_middleware.runtime import Admission
from tests.support.level_world import PLACE, LevelWorld, configuration

MS = 10**6
HEADROOM = ", headroom: 50%"
NAME = "headroom:crowd"


def ask(world: LevelWorld, path: str) -> Admission:
    destination = world.controller.destination(PLACE, Work())
    digest = RequestDigest(ANONYMOUS, "get", path, "GET")
    destination.route = f"GET {path}"
    destination.gates = Gating(world.controller.configuration).names(digest, PLACE)
    admission = Admission(destination)
    world.controller.arrive(world.time, admission)
    return admission


def end(world: LevelWorld, admission: Admission) -> None:
    world.controller.release_leases(admission)
    world.controller.release(admission)


def learned() -> LevelWorld:
    """Return a world that knows two routes, and has had no short request for long."""
    world = LevelWorld(configuration(HEADROOM))
    for _ in range(15):
        for path, duration in (("/short", MS), ("/long", 1000 * MS)):
            admission = ask(world, path)
            world.time += duration
            end(world, admission)
    world.time += 3600 * 10**9
    return world


def gate(world: LevelWorld) -> HeadroomGate:
    assert world.controller.gates is not None
    found = world.controller.gates.scheduler.gates[NAME]
    assert isinstance(found, HeadroomGate)
    return found


def test_short_requests_find_a_seat_beside_long_ones() -> None:
    world = learned()
    short = ask(world, "/short")
    longs = [ask(world, "/long") for _ in range(6)]
    assert short.is_seated
    assert [one.is_seated for one in longs] == [True, True, False, False, False, False]
    assert [ask(world, "/short").is_seated for _ in range(2)] == [True, False]  # the fourth seat, and no fifth

    end(world, longs[0])
    assert longs[2].is_seated
    assert gate(world).used("long") == 2
    held = world.controller.held_by(longs[3])
    assert held is not None
    assert held.gate == NAME


def test_long_requests_have_all_seats_when_short_ones_stop_coming() -> None:
    world = learned()
    end(world, ask(world, "/short"))
    longs = [ask(world, "/long") for _ in range(6)]
    assert sum(one.is_seated for one in longs) == 2
    for _ in range(30):
        world.time += 100 * MS
        world.controller.tick()

    assert sum(one.is_seated for one in longs) == 4


def test_long_requests_have_all_seats_soon_after_a_steady_stream_of_short_ones() -> None:
    world = learned()
    for _ in range(1000):
        end(world, ask(world, "/short"))
        world.time += 5 * MS
    longs = [ask(world, "/long") for _ in range(6)]
    assert sum(one.is_seated for one in longs) == 2
    for _ in range(25):
        world.time += 10 * MS
        world.controller.tick()

    assert sum(one.is_seated for one in longs) == 4


def test_a_reload_changes_and_removes_headroom() -> None:
    world = learned()
    end(world, ask(world, "/short"))
    longs = [ask(world, "/long") for _ in range(6)]
    world.controller.reconfigure(configuration(", headroom: 25%"))
    assert gate(world).headroom.percent == 25
    assert sum(one.is_seated for one in longs) == 3
    world.controller.reconfigure(configuration())

    assert sum(one.is_seated for one in longs) == 4
    assert world.controller.gates is not None
    assert NAME not in world.controller.gates
    for one in longs[:4]:
        end(world, one)
    assert all(one.is_seated for one in longs[4:])


def test_a_reload_adds_headroom() -> None:
    world = LevelWorld(configuration())
    assert world.controller.gates is None
    world.controller.reconfigure(configuration(HEADROOM))

    assert gate(world).headroom.percent == 50


def test_a_request_without_a_digest_is_not_short() -> None:
    world = learned()
    destination = world.controller.destination(PLACE, Work())
    destination.gates = (NAME,)
    admission = Admission(destination)
    world.controller.arrive(world.time, admission)

    assert admission.is_seated
    assert gate(world).used("long") == 1


def test_streams_that_have_given_their_seats_back_use_no_headroom() -> None:
    world = learned()
    end(world, ask(world, "/short"))
    streams = [ask(world, "/long") for _ in range(2)]
    assert not ask(world, "/long").is_seated
    for stream in streams:
        assert stream.release()
    assert gate(world).used("long") == 1, "the request that waited has a seat now"

    typical_ns = gate(world).headroom.typical_ns
    world.time += 3600 * 1000 * MS
    for stream in streams:
        world.controller.release_leases(stream)
    assert gate(world).headroom.typical_ns <= typical_ns, "streams last for long without seats"
