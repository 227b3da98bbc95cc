"""Lines of recordings: what is written is read again, and what is wrong is refused."""

import json
from datetime import UTC, datetime

import pytest

from apf_middleware.recordings import RecordedRequest, UnreadableLineError, parse_line, request_line
from apf_middleware.recordings.lines import nanoseconds_of, parse_fields, read_fields

WHOLE = RecordedRequest(
    time_ns=1_234_567_891,
    duration_ns=20_000_001,
    user="~0123456789abcdef",
    groups=("system:authenticated", "staff"),
    method="POST",
    path="/reports/~0123456789abcdef",
    host="shop.example.com",
    headers={"x-tenant": "~0123456789abcdef"},
    address="~fedcba9876543210",
    seats=2,
    route="/reports/{name}",
    schema="everybody",
    level="crowd",
    flow="~0123456789abcdef",
    weight=2.5,
    final_seats=3,
    linger_ns=500_000_000,
    wait_ns=1,
    outcome="failed",
    reason="",
    status=503,
    is_stream=True,
    deadline_ns=10**9,
    criticality="critical",
    is_standing=True,
    worker=3,
)


def test_everything_is_read_as_it_was_written() -> None:
    assert parse_line(request_line(WHOLE)) == WHOLE
    assert parse_fields(read_fields(request_line(WHOLE))).headers == WHOLE.headers


def test_usual_values_are_left_out() -> None:
    assert request_line(RecordedRequest(0, None)) == '{"time":0.0,"method":"GET","path":"/"}'


def test_no_wait_is_not_the_same_as_an_unknown_one() -> None:
    for request in (RecordedRequest(0, 0, wait_ns=0, deadline_ns=0), RecordedRequest(0, None)):
        found = parse_line(request_line(request))
        assert found == request


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"time": 1, "wait": -1}, "wait is -1, but it must be a number of seconds, from 0 to"),
        ({"time": 1, "duration": float("nan")}, "duration is nan"),
        ({"time": 1, "duration": True}, "duration is True"),
        ({"time": 1, "worker": 1.5}, "worker is 1.5, but it must be a whole number"),
        ({"time": 1, "stream": "yes"}, "stream is 'yes', but it must be true or false"),
        ({"time": 1, "weight": 0}, "weight is 0"),
        ({"time": 1, "path": 7}, "path is 7, but it must begin with a slash"),
        ({"time": 1, "headers": {"a": 1}}, "headers is {'a': 1}, but it must be names and values"),
        ({"time": "soon"}, "time is 'soon', but it must be seconds or ISO 8601"),
        ({}, "time is None"),
    ],
)
def test_wrong_values_have_a_reason(fields: dict[str, object], rule: str) -> None:
    with pytest.raises(UnreadableLineError) as caught:
        parse_line(json.dumps(fields))

    assert rule in str(caught.value)


@pytest.mark.parametrize("line", ["{", "[1]", "{}x", "{" * 100_000, '{"time": 1e999}'])
def test_what_is_no_object_is_unreadable(line: str) -> None:
    with pytest.raises(UnreadableLineError):
        parse_line(line)


def test_words_of_other_logs_are_no_outcome() -> None:
    found = parse_line('{"time": 1, "outcome": "SUCCESS"}')

    assert isinstance(found, RecordedRequest)
    assert found.outcome == ""


def test_a_time_without_a_zone_is_utc() -> None:
    assert nanoseconds_of(datetime(2026, 1, 1)) == nanoseconds_of(datetime(2026, 1, 1, tzinfo=UTC))  # noqa: DTZ001
