"""The merged answers of several workers."""

import pytest

from apf_middleware.asgi.admin.documents import NamedQueueDocument, NamedQueueList
from apf_middleware.cli.control.merging import disagreements, gate_disagreements, merge_gates, merge_queues
from apf_middleware.cli.control.workers import Reply
from tests.support.worker_replies import TWO_WORKERS, WORKER, gate, has_gates, queue, refuses, says, silent


def test_counts_and_seats_are_sums_and_the_share_follows_from_them() -> None:
    [found] = merge_queues(
        [
            says("1", queue("web", rejected={"time-out": 4, "queue-full": 1}, used=5, deserved=2.5)),
            says("2", queue("web", completed=7, used=1, deserved=1.5)),
        ]
    )

    assert found.total.completed == 107
    assert found.total.max == 20
    assert (found.total.used, found.total.deserved, found.total.share) == (6, 4.0, 1.5)
    assert found.total.rejected == {"queue-full": 1, "time-out": 8}
    assert found.total.rejections == 9
    assert found.total.weight == 1, "what is said of a queue isn't added up"
    assert found.states == {"1": "Open", "2": "Open"}


def test_the_members_of_a_fleet_have_their_limits_in_common() -> None:
    web = queue("web", used=3, min=2, deserved=8.0, max=10)
    replies = [Reply(name, 200, NamedQueueList(WORKER, (web,), shared=True)) for name in "123"]

    [found] = merge_queues(replies)

    assert (found.total.min, found.total.deserved, found.total.max) == (2, 8.0, 10)
    assert (found.total.used, found.total.share) == (9, 1.125)


def test_the_share_of_a_queue_that_deserves_no_seats() -> None:
    [idle] = merge_queues([says("1", queue("web", deserved=0.0, used=0))])
    [borrowing] = merge_queues([says("1", queue("web", deserved=0.0, used=3))])

    assert (idle.total.share, borrowing.total.share) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (("Open", "Open"), "Open"),
        (("Closing", "Closed"), "Closing"),
        (("Closed", "Closed"), "Closed"),
        (("Open", "Closed"), "Mixed"),
        (("Open", "Paused", "Paused"), "Mixed"),
    ],
)
def test_differing_states_are_mixed_except_closing_and_closed(states: tuple[str, ...], shown: str) -> None:
    replies = [says(str(number), queue("web", state=state)) for number, state in enumerate(states)]

    assert [one.total.state for one in merge_queues(replies)] == [shown]
    assert bool(disagreements(merge_queues(replies))) == (shown == "Mixed")


def test_a_silent_worker_makes_the_state_unknown_but_not_the_sums() -> None:
    [found] = merge_queues([says("1", queue("web")), silent("2")])

    assert found.total.state == "Unknown"
    assert found.total.completed == 100
    assert found.states == {"1": "Open", "2": "Unknown"}
    assert disagreements([found]) == [], "nobody says otherwise"


def test_disagreements_name_workers_that_differ_or_lack_a_queue() -> None:
    found = merge_queues(
        [
            says("1", queue("web", state="Closed"), queue("batch")),
            says("2", queue("web", state="Closing"), queue("batch")),
            says("3", queue("web", weight=2)),
        ]
    )

    assert [(one.total.name, one.total.state) for one in found] == [("web", "Mixed"), ("batch", "Mixed")]
    assert found[0].field("weight") == "Mixed"
    assert disagreements(found) == [
        "web is Open in worker 3, but Closed in 2 others",
        "batch is not there in worker 3, but Open in 2 others",
    ]


def test_not_found_is_an_answer_and_a_conflict_is_not() -> None:
    found = merge_queues(
        [Reply("1", 200, NamedQueueDocument(WORKER, queue("web"), ())), refuses("2", 404, "There is no queue 'web'.")]
    )

    assert [(one.total.state, one.states) for one in found] == [("Mixed", {"1": "Open", "2": "not there"})]
    assert [one.total.state for one in merge_queues([says("1", queue("web")), refuses("2", 409, "No.")])] == ["Unknown"]


def test_two_workers_that_differ_are_both_named() -> None:
    found = merge_queues([says("1", queue("web")), says("2", queue("web", state="Paused"))])

    assert disagreements(found) == ["web is Open in worker 1, Paused in worker 2"]


def test_a_change_in_one_worker_is_a_live_change() -> None:
    [found] = merge_queues([says("1", queue("web")), says("2", queue("web", source="live"))])

    assert found.total.source == "live"


def test_silent_workers_have_no_queues() -> None:
    assert merge_queues([silent("1"), silent("2")]) == []


# Gates


def test_a_worker_without_parked_requests_adds_no_row() -> None:
    found = merge_gates([has_gates("1", gate("db", "shard-3", parked=1)), has_gates("2", gate("db"))])

    assert [(one.total.gate, one.total.key) for one in found] == [("db", "shard-3")]


def test_a_gate_that_some_workers_hold_is_mixed() -> None:
    found = merge_gates([has_gates("1", gate("db", state="held")), has_gates("2", gate("db", state="blocking"))])

    assert [one.total.state for one in found] == ["Mixed"]
    assert gate_disagreements(found) == ["db is held in worker 1, blocking in worker 2"]
    assert gate_disagreements(merge_gates(TWO_WORKERS)) == []
