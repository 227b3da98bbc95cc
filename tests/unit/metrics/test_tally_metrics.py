"""What a schema's counters come to."""

from dataclasses import replace

import pytest

from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics import SchemaReading, ServerReading, Tally
from tests.support.readings import EXEMPT, QUEUE, REJECT, Metrics, busy_tally, reading

USERS = {"priority_level": "work", "flow_schema": "users"}


@pytest.fixture
def busy() -> Metrics:
    return Metrics(reading(QUEUE, tallies=(busy_tally(),)))


def test_who_is_seated_at_once_and_who_after_waiting_has_been_dispatched(busy: Metrics) -> None:
    assert busy("apf_dispatched_requests_total", **USERS) == 9


def test_gauges_tell_what_waits_and_executes_now(busy: Metrics) -> None:
    assert busy("apf_current_inqueue_requests", **USERS) == 3
    assert busy("apf_current_inqueue_seats", **USERS) == 4
    assert busy("apf_current_executing_requests", **USERS) == 4
    assert busy("apf_current_executing_seats", **USERS) == 6
    assert busy("apf_request_dispatch_no_accommodation_total", **USERS) == 6


def test_lingering_seats_are_in_use_but_no_request_executes_on_them() -> None:
    schema = SchemaReading("work", "users", busy_tally(), lingering_seats=8)
    metrics = Metrics(ServerReading((QUEUE,), (schema,), seats=50))

    assert metrics("apf_current_executing_seats", **USERS) == 14
    assert metrics("apf_current_executing_requests", **USERS) == 4


def test_reasons_of_rejection_are_told_apart(busy: Metrics) -> None:
    assert busy.series("apf_rejected_requests_total") == {
        ("users", "work", "queue-full"): 1,
        ("users", "work", "time-out"): 2,
        ("users", "work", "cancelled"): 1,
    }


def test_reasons_that_a_level_can_have_are_there_before_they_occur() -> None:
    quiet = Metrics(
        reading(QUEUE, REJECT, EXEMPT, tallies=(Tally("work", "a"), Tally("jail", "b"), Tally("exempt", "c")))
    )

    assert quiet.series("apf_rejected_requests_total") == {
        ("a", "work", "queue-full"): 0,
        ("a", "work", "time-out"): 0,
        ("a", "work", "cancelled"): 0,
        ("b", "jail", "concurrency-limit"): 0,
    }


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_that_occurs_is_shown(reason: Reason) -> None:
    tally = Tally("exempt", "users")
    tally.rejected[reason] = 5
    metrics = Metrics(reading(EXEMPT, tallies=(tally,)))

    assert metrics.series("apf_rejected_requests_total") == {("users", "exempt", reason.value): 5}


def wait_buckets(metrics: Metrics, execute: str) -> dict[str, float]:
    rows = metrics.series("apf_request_wait_duration_seconds_bucket")
    return {le: value for (told, _, le, _), value in rows.items() if told == execute}


def test_who_is_seated_at_once_has_waited_for_no_time(busy: Metrics) -> None:
    buckets = wait_buckets(busy, "true")

    assert buckets["0.0"] == 7
    assert buckets["0.005"] == 8
    assert buckets["0.1"] == 8
    assert buckets["0.2"] == buckets["+Inf"] == 9
    assert busy("apf_request_wait_duration_seconds_sum", execute="true", **USERS) == pytest.approx(0.154)
    assert busy("apf_request_wait_duration_seconds_count", execute="true", **USERS) == 9


def test_who_was_rejected_after_waiting_has_not_executed(busy: Metrics) -> None:
    buckets = wait_buckets(busy, "false")

    assert buckets["0.0"] == 1
    assert buckets["15.0"] == buckets["30.0"] == 3
    assert buckets["+Inf"] == 4
    assert busy("apf_request_wait_duration_seconds_sum", execute="false", **USERS) == 70


def test_nobody_waits_at_an_exempt_level() -> None:
    metrics = Metrics(reading(EXEMPT, tallies=(busy_tally("exempt"),)))

    assert metrics.series("apf_request_wait_duration_seconds_count") == {}
    assert metrics.series("apf_request_queue_length_after_enqueue_count") == {}


