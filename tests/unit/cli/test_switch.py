"""``apf switch``: what it asks the workers, and what it makes of their answers."""

import json
from typing import Any

import pytest

from apf_middleware.asgi.admin.documents import ModeDocument
from apf_middleware.cli.control.workers import Reply
from apf_middleware.mode import Mode
from tests.support.command_line import Outcome, run_apf
from tests.support.worker_replies import WORKER, Workers, refuses, silent


def says(worker: str, mode: Mode, **passed: int) -> Reply[ModeDocument]:
    return Reply(worker, 200, ModeDocument(WORKER, mode, {"observe": 0, "off": 0} | passed))


def switch(*arguments: str) -> Outcome:
    return run_apf("switch", *arguments, "--server", "http://127.0.0.1:1")


def test_the_mode_of_all_workers_is_shown(workers: Workers) -> None:
    workers.replies = [says("1", "observe", observe=1_200), says("2", "observe", observe=34, off=5)]
    result = switch()

    assert (result.returncode, workers.asked) == (0, [("GET", "/mode")])
    assert result.stdout.splitlines() == [
        "mode: observe",
        "passed in the mode observe: 1,234",
        "passed in the mode off: 5",
    ]


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
def test_all_workers_are_switched(workers: Workers, mode: Mode) -> None:
    workers.replies = [says("1", mode), says("2", mode)]
    result = switch(mode)

    assert (result.returncode, result.stdout) == (0, f"mode: {mode}\n")
    assert workers.asked == [("PUT", "/mode", {"mode": mode})]


def test_programs_read_json(workers: Workers) -> None:
    workers.replies = [says("1", "off", off=3)]

    assert json.loads(switch("-o", "json").stdout) == {"modes": ["off"], "passed": {"observe": 0, "off": 3}}


def test_workers_that_differ_are_told(workers: Workers) -> None:
    workers.replies = [says("1", "on"), says("2", "off")]
    result = switch()

    assert (result.returncode, result.stdout) == (4, "mode: on, off\n")
    assert "different modes: on, off" in result.stderr


@pytest.mark.parametrize(
    ("replies", "status"),
    [
        ([refuses("1", 422, "There is no such mode.")], 1),
        ([refuses("1", 403, "You may not change this.")], 3),
        ([silent("1")], 3),
        ([says("1", "off"), silent("2")], 4),
    ],
)
def test_failures_have_their_exit_status(workers: Workers, replies: list[Reply[Any]], status: int) -> None:
    workers.replies = replies

    assert switch("off").returncode == status


def test_a_mode_that_there_is_not_is_an_invalid_command(workers: Workers) -> None:
    assert switch("maybe").returncode == 2
    assert workers.asked == []
