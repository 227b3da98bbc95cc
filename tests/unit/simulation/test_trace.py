"""Recorded traffic: JSON lines and access logs."""

import gzip
import json
import os
from pathlib import Path

import pytest

from apf_middleware.exceptions import TraceFormatError
from apf_middleware.recordings import MOST_ROWS_HELD, Footer, Header, RecordedRequest, open_recording
from apf_middleware.simulation.trace import RequestTrace

COMBINED = (
    '10.1.2.3 - alice [10/Oct/2026:13:55:36 +0200] "GET /report?x=1 HTTP/1.1" 200 2326'
    ' "http://example.com/" "Mozilla/5.0 (\\"odd\\")" 0.125\n'
)
COMMON = '10.1.2.4 - - [10/Oct/2026:11:55:37 +0000] "POST /orders HTTP/1.1" 201 - 250000\n'


def rows(path: Path, text: str) -> list[RecordedRequest]:
    path.write_text(text)
    return list(RequestTrace(path).rows())


def test_a_json_line_is_parsed(tmp_path: Path) -> None:
    said = {
        "time": "2026-10-10T13:55:36.5+02:00",
        "duration": 0.125,
        "user": "alice",
        "groups": ["staff"],
        "method": "POST",
        "path": "/report?x=1",
        "host": "h",
        "headers": {"X-Tenant": "t"},
        "clientAddress": "10.1.2.3",
        "seats": 3,
    }
    later = {"time": "2026-10-10T11:55:38.5Z"}

    first, second = rows(tmp_path / "t.jsonl", f"{json.dumps(said)}\n\n{json.dumps(later)}\n")

    assert first == RecordedRequest(
        0, 125_000_000, "alice", ("staff",), "POST", "/report?x=1", "h", {"x-tenant": "t"}, "10.1.2.3", 3
    )
    assert first.headers == {"x-tenant": "t"}
    assert second == RecordedRequest(2_000_000_000, None)
    assert [first.listed_as(by) for by in ("user", "address", "path")] == ["alice", "10.1.2.3", "/report"]
    assert [second.listed_as(by) for by in ("user", "address")] == ["(anonymous)", "(unknown)"]


def test_rows_are_sorted_by_time_from_the_first_one(tmp_path: Path) -> None:
    text = "".join(json.dumps({"time": 1000 + second, "user": str(second)}) + "\n" for second in (3, 1, 2))

    found = rows(tmp_path / "t.jsonl", text)

    assert [(row.user, row.time_ns) for row in found] == [("1", 0), ("2", 10**9), ("3", 2 * 10**9)]


def test_rows_later_than_the_look_ahead_are_moved(tmp_path: Path) -> None:
    assert MOST_ROWS_HELD > 10_000
    lines = [json.dumps({"time": 10 + number / 1000}) for number in range(60)]
    lines.append(json.dumps({"time": 10, "user": "late"}))
    (tmp_path / "t.jsonl").write_text("\n".join(lines))

    found = list(RequestTrace(tmp_path / "t.jsonl", look_ahead=50).rows())

    times = [row.time_ns for row in found]
    assert times == sorted(times)
    assert [row.time_ns for row in found if row.user == "late"] == [9_000_000], "as the one before it"
    assert len(found) == 61


def test_access_logs_have_a_duration_at_the_end_of_each_line(tmp_path: Path) -> None:
    alice, anonymous = rows(tmp_path / "access.log", COMBINED + COMMON)

    assert (alice.user, alice.method, alice.path, alice.address) == ("alice", "GET", "/report?x=1", "10.1.2.3")
    assert alice.duration_ns == 125_000_000, "nginx writes seconds"
    assert (anonymous.user, anonymous.path, anonymous.duration_ns) == ("", "/orders", 250_000_000), (
        "Apache microseconds"
    )


