"""Layouts of the processes of a scenario."""

from dataclasses import replace

import pytest

from apf_middleware.config.adaptive_seats import AdaptiveSeats, SeatBounds
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation.fleet import LAYOUTS, layout
from apf_middleware.simulation.fleet.layouts import of_members
from tests.support.fleet_scenarios import fleet_scenario


def test_one_server_has_all_seats() -> None:
    members = "{count: 4, events: [{type: crash, at: 1s, members: [3]}]}"
    scenario, configuration = layout("one-server", *fleet_scenario(f"  members: {members}\n"))

    assert scenario.members is not None
    assert scenario.members.count == 1
    assert not scenario.members.events
    assert layout("one-server", *fleet_scenario())[0].members is None
    assert configuration.server.fleet is None
    assert configuration.server.seats == 20


def test_a_split_has_equal_parts_and_the_same_backend() -> None:
    scenario, configuration = layout("split", *fleet_scenario("  members: 3\n"))

    assert scenario.members is not None
    assert scenario.backend.places == 20
    assert configuration.server.fleet is None
    assert configuration.server.seats == 6, "parts are rounded down"
    assert layout("split", *fleet_scenario("  members: 50\n"))[1].server.seats == 1, "each has at least one"


def test_a_split_of_adaptive_seats_begins_with_its_part_and_the_same_backend() -> None:
    scenario, configuration = fleet_scenario("  members: 4\n")
    adaptive = AdaptiveSeats(SeatBounds(min=6, max=400, start=41))
    given = replace(configuration, server=replace(configuration.server, seats=adaptive))
    same, split = layout("split", scenario, given)

    assert same.backend.places == 41
    assert split.server.seat_bounds == SeatBounds(min=1, max=100, start=10)


def test_a_split_divides_the_numbers_of_seats_of_levels() -> None:
    scenario, configuration = fleet_scenario("  members: 3\n")
    limits = {"some": (7, 8), "few": (1, 2), "none": (0, 0), "shares": (None, None)}
    level = configuration.levels["all"]
    levels = {name: replace(level, min_seats=least, max_seats=most) for name, (least, most) in limits.items()}
    _, split = layout("split", scenario, replace(configuration, levels=levels))

    found = {name: (one.min_seats, one.max_seats) for name, one in split.levels.items()}
    assert found == {"some": (2, 2), "few": (0, 1), "none": (0, 0), "shares": (None, None)}


def test_a_fleet_is_as_configured_or_with_defaults() -> None:
    given = fleet_scenario("  members: 4\n")
    assert layout("fleet", *given) == given
    _, configuration = layout("fleet", *fleet_scenario("  members: 4\n", fleet=""))

    assert configuration.server.fleet == FleetSettings()


@pytest.mark.parametrize("name", sorted(LAYOUTS.keys() - {"one-server"}))
def test_a_comparison_needs_members(name: str) -> None:
    with pytest.raises(InvalidValueError, match="Write members in the scenario"):
        layout(name, *fleet_scenario())


def test_without_members_one_server_has_all_seats_of_its_fleet() -> None:
    scenario, configuration = fleet_scenario()
    assert of_members(scenario, configuration).server.fleet is None
    scenario, configuration = fleet_scenario("  members: 1\n")
    assert of_members(scenario, configuration) is configuration


def test_events_need_a_fleet() -> None:
    scenario, configuration = fleet_scenario(
        "  members: {count: 2, events: [{type: allocator-crash, at: 1s}]}\n", fleet=""
    )

    with pytest.raises(InvalidValueError, match="Write fleet in its Server document"):
        of_members(scenario, configuration)
    assert of_members(*layout("split", scenario, configuration)).server.seats == 10
