"""Answers of several workers, line by line."""

from pathlib import Path

import pytest

from apf_middleware.cli.control import line_streams
from apf_middleware.cli.control.line_streams import LineStreams
from apf_middleware.cli.control.workers import UrlWorker
from tests.support.socket_workers import socket_worker

HEAD = b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\ntransfer-encoding: chunked\r\n\r\n"


def chunks(*parts: bytes, is_whole: bool = True) -> bytes:
    end = b"0\r\n\r\n" if is_whole else b""
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def read_all(streams: LineStreams) -> list[tuple[int, str | None, str]]:
    found = []
    while streams.is_open:
        found += [(event.stream, event.line, event.trouble) for event in streams.read()]
    return found


def test_lines_of_all_workers_come_with_their_number(directory: Path) -> None:
    with (
        socket_worker(directory, chunks(b"one\ntw", b"o\n"), pid=7) as (first, received),
        socket_worker(directory, chunks(b"three\n"), pid=8) as (second, _),
    ):
        streams = LineStreams([first, second], "/recordings", {"seconds": 1}, 60)
        found = read_all(streams)

    assert [one for one in found if one[0] == 0] == [(0, "one\n", ""), (0, "two\n", ""), (0, None, "")]
    assert [one for one in found if one[0] == 1] == [(1, "three\n", ""), (1, None, "")]
    assert [reply.is_done for reply in streams.replies] == [True, True]
    assert received.startswith(b"POST /recordings HTTP/1.1\r\n")
    assert received.endswith(b'{"seconds": 1}')


def test_a_worker_that_refuses_has_no_stream(directory: Path) -> None:
    problem = b'{"type": "", "title": "", "status": 409, "detail": "There are 4 already."}'
    refusal = b"HTTP/1.1 409 No\r\nx-apf-admin: 1\r\ncontent-length: %d\r\n\r\n%b" % (len(problem), problem)
    with (
        socket_worker(directory, refusal, pid=7) as (first, _),
        socket_worker(directory, chunks(b"one\n"), pid=8) as (second, _),
    ):
        streams = LineStreams([first, second], "/recordings", {}, 60)
        found = read_all(streams)

    assert [reply.trouble for reply in streams.replies] == ["There are 4 already.", "it answers 200"]
    assert found == [(0, "one\n", ""), (0, None, "")]
    assert streams.workers == [second]


def test_a_worker_that_is_not_there_has_a_reason() -> None:
    streams = LineStreams([UrlWorker("http://127.0.0.1:1/debug", {})], "/recordings", {}, 60)

    assert not streams.is_open
    assert streams.replies[0].is_silent
    assert list(streams.read()) == []


def test_a_stream_that_is_cut_off_ends(directory: Path) -> None:
    with socket_worker(directory, chunks(b"one\n", is_whole=False)) as (worker, _):
        found = read_all(LineStreams([worker], "/recordings", {}, 60))

    assert found[0] == (0, "one\n", "")
    assert found[-1][:2] == (0, None)


def test_readers_wait_when_the_command_is_too_slow_and_end_when_it_ends(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_streams, "_MOST_LINES", 2)
    with socket_worker(directory, chunks(b"one\n" * 100)) as (worker, _):
        streams = LineStreams([worker], "/recordings", {}, 60)
        first = next(streams.read())
        streams.close()

    assert first.line == "one\n"
    assert not streams.is_open
