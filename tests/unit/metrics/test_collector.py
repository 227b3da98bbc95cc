import re

import pytest
from prometheus_client import CollectorRegistry, Counter

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.metrics import APFCollector
from apf_middleware.metrics.families import FAMILIES
from apf_middleware.metrics.family import Family
from tests.support.readings import EXEMPT, FULL, QUEUE, SECOND, Metrics, busy_counters, reading

# Of Kubernetes, with the labels there; those without a meaning here are left out.
UPSTREAM = {
    "rejected_requests_total": "priority_level flow_schema reason",
    "dispatched_requests_total": "priority_level flow_schema",
    "current_inqueue_requests": "priority_level flow_schema",
    "current_inqueue_seats": "priority_level flow_schema",
    "current_executing_requests": "priority_level flow_schema",
    "current_executing_seats": "priority_level flow_schema",
    "request_wait_duration_seconds": "priority_level flow_schema execute",
    "nominal_limit_seats": "priority_level",
    "request_execution_seconds": "priority_level flow_schema type",
    "request_queue_length_after_enqueue": "priority_level flow_schema",
    "priority_level_seat_utilization": "priority_level phase",
    "priority_level_request_utilization": "priority_level phase",
    "read_vs_write_current_requests": "phase request_kind",
    "watch_count_samples": "priority_level flow_schema",
    "epoch_advance_total": "priority_level success",
    "demand_seats": "priority_level",
    "demand_seats_high_watermark": "priority_level",
    "demand_seats_average": "priority_level",
    "demand_seats_stdev": "priority_level",
    "demand_seats_smoothed": "priority_level",
    "target_seats": "priority_level",
    "seat_fair_frac": "",
    "current_limit_seats": "priority_level",
    "lower_limit_seats": "priority_level",
    "upper_limit_seats": "priority_level",
    "work_estimated_seats": "priority_level flow_schema",
    "request_dispatch_no_accommodation_total": "priority_level flow_schema",
    "current_r": "priority_level",
    "dispatch_r": "priority_level",
    "latest_s": "priority_level",
    "next_s_bounds": "priority_level bound",
    "next_discounted_s_bounds": "priority_level bound",
}
OWN = {
    "server_seats",
    "authentication_failures_total",
    "hang_ups_total",
    "authentication_failing_sources",
    "configuration_last_load_successful",
    "configuration_loads_total",
    "cut_requests_total",
    "open_streams",
    "receiving_requests",
    "body_buffer_bytes",
    "info",
    "request_concurrency_limit",  # upstream's, until 1.30
    "request_concurrency_in_use",
}
OWN |= {"parked_requests", "gate_wait_seconds", "gate_evaluations_total", "gate_events_total"}
OWN |= {"gate_held", "gate_rescues_total", "gate_rejected_requests_total"}
OWN |= {
    "fleet_epochs_total",
    "fleet_exchange_age_seconds",
    "fleet_exchange_duration_seconds",
    "fleet_fallback_seconds_total",
    "fleet_granted_seats",
    "fleet_is_allocator",
    "fleet_configuration_differs",
    "fleet_members",
    "fleet_overshoot_seat_seconds_total",
    "fleet_seats",
    "fleet_used_seats",
}
OWN |= {
    "queue_deserved_seats",
    "queue_finished_requests_total",
    "queue_live_changes",
    "queue_max_seats",
    "queue_min_seats",
    "queue_requests",
    "queue_revocations_total",
    "queue_share",
    "queue_state",
    "queue_used_seats",
    "queue_weight",
    "unknown_queue_requests_total",
    "elastic_cap_changes_total",
    "elastic_cap_seats",
    "event_loop_lag_seconds",
    "mode",
    "passed_requests_total",
    "late_seats_total",
    "late_arrivals_total",
    "predicted_wait_seconds_total",
    "invalid_deadline_headers_total",
    "invalid_criticality_headers_total",
    "lowered_criticality_total",
    "adaptive_decisions_total",
    "adaptive_duration_seconds",
    "adaptive_elasticity",
    "adaptive_largest_seats",
    "adaptive_least_seats",
}
OWN |= {
    "shadow_assumed_durations_total",
    "shadow_classified_otherwise_total",
    "shadow_current_executing_seats",
    "shadow_current_inqueue_requests",
    "shadow_current_limit_seats",
    "shadow_decisions_total",
    "shadow_dispatched_requests_total",
    "shadow_failed",
    "shadow_lag_seconds",
    "shadow_nominal_limit_seats",
    "shadow_rejected_requests_total",
    "shadow_request_wait_duration_seconds",
    "shadow_requests_total",
}
DURATIONS = "0 .005 .02 .05 .1 .2 .5 1 2 5 10 15 30"
BUCKETS = {
    "request_wait_duration_seconds": DURATIONS,
    "shadow_request_wait_duration_seconds": DURATIONS,
    "request_execution_seconds": DURATIONS,
    "gate_wait_seconds": DURATIONS,
    "fleet_exchange_duration_seconds": DURATIONS,
    "request_queue_length_after_enqueue": "0 10 25 50 100 250 500 1000",
    "work_estimated_seats": "1 2 4 8 16 32 64 100",
    "priority_level_seat_utilization": "0 .1 .2 .3 .4 .5 .6 .7 .8 .9 .95 .99 1",
    "priority_level_request_utilization": "0 .001 .003 .01 .03 .1 .25 .5 .75 1",
    "read_vs_write_current_requests": "0 .001 .01 .1 .2 .3 .4 .5 .6 .7 .8 .9 .95 .99 1",
    "watch_count_samples": "0 1 10 100 1000 10000",
    "demand_seats": ".2 .4 .6 .8 1 1.2 1.4 1.7 2 2.8 4 6",
}