def test_whole_seconds_are_spread_over_their_second(tmp_path: Path) -> None:
    found = rows(tmp_path / "access.log", COMMON * 500)

    times = [row.time_ns for row in found]
    assert times == sorted(times)
    assert 0 <= times[0] < 10**7 * 5
    assert 9 * 10**8 < times[-1] < 10**9
    assert len(set(times)) > 400
    assert times == [row.time_ns for row in RequestTrace(tmp_path / "access.log").rows()], "by the same dice"


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    said = {"time": 1, "duration": 1, "user": "\x1b]0;x\x07", "clientAddress": "a\nb", "path": "/\x1b[31m?\x1b"}
    [row] = rows(tmp_path / "t.jsonl", json.dumps(said))

    assert [row.listed_as(by) for by in ("user", "address", "path")] == [r"\x1b]0;x\x07", r"a\nb", r"/\x1b[31m"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    with open_recording(path, "w") as file:
        file.write("\ufeff" + ROWS)

    assert [row.user for row in RequestTrace(path).rows()] == ["a", "b"]


def test_a_survey_counts_rows_work_and_names(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    with gzip.open(path, "wt") as file:
        for number in range(100):
            row = {"time": number / 10, "duration": 0.5, "user": f"u{number % 3}", "seats": 2 if number % 2 else 0}
            file.write(json.dumps(row) + "\n")

    survey = RequestTrace(path).survey()

    assert (survey.rows, survey.unreadable) == (100, 0)
    assert survey.span_ns == 9_900_000_001
    assert survey.busy == pytest.approx(75 / 9.9)
    assert survey.counts["user"] == {"u0": 34, "u1": 33, "u2": 33}
    assert RequestTrace(path, 10).survey().rows == 10


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('{"time": "yesterday"}', "time is 'yesterday', but it must be seconds or ISO 8601"),
        ('{"duration": 1}', "time is None"),
        ('{"time": true}', "time is True"),
        ('{"time": 1, "duration": -1}', "duration is -1, but it must be a number of seconds, from 0 to"),
        ('{"time": 1, "duration": "1s"}', "duration is '1s'"),
        ('{"time": 1, "user": 5}', "user is 5, but it must be text"),
        ('{"time": 1, "groups": "a"}', "groups is 'a', but it must be a list of names"),
        ('{"time": 1, "headers": {"a": 1}}', "headers is"),
        ('{"time": 1, "path": "x"}', "path is 'x', but it must begin with a slash"),
        ('{"time": 1, "seats": 1.5}', "seats is 1.5"),
        ('{"time": 1', "must be JSON"),
        ("hello", "a line must be JSON, or of the common or combined log form"),
        (COMMON.rsplit(" ", 1)[0], r"must end with the duration of the request: with nginx add \$request_time"),
        (COMMON.replace("Oct", "Xxx"), "the time is '10/Xxx/2026"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(tmp_path: Path, line: str, rule: str) -> None:
    path = tmp_path / "t"
    path.write_text(f'{{"time": 1}}\n{line}\n')

    with pytest.raises(TraceFormatError, match=f"t:2: .*{rule}"):
        RequestTrace(path).survey()


def test_a_few_unreadable_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(COMMON * 300 + '1.2.3.4 - - [10/Oct/2026:11:55:37 +0000] "\\x16\\x03" 400 0 0.000\n' + COMMON)
    survey = RequestTrace(path).survey()

    assert (survey.rows, survey.unreadable) == (301, 1)
    assert len(list(RequestTrace(path).rows())) == 301


def test_log_lines_without_a_request_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    strange = [r'"\x16\x03\x01" 400 150', '"-" 408 0', '"" 400 0', r'"a \"b\"" 400 0']
    line = '1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] {} "-" "-" 0.000\n'
    path.write_text("".join(map(line.format, strange)) + COMMON * 2)

    survey = RequestTrace(path).survey()

    assert (survey.rows, survey.unreadable) == (2, 4)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_trace_without_requests_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    path.write_text(text)

    with pytest.raises(TraceFormatError, match=r"there is no request in it$"):
        RequestTrace(path).survey()


def test_a_trace_of_other_things_tells_how_many(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(COMMON.replace("250000", "-") * 3)

    with pytest.raises(TraceFormatError, match="there is no request in it, in 3 lines about other things"):
        RequestTrace(path).survey()


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="can't be read: No such file"):
        RequestTrace(tmp_path / "none").survey()
    (tmp_path / "t.gz").write_text("not compressed")
    with pytest.raises(TraceFormatError, match="can't be read"):
        RequestTrace(tmp_path / "t.gz").survey()


def test_a_trace_that_can_be_read_only_once_is_an_error(tmp_path: Path) -> None:
    """A pipe is empty when it is read again, and a device may never end."""
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(TraceFormatError, match="it must be a regular file, because it is read twice"):
            RequestTrace(path).survey()


def test_rows_that_a_live_server_has_written_since_the_survey_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(COMBINED)
    trace = RequestTrace(path)
    trace.survey()
    path.write_text(COMBINED + COMMON + "no request, yet\n")

    assert [row.user for row in trace.rows()] == ["alice"]


def test_a_trace_that_has_become_shorter_since_the_survey_is_an_error(tmp_path: Path) -> None:
    """A log may be rotated while it is read."""
    path = tmp_path / "access.log"
    path.write_text(COMBINED + COMMON)
    trace = RequestTrace(path)
    trace.survey()
    path.write_text(COMBINED)

    with pytest.raises(TraceFormatError, match=r"it had 2 requests and now has 1\. Read a copy of it"):
        list(trace.rows())


HEADER = Header("2026-10-10T13:55:36+00:00", configuration="0123", workers=2).line()
FOOTER = Footer(2, lost=1, seconds=30.0).line()
ROWS = '{"time": 1.5, "duration": 0.5, "user": "b"}\n{"time": 0.5, "duration": 0.5, "user": "a"}\n'


def test_a_recording_has_a_beginning_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{HEADER}\n{ROWS}{FOOTER}\n")
    recorded = RequestTrace(path)
    survey = recorded.survey()

    assert survey.header is not None
    assert survey.footer is not None
    assert (survey.header.workers, survey.footer.lost, survey.is_cut_off, survey.rows) == (2, 1, False, 2)
    assert (survey.begin_ns, survey.span_ns) == (0, 30 * 10**9), "from its beginning to its end"
    assert [(row.user, row.time_ns) for row in recorded.rows()] == [("a", 500_000_000), ("b", 1_500_000_000)]


@pytest.mark.parametrize("end", ["", '{"time": 2, "dur'])
def test_a_recording_without_an_end_was_cut_off(tmp_path: Path, end: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{HEADER}\n{ROWS}{end}")
    recorded = RequestTrace(path)

    assert recorded.survey().is_cut_off
    assert len(list(recorded.rows())) == 2
    assert not RequestTrace(path, 1).survey().is_cut_off, "then the rest isn't read"


@pytest.mark.parametrize("before", [f"{HEADER}\n{ROWS}{FOOTER}\n", f"{HEADER}\n", ROWS])
def test_a_second_recording_in_the_same_file_is_refused(tmp_path: Path, before: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{before}{HEADER}\n{ROWS}{FOOTER}\n")
    place = before.count("\n") + 1

    with pytest.raises(TraceFormatError, match=rf"t\.jsonl:{place}: another recording begins here.* Simulate each"):
        RequestTrace(path).survey()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_that_was_cut_off_is_used_as_far_as_it_goes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    with open_recording(path, "w") as file:
        file.write(f"{HEADER}\n{ROWS}")
        file.flush()
        file.write(ROWS * 100)
    path.write_bytes(path.read_bytes()[:-10])
    recorded = RequestTrace(path)

    assert recorded.survey().is_cut_off
    assert len(list(recorded.rows())) == recorded.survey().rows >= 2


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x28\xb5\x2f\xfd\x04", b"\x1f\x8b\x08\0\0\0\0\0"])
def test_a_compressed_file_without_requests_can_not_be_read(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    path.write_bytes(content)

    with pytest.raises(TraceFormatError, match=r"t\.jsonl"):
        RequestTrace(path).survey()


def test_damage_within_a_compressed_file_is_an_error_and_no_end(tmp_path: Path) -> None:
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"t.jsonl{suffix}"
        with open_recording(path, "w") as file:
            file.write(f"{HEADER}\n" + "".join(f'{{"time": {n * 7919 % 5003}}}\n' for n in range(50_000)))
        content = bytearray(path.read_bytes())
        content[len(content) // 2 : len(content) // 2 + 50] = bytes(50)
        path.write_bytes(content)

        with pytest.raises(TraceFormatError):
            RequestTrace(path).survey()


def test_a_recording_of_another_version_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(HEADER.replace('"version": 1', '"version": 2') + f"\n{ROWS}")

    with pytest.raises(TraceFormatError, match="reads the version 1 of recordings"):
        RequestTrace(path).survey()
