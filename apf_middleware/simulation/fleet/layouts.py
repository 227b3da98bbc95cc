"""Layouts of the processes that serve a scenario: one big server, a static split of its seats, or a fleet."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from apf_middleware.config import Configuration
from apf_middleware.config.adaptive_seats import AdaptiveSeats, SeatBounds
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.config.objects import Level
from apf_middleware.config.scenario import Scenario
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation.backend import with_backend_of

__all__ = ["LAYOUTS", "layout", "of_members"]

_Layout = tuple[Scenario, Configuration]


def _one_server(scenario: Scenario, configuration: Configuration) -> _Layout:
    members = None if scenario.members is None else replace(scenario.members, count=1, events=())
    return replace(scenario, members=members), _without_fleet(configuration)


def _split(scenario: Scenario, configuration: Configuration) -> _Layout:
    """Return members without a fleet, each with its part of the seats, and of the levels' mins and maxes."""
    count = _count(scenario)
    bounds = configuration.server.seat_bounds
    part: int | AdaptiveSeats = max(1, configuration.server.total // count)
    if bounds is not None:
        start = None if bounds.start is None else max(1, bounds.start // count)
        part = AdaptiveSeats(SeatBounds(max(1, bounds.min // count), max(1, bounds.max // count), start))
    server = replace(configuration.server, seats=part, fleet=None)
    assert scenario.members is not None, "they have been counted"
    members = replace(scenario.members, events=())
    levels = {name: _part_of_level(level, count) for name, level in configuration.levels.items()}
    same = replace(with_backend_of(configuration, scenario), members=members)
    return same, replace(configuration, server=server, levels=levels)


def _part_of_level(level: Level, count: int) -> Level:
    """Return the level with its part of the numbers of seats; a max that isn't 0 leaves a seat in each process."""
    least, most = level.min_seats, level.max_seats
    return replace(
        level,
        min_seats=None if least is None else least // count,
        max_seats=None if most is None else most and max(1, most // count),
    )


def _fleet(scenario: Scenario, configuration: Configuration) -> _Layout:
    _count(scenario)
    server = configuration.server
    if server.fleet is not None:
        return scenario, configuration
    return scenario, replace(configuration, server=replace(server, fleet=FleetSettings()))


def _count(scenario: Scenario) -> int:
    if scenario.members is None:
        raise InvalidValueError("members", None, "a comparison of fleets needs them", "Write members in the scenario")
    return scenario.members.count


def _without_fleet(configuration: Configuration) -> Configuration:
    return replace(configuration, server=replace(configuration.server, fleet=None))


LAYOUTS: Final[Mapping[str, Callable[[Scenario, Configuration], _Layout]]] = {
    "one-server": _one_server,
    "split": _split,
    "fleet": _fleet,
}
"""Layouts by name: one process with all seats; members with equal parts of the seats; members that share the seats."""


def layout(name: str, scenario: Scenario, configuration: Configuration) -> _Layout:
    """Return the scenario and the configuration in the layout of this name."""
    return LAYOUTS[name](scenario, configuration)


def of_members(scenario: Scenario, configuration: Configuration) -> Configuration:
    """Return the configuration of each process: without members, one server has all the seats of its fleet."""
    members = scenario.members
    if members is not None and members.events and configuration.server.fleet is None:
        rule = "events happen to a fleet, and one of the servers has none"
        hint = "Write fleet in its Server document; with --compare, choose servers that have one"
        raise InvalidValueError("members.events", members.events[0].type, rule, hint)
    return _without_fleet(configuration) if members is None else configuration
