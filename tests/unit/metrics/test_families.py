"""The series of schemas, levels and named queues in a scrape, and the page that documents the metrics."""

import re
from math import nan
from pathlib import Path

import pytest

from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics import SchemaCounters
from apf_middleware.metrics.families import FAMILIES
from apf_middleware.runtime import read_server
from tests.support.named_queues import NamedQueueServer, level, server
from tests.support.readings import ADJUSTED, EXEMPT, FULL, QUEUE, REJECT, SECOND, Metrics, busy_counters, reading

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
ROWS = re.findall(r"^\| `apf_(\w+)` \| (\w+) \| (.*?) \|", PAGE, re.MULTILINE)
USERS = {"priority_level": "work", "flow_schema": "users"}


@pytest.fixture
def busy() -> Metrics:
    return Metrics(reading(QUEUE, schema_counters=(busy_counters(),)))


def test_dispatched_requests_include_those_seated_at_once(busy: Metrics) -> None:
    assert busy("apf_dispatched_requests_total", **USERS) == 9


def test_gauges_of_waiting_and_executing_requests(busy: Metrics) -> None:
    assert busy("apf_current_inqueue_requests", **USERS) == 3
    assert busy("apf_current_inqueue_seats", **USERS) == 4
    assert busy("apf_current_executing_requests", **USERS) == 4
    assert busy("apf_current_executing_seats", **USERS) == 6
    assert busy("apf_request_dispatch_no_accommodation_total", **USERS) == 6


def test_rejections_are_counted_by_reason(busy: Metrics) -> None:
    assert busy.series("apf_rejected_requests_total") == {
        ("users", "work", "queue-full"): 1,
        ("users", "work", "time-out"): 2,
        ("users", "work", "cancelled"): 1,
    }


def test_expected_reasons_are_shown_from_the_start() -> None:
    quiet = Metrics(
        reading(
            QUEUE,
            REJECT,
            EXEMPT,
            schema_counters=(SchemaCounters("work", "a"), SchemaCounters("jail", "b"), SchemaCounters("exempt", "c")),
        )
    )

    assert quiet.series("apf_rejected_requests_total") == {
        ("a", "work", "queue-full"): 0,
        ("a", "work", "time-out"): 0,
        ("a", "work", "cancelled"): 0,
        ("b", "jail", "concurrency-limit"): 0,
    }


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_that_occurs_is_shown(reason: Reason) -> None:
    counters = SchemaCounters("exempt", "users")
    counters.rejected[reason] = 5
    metrics = Metrics(reading(EXEMPT, schema_counters=(counters,)))

    assert metrics.series("apf_rejected_requests_total") == {("users", "exempt", reason.value): 5}


def wait_buckets(metrics: Metrics, execute: str) -> dict[str, float]:
    rows = metrics.series("apf_request_wait_duration_seconds_bucket")
    return {le: value for (label, _, le, _), value in rows.items() if label == execute}


def test_a_request_seated_at_once_has_waited_0_seconds(busy: Metrics) -> None:
    buckets = wait_buckets(busy, "true")

    assert buckets["0.0"] == 7
    assert buckets["0.005"] == 8
    assert buckets["0.1"] == 8
    assert buckets["0.2"] == buckets["+Inf"] == 9
    assert busy("apf_request_wait_duration_seconds_sum", execute="true", **USERS) == pytest.approx(0.154)
    assert busy("apf_request_wait_duration_seconds_count", execute="true", **USERS) == 9


def test_a_rejected_wait_counts_as_not_executed(busy: Metrics) -> None:
    buckets = wait_buckets(busy, "false")

    assert buckets["0.0"] == 1
    assert buckets["15.0"] == buckets["30.0"] == 3
    assert buckets["+Inf"] == 4
    assert busy("apf_request_wait_duration_seconds_sum", execute="false", **USERS) == 70


def test_an_exempt_level_has_no_waits() -> None:
    metrics = Metrics(reading(EXEMPT, schema_counters=(busy_counters("exempt"),)))

    assert metrics.series("apf_request_wait_duration_seconds_count") == {}
    assert metrics.series("apf_request_queue_length_after_enqueue_count") == {}


