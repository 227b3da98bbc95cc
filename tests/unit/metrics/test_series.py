"""Series that are computed from several numbers of a reading."""

import pytest

from apf_middleware.counters import Histogram
from apf_middleware.fairqueuing.work import UNITS_PER_SEAT_SECOND
from apf_middleware.metrics.series import (
    Portion,
    meter_reader,
    read_bounds,
    read_epochs,
    read_queue_lengths,
    read_rejections,
    read_request_kinds,
    read_request_utilization,
    read_waits,
    read_widths,
)
from tests.support.readings import EXEMPT, FULL, QUEUE


def test_expected_reasons_are_there_from_the_start_and_others_when_they_come() -> None:
    found = dict(read_rejections(FULL))

    assert ("jail", FULL.schemas[1].schema, "concurrency-limit") in found
    assert all(number for (level, _, reason), number in found.items() if (level, reason) == ("exempt", "cancelled"))


def test_waits_and_lengths_count_requests_that_were_seated_at_once() -> None:
    waits = {labels: histogram for labels, histogram in read_waits(FULL) if isinstance(histogram, Histogram)}
    [one] = [schema for schema in FULL.schemas if schema.level == "work"]
    served = waits["work", one.schema, "true"]

    assert sum(served.counts) == sum(one.counters.waits.counts) + one.counters.at_once
    assert not any(level == "exempt" for level, *_ in waits)
    assert [labels for labels, _ in read_queue_lengths(FULL)] == [("work", one.schema)]
    assert sum(read_widths(one).counts) == sum(one.counters.estimated_widths().values())


def test_portions_have_their_wholes() -> None:
    found = dict(read_request_kinds(FULL))

    assert found["executing", "readOnly"] == Portion(FULL.request_kinds["executing", "readOnly"], 15 / 4)
    assert read_request_utilization((QUEUE, 7))["executing"].whole == 7


@pytest.mark.parametrize(("meters", "found"), [({}, None), ({"current_r": 3 * UNITS_PER_SEAT_SECOND}, 3)])
def test_meters_are_read_in_seat_seconds(meters: dict[str, int], found: float | None) -> None:
    assert meter_reader("current_r")(QUEUE._replace(meters=meters)) == found


def test_epochs_and_bounds() -> None:
    assert read_epochs(EXEMPT) is None
    assert read_epochs(QUEUE._replace(meters={"epochs": 2})) == {"true": 2}
    assert read_bounds(None) == {}
    assert read_bounds((UNITS_PER_SEAT_SECOND, 2 * UNITS_PER_SEAT_SECOND)) == {"min": 1, "max": 2}
