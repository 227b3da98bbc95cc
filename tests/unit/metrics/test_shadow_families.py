"""The metrics of a configuration that is tried."""

from apf_middleware.metrics.shadow_families import SHADOW_FAMILIES
from tests.support.readings import FULL, SHADOW, Metrics, reading

USERS = {"priority_level": "work", "flow_schema": "users"}


def test_without_a_shadow_there_are_none() -> None:
    assert [list(family.read(reading())) for family in SHADOW_FAMILIES] == [[]] * len(SHADOW_FAMILIES)


def test_the_names_are_the_usual_ones() -> None:
    metrics = Metrics(FULL)
    for name, labels in (
        ("dispatched_requests_total", USERS),
        ("rejected_requests_total", USERS | {"reason": "time-out"}),
        ("request_wait_duration_seconds_count", USERS | {"execute": "true"}),
        ("current_executing_seats", USERS),
        ("current_inqueue_requests", USERS),
        ("nominal_limit_seats", {"priority_level": "work"}),
        ("current_limit_seats", {"priority_level": "work"}),
    ):
        assert metrics(f"apf_shadow_{name}", **labels) == metrics(f"apf_{name}", **labels)


def test_what_only_a_shadow_has() -> None:
    metrics = Metrics(FULL._replace(shadow=SHADOW._replace(has_failed=True)))
    assert metrics("apf_shadow_requests_total") == 20
    assert metrics("apf_shadow_classified_otherwise_total", **USERS) == 3
    assert metrics("apf_shadow_decisions_total", real="at-once", shadow="waited") == 2
    assert metrics("apf_shadow_assumed_durations_total") == 1
    assert metrics("apf_shadow_lag_seconds") == 0.25
    assert metrics("apf_shadow_failed") == 1