def test_a_level_without_queues_has_waits_but_no_queue_lengths() -> None:
    metrics = Metrics(reading(REJECT, schema_counters=(busy_counters("jail"),)))

    assert len(metrics.series("apf_request_wait_duration_seconds_count")) == 2
    assert metrics.series("apf_request_queue_length_after_enqueue_count") == {}


def test_executions_of_streams_are_counted_apart(busy: Metrics) -> None:
    assert busy("apf_request_execution_seconds_count", type="regular", **USERS) == 4
    assert busy("apf_request_execution_seconds_bucket", type="regular", le="0.02", **USERS) == 2
    assert busy("apf_request_execution_seconds_bucket", type="regular", le="30.0", **USERS) == 3
    assert busy("apf_request_execution_seconds_sum", type="regular", **USERS) == pytest.approx(31.34)
    assert busy("apf_request_execution_seconds_count", type="watch", **USERS) == 1


def test_a_request_seated_at_once_joined_an_empty_queue(busy: Metrics) -> None:
    name = "apf_request_queue_length_after_enqueue"

    assert busy(f"{name}_bucket", le="0.0", **USERS) == 0
    assert busy(f"{name}_bucket", le="10.0", **USERS) == 7 + 3
    assert busy(f"{name}_bucket", le="25.0", **USERS) == busy(f"{name}_count", **USERS) == 12
    assert busy(f"{name}_sum", **USERS) == 7 + 29


def test_widths_are_counted_for_all_requests(busy: Metrics) -> None:
    name = "apf_work_estimated_seats"

    assert busy(f"{name}_bucket", le="1.0", **USERS) == 14
    assert busy(f"{name}_bucket", le="2.0", **USERS) == 14
    assert busy(f"{name}_bucket", le="4.0", **USERS) == 15
    assert busy(f"{name}_count", **USERS) == 16
    assert busy(f"{name}_sum", **USERS) == 14 + 3 + 5


def test_a_schema_without_requests_has_counters_but_no_histograms() -> None:
    quiet = Metrics(reading(QUEUE, schema_counters=(SchemaCounters("work", "users"),)))

    assert quiet("apf_dispatched_requests_total", **USERS) == 0
    names = {sample.name for metric in quiet.collector.collect() if metric.samples for sample in metric.samples}
    assert not any(name.endswith("_bucket") for name in names if "level" not in name and "demand" not in name)


def test_a_schema_of_a_removed_level_is_still_counted() -> None:
    metrics = Metrics(reading(EXEMPT, schema_counters=(busy_counters(),)))

    assert metrics("apf_dispatched_requests_total", **USERS) == 9


def test_rejections_for_expected_reasons_are_shown_from_the_start() -> None:
    counters = busy_counters()
    labels = USERS | {"reason": "stream-limit"}
    name = "apf_rejected_requests_total"
    expecting = QUEUE._replace(expected=(Reason.STREAM_LIMIT,))

    assert Metrics(reading(QUEUE, schema_counters=(counters,)))(name, **labels) is None
    assert Metrics(reading(expecting, schema_counters=(counters,)))(name, **labels) == 0
    counters.rejected[Reason.STREAM_LIMIT] = 2
    assert Metrics(reading(QUEUE, schema_counters=(counters,)))(name, **labels) == 2


def test_receiving_requests_are_exposed() -> None:
    metrics = Metrics(reading(QUEUE, receiving={"work": 7}, body_bytes=1234))

    assert metrics.series("apf_receiving_requests") == {("work",): 7}
    assert metrics.series("apf_body_buffer_bytes") == {(): 1234}


def test_cuts_and_open_streams_are_exposed() -> None:
    counters = busy_counters()
    counters.cut = 3
    metrics = Metrics(reading(QUEUE, schema_counters=(counters,), open_streams={"work": 7, "gone": 1}))

    assert metrics("apf_cut_requests_total", **USERS) == 3
    assert metrics.series("apf_open_streams") == {("work",): 7, ("gone",): 1}


WORK = {"priority_level": "work"}
UTILIZATION = "apf_priority_level_seat_utilization"


