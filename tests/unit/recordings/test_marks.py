"""The beginning and the end of recordings."""

import json

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.recordings import Footer, Header, RecordedRequest, UnreadableLineError, parse_line
from apf_middleware.recordings.marks import parse_mark, wall_time

START = 1_786_108_536_250_001_000
HEADER = Header(wall_time(START), "1a2b", "shop", "pid:7", "0123", "observe", 0.25, "plain", 600.0, 2, 5)
FOOTER = Footer(1_000, 3, 599.5, "stopped", is_settled=False)


def test_both_are_read_as_they_were_written() -> None:
    assert parse_line(HEADER.line()) == HEADER
    assert parse_line(FOOTER.line()) == FOOTER
    assert HEADER.start_ns == START


def test_requests_are_no_marks() -> None:
    assert parse_mark({"time": 7}) is None
    assert isinstance(parse_line('{"time": 7}'), RecordedRequest)


def test_fields_of_later_packages_are_ignored() -> None:
    assert parse_line(FOOTER.line()[:-1] + ', "more": [1]}') == FOOTER


def test_another_version_is_not_read() -> None:
    said = json.loads(HEADER.line()) | {"version": 2}

    with pytest.raises(InvalidValueError, match="reads the version 1 of recordings"):
        parse_mark(said)


@pytest.mark.parametrize(
    "change",
    [
        {"recording": "middle"},
        {"recording": 7},
        {"recording": "begin", "start": "yesterday"},
        {"recording": "begin", "start": 7},
        {"recording": "begin", "workers": True},
        {"recording": "begin", "workers": 0},
        {"recording": "begin", "sample": 0},
        {"recording": "begin", "sample": 1.5},
        {"recording": "begin", "seconds": float("nan")},
        {"recording": "end", "rows": 1, "lost": -1},
        {"recording": "end", "rows": 1.5},
        {"recording": "end"},
    ],
)
def test_wrong_marks_are_unreadable(change: dict[str, object]) -> None:
    said = json.loads(HEADER.line()) | change if change["recording"] == "begin" else change

    with pytest.raises(UnreadableLineError):
        parse_mark(said)
