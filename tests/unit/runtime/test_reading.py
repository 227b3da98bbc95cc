"""Readings of a server for metrics."""

import pytest

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


@pytest.mark.parametrize(
    ("level", "server", "more"),
    [
        ("", "", set()),
        (", streams: {maxOpen: 3}", "", {"stream-limit"}),
        (", streams: {maxOpenPerFlow: 3}", "", {"stream-limit"}),
        (", gates: [db]", ", gates: [{name: db, capacity: 3}]", {"gate"}),
        ("", ", gates: [{name: db, capacity: 3}], routes: [{path: /a, resource: a, gates: [db]}]", {"gate"}),
        (", deadline: 3s", "", {"deadline"}),
        ("", ", bodies: {holdSeats: false}", {"slow-body", "body-limit"}),
    ],
)
def test_a_level_may_reject_for_the_reasons_that_are_configured(level: str, server: str, more: set[str]) -> None:
    reading = LevelWorld(configuration(level, server)).read()
    found = {one.name: set(one.expected) for one in reading.levels}

    assert found["crowd"] == {"queue-full", "time-out", "cancelled"} | more
    assert found["catch-all"] >= {"concurrency-limit"}
    assert found["exempt"] <= {"gate"}
