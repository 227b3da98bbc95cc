"""Meters of members."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.fairqueuing.work import Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.simulation.fleet.meters import FleetMeters
from apf_middleware.simulation.run import Simulation
from tests.support.fleet_scenarios import fleet_scenario
from tests.support.simulated_worlds import one_level, play

SECOND = 10**9


@pytest.fixture
def controller() -> Controller:
    return Controller(fleet_scenario()[1], now=lambda: 0)


def admission(controller: Controller, level: str = "all") -> Admission:
    return Admission(controller.destination(Classification(level, level, "", 0), Work(1)))


def test_seats_of_all_members_are_counted_at_each_moment(controller: Controller) -> None:
    meters, one = FleetMeters(2, budget=3), admission(controller)
    meters.change(0, 0, one, 2)
    meters.change(1 * SECOND, 1, one, 3)
    meters.change(3 * SECOND, 0, one, -2)
    meters.end(4 * SECOND)
    meters.change(5 * SECOND, 1, one, -3)
    result = meters.finish(4.0, None)

    assert (result.budget, result.most_in_use) == (3, 5)
    assert result.excess_seat_s == 4
    assert [member.seats for member in result.members] == [1.5, 2.25]
    assert (result.epochs, result.messages, result.lost) == (0, 0, 0)


def test_the_warm_up_does_not_count_for_averages(controller: Controller) -> None:
    meters, one = FleetMeters(1, budget=9), admission(controller)
    meters.change(0, 0, one, 4)
    meters.begin(2 * SECOND)
    meters.change(3 * SECOND, 0, one, -2)
    meters.end(4 * SECOND)

    assert meters.finish(2.0, None).members[0].seats == 3


def test_exempt_requests_have_no_seats_of_the_budget() -> None:
    simulation = Simulation(*fleet_scenario("  members: 2\n"))
    simulation.run("own")
    meters = simulation.fleet_meters
    assert meters is not None
    controller = simulation.servers[0].controller
    exempt = next(name for name, runtime in controller.levels.items() if runtime.level.exempt)
    before = meters.in_use
    meters.change(0, 0, admission(controller, exempt), 1)

    assert meters.in_use == before


def test_each_member_has_its_tries() -> None:
    result = Simulation(*fleet_scenario("  members: {count: 4, loss: 0.02}\n")).run("own")

    assert result.fleet is not None
    assert [member.number for member in result.fleet.members] == [0, 1, 2, 3]
    assert sum(member.dispatched for member in result.fleet.members) == result.level("all").dispatched
    assert sum(member.seats for member in result.fleet.members) == pytest.approx(result.level("all").seats, abs=0.01)
    assert result.fleet.most_in_use == result.fleet.budget == 20
    assert result.fleet.excess_seat_s == 0
    assert 0.01 < result.fleet.lost / result.fleet.messages < 0.03
    assert result.level("all").nominal == 20, "each member knows the nominal seats of the whole fleet"


def test_requests_whose_clients_give_up_are_rejected_at_a_member() -> None:
    result = play(
        "  duration: 10s\n  members: 3\n",
        "name: t, count: 6, arrivals: {type: poisson, rate: 40}, service: 50ms, timeout: 100ms",
        server=one_level(6).replace("defaults: none", "defaults: none, fleet: {name: f}"),
    )

    assert result.fleet is not None
    assert sum(member.rejected for member in result.fleet.members) == result.level("all").rejected > 100
