"""Readings of a server."""

import pytest

from apf_middleware.metrics import LevelReading, SchemaReading, ServerReading
from tests.support.readings import EXEMPT, QUEUE, SECOND, Metrics, busy_counters, reading

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
