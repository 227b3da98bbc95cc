"""The report about a configuration that is tried; `property/test_shadow` compares its numbers with a real server's."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime.shadow.report import TrialFacts, report, summarize_waits
from apf_middleware.snapshots.shadow import ShadowExample
from tests.support.shadow_world import MS, SECOND, Client, ShadowWorld, config_text

SPEC = "{shares: 30, waitLimit: 10s, queuing: {queues: 1, handSize: 1, queueLengthLimit: 1}}"


def test_a_report_says_what_would_have_happened() -> None:
    texts = (
        config_text(seats=seats, discipline="equal-serial", borrowing="immediate", levels=(SPEC, SPEC))
        for seats in (9, 1)
    )
    world = ShadowWorld(*map(load_text, texts))
    world.run([Client(one, one, f"flow-{one}", "a", Work(), 100 * MS) for one in range(3)])
    difference = world.shadow.tallies.differ(Classification("x", "y", "", 0), Classification("of-a", "a", "", 0))
    assert difference is not None
    difference.examples.append(ShadowExample("GET", "/x", "alice"))

    found = report(world.shadow, TrialFacts("new.yaml", classify_only=False, since=7.5, lasted_ns=2 * SECOND))
    assert (found.state, found.source, found.since, found.seconds) == ("running", "new.yaml", 7.5, 2)
    assert (found.decided, found.agreeing) == (3, 1)
    assert {(one.real, one.shadow): one.requests for one in found.decisions} == {
        ("at-once", "at-once"): 1,
        ("at-once", "waited"): 1,
        ("at-once", "rejected"): 1,
    }
    level = next(one for one in found.levels if one.level == "a")
    assert (level.at_once, level.waits.requests, level.rejected, level.peak) == (1, 1, {"queue-full": 1}, 1)
    assert 0 < level.average < 1
    [schema] = found.schemas
    assert (schema.schema, schema.at_once, schema.decided, schema.agreeing) == ("of-a", 1, 3, 1)
    assert [one.flow for one in found.flows] == ["flow-0", "flow-1", "flow-2"]
    assert [one.rejected for one in found.flows] == [{}, {}, {"queue-full": 1}]
    [pair] = found.differences
    assert (pair.real_schema, pair.schema, pair.examples[0].path) == ("x", "of-a", "/x")


def test_without_waits_there_are_no_levels() -> None:
    text = config_text(seats=1, discipline="equal-serial", borrowing="immediate", levels=(SPEC, SPEC))
    world = ShadowWorld(load_text(text), load_text(text))
    found = report(world.shadow, TrialFacts("new.yaml", classify_only=True, error="LookupError: defect"))

    assert (found.levels, found.state, found.error) == ((), "failed", "LookupError: defect")


def test_waits_are_summarized() -> None:
    waits = Histogram(DURATION_BOUNDS_NS)
    assert summarize_waits(waits).mean is None
    assert summarize_waits(waits).p99 is None

    for wait in (10 * MS, 30 * MS):
        waits.observe(wait)
    found = summarize_waits(waits)
    assert found.requests == 2
    assert found.mean == pytest.approx(0.02)
    assert found.p50 == pytest.approx(0.02)
    assert sum(found.buckets) == 2
