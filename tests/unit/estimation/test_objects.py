"""What is known about objects, and for how long."""

import pytest

from apf_middleware.classification import Resource
from apf_middleware.estimation import UNCERTAIN, ObjectCounts, ObjectStats
from apf_middleware.exceptions import InvalidValueError

PODS = Resource("pods", namespace="foo", name="x")
JOBS = Resource("jobs", "batch")
MS, MINUTE, HOUR = 10**6, 60 * 10**9, 3600 * 10**9


def test_unreported_kinds_are_unknown() -> None:
    counts = ObjectCounts()
    counts.observe(0, PODS, 5)

    assert counts.look(0, JOBS) is None
    assert counts.look(0, Resource("pods", "other")) is None


def test_the_latest_report_applies_to_the_whole_kind() -> None:
    counts = ObjectCounts()
    counts.observe(0, PODS, 5, 100)
    counts.observe(1, PODS, 7, 200)

    assert counts.look(1, Resource("pods")) == ObjectStats(7, 200)
    assert len(counts) == 1


def test_reports_are_uncertain_after_three_minutes() -> None:
    counts = ObjectCounts()
    counts.observe(0, PODS, 5)

    assert counts.look(3 * MINUTE, PODS) == ObjectStats(5)
    assert counts.look(3 * MINUTE + MS, PODS) is UNCERTAIN


def test_a_new_report_makes_a_kind_the_most_recent() -> None:
    counts = ObjectCounts(2)
    counts.observe(0, PODS, 5)
    counts.observe(1, JOBS, 5)
    counts.observe(HOUR, PODS, 6)
    counts.observe(HOUR, Resource("nodes"), 1)

    assert counts.look(HOUR, JOBS) is None
    assert counts.look(HOUR, PODS) == ObjectStats(6)
    counts.check()


def test_the_number_of_kinds_is_bounded() -> None:
    counts = ObjectCounts(2)
    for now, name in enumerate("abac"):
        counts.observe(now, Resource(name), 1)
        counts.check()

    assert [key for key, _, _ in counts.snapshot().entries] == [("", "a"), ("", "c")]
    assert repr(counts) == "<ObjectCounts: 2 kinds of at most 2>"


def test_an_inventory_uses_its_clock() -> None:
    now = 0
    counts = ObjectCounts()
    counts.observe(0, PODS, 5)
    inventory = counts.inventory(lambda: now)

    assert inventory(PODS) == ObjectStats(5)
    now = 4 * MINUTE
    assert inventory(PODS) is UNCERTAIN


def test_check_detects_times_out_of_order() -> None:
    counts = ObjectCounts()
    counts.observe(5, PODS, 1)
    counts.observe(4, JOBS, 1)

    with pytest.raises(InvalidValueError, match="in order of time"):
        counts.check()


@pytest.mark.parametrize(("count", "size", "name"), [(-1, 0, "count"), (1, -1, "average_bytes"), (1.5, 0, "count")])
def test_a_negative_number_of_objects_is_refused(count: int, size: int, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name} is "):
        ObjectStats(count, size)


@pytest.mark.parametrize("settings", [{"most": 0}, {"stale_after_ns": -1}])
def test_invalid_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError):
        ObjectCounts(**settings)
