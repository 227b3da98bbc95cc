"""``apf queue``: what it shows of the answers of workers."""

from collections.abc import Sequence
from typing import Any

import pytest

from apf_middleware.asgi.admin.documents import (
    AdaptiveSeatsDocument,
    NamedQueueDocument,
    NamedQueueList,
    WaitingDocument,
)
from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.workers import Reply
from tests.support.command_line import run_apf
from tests.support.worker_replies import WORKER, queue, refuses, silent


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            silent("2", "it didn't answer in time"),
            "without the requests that wait in worker 2: it didn't answer in time",
        ),
        (refuses("2", 404, "There is no queue."), "without the requests that wait in worker 2: There is no queue."),
        (Reply("2", 200, WaitingDocument(WORKER, "batch", 0, 0, 0.0, (), ())), ""),
    ],
)
def test_waiting_requests_that_a_worker_does_not_tell_are_reported(
    monkeypatch: pytest.MonkeyPatch, second: Reply[Any], said: str
) -> None:
    facts = [Reply(name, 200, NamedQueueDocument(WORKER, queue("batch"), ())) for name in ("1", "2")]
    waiting = [Reply("1", 200, WaitingDocument(WORKER, "batch", 3, 3, 0.5, (), ())), second]

    def ask(_server: Server, _method: str, path: str, *_rest: object) -> Sequence[Reply[Any]]:
        return waiting if path.endswith("/waiting") else facts

    monkeypatch.setattr(Server, "ask", ask)
    result = run_apf("queue", "get", "batch", "--server", "http://127.0.0.1:1")

    assert "batch" in result.stdout
    assert (result.returncode, result.stderr) == ((4, f"apf: {said}\n") if said else (0, ""))


def document(name: str, **spec: object) -> dict[str, object]:
    return {"kind": "PriorityLevel", "metadata": {"name": name}, "spec": {"shares": 1, **spec}}


@pytest.mark.parametrize(
    ("mins", "said"),
    [
        ({"batch": 6, "web": 3}, ""),
        ({"batch": 6, "web": 4}, "(batch, web) add up to 10 of 10 seats, so queues without a min get no seats"),
        ({"batch": 20}, "add up to 20 of 10 seats, so no queue can be sure of its min"),
    ],
)
@pytest.mark.parametrize("command", ["create", "update"])
def test_mins_of_all_seats_are_reported(
    monkeypatch: pytest.MonkeyPatch, command: str, mins: dict[str, int], said: str
) -> None:
    """Those of children are part of their parent's; the workers have the same, so it is said once."""
    named = [document(name, minSeats=least) for name, least in mins.items()]
    documents = (document("users"), document("child", parent="web", minSeats=3), *named)
    changed = [Reply(one, 200, NamedQueueDocument(WORKER, queue("batch", min=mins["batch"]), ())) for one in "12"]
    all_queues = (queue("batch", max=8), queue("users"))
    listed = [Reply(one, 200, NamedQueueList(WORKER, all_queues, documents)) for one in "12"]

    def ask(_server: Server, method: str, *_rest: object) -> Sequence[Reply[Any]]:
        return [*listed, silent("3")] if method == "GET" else changed

    monkeypatch.setattr(Server, "ask", ask)
    result = run_apf("queue", command, "batch", "--min", "6", "--server", "http://127.0.0.1:1")

    assert (result.returncode, result.stderr) == (0, said and f"apf: the mins of all queues {said}\n")


def test_mins_are_compared_with_the_fewest_seats_that_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    adaptive = AdaptiveSeatsDocument(10, 5, 40, "probe")
    listed = Reply(
        "1", 200, NamedQueueList(WORKER, (queue("batch"),), (document("batch", minSeats=6),), adaptive=adaptive)
    )
    changed = Reply("1", 200, NamedQueueDocument(WORKER, queue("batch", min=6), ()))
    monkeypatch.setattr(Server, "ask", lambda _server, method, *_: [listed if method == "GET" else changed])
    result = run_apf("queue", "update", "batch", "--min", "6", "--server", "http://127.0.0.1:1")

    assert "the mins of all queues add up to 6 of 5 seats" in result.stderr


@pytest.mark.parametrize("most", ["9" * 5000, "\u0663", "-1", ""])
def test_a_max_that_is_no_number_of_seats_is_refused(most: str) -> None:
    result = run_apf("queue", "update", "batch", "--max", most, "--server", "http://127.0.0.1:1")

    assert result.returncode == 2
    assert "must be a number of seats or none" in result.stderr
