"""Differences between the queues in files and in workers."""

from typing import Any

from apf_middleware.asgi.admin.documents import NamedQueueList
from apf_middleware.cli.control.drift import QueueDifference, differences
from apf_middleware.cli.control.workers import Reply
from tests.support.worker_replies import WORKER, silent


def level(name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "apf/v1", "kind": "PriorityLevel", "metadata": {"name": name}, "spec": spec}


def has(worker: str, *documents: dict[str, Any]) -> Reply[NamedQueueList]:
    return Reply(worker, 200, NamedQueueList(WORKER, (), documents))


def test_equal_levels_are_no_drift() -> None:
    server = {"apiVersion": "apf/v1", "kind": "Server", "metadata": {"name": "server"}, "spec": {}}

    assert differences([level("web", shares=1), server], [has("1", level("web", shares=1))]) == []


def test_differences_have_the_values_of_both_sides() -> None:
    files = [level("web", shares=8, queuing={"queues": 4}), level("old", shares=1)]
    live = has("1", level("web", shares=8, queuing={"queues": 8}, state="Closed"), level("new", shares=1))

    assert list(map(str, differences(files, [live]))) == [
        "new: only live",
        "old: only in the files",
        "web: spec.queuing.queues is 8 live, 4 in the files",
        "web: spec.state is Closed live, not set in the files",
    ]


def test_a_difference_names_its_workers() -> None:
    files = [level("web", shares=8)]
    found = differences(
        files, [has("1", level("web", shares=9)), has("2", level("web", shares=9)), has("3", level("web", shares=8))]
    )
    [one] = found

    assert one == QueueDifference("web", "spec.shares", file=8, live=9, workers=("1", "2"))
    assert differences(files, [silent("1")]) == []
