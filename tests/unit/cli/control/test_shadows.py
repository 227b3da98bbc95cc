"""The reports of several workers, summed up."""

import pytest

from apf_middleware.cli.control.shadows import merge_shadows
from tests.support.shadow_reports import shadow_report, waits


def test_no_report_is_none() -> None:
    assert merge_shadows([]) is None


def test_one_report_stays_as_it_is() -> None:
    assert merge_shadows([shadow_report()]) == shadow_report()


def test_counts_and_seats_are_added_up() -> None:
    other = shadow_report("bob", since=900.0, seconds=160.0, lag=3.0, assumed=4, caveats=("Gates are left out.",))
    found = merge_shadows([shadow_report(), other])

    assert found is not None
    assert (found.requests, found.otherwise, found.decided, found.agreeing, found.seats) == (200, 20, 180, 160, 40)
    assert (found.since, found.seconds, found.lag, found.assumed) == (900.0, 160.0, 3.0, 4)
    assert [one.requests for one in found.decisions] == [160, 20]
    batch, exempt = found.levels
    assert (batch.nominal, batch.max, batch.seats_in_use, batch.average, batch.peak) == (16, 40, 6, 3.0, 16)
    assert exempt.max is None
    assert batch.waits.requests == 4
    assert batch.waits.mean == pytest.approx(0.02)
    assert batch.waits.buckets == waits(10, 30, 10, 30).buckets
    assert batch.rejected == {"time-out": 4}
    [schema] = found.schemas
    assert (schema.requests, schema.agreeing) == (20, 16)
    assert [(one.flow, one.requests) for one in found.flows] == [("alice", 10), ("bob", 10)]
    [difference] = found.differences
    assert difference.requests == 20
    assert [one.user for one in difference.examples] == ["alice", "bob"]
    assert len(found.caveats) == 2


def test_a_shadow_that_has_failed_anywhere_has_failed() -> None:
    found = merge_shadows([shadow_report(), shadow_report(state="failed", error="LookupError: defect")])

    assert found is not None
    assert (found.state, found.error) == ("failed", "LookupError: defect")
