"""The commands for gates, and the requests that they send."""

from collections.abc import Sequence
from typing import Any

import pytest

from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.workers import Reply
from tests.support.command_line import invoke
from tests.support.worker_replies import TWO_WORKERS, has_gates, refuses, silent


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return the requests to a server that exists only by name, and answers as ``TWO_WORKERS``."""
    requests: list[tuple[object, ...]] = []

    def ask(_server: Server, *question: object) -> Sequence[Reply[Any]]:
        method, path, _kind, *body = question
        requests.append((method, path, *body))
        if "nobody" in str(question[1]):
            return [refuses("1", 404, "There is no gate 'nobody'.")]
        if "hangs" in str(question[1]):
            return [silent("1"), TWO_WORKERS[1]]
        return [has_gates(one.worker, *one.document.gates, kicked=4) for one in TWO_WORKERS if one.document]

    monkeypatch.setattr(Server, "ask", ask)
    return requests


@pytest.mark.parametrize(
    ("arguments", "question", "status"),
    [
        (("list",), ("GET", "/gates"), 0),
        (("open", "db"), ("POST", "/gates/db/open", {}), 0),
        (("close", "db"), ("POST", "/gates/db/close", {}), 0),
        (("close", "db", "--for", "10s"), ("POST", "/gates/db/close", {"for": 10.0}), 0),
        (("close", "db", "--for", "500ms"), ("POST", "/gates/db/close", {"for": 0.5}), 0),
        (("close", "db", "--for", "1.5m"), ("POST", "/gates/db/close", {"for": 90.0}), 0),
        (("close", "db", "--for", "7"), ("POST", "/gates/db/close", {"for": 7.0}), 0),
        (("kick", "db"), ("POST", "/gates/db/kick", {}), 0),
        (("kick", "db", "--request", "8"), ("POST", "/gates/db/kick", {"request": 8}), 0),
        (("open", "a/b"), ("POST", "/gates/a%2Fb/open", {}), 0),
        (("open", "nobody"), ("POST", "/gates/nobody/open", {}), 1),
        (("open", "hangs"), ("POST", "/gates/hangs/open", {}), 4),
    ],
)
def test_a_command_sends_one_request_to_each_worker(
    asked: list[tuple[object, ...]], arguments: tuple[str, ...], question: tuple[object, ...], status: int
) -> None:
    result = invoke("gate", *arguments, "--server", "http://127.0.0.1:1")

    assert (result.exit_code, asked) == (status, [question])
    if status == 0:
        assert "kicked 8" in result.stdout if "kick" in arguments else "shard-3" in result.stdout


@pytest.mark.parametrize("duration", ["0", "0s", "-1s", "soon", "1d", "s", "1e9"])
def test_a_duration_is_a_number_with_a_unit(asked: list[tuple[object, ...]], duration: str) -> None:
    result = invoke("gate", "close", "db", "--for", duration, "--server", "http://127.0.0.1:1")

    assert (result.exit_code, asked) == (2, [])
