"""Readings of a server for metrics."""

from apf_middleware.runtime import NamedQueues, read_server
from tests.support.level_world import LevelWorld, configuration


def test_a_reading_has_all_levels_and_their_numbers() -> None:
    world = LevelWorld(configuration(server=", borrowing: periodic"))
    world.arrive()
    world.time = 11 * 10**9
    world.controller.tick()
    reading = read_server(world.controller, NamedQueues(world.controller))
    levels = {level.name: level for level in reading.levels}

    assert set(levels) == {"crowd", "catch-all", "exempt"}
    assert (levels["crowd"].kind, levels["catch-all"].kind, levels["exempt"].kind) == ("queue", "reject", "exempt")
    assert reading.seats == 4
    adjusted = levels["crowd"].adjusted
    assert adjusted is not None
    assert adjusted.high_watermark == 1
    assert reading.fair_fraction is not None
