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
