"""Metrics, and the sources of their series."""

from typing import Final

from apf_middleware.metrics import LevelReading
from apf_middleware.metrics.family import DURATIONS, NS, Family, SeriesSource
from tests.support.readings import QUEUE, REJECT, reading

LEVELS: Final[SeriesSource[LevelReading]] = SeriesSource(
    ("priority_level",), lambda found: (((one.name,), one) for one in found.levels)
)


def test_the_name_and_the_bounds_say_the_type() -> None:
    assert Family("things_total", "Things.", (), lambda _: ()).kind == "counter"
    assert Family("things", "Things.", (), lambda _: ()).kind == "gauge"
    duration = Family("thing_seconds", "Things.", (), lambda _: (), bounds=DURATIONS, unit=NS)
    assert duration.kind == "histogram"
    assert duration.buckets[:3] == ("0.0", "0.005", "0.02")
    assert duration.buckets[-1] == "+Inf"


def test_each_object_is_a_series() -> None:
    family = LEVELS("seats", "Seats.", lambda one: one.limits.nominal)
    assert family.labels == ("priority_level",)
    assert list(family.read(reading(QUEUE, REJECT))) == [(("work",), 10), (("jail",), 5)]


def test_each_key_of_a_mapping_is_a_series() -> None:
    family = LEVELS("seats", "Seats.", lambda one: {"min": one.limits.min, "max": one.limits.max}, "bound")
    assert family.labels == ("priority_level", "bound")
    assert list(family.read(reading(QUEUE))) == [(("work", "min"), 6), (("work", "max"), 20)]


def test_what_is_unknown_has_no_series() -> None:
    assert list(LEVELS("a", "A.", lambda _: None).read(reading(QUEUE))) == []
    assert list(LEVELS("a", "A.", lambda _: float("nan")).read(reading(QUEUE))) == []
