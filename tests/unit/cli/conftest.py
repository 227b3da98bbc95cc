"""Fixtures for commands: files, and the command itself."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.workers import Reply
from tests.support.command_line import Outcome, run_apf
from tests.support.recorded_trace import write_recorded_trace
from tests.support.simulated_worlds import SCENARIO
from tests.support.worker_replies import TWO_WORKERS, Workers, has_gates, refuses, silent


@pytest.fixture
def apf() -> Callable[..., Outcome]:
    """Return the command ``apf``, in this process."""
    return run_apf


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a trace with its results."""
    return write_recorded_trace(tmp_path / "recorded.json.gz")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    dice = random.Random(1)
    path = tmp_path / "trace.jsonl"
    lines = [
        json.dumps({"time": n / 100, "duration": dice.expovariate(20), "user": f"u{n % 3}", "path": f"/{n % 2}"})
        for n in range(1_000)
    ]
    path.write_text("\n".join(lines))
    return path


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


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    found = Workers()

    def ask(_server: Server, *question: object) -> Sequence[Reply[Any]]:
        method, path, _kind, *body = question
        found.asked.append((method, path, *body))
        return found.replies

    monkeypatch.setattr(Server, "ask", ask)
    return found
