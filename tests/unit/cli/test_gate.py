"""Several workers' gates as one table, and the command that asks for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.asgi.admin.documents import GateList
from apf_middleware.cli.control.merging import gate_disagreements, merge_gates
from apf_middleware.cli.control.rendering import gate_table
from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.workers import Reply
from apf_middleware.snapshots import GateSnapshot
from tests.support.command_line import invoke
from tests.support.worker_replies import WORKER, refuses, silent


def gate(name: str, key: str | None = None, **more: Any) -> GateSnapshot:  # noqa: ANN401 - fields of several types
    gate = GateSnapshot(name, key, "capacity", "passing", 0, None, acquired=1, limit=5, events=10, rescues=0)
    return replace(gate, **more)


def has(worker: str, *gates: GateSnapshot, kicked: int = 0) -> Reply[GateList]:
    return Reply(worker, 200, GateList(WORKER, gates, kicked))


TWO = [
    has("1", gate("db", "shard-3", state="blocking", parked=15, oldest=2.14), gate("quota", acquired=None, limit=None)),
    has("2", gate("db", "shard-3", parked=2, oldest=0.5), gate("db", "shard-4", parked=1, oldest=1.0), gate("quota")),
]


def test_parked_requests_of_a_key_are_added_up() -> None:
    assert [" ".join(line.split()) for line in gate_table(merge_gates(TWO))] == [
        "GATE KEY STATE PARKED OLDEST ACQUIRED/LIMIT EVENTS RESCUES",
        "db shard-3 blocking 17 2.1s 2/10 20 0",
        "db shard-4 passing 1 1.0s 1/5 10 0",
        "quota - passing 0 - 1/5 20 0",
    ]


def test_a_worker_without_parked_requests_adds_no_row() -> None:
    found = merge_gates([has("1", gate("db", "shard-3", parked=1)), has("2", gate("db"))])

    assert [(one.total.gate, one.total.key) for one in found] == [("db", "shard-3")]


def test_a_gate_that_some_workers_hold_is_mixed() -> None:
    found = merge_gates([has("1", gate("db", state="held")), has("2", gate("db", state="blocking"))])

    assert [one.total.state for one in found] == ["Mixed"]
    assert gate_disagreements(found) == ["db: worker 1 has it held, worker 2 has it blocking"]
    assert gate_disagreements(merge_gates(TWO)) == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return the requests that a server got that only exists by name; it answers as ``TWO``."""
    heard: list[tuple[object, ...]] = []

    def ask(_server: Server, *question: object) -> Sequence[Reply[Any]]:
        method, path, _kind, *body = question
        heard.append((method, path, *body))
        if "nobody" in str(question[1]):
            return [refuses("1", 404, "There is no gate 'nobody'.")]
        if "hangs" in str(question[1]):
            return [silent("1"), TWO[1]]
        return [has(one.worker, *one.document.gates, kicked=4) for one in TWO if one.document]

    monkeypatch.setattr(Server, "ask", ask)
    return heard


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
