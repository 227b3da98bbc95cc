"""``apf queue``: what it shows of the answers of workers."""

from collections.abc import Sequence
from typing import Any

import pytest

from apf_middleware.asgi.admin.documents import NamedQueueDocument, WaitingDocument
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


@pytest.mark.parametrize(
    ("least", "said"),
    [
        (10, ""),
        (20, "apf: batch: its min is 20, and the server has 10 seats, so no queue can be sure of its min\n"),
    ],
)
def test_a_min_that_the_server_cannot_keep_is_reported(monkeypatch: pytest.MonkeyPatch, least: int, said: str) -> None:
    changed = Reply("1", 200, NamedQueueDocument(WORKER, queue("batch", min=least, max=10), ()))
    monkeypatch.setattr(Server, "ask", lambda *_: [changed])
    result = run_apf("queue", "update", "batch", "--min", "500", "--server", "http://127.0.0.1:1")

    assert (result.returncode, result.stderr) == (0, said)


@pytest.mark.parametrize("most", ["9" * 5000, "\u0663", "-1", ""])
def test_a_max_that_is_no_number_of_seats_is_refused(most: str) -> None:
    result = run_apf("queue", "update", "batch", "--max", most, "--server", "http://127.0.0.1:1")

    assert result.returncode == 2
    assert "must be a number of seats or none" in result.stderr
