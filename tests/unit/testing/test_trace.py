"""Traces as they are read and written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.exceptions import TraceFormatError
from apf_middleware.fairqueuing import QueueSetSettings
from apf_middleware.testing import load_trace, replay
from apf_middleware.testing.trace import parse, store

ARRIVAL = {"t_ns": 5, "op": "arrive", "id": 7, "flow": "a", "flow_hash": 3, "seats": 1, "duration_ns": 10}
CONFIG = {"concurrency": 1, "queues": 4, "handSize": 2, "queueLengthLimit": 5, "estimatedServiceDuration_ns": 0}


def document(**changes: object) -> dict[str, Any]:
    return {"format": "apf-queueset-trace/1", "name": "t", "config": CONFIG, "events": [ARRIVAL], **changes}


def test_a_trace_can_be_read_run_written_and_read_again(tmp_path: Path) -> None:
    run = replay(parse(document()))

    for name in ("plain.json", "packed.json.gz"):
        store(tmp_path / name, run.document())
        again = load_trace(tmp_path / name)
        assert list(again.rows) == [[7, 3, "executed", None, 0, 5, 15, 15, 0, 0, 0, 0, 0]]
        assert replay(again).first_difference() is None


def test_unknown_columns_are_refused() -> None:
    recorded = document(results={"columns": ["id", "colour"], "rows": [[7, "red"]]})

    with pytest.raises(TraceFormatError, match=r"results.columns has \['colour'\], but the known columns are"):
        replay(parse(recorded)).first_difference()


@pytest.mark.parametrize(
    ("queues", "settings"),
    [
        (-1, QueueSetSettings.without_limit(1)),
        (0, QueueSetSettings.without_queues(1)),
        (4, QueueSetSettings(1, queues=4, hand_size=2, queue_length_limit=5)),
    ],
)
def test_the_number_of_queues_determines_the_kind_of_level(queues: int, settings: QueueSetSettings) -> None:
    assert parse(document(config={**CONFIG, "queues": queues})).settings == settings


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ([], "the document is a list, but it must be an object"),
        ({}, "format is None, but it must be 'apf-queueset-trace/1'"),
        (document(config=None), "config is a NoneType"),
        ({k: v for k, v in document().items() if k != "events"}, "events is missing in the document"),
        (document(config={**CONFIG, "queues": -2}), "config.queues is -2"),
        (document(config={**CONFIG, "handSize": 5}), "config: hand size is 5, but a hand can't exceed the deck of 4"),
        (document(config={"concurrency": 1}), "queues is missing in config"),
        (document(events={}), "events is a dict, but it must be a list"),
        (document(events=[3]), r"events\[0\] is a int, but it must be an object"),
        (document(events=[{**ARRIVAL, "op": "leap"}]), r"events\[0\].op is 'leap', but it must be arrive"),
        (document(events=[{**ARRIVAL, "seats": 0}]), r"events\[0\]: seats is 0, but it must be at least 1"),
        (document(events=[{**ARRIVAL, "seats": 1.5}]), r"events\[0\].seats is 1.5, but it must be an integer"),
        (document(events=[{**ARRIVAL, "flow_hash": 2**64}]), r"events\[0\].flow_hash is 18446744073709551616, but"),
        (document(events=[{**ARRIVAL, "t_ns": -1}]), r"events\[0\].t_ns is -1"),
        (document(events=[ARRIVAL, ARRIVAL]), r"events\[1\].id is 7, but that request has already arrived"),
        (document(events=[{"t_ns": 1, "op": "cancel", "id": 9}]), r"events\[0\].id is 9, but that request has not"),
        (document(events=[ARRIVAL, {**ARRIVAL, "id": 8, "t_ns": 1}]), r"events\[1\].t_ns is 1, but events must be in"),
        (document(events=[{"t_ns": 1, "op": "reconfig"}]), r"config is missing in events\[0\]"),
        (document(results={"columns": ["id"]}), "rows is missing in results"),
        (document(results={"columns": 1, "rows": []}), "columns and rows must be lists"),
        (document(summary=7), "summary is a int, but it must be an object"),
        (document(final_state=[1]), "final_state is a list, but it must be an object"),
        (document(results={"columns": ["id"], "rows": [[1, 2]]}), r"results.rows\[0\] must be a list of 1 values"),
    ],
)
def test_an_invalid_document_is_refused_with_the_position(broken: object, said: str) -> None:
    with pytest.raises(TraceFormatError, match=said):
        parse(broken)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"\x1f\x8b broken", gzip.compress(b"{}")[:-4], b"[" * 100_000, b'{"format": NaN'],
    ids=["empty", "cut", "no text", "no gzip", "cut gzip", "deep", "not a number"],
)
def test_an_unreadable_file_is_reported_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json.gz"
    path.write_bytes(content)

    with pytest.raises(TraceFormatError, match=r"broken.json.gz: it (can't be read|isn't JSON)"):
        load_trace(path)


def test_a_device_that_may_never_end_is_not_read() -> None:
    with pytest.raises(TraceFormatError, match="/dev/zero: it can't be read: a device may never end"):
        load_trace(Path("/dev/zero"))


def test_an_invalid_trace_is_reported_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"format": "other"}))

    with pytest.raises(TraceFormatError, match=r"odd.json: format is 'other'"):
        load_trace(path)