def test_the_limits_of_a_level() -> None:
    metrics = Metrics(reading(QUEUE))

    found = [metrics(f"apf_{limit}_limit_seats", **WORK) for limit in ("nominal", "lower", "upper", "current")]
    assert found == [10, 6, 20, 12]


def test_the_last_adjustment() -> None:
    metrics = Metrics(reading(QUEUE._replace(adjusted=ADJUSTED), EXEMPT))

    names = ("high_watermark", "average", "stdev", "smoothed")
    assert [metrics(f"apf_demand_seats_{name}", **WORK) for name in names] == [9, 4.5, 1.5, 6]
    assert metrics.series("apf_target_seats") == {("work",): 9}


def test_unknown_numbers_are_not_shown() -> None:
    metrics = Metrics(reading(QUEUE._replace(adjusted=ADJUSTED._replace(average=nan))))

    assert metrics.series("apf_demand_seats_average") == {}
    assert metrics.series("apf_demand_seats_stdev") == {("work",): 1.5}
    assert metrics.series("apf_seat_fair_frac") == {}


def test_meters_are_in_seat_seconds() -> None:
    meters = {"current_r": 250_000_000, "latest_s": -50_000_000, "robin_index": 3}
    metrics = Metrics(reading(QUEUE._replace(meters=meters), EXEMPT))

    assert metrics.series("apf_current_r") == {("work",): 2.5}
    assert metrics.series("apf_latest_s") == {("work",): -0.5}
    assert metrics.series("apf_dispatch_r") == {}


def test_bounds_are_in_seat_seconds_while_requests_wait() -> None:
    level = QUEUE._replace(next_s=(10**8, 3 * 10**8), next_discounted_s=None)
    metrics = Metrics(reading(level))

    assert metrics.series("apf_next_s_bounds") == {("min", "work"): 1, ("max", "work"): 3}
    assert metrics.series("apf_next_discounted_s_bounds") == {}


def test_a_part_of_the_limit_is_counted_in_nanoseconds() -> None:
    level = QUEUE._replace(current=10, seats_in_use={0: 5 * SECOND, 1: 2 * SECOND, 10: SECOND})
    metrics = Metrics(reading(level))

    labels = {"phase": "executing", **WORK}
    found = [metrics(f"{UTILIZATION}_bucket", le=le, **labels) for le in ("0.0", "0.1", "0.99", "1.0")]
    assert found == [5 * SECOND, 7 * SECOND, 7 * SECOND, 8 * SECOND]
    assert metrics(f"{UTILIZATION}_count", **labels) == 8 * SECOND
    assert metrics(f"{UTILIZATION}_sum", **labels) == pytest.approx(1.2 * SECOND)


def test_requests_are_a_part_of_the_limit_or_of_the_queues_capacity() -> None:
    level = QUEUE._replace(executing={6: SECOND}, waiting={25: SECOND})
    metrics = Metrics(reading(level))

    name = "apf_priority_level_request_utilization_sum"
    assert metrics(name, phase="executing", **WORK) == 0.5 * SECOND
    assert metrics(name, phase="waiting", **WORK) == 0.25 * SECOND


def test_demand_may_be_many_times_the_limit() -> None:
    metrics = Metrics(reading(QUEUE._replace(demand={24: SECOND, 120: SECOND})))

    assert metrics("apf_demand_seats_bucket", le="2.0", **WORK) == SECOND
    assert metrics("apf_demand_seats_bucket", le="6.0", **WORK) == SECOND
    assert metrics("apf_demand_seats_count", **WORK) == 2 * SECOND


def test_a_level_without_queues_has_no_capacity_for_waiting_requests() -> None:
    metrics = Metrics(reading(EXEMPT._replace(waiting={0: SECOND})))

    labels = {"phase": "waiting", "priority_level": "exempt"}
    assert metrics("apf_priority_level_request_utilization_bucket", le="0.0", **labels) == SECOND


