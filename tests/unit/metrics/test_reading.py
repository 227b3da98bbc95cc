"""Readings of a server."""

import pytest

from apf_middleware.metrics import LevelReading, SchemaReading, ServerReading
from tests.support.readings import EXEMPT, FULL, QUEUE, SECOND, Metrics, busy_counters, reading

USERS = {"priority_level": "work", "flow_schema": "users"}


def test_lingering_seats_are_in_use_without_a_request() -> None:
    schema = SchemaReading("work", "users", busy_counters(), lingering_seats=8)
    metrics = Metrics(ServerReading((QUEUE,), (schema,), seats=50))

    assert metrics("apf_current_executing_seats", **USERS) == 14
    assert metrics("apf_current_executing_requests", **USERS) == 4


@pytest.mark.parametrize(
    ("level", "denominator"),
    [
        (EXEMPT._replace(current=0), 5),  # a tenth of the server's 50 seats
        (EXEMPT._replace(current=3), 3),
        (EXEMPT._replace(current=3, denominator=8), 8),
        (EXEMPT._replace(current=3, denominator=0), 1),
    ],
)
def test_seats_are_a_part_of_the_limit_or_of_a_tenth_of_the_server(level: LevelReading, denominator: int) -> None:
    metrics = Metrics(reading(level._replace(demand={10: 3 * SECOND})))

    found = metrics("apf_demand_seats_sum", priority_level="exempt")
    assert found == pytest.approx(3 * SECOND * 10 / denominator)


@pytest.mark.parametrize("nominal", [10, 1])
def test_the_average_of_a_fleet_is_a_part_of_the_nominal_limit_of_all(nominal: int) -> None:
    fleet = FULL.fleet
    assert fleet is not None
    used = (7, 3, 0, 2)  # of each of its members
    members = [
        Metrics(reading(QUEUE._replace(seats_in_use={seats: SECOND}, denominator=nominal), fleet=fleet))
        for seats in used
    ]

    name, labels = "apf_priority_level_seat_utilization", {"priority_level": "work", "phase": "executing"}
    total = sum(member(f"{name}_sum", **labels) or 0 for member in members)
    assert total / sum(member(f"{name}_count", **labels) or 0 for member in members) == sum(used) / nominal


@pytest.mark.parametrize("members", [0, 1])
def test_a_member_that_is_alone_has_the_whole_limit(members: int) -> None:
    fleet = FULL.fleet
    assert fleet is not None

    assert reading(fleet=fleet._replace(members=members)).members == reading().members == 1
