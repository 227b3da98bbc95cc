"""Lines of access logs are read, or refused with a reason, whatever is in them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.recordings import RecordedRequest, UnreadableLineError
from apf_middleware.simulation.access_logs import parse_access_log, parse_log_line
from tests.support.examples import examples

SECOND = 10**9
COMBINED = '127.0.0.1 - alice [24/Nov/2026:07:29:55 +0000] "GET /a HTTP/1.1" 200 2 "-" "curl/7.88.1"'
LINES = st.sampled_from(
    [
        f"{COMBINED} 0.125",
        f"{COMBINED} rt=0.130 urt=0.1, 0.125 cache=MISS",
        f"{COMBINED} 125000",
        f"{COMBINED} 345 0.130 [shop] [] 10.0.0.2:80 512 0.125 200 0123abcd",
        '[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq" "cc" "shop" "tcp://a"',
    ]
)
ODD = st.sampled_from(["9" * 40, "1e99", "-", '"', "[", "]", " ", "=", ",", ".", ":", "\\", "\u0661", "\0", "inf"])
EDITS = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 2), ODD | st.text(max_size=3)), max_size=3)
NUMBERS = st.integers(-(10**400), 10**400) | st.floats() | st.floats(0, 1e10)
TEXTS = (
    st.text(max_size=5) | ODD | NUMBERS.map(str) | st.sampled_from(["12ms", "1.5µs", "1, 2", "2026-01-01T00:00:00Z"])
)
FIELDS = st.sampled_from(
    [
        *("msec", "ts", "time", "start_time", "time_local", "request_time", "upstream_response_time", "duration"),
        *("latency", "duration_ms", "upstream_service_time", "OriginDuration", "status", "remote_addr", "request"),
        *("remote_user", "http_host", "seats", "groups", "headers"),
    ]
)
VALUES: st.SearchStrategy[Any] = TEXTS | NUMBERS | st.none() | st.booleans() | st.lists(TEXTS, max_size=1)


def require_sound(found: RecordedRequest) -> None:
    assert found.duration_ns is not None
    assert 0 <= found.duration_ns < 10**7 * SECOND
    assert abs(found.time_ns) < 10**13 * SECOND
    assert found.path.startswith("/")
    assert 0 <= found.status <= 999


@examples(300)
@given(LINES, EDITS)
def test_any_line_of_text(line: str, edits: list[tuple[int, int, str]]) -> None:
    for place, length, text in edits:
        line = line[:place] + text + line[place + length :]
    try:
        found = parse_log_line(line)
    except UnreadableLineError:
        return
    require_sound(found)


@examples(300)
@given(st.dictionaries(FIELDS, VALUES | st.dictionaries(FIELDS, VALUES, max_size=2), max_size=6))
def test_any_fields(fields: dict[str, Any]) -> None:
    try:
        found = parse_access_log({"request_method": "GET", "uri": "/a", "ts": 1.8e9, "elapsed": 0.25} | fields)
    except UnreadableLineError:
        return
    require_sound(found)


def test_the_fields_can_be_read() -> None:
    require_sound(parse_access_log({"request_method": "GET", "uri": "/a", "ts": 1.8e9, "elapsed": 0.25}))
