"""The numbers of named queues."""

import pytest

from apf_middleware.fairqueuing import Reason
from tests.support.named_queues import FAMILY, NamedQueueServer, level, server


def test_a_parent_s_numbers_are_its_children_s_together() -> None:
    house = NamedQueueServer(FAMILY)
    house.arrive("free", 2)
    house.arrive("paid", 3)
    found = house.queues.status("tenants")

    assert (found.used, found.running, found.children) == (5, 5, ("free", "paid"))
    assert [one.name for one in house.queues.list()][-3:] == ["tenants", "free", "paid"]


def test_what_idle_queues_deserve_is_their_part_and_adds_up_to_the_seats() -> None:
    weights = "".join(level(name, f"weight: {weight}, minSeats: 0") for name, weight in (("a", 100), ("b", 300)))
    house = NamedQueueServer(server(12) + weights)
    idle = {one.name: one.deserved for one in house.queues.list()}
    house.arrive("a", 30)
    house.arrive("b", 30)
    busy = {one.name: one.deserved for one in house.queues.list()}

    for found in (idle, busy):
        assert found["b"] == pytest.approx(3 * found["a"], rel=0.02)
        assert sum(found.values()) == pytest.approx(12, abs=1e-9)
    assert busy["a"] > 2.5


def test_thirds_of_seats_that_are_deserved_are_shown_so_that_they_add_up() -> None:
    house = NamedQueueServer(server(10) + "".join(level(name, "minSeats: 0") for name in "abc"))
    house.arrive("a", 1)

    assert sum(one.deserved for one in house.queues.list()) == pytest.approx(10, abs=1e-9)


def test_a_parent_that_is_closed_deserves_nothing_and_its_min_is_lent() -> None:
    parent = level("tenants", "minSeats: 4") + level("free", "parent: tenants, minSeats: 0")
    house = NamedQueueServer(server(6) + parent + level("web", "minSeats: 0"))
    running = house.arrive("free")
    waiting = house.arrive("web", 5)
    house.queues.operate("tenants", "close")
    assert house.queues.status("web").used == 1

    house.end(running[0])
    found = {one.name: one for one in house.queues.list()}

    assert (found["tenants"].state, found["tenants"].deserved, found["free"].deserved) == ("Closed", 0, 0)
    assert (found["web"].used, found["web"].capacity) == (5, 5)
    house.queues.operate("tenants", "open")
    for one in waiting[:4]:
        house.end(one)
    house.arrive("web", 5)
    assert house.queues.status("web").used == 1


def test_rounding_adds_nothing_to_children_that_are_closed_or_at_their_max() -> None:
    children = "".join(level(name, "parent: tenants, minSeats: 0, maxSeats: 1") for name in ("free", "paid"))
    house = NamedQueueServer(server(10) + level("tenants") + children)
    house.queues.operate("free", "close")
    found = {one.name: one.deserved for one in house.queues.list()}

    assert found["tenants"] > 1
    assert (found["free"], found["paid"]) == (0, 1)


def test_counts_of_forgotten_schemas_stay_and_late_requests_have_failed() -> None:
    house = NamedQueueServer(FAMILY)
    runtime = house.controller.levels["free"]
    counters = runtime.counters_of("gone")
    counters.at_once = 5
    counters.executions.observe_many(1, 5)
    counters.late = 2
    counters.rejected[Reason.QUEUE_FULL] = 3
    before = house.queues.status("free")
    assert (before.completed, before.failed, before.rejected) == (3, 2, {"queue-full": 3})

    assert runtime.forget_schemas((), 0)
    assert not runtime.schema_counters
    assert house.queues.status("free") == before
