"""A simulated fleet: what happens to it, and what it does then."""

import pytest

from apf_middleware.simulation.run import Simulation
from tests.support.fleet_scenarios import fleet_scenario

SECOND = 10**9


def played(members: str, fleet: str = "name: shop") -> Simulation:
    simulation = Simulation(*fleet_scenario(f"  members: {members}\n", fleet=fleet))
    result = simulation.run("own")
    assert result.requests
    return simulation


def seats(simulation: Simulation) -> list[int]:
    assert simulation.fleet is not None
    now = simulation.fleet.members[0].production.membership.answered_at
    assert now is not None
    return [member.production.membership.seats(now) for member in simulation.fleet.members]


def test_members_share_the_seats() -> None:
    simulation = played("5")

    assert simulation.fleet is not None
    assert simulation.fleet.epochs == 1
    assert sum(seats(simulation)) in (19, 20)
    assert min(seats(simulation)) >= 2
    assert simulation.fleet.network.lost == 0


def test_without_a_fleet_each_member_has_all_seats() -> None:
    simulation = Simulation(*fleet_scenario("  duration: 4s\n  warmUp: 1s\n  members: 5\n", fleet=""))
    simulation.run("own")

    assert simulation.fleet is None
    assert simulation.measurements.levels["all"].total_ns > 25 * 3 * SECOND
    assert len({server.backend for server in simulation.servers}) == 1


def test_a_member_that_crashes_comes_back() -> None:
    simulation = played("{count: 4, events: [{type: crash, at: 4s, duration: 1s, members: [1, 2]}]}")

    assert simulation.fleet is not None
    assert simulation.fleet.starts == 6
    assert [member.name for member in simulation.fleet.members] == ["0.1", "1.5", "2.6", "3.4"]
    assert min(seats(simulation)) >= 3
    assert all(server.controller.levels["all"].dispatched > 100 for server in simulation.servers)


@pytest.mark.parametrize("store", ["name: shop", 'store: "redis://r/0", lease: 1s'])
def test_the_seats_of_a_member_that_crashes_are_used_by_others(store: str) -> None:
    """On one host that is noticed at once, and over Redis when the lease ends."""
    simulation = played("{count: 4, events: [{type: crash, at: 4s, members: [1]}]}", store)
    windows = simulation.measurements.windows
    place = list(simulation.measurements.levels).index("all")
    used = {window.begin_s: window.seats[place] for window in windows}

    assert simulation.servers[1].has_crashed
    assert used[3.0] == pytest.approx(20, abs=0.3)
    assert used[4.0] < 19.6, "the processor of a member is gone, and its seats with it"
    assert used[6.0] == pytest.approx(20, abs=0.3)
    assert (used[4.5] < 16) == ("redis" in store)


def test_another_allocator_takes_over() -> None:
    simulation = played("{count: 4, events: [{type: allocator-crash, at: 4s}]}")

    assert simulation.fleet is not None
    assert simulation.fleet.epochs == 2
    assert simulation.fleet.allocation.allocator.epoch == 2
    assert sum(seats(simulation)) in (19, 20)
    assert {member.production.membership.epoch for member in simulation.fleet.members} == {2}


def test_a_member_that_is_cut_off_loses_its_seats_and_gets_them_back() -> None:
    text = (
        "{count: 4, events: [{type: partition, at: 3s, duration: 2s, members: [2]}, {type: allocator-crash, at: 4s}]}"
    )
    simulation = played(text, "name: shop, lease: 1s")
    fleet = simulation.fleet
    assert fleet is not None

    assert fleet.network.lost > 20
    assert fleet.members[2].production.fallback_ns == pytest.approx(SECOND, rel=0.2)
    assert fleet.members[2].production.membership.epoch == 2
    assert min(seats(simulation)) >= 3