def test_the_server() -> None:
    metrics = Metrics(
        reading(
            fair_fraction=0.75,
            authentication_failures={"expired": 2},
            hang_ups={"waiting": 1, "executing": 4},
            configuration_loads={"success": 3, "failure": 1},
            has_broken_configuration=True,
            failing_sources={"jwks-url": 2, "token-file": 0},
            version="1.2.3",
        )
    )

    assert metrics("apf_server_seats") == 50
    assert metrics("apf_seat_fair_frac") == 0.75
    assert metrics("apf_authentication_failures_total", reason="expired") == 2
    assert metrics("apf_hang_ups_total", phase="executing") == 4
    assert metrics("apf_configuration_loads_total", outcome="failure") == 1
    assert metrics("apf_configuration_last_load_successful") == 0
    assert metrics("apf_authentication_failing_sources", source="jwks-url") == 2
    assert metrics("apf_info", version="1.2.3") == 1


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
def test_numbers_of_a_named_queue(name: str, labels: dict[str, str], value: float) -> None:
    assert Metrics(FULL)(name, queue="work", **labels) == value


def test_numbers_of_the_server() -> None:
    metrics = Metrics(FULL)

    assert metrics("apf_queue_live_changes") == 1
    assert metrics("apf_unknown_queue_requests_total", reason="queue-not-found") == 1


def look(house: NamedQueueServer) -> Metrics:
    return Metrics(read_server(house.controller, house.queues))


def test_series_of_a_named_queue_end_with_it() -> None:
    house = NamedQueueServer(server(10) + level("web", "minSeats: 0"))
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
    house = NamedQueueServer(server(10) + level("tenants") + level("free", "parent: tenants"))
    house.arrive("free")
    metrics = look(house)

    assert metrics("apf_queue_used_seats", queue="tenants") == 1
    assert metrics("apf_nominal_limit_seats", priority_level="tenants") is None


def test_a_member_of_a_fleet_shows_its_part() -> None:
    metrics = Metrics(FULL)

    assert metrics("apf_fleet_seats") == 40
    assert metrics("apf_fleet_members") == 4
    assert metrics("apf_fleet_granted_seats") == 12
    assert metrics("apf_fleet_used_seats") == 7
    assert metrics("apf_fleet_is_allocator") == 1
    assert metrics("apf_fleet_configuration_differs") == 1
    assert metrics("apf_fleet_epochs_total") == 2
    assert metrics("apf_fleet_exchange_duration_seconds_sum") == 1
    assert metrics("apf_fleet_exchange_age_seconds") == 0.5
    assert metrics("apf_fleet_fallback_seconds_total") == 3
    assert metrics("apf_fleet_overshoot_seat_seconds_total") == 5


def test_without_a_fleet_there_are_no_such_metrics() -> None:
    assert Metrics(FULL._replace(fleet=None))("apf_fleet_seats") is None


def test_the_tables_have_every_metric_with_its_type() -> None:
    assert sorted((suffix, kind) for suffix, kind, _ in ROWS) == sorted((one.suffix, one.kind) for one in FAMILIES)


def test_the_tables_have_all_labels_or_those_beyond_schemas_and_levels() -> None:
    more = {
        suffix
        for table in re.findall(r"^\| metric \| type \| more labels .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
        for suffix in re.findall(r"^\| `apf_(\w+)`", table, re.MULTILINE)
    }

    assert {suffix: set(re.findall(r"`(\w+)`", labels)) for suffix, _, labels in ROWS} == {
        one.suffix: set(one.labels) - ({"priority_level", "flow_schema"} if one.suffix in more else set())
        for one in FAMILIES
    }


def test_the_page_documents_all_reasons() -> None:
    assert all(f"`{reason.value}`" in PAGE for reason in Reason)


def test_queries_use_existing_metrics() -> None:
    asked = set(re.findall(r"\bapf_(\w+?)(?:_bucket|_count|_sum)?(?=[\[{)])", PAGE))

    assert len(asked) >= 4
    assert asked <= {one.suffix for one in FAMILIES}


def test_the_page_shows_the_defaults() -> None:
    path, prefix = (re.search(rf"{key}: (\S+) +# the default", PAGE) for key in ("path", "prefix"))

    assert path
    assert prefix
    assert MetricsSettings(path=path[1], prefix=prefix[1]) == MetricsSettings()
