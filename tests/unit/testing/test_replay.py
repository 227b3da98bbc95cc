"""Traces are replayed and compared with their results."""

from pathlib import Path
from typing import Any

import pytest

from apf_middleware.testing import replay
from apf_middleware.testing.trace import parse, store

ARRIVAL = {"t_ns": 5, "op": "arrive", "id": 7, "flow": "a", "flow_hash": 3, "seats": 1, "duration_ns": 10}
CONFIG = {"concurrency": 1, "queues": 4, "handSize": 2, "queueLengthLimit": 5, "estimatedServiceDuration_ns": 0}


def document(**changes: object) -> dict[str, Any]:
    return {"format": "apf-queueset-trace/1", "name": "t", "config": CONFIG, "events": [ARRIVAL], **changes}


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json.gz", tmp_path / "other.json.gz"
    store(one, replay(parse(document())).document())
    store(other, replay(parse(document())).document())

    assert one.read_bytes() == other.read_bytes()


def test_a_trace_without_results_has_nothing_to_differ_from() -> None:
    run = replay(parse(document()))

    assert run.trace.columns == ()
    assert run.first_difference() is None


@pytest.mark.parametrize(
    ("column", "value"),
    [("queue", 1), ("dispatch_r", 1), ("status", "rejected"), ("release_ns", None), ("start_r", 0.0)],
)
def test_a_different_row_is_found(column: str, value: object) -> None:
    recorded = replay(parse(document())).document()
    place = recorded["results"]["columns"].index(column)
    got = recorded["results"]["rows"][0][place]
    recorded["results"]["rows"][0][place] = value

    difference = replay(parse(recorded)).first_difference()

    assert str(difference) == f"row of id 7, {column}: expected {value!r}, got {got!r}"


@pytest.mark.parametrize(("part", "name"), [("summary", "max_wait_ns"), ("final_state", "current_r")])
def test_a_different_total_is_found(part: str, name: str) -> None:
    recorded = replay(parse(document())).document()
    recorded[part][name] += 1

    assert replay(parse(recorded)).first_difference() is not None


def test_a_missing_row_is_a_difference() -> None:
    recorded = replay(parse(document())).document()
    recorded["results"]["rows"] = []

    assert "number of rows: expected 0, got 1" in str(replay(parse(recorded)).first_difference())