def test_a_level_without_queues_has_waits_but_no_queue_lengths() -> None:
    metrics = Metrics(reading(REJECT, tallies=(busy_tally("jail"),)))

    assert len(metrics.series("apf_request_wait_duration_seconds_count")) == 2
    assert metrics.series("apf_request_queue_length_after_enqueue_count") == {}


def test_executions_are_told_apart_from_those_that_ended_when_a_stream_began(busy: Metrics) -> None:
    assert busy("apf_request_execution_seconds_count", type="regular", **USERS) == 4
    assert busy("apf_request_execution_seconds_bucket", type="regular", le="0.02", **USERS) == 2
    assert busy("apf_request_execution_seconds_bucket", type="regular", le="30.0", **USERS) == 3
    assert busy("apf_request_execution_seconds_sum", type="regular", **USERS) == pytest.approx(31.34)
    assert busy("apf_request_execution_seconds_count", type="watch", **USERS) == 1


def test_who_is_seated_at_once_has_joined_a_queue_that_was_empty(busy: Metrics) -> None:
    name = "apf_request_queue_length_after_enqueue"

    assert busy(f"{name}_bucket", le="0.0", **USERS) == 0
    assert busy(f"{name}_bucket", le="10.0", **USERS) == 7 + 3
    assert busy(f"{name}_bucket", le="25.0", **USERS) == busy(f"{name}_count", **USERS) == 12
    assert busy(f"{name}_sum", **USERS) == 7 + 29


def test_widths_are_counted_for_all_that_came(busy: Metrics) -> None:
    name = "apf_work_estimated_seats"

    assert busy(f"{name}_bucket", le="1.0", **USERS) == 14
    assert busy(f"{name}_bucket", le="2.0", **USERS) == 14
    assert busy(f"{name}_bucket", le="4.0", **USERS) == 15
    assert busy(f"{name}_count", **USERS) == 16
    assert busy(f"{name}_sum", **USERS) == 14 + 3 + 5


def test_a_schema_without_requests_has_counters_but_no_histograms() -> None:
    quiet = Metrics(reading(QUEUE, tallies=(Tally("work", "users"),)))

    assert quiet("apf_dispatched_requests_total", **USERS) == 0
    names = {sample.name for metric in quiet.collector.collect() if metric.samples for sample in metric.samples}
    assert not any(name.endswith("_bucket") for name in names if "level" not in name and "demand" not in name)


def test_a_schema_whose_level_is_gone_is_still_counted() -> None:
    metrics = Metrics(reading(EXEMPT, tallies=(busy_tally(),)))

    assert metrics("apf_dispatched_requests_total", **USERS) == 9


def test_rejections_for_too_many_streams_are_shown_from_the_start_where_streams_are_limited() -> None:
    tally = busy_tally()
    labels = USERS | {"reason": "stream-limit"}
    name = "apf_rejected_requests_total"

    assert Metrics(reading(QUEUE, tallies=(tally,)))(name, **labels) is None
    assert Metrics(reading(replace(QUEUE, limits_streams=True), tallies=(tally,)))(name, **labels) == 0
    tally.rejected[Reason.STREAM_LIMIT] = 2
    assert Metrics(reading(QUEUE, tallies=(tally,)))(name, **labels) == 2


def test_rejections_for_their_bodies_are_shown_from_the_start_where_bodies_hold_no_seats() -> None:
    name, tallies = "apf_rejected_requests_total", (busy_tally(),)

    for reason in ("slow-body", "body-limit"):
        labels = USERS | {"reason": reason}
        assert Metrics(reading(QUEUE, tallies=tallies))(name, **labels) is None
        assert Metrics(reading(QUEUE, tallies=tallies, receives_bodies=True))(name, **labels) == 0


def test_requests_that_are_being_received_are_told() -> None:
    metrics = Metrics(reading(QUEUE, receiving={"work": 7}, body_bytes=1234))

    assert metrics.series("apf_receiving_requests") == {("work",): 7}
    assert metrics.series("apf_body_buffer_bytes") == {(): 1234}


def test_cuts_and_open_streams_are_told() -> None:
    tally = busy_tally()
    tally.cut = 3
    metrics = Metrics(reading(QUEUE, tallies=(tally,), open_streams={"work": 7, "gone": 1}))

    assert metrics("apf_cut_requests_total", **USERS) == 3
    assert metrics.series("apf_open_streams") == {("work",): 7, ("gone",): 1}
