"""What the numbers of levels and of the whole server come to."""

from dataclasses import replace
from math import nan

import pytest

from apf_middleware.metrics import LevelReading
from tests.support.readings import ADJUSTED, EXEMPT, QUEUE, SECOND, Metrics, reading

WORK = {"priority_level": "work"}
UTILIZATION = "apf_priority_level_seat_utilization"


def test_the_limits_of_a_level() -> None:
    metrics = Metrics(reading(QUEUE))

    found = [metrics(f"apf_{limit}_limit_seats", **WORK) for limit in ("nominal", "lower", "upper", "current")]
    assert found == [10, 6, 20, 12]


def test_the_last_adjustment() -> None:
    metrics = Metrics(reading(replace(QUEUE, adjusted=ADJUSTED), EXEMPT))

    names = ("high_watermark", "average", "stdev", "smoothed")
    assert [metrics(f"apf_demand_seats_{name}", **WORK) for name in names] == [9, 4.5, 1.5, 6]
    assert metrics.series("apf_target_seats") == {("work",): 9}


def test_what_nobody_knows_is_not_shown() -> None:
    metrics = Metrics(reading(replace(QUEUE, adjusted=replace(ADJUSTED, average=nan))))

    assert metrics.series("apf_demand_seats_average") == {}
    assert metrics.series("apf_demand_seats_stdev") == {("work",): 1.5}
    assert metrics.series("apf_seat_fair_frac") == {}


def test_meters_are_in_seat_seconds() -> None:
    meters = {"current_r": 250_000_000, "latest_s": -50_000_000, "robin_index": 3}
    metrics = Metrics(reading(replace(QUEUE, meters=meters), EXEMPT))

    assert metrics.series("apf_current_r") == {("work",): 2.5}
    assert metrics.series("apf_latest_s") == {("work",): -0.5}
    assert metrics.series("apf_dispatch_r") == {}


def test_bounds_are_in_seat_seconds_and_only_there_while_something_waits() -> None:
    level = replace(QUEUE, next_s=(10**8, 3 * 10**8), next_discounted_s=None)
    metrics = Metrics(reading(level))

    assert metrics.series("apf_next_s_bounds") == {("min", "work"): 1, ("max", "work"): 3}
    assert metrics.series("apf_next_discounted_s_bounds") == {}


def test_a_part_of_the_limit_is_counted_in_nanoseconds() -> None:
    level = replace(QUEUE, current=10, seats_in_use={0: 5 * SECOND, 1: 2 * SECOND, 10: SECOND})
    metrics = Metrics(reading(level))

    labels = {"phase": "executing", **WORK}
    found = [metrics(f"{UTILIZATION}_bucket", le=le, **labels) for le in ("0.0", "0.1", "0.99", "1.0")]
    assert found == [5 * SECOND, 7 * SECOND, 7 * SECOND, 8 * SECOND]
    assert metrics(f"{UTILIZATION}_count", **labels) == 8 * SECOND
    assert metrics(f"{UTILIZATION}_sum", **labels) == pytest.approx(1.2 * SECOND)


def test_requests_are_a_part_of_the_limit_or_of_the_room_in_the_queues() -> None:
    level = replace(QUEUE, executing={6: SECOND}, waiting={25: SECOND})
    metrics = Metrics(reading(level))

    name = "apf_priority_level_request_utilization_sum"
    assert metrics(name, phase="executing", **WORK) == 0.5 * SECOND
    assert metrics(name, phase="waiting", **WORK) == 0.25 * SECOND


def test_demand_may_be_many_times_the_limit() -> None:
    metrics = Metrics(reading(replace(QUEUE, demand={24: SECOND, 120: SECOND})))

    assert metrics("apf_demand_seats_bucket", le="2.0", **WORK) == SECOND
    assert metrics("apf_demand_seats_bucket", le="6.0", **WORK) == SECOND
    assert metrics("apf_demand_seats_count", **WORK) == 2 * SECOND


@pytest.mark.parametrize(
    ("level", "denominator"),
    [
        (replace(EXEMPT, current=0), 5),  # a tenth of the server's 50 seats
        (replace(EXEMPT, current=3), 3),
        (replace(EXEMPT, current=3, denominator=8), 8),
        (replace(EXEMPT, current=3, denominator=0), 1),
    ],
)
def test_seats_are_a_part_of_what_the_level_has_or_else_of_something_sensible(
    level: LevelReading, denominator: int
) -> None:
    metrics = Metrics(reading(replace(level, demand={10: 3 * SECOND})))

    found = metrics("apf_demand_seats_sum", priority_level="exempt")
    assert found == pytest.approx(3 * SECOND * 10 / denominator)


def test_a_level_without_queues_can_hold_nothing_that_waits() -> None:
    metrics = Metrics(reading(replace(EXEMPT, waiting={0: SECOND})))

    labels = {"phase": "waiting", "priority_level": "exempt"}
    assert metrics("apf_priority_level_request_utilization_bucket", le="0.0", **labels) == SECOND


def test_the_server() -> None:
    metrics = Metrics(
        reading(
            fair_fraction=0.75,
            authentication_failures={"expired": 2},
            hang_ups={"waiting": 1, "executing": 4},
            configuration_loads={"success": 3, "failure": 1},
            version="1.2.3",
        )
    )

    assert metrics("apf_server_seats") == 50
    assert metrics("apf_seat_fair_frac") == 0.75
    assert metrics("apf_authentication_failures_total", reason="expired") == 2
    assert metrics("apf_hang_ups_total", phase="executing") == 4
    assert metrics("apf_configuration_loads_total", outcome="failure") == 1
    assert metrics("apf_info", version="1.2.3") == 1