def test_the_metrics_are_those_of_kubernetes_and_a_few_more() -> None:
    assert {family.suffix for family in FAMILIES} == UPSTREAM.keys() | OWN
    assert {one.suffix: set(one.labels) for one in FAMILIES if one.suffix in UPSTREAM} == {
        suffix: set(labels.split()) for suffix, labels in UPSTREAM.items()
    }


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.suffix)
def test_every_metric_has_its_type_and_a_sentence_of_help(family: Family) -> None:
    assert family.help.endswith(".")
    assert (family.kind == "histogram") == (family.suffix in BUCKETS)
    assert (family.kind == "counter") == family.suffix.endswith("_total")


@pytest.mark.parametrize("suffix", BUCKETS)
def test_buckets_are_those_of_kubernetes(suffix: str) -> None:
    [family] = [family for family in FAMILIES if family.suffix == suffix]

    assert [float(le) for le in family.buckets] == [*map(float, BUCKETS[suffix].split()), float("inf")]


@pytest.mark.parametrize("prefix", ["apf", "apiserver_flowcontrol"])
def test_every_metric_is_collected_under_its_prefix_and_has_only_its_labels(prefix: str) -> None:
    metrics = Metrics(FULL, prefix)
    found = {metric.name: metric for metric in metrics.collector.collect()}

    assert len(found) == len(FAMILIES)
    for family in FAMILIES:
        metric = found[f"{prefix}_{family.suffix.removesuffix('_total')}"]
        assert metric.type == family.kind
        assert metric.samples
        for sample in metric.samples:
            assert sample.name.startswith(f"{prefix}_{family.suffix}")
            assert sample.labels.keys() - {"le"} == set(family.labels)


def test_no_series_is_repeated() -> None:
    samples = [sample for metric in Metrics(FULL).collector.collect() for sample in metric.samples]
    places = [(sample.name, *sorted(sample.labels.items())) for sample in samples]

    assert len(set(places)) == len(places)


def test_buckets_are_cumulative_and_the_last_is_the_count() -> None:
    for metric in Metrics(FULL).collector.collect():
        so_far = 0.0
        for sample in metric.samples:
            if sample.name.endswith("_bucket"):
                assert sample.value >= so_far
                so_far = sample.value
            elif sample.name.endswith("_count"):
                assert sample.value == so_far
                so_far = 0.0


def test_series_of_a_removed_level_disappear() -> None:
    metrics = Metrics(FULL)
    list(metrics.collector.collect())
    metrics.shown = reading(QUEUE, schema_counters=(busy_counters(),))

    text = str([metric.samples for metric in metrics.collector.collect()])

    assert "work" in text
    assert not re.search("jail|exempt|admins", text)


def test_a_level_that_returns_has_new_histograms() -> None:
    metrics = Metrics(reading(QUEUE._replace(demand={1: SECOND})))
    assert metrics.series("apf_demand_seats_count") == {("work",): SECOND}
    metrics.shown = reading(EXEMPT)
    metrics.series("apf_demand_seats_count")
    metrics.shown = reading(QUEUE._replace(current=1, demand={1: 2 * SECOND}))

    assert metrics.series("apf_demand_seats_bucket")["0.2", "work"] == 0


def test_describing_reads_nothing() -> None:
    def read() -> None:
        raise AssertionError

    described = list(APFCollector(read).describe())  # type: ignore[arg-type]

    assert len(described) == len(FAMILIES)
    assert not any(metric.samples for metric in described)


def test_two_collectors_of_one_prefix_cannot_share_a_registry() -> None:
    registry = CollectorRegistry()
    APFCollector(lambda: FULL).register(registry)

    with pytest.raises(
        InvalidValueError, match=r"prefix is 'apf', but .*\. Give each middleware a registry of its own"
    ):
        APFCollector(lambda: FULL).register(registry)
    APFCollector(lambda: FULL, "other").register(registry)


def test_an_apps_own_metric_may_not_have_the_same_name() -> None:
    registry = CollectorRegistry()
    Counter("apf_dispatched_requests", "Mine.", registry=registry)

    with pytest.raises(InvalidValueError, match="apf"):
        APFCollector(lambda: FULL).register(registry)


def test_a_collector_has_a_repr() -> None:
    assert repr(APFCollector(lambda: FULL, "a_b")) == "<APFCollector of a_b_*>"
