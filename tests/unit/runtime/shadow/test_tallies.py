"""Tallies of what a second configuration decides."""

from apf_middleware.classification import Classification
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.shadow.tallies import AT_ONCE, PASSED, REJECTED, WAITED, ShadowTallies
from apf_middleware.snapshots.shadow import ShadowExample

HERE = Classification("everybody", "web", "alice", 1)
THERE = Classification("reports", "batch", "alice", 1)


def test_decisions_are_counted_by_both_servers() -> None:
    tallies = ShadowTallies()
    tally = tallies.schema("web", "everybody")
    for real, own in ((AT_ONCE, AT_ONCE), (AT_ONCE, WAITED), (AT_ONCE, WAITED), (PASSED, REJECTED)):
        tally.compare(real, own)

    assert tallies.schema("web", "everybody") is tally
    assert list(tally.decisions()) == [
        ("at-once", "at-once", 1),
        ("at-once", "waited", 2),
        ("passed", "rejected", 1),
    ]
    assert list(tallies.schemas) == [("web", "everybody")]
    assert repr(tally) == "<SchemaTally everybody at web: 0 requests>"


def test_examples_of_each_difference_are_few() -> None:
    tallies = ShadowTallies()
    for number in range(20):
        difference = tallies.differ(HERE, THERE)
        if difference is not None:
            difference.examples.append(ShadowExample("GET", f"/{number}", "alice"))
    tallies.differ(THERE, HERE)

    first, second = tallies.differences
    assert (first.real, first.shadow, first.requests) == (HERE, THERE, 20)
    assert [one.path for one in first.examples] == ["/0", "/1", "/2", "/3", "/4"]
    assert (second.requests, second.examples) == (1, [])


def test_the_pairs_of_schemas_are_bounded() -> None:
    tallies = ShadowTallies()
    for number in range(300):
        tallies.differ(HERE, Classification(f"schema-{number}", "batch", "", 1))

    assert len(tallies.differences) == 256


def test_the_flows_with_the_most_requests_are_kept() -> None:
    tallies = ShadowTallies()
    for number in range(5000):
        large = tallies.flow(Classification("everybody", "web", f"large-{number % 100}", 1))
        large.requests += 1
        tallies.flow(Classification("everybody", "web", f"small-{number}", 1)).requests += 1

    assert len(tallies.flows) <= 1024
    assert all(tallies.flows["web", "everybody", f"large-{number}"].requests == 50 for number in range(100))
    assert tallies.forgotten + len(tallies.flows) == 5100


def test_a_flow_counts_rejections_by_reason() -> None:
    flow = ShadowTallies().flow(HERE)
    for reason in (Reason.TIME_OUT, Reason.QUEUE_FULL, Reason.TIME_OUT):
        flow.reject(reason)

    assert flow.rejected == {Reason.TIME_OUT: 2, Reason.QUEUE_FULL: 1}
    assert repr(flow) == "<FlowTally: 0 requests>"
