"""The simulated server."""

import pytest

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation import simulate, variant
from apf_middleware.simulation.run import Simulation
from tests.support.simulated_worlds import one_level, play, seats_over_time, world


def test_a_backend_beyond_its_places_becomes_slower_for_all() -> None:
    """Twenty calls at a capacity of ten: each takes 2^1.5 times as long."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 20s\n  warmUp: 5s\n  backend: {places: 10}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 20}, service: 100ms}\n"
    )
    scenario, configuration = read_scenario_text(text).unwrap()
    result = simulate(scenario, variant("none", configuration))

    [tenant] = result.tenants
    assert tenant.p50_ms == pytest.approx(100 * 2**1.5, rel=0.01)


def test_the_wait_limit_ends_a_wait() -> None:
    result = play(
        "  duration: 20s\n",
        "name: t, arrivals: {type: poisson, rate: 20}, service: 100ms",
        server=one_level(1, wait="250ms"),
    )

    [tenant] = result.tenants
    assert tenant.rejected.keys() == {"time-out"}
    assert tenant.worst_ms is not None
    assert tenant.worst_ms <= 350.001


def test_server_overhead_delays_requests() -> None:
    """With ten seats, but half a millisecond of serial work before and after each request: 1,000 a second at most."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 5s\n  warmUp: 1s\n"
        "  backend: {overhead: 1ms, exponent: 0}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 10}, service: 1ms}\n---\n"
    )
    result = simulate(*read_scenario_text(text + one_level(10)).unwrap())

    assert result.tenants[0].rate == pytest.approx(1000, rel=0.02)
    alone = simulate(*read_scenario_text(text.replace("connections: 10", "connections: 1") + one_level(10)).unwrap())
    assert alone.tenants[0].p50_ms == pytest.approx(2.0, rel=0.01)


def test_a_rejection_costs_server_time() -> None:
    """All seats are held for two minutes and other requests are rejected at once: 1,000 a second at most."""
    text = (
        "apiVersion: apf/v1\nkind: Scenario\nspec:\n  duration: 5s\n  warmUp: 1s\n"
        "  backend: {overhead: 1ms, exponent: 0}\n"
        "  tenants:\n  - {name: t, arrivals: {type: closed, connections: 12, pause: 0s}, service: 120s}\n---\n"
    )
    queuing = "{queues: 1, handSize: 1, queueLengthLimit: 1}"
    result = simulate(*read_scenario_text(text + one_level(10, queuing=queuing)).unwrap())

    assert result.tenants[0].rejections / result.seconds == pytest.approx(1000, rel=0.02)


def test_a_crash_ends_all_requests_of_a_server() -> None:
    """Twelve requests run or wait; the retries go to the other server, which serves them one after the other."""
    event = "{type: crash, at: 50ms, members: [0]}"
    scenario, configuration = world(
        f"  duration: 3s\n  members: {{count: 2, events: [{event}]}}\n  balancing: round-robin\n",
        "name: t, count: 24, arrivals: {type: constant, rate: 0.5}, service: 10s",
        server=one_level(4).replace("defaults: none", "defaults: none, fleet: {name: f}"),
    )
    simulation = Simulation(scenario, configuration)
    first, second = simulation.servers
    result = simulation.run("own")

    assert first.has_crashed
    assert first.open == 0
    assert second.open > 8
    assert second.backend.load == simulation.measurements.levels["all"].seats <= 4
    assert result.fleet is not None
    assert result.fleet.most_in_use <= 4


def test_requests_to_a_crashed_server_fail() -> None:
    event = "{type: crash, at: 1s, duration: 1s, members: [0]}"
    result = play(
        f"  duration: 4s\n  members: {{count: 1, events: [{event}]}}\n",
        "name: t, arrivals: {type: constant, rate: 100}, service: 5ms",
        server=one_level(4).replace("defaults: none", "defaults: none, fleet: {name: f}"),
    )

    [tenant] = result.tenants
    assert tenant.failed == pytest.approx(100, abs=2)
    assert tenant.served == tenant.requests - tenant.failed
    assert not tenant.rejections


LINGERING = "level: all, estimate: {source: constant, seats: 1, finalSeats: 2, linger: 300ms},"
TEN_A_SECOND = "name: t, arrivals: {type: constant, rate: 10}, service: 100ms"


def test_seats_that_linger_are_in_use() -> None:
    """Each second ten requests take two seats for 400 ms."""
    result = play(
        "  duration: 10s\n  warmUp: 2s\n", TEN_A_SECOND, server=one_level(20).replace("level: all,", LINGERING)
    )

    [level] = [level for level in result.levels if level.dispatched]
    assert level.seats == pytest.approx(8, rel=0.01)
    assert level.wait_p99_ms == 0
    assert result.tenants[0].seats == pytest.approx(2, rel=0.01), "useful work is that of the backend"


def test_seats_that_linger_are_never_counted_with_those_of_the_next_request() -> None:
    result = play(
        "  duration: 10s\n  members: 1\n",
        "name: t, arrivals: {type: closed, connections: 8}, service: 100ms",
        server=one_level(4)
        .replace("level: all,", LINGERING)
        .replace("defaults: none", "defaults: none, fleet: {name: f}"),
    )

    assert result.fleet is not None
    assert result.fleet.most_in_use == 4
    assert result.fleet.excess_seat_s == 0


def test_a_crash_frees_seats_that_linger() -> None:
    event = "{type: crash, at: 900ms, members: [0]}"
    result = play(
        f"  duration: 2s\n  members: {{count: 1, events: [{event}]}}\n",
        TEN_A_SECOND,
        server=one_level(20)
        .replace("level: all,", LINGERING)
        .replace("defaults: none", "defaults: none, fleet: {name: f}"),
    )

    begins = [window.begin_s for window in result.windows]
    in_use = dict(zip(begins, seats_over_time(result), strict=True))
    assert max(in_use.values()) > 4
    assert not any(seats for begin, seats in in_use.items() if begin > 0.9)


SHORT = "name: short, count: 20, arrivals: {type: poisson, rate: 10}, service: 5ms, request: {path: /short}"
LONG = "name: long, count: 30, arrivals: {type: closed, connections: 1}, service: 500ms, request: {path: /long}"


def test_headroom_keeps_seats_for_short_requests() -> None:
    def slowest_ms(headroom: str) -> float:
        server = one_level(10, queuing="{queues: exact}").replace("waitLimit", f"headroom: {headroom}, waitLimit")
        short, long = play("  duration: 12s\n  warmUp: 4s\n", SHORT, LONG, server=server).tenants
        assert short.served > 1500
        assert long.served > 80
        assert short.p99_ms is not None
        return short.p99_ms

    assert slowest_ms("0%") > 200
    assert slowest_ms("20%") < 50


@pytest.mark.parametrize(("level", "schema", "rejected"), [("5s", "1s", 2), ("1s", "5s", 0), ("1s", "", 2)])
def test_the_deadline_of_a_schema_takes_precedence_over_that_of_its_level(
    level: str, schema: str, rejected: int
) -> None:
    """Two requests wait behind one that takes 3 seconds."""
    first = "name: first, arrivals: {type: constant, rate: 1}, end: 1s, service: 3s"
    second = "name: second, arrivals: {type: constant, rate: 4}, begin: 1s, end: 1500ms, service: 10ms"
    server = one_level(1).replace("waitLimit", f"deadline: {level}, waitLimit")
    if schema:
        server = server.replace("{level: all,", f"{{level: all, deadline: {schema},")
    found = play("  duration: 6s\n", first, second, server=server).tenants[1]

    assert (found.requests, found.rejections) == (2, rejected)
