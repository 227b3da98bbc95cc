"""The metrics of named queues."""

import pytest

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import read_server
from tests.support.readings import FULL, Metrics
from tests.unit.runtime.queues.operated import Operated, level, server


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("apf_queue_requests", {"state": "inqueue"}, 4),
        ("apf_queue_requests", {"state": "pending"}, 1),
        ("apf_queue_requests", {"state": "running"}, 9),
        ("apf_queue_finished_requests_total", {"outcome": "completed"}, 100),
        ("apf_queue_finished_requests_total", {"outcome": "failed"}, 7),
        ("apf_queue_finished_requests_total", {"outcome": "aborted"}, 2),
        ("apf_queue_state", {"state": "Paused"}, 1),
        ("apf_queue_state", {"state": "Open"}, 0),
        ("apf_queue_weight", {}, 3),
        ("apf_queue_min_seats", {}, 6),
        ("apf_queue_max_seats", {}, 20),
        ("apf_queue_deserved_seats", {}, 12.5),
        ("apf_queue_used_seats", {}, 10),
        ("apf_queue_share", {}, 0.8),
        ("apf_queue_revocations_total", {}, 5),
    ],
)
def test_a_queue_s_numbers_are_told(name: str, labels: dict[str, str], value: float) -> None:
    assert Metrics(FULL)(name, queue="work", **labels) == value


def test_the_server_s_numbers_are_told() -> None:
    metrics = Metrics(FULL)

    assert metrics("apf_queue_live_changes") == 1
    assert metrics("apf_unknown_queue_requests_total", reason="queue-not-found") == 1


def look(house: Operated) -> Metrics:
    return Metrics(read_server(house.controller, house.queues, authentication_failures={}, version="1"))


def test_a_queue_s_series_come_and_go_with_it() -> None:
    house = Operated(server(10) + level("web", "minSeats: 0"))
    house.queues.create("batch", max=2)
    running, other, waits = house.arrive("batch", 3)
    metrics = look(house)
    assert metrics("apf_queue_requests", queue="batch", state="running") == 2
    assert metrics("apf_queue_requests", queue="batch", state="inqueue") == 1
    assert metrics("apf_queue_live_changes") == 1

    house.queues.delete("batch", cascade=True)
    house.end(running)
    house.end(other)
    assert waits.reason is Reason.QUEUE_CLOSED
    names = ("apf_queue_requests", "apf_queue_share", "apf_rejected_requests_total")

    assert not [labels for name in names for labels in look(house).series(name) if "batch" in labels]


def test_a_parent_has_numbers_but_no_level() -> None:
    house = Operated(server(10) + level("tenants") + level("free", "parent: tenants"))
    house.arrive("free")
    metrics = look(house)

    assert metrics("apf_queue_used_seats", queue="tenants") == 1
    assert metrics("apf_nominal_limit_seats", priority_level="tenants") is None
