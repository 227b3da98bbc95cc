"""``apf record``: the file that it writes, what it refuses, and what it reports."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from apf_middleware.cli.control.line_streams import LineStreams
from apf_middleware.recordings import Footer, Header, RecordedRequest, files, open_recording, parse_line, request_line
from apf_middleware.recordings.marks import EndReason, wall_time
from tests.support.command_line import Outcome, run_apf
from tests.support.socket_workers import socket_worker

HEADER = Header(wall_time(1_786_108_536 * 10**9), "1a2b").line()
HEAD = b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\n\r\n"


def rows(number: int, user: str = "~1") -> str:
    return "".join(request_line(RecordedRequest(one * 10**6, 10**6, user=user)) + "\n" for one in range(number))


def says(*, number: int = 3, lost: int = 0, is_whole: bool = True, reason: EndReason = "time") -> bytes:
    """Return the recording of a worker."""
    footer = Footer(number, lost, reason=reason).line() if is_whole else ""
    return HEAD + f"{HEADER}\n\n{rows(number)}{footer}\n".encode()


def record(directory: Path, *arguments: object, answers: tuple[bytes, ...] = ()) -> Outcome:
    with ExitStack() as stack:
        for number, answer in enumerate(answers or (says(),)):
            stack.callback((directory / f"shop.{100 + number}.sock").unlink)
            stack.enter_context(socket_worker(directory, answer, pid=100 + number))
        return run_apf("record", "--runtime-dir", directory, *arguments)


def read(path: Path) -> tuple[Header, list[RecordedRequest], Footer]:
    with open_recording(path) as file:
        first, *between, last = map(parse_line, file)
    assert isinstance(first, Header)
    assert isinstance(last, Footer)
    return first, [one for one in between if isinstance(one, RecordedRequest)], last


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "sockets"
    found.mkdir(mode=0o700)
    return found


@pytest.mark.parametrize("end", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_all_workers_are_recorded_into_one_file(directory: Path, tmp_path: Path, end: str) -> None:
    path = tmp_path / f"traffic.{end}"
    result = record(directory, "-o", path, "--seconds", "1", answers=(says(number=2), says(number=3)))

    assert result.returncode == 0, result.stderr
    header, found, footer = read(path)
    assert header.workers == 2
    assert sorted(one.worker for one in found) == [0, 0, 1, 1, 1]
    assert (footer.rows, footer.lost, footer.reason) == (5, 0, "time")
    assert "apf: 5 requests in " in result.stderr
    assert result.stdout == ""


def test_standard_output_is_a_file_too(directory: Path) -> None:
    result = record(directory, "-o", "-", "--seconds", "1")

    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 5


def test_a_reader_of_standard_output_may_leave(directory: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "apf_middleware", "record", "--runtime-dir", str(directory), "-o", "-"]
    with socket_worker(directory, says(), pid=100):
        result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write_end)

    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.parametrize("end", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_a_full_disk_is_no_wrong_option(directory: Path, tmp_path: Path, end: str) -> None:
    path = tmp_path / f"full.{end}"
    path.symlink_to("/dev/full")
    result = record(directory, "-o", path, "--force", answers=(says(number=3000),))

    assert result.returncode == 1
    assert result.stderr == f"apf: {path} can't be written: no space left on device; the recording has ended early\n"


def test_a_file_that_cannot_be_opened_is_a_wrong_option(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    path.symlink_to(tmp_path / "missing" / "traffic.jsonl")
    result = record(directory, "-o", path, "--force")

    assert result.returncode == 2
    assert "Invalid value for --output" in result.stderr
    assert f"{path}: no such file or directory" in result.stderr


def test_an_existing_file_is_only_overwritten_by_force(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    path.write_text("precious")

    refused = record(directory, "-o", path)
    assert refused.returncode == 2
    assert "--force overwrites it" in refused.stderr
    assert path.read_text() == "precious"
    assert record(directory, "-o", path, "--force").returncode == 0
    assert len(read(path)[1]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "missing/t.jsonl"], "there is no folder"),
        (["-o", "t.jsonl", "--seconds", "soon"], "must be a duration"),
        (["-o", "t.jsonl", "--sample", "2"], "--sample"),
        (["-o", "t.jsonl", "--names", "none"], "--names"),
        ([], "--output"),
    ],
)
def test_wrong_options_end_the_command_before_it_asks(directory: Path, arguments: list[str], said: str) -> None:
    result = record(directory, *arguments)

    assert result.returncode == 2
    assert said in result.stderr


def test_a_missing_package_is_told_before_anything_is_recorded(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(files, "import_module", missing)
    result = record(directory, "-o", tmp_path / "t.jsonl.zst")

    assert result.returncode == 2
    assert "pip install 'apf-middleware[zstd]'" in result.stderr


@pytest.mark.parametrize(
    ("gone", "why"),
    [(says(is_whole=False), "the connection has ended"), (says(reason="shutdown"), "it was shut down")],
)
def test_a_worker_that_goes_away_is_reported_and_the_others_go_on(
    directory: Path, tmp_path: Path, gone: bytes, why: str
) -> None:
    path = tmp_path / "traffic.jsonl"
    result = record(directory, "-o", path, answers=(gone, says()))

    assert result.returncode == 4
    assert f"worker 100 went away: {why}; the others go on" in result.stderr
    _, found, footer = read(path)
    assert (len(found), footer.reason) == (6, "incomplete")


def test_lost_rows_are_told(directory: Path, tmp_path: Path) -> None:
    result = record(directory, "-o", tmp_path / "t.jsonl", answers=(says(lost=1_200),))

    assert "lost, because they came faster than they could be written: 1,200" in result.stderr


def test_refusals_have_their_exit_status(directory: Path, tmp_path: Path) -> None:
    problem = b'{"type": "", "title": "", "status": 409, "detail": "There are 4 already."}'
    refusal = b"HTTP/1.1 409 No\r\nx-apf-admin: 1\r\ncontent-length: %d\r\n\r\n%b" % (len(problem), problem)

    result = record(directory, "-o", tmp_path / "t.jsonl", answers=(refusal,))
    assert (result.returncode, result.stderr) == (1, "apf: There are 4 already.\n")
    assert not (tmp_path / "t.jsonl").exists()

    partly = record(directory, "-o", tmp_path / "t.jsonl", answers=(refusal, says()))
    assert partly.returncode == 4


def test_no_server_is_told(directory: Path, tmp_path: Path) -> None:
    result = run_apf("record", "--runtime-dir", directory, "-o", tmp_path / "t.jsonl")

    assert result.returncode == 3


def test_a_worker_that_says_nothing_leaves_no_recording(directory: Path, tmp_path: Path) -> None:
    result = record(directory, "-o", tmp_path / "t.jsonl", answers=(HEAD,))

    assert result.returncode == 4
    assert "no worker has sent anything" in result.stderr


def test_an_interrupt_ends_the_recording_with_a_footer(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part of the recording stays open until the command has asked for its end."""
    asked = threading.Event()
    original = LineStreams._read

    def read_slowly(self: LineStreams, number: int, response: object) -> None:
        asked.wait(30)
        original(self, number, response)  # type: ignore[arg-type]

    monkeypatch.setattr(LineStreams, "_read", read_slowly)

    usual = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        until = time.monotonic() + 60
        while signal.getsignal(signal.SIGINT) is usual and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        asked.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = record(directory, "-o", tmp_path / "t.jsonl", "--seconds", "600")
    thread.join()

    assert result.returncode == 0, result.stderr
    assert read(tmp_path / "t.jsonl")[2].reason == "interrupted"
