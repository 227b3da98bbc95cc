"""``apf record`` against a real server with two workers under load, and what reads its files."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from apf_middleware.asgi.admin.documents import RecordingList
from apf_middleware.cli.control.workers import SocketWorker, ask_all, page
from apf_middleware.config.sockets import find_sockets
from apf_middleware.exceptions import TraceFormatError
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation.trace import RequestTrace
from tests.e2e.shop import Shop, open_shop
from tests.support.command_line import run_apf
from tests.support.servers import ROOT

pytestmark = pytest.mark.timeout(240)

USERS = [f"customer-{number}" for number in range(4)]
CLOSING = {"Connection": "close"}


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as opened:
        yield opened


@contextmanager
def load(shop: Shop) -> Iterator[list[int]]:
    """Send requests of several users, each on a connection of its own so that all workers get some, until the end.

    The statuses of those that have been answered are listed.
    """
    is_over, answered = threading.Event(), list[int]()

    def call(user: str) -> None:
        with httpx.Client(base_url=shop.server.url, headers={"X-User": user} | CLOSING, timeout=30) as client:
            while not is_over.wait(0.1):
                answered.append(client.get("/hold?ms=20&secret=31ada4fd").status_code)

    threads = [threading.Thread(target=call, args=(USERS[number % len(USERS)],)) for number in range(12)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@contextmanager
def recording(shop: Shop, path: Path, seconds: int) -> Iterator[subprocess.Popen[str]]:
    """Run ``apf record`` as a process, until it has ended."""
    command = [sys.executable, "-m", "apf_middleware", "record", "-o", str(path), "--seconds", str(seconds)]
    environment = os.environ | {"APF_RUNTIME_DIR": str(shop.sockets), "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def rows_of(path: Path) -> list[RecordedRequest]:
    return list(RequestTrace(path).rows())


def number_written(path: Path) -> int:
    """Return how many rows can be read so far."""
    with suppress(OSError, TraceFormatError):
        return RequestTrace(path).survey().rows
    return 0


def await_recordings(shop: Shop, number: int) -> None:
    """Wait until this many workers record."""
    workers = [SocketWorker(file) for file in find_sockets(shop.sockets)]
    deadline, found = time.monotonic() + 60, 0
    while found < number:
        assert time.monotonic() < deadline, shop.server.output()
        time.sleep(0.05)
        replies = ask_all(workers, "GET", page("recordings"), RecordingList, timeout=10)
        found = sum(len(reply.document.recordings) for reply in replies if reply.document)


def test_both_workers_are_recorded_and_everything_reads_the_file(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl.zst"
    with load(shop):
        result = run_apf("record", "-o", path, "--seconds", "4", APF_RUNTIME_DIR=str(shop.sockets), APF_TOKEN="")
    assert result.returncode == 0, result.stderr

    survey = RequestTrace(path).survey()
    assert survey.header is not None
    assert survey.footer is not None
    assert (survey.header.workers, survey.footer.reason, survey.footer.lost) == (2, "time", 0)
    rows = [row for row in rows_of(path) if row.level == "web"]
    assert len(rows) > 50
    assert {row.worker for row in rows} == {0, 1}
    assert {row.outcome for row in rows} <= {"served", "running", "waiting"}
    assert len({row.flow for row in rows}) == len(USERS), "the hashes of both workers agree"
    assert {row.route for row in rows if row.outcome == "served" and not row.is_standing} == {"/hold"}
    text = json.dumps([row.path for row in rows]) + json.dumps([dict(row.headers) for row in rows])
    assert "customer" not in text
    assert "31ada4fd" not in text

    config = tmp_path / "apf.yaml"
    config.write_text(shop.config.read_text())
    simulated = run_apf("simulate", config, "--trace", path, "-o", "json")
    assert simulated.returncode == 0, simulated.stderr
    [web] = [level for level in json.loads(simulated.stdout)["levels"] if level["name"] == "web"]
    assert web["dispatched"] >= 0.9 * len(rows)
    assert web["rejected"] == 0
    proposed = run_apf("recommend", path, "--objective", "p99=10s", "--config", config, "-o", "json")
    assert proposed.returncode == 0, proposed.stderr
    assert json.loads(proposed.stdout)["requests"] >= len(rows)


def test_an_interrupt_completes_the_file(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl.gz"
    with load(shop) as answered, recording(shop, path, 600) as process:
        await_recordings(shop, 2)
        before = len(answered)
        while len(answered) < before + 30:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    survey = RequestTrace(path).survey()
    assert survey.footer is not None
    assert survey.footer.reason == "interrupted"
    assert not survey.is_cut_off
    assert survey.rows == survey.footer.rows > 10


def test_what_was_written_before_the_command_was_killed_can_be_read(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl.zst"
    with load(shop), recording(shop, path, 600) as process:
        await_recordings(shop, 2)
        while number_written(path) <= 10:  # rows are held for five seconds
            time.sleep(0.2)
        process.kill()
        process.wait()

    survey = RequestTrace(path).survey()
    assert survey.is_cut_off
    assert survey.rows > 10
    assert "it was cut off" in run_apf("simulate", "--trace", path, "--no-curves").stderr


def test_operators_record_over_http_and_others_may_not(shop: Shop, tmp_path: Path) -> None:
    admin = f"{shop.server.url}/debug/api_priority_and_fairness"
    path = tmp_path / "traffic.jsonl"
    with load(shop):
        operator = run_apf("record", "--server", admin, "-o", path, "--seconds", "3", APF_TOKEN="secret-o")  # noqa: S106
        looker = run_apf("record", "--server", admin, "-o", path, "--force", APF_TOKEN="secret-l")  # noqa: S106

    assert operator.returncode == 0, operator.stderr
    assert {row.worker for row in rows_of(path)} == {0}
    assert looker.returncode == 3
    assert "Authorized to view, but not to change anything" in looker.stderr
    assert 'apf.change-refused by="louis (http)" what="POST recordings"' in shop.server.output()


def test_a_worker_that_dies_is_reported_and_the_other_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    with open_shop() as shop, recording(shop, path, 5) as process:
        await_recordings(shop, 2)
        victim, survivor = shop.pids
        os.kill(victim, signal.SIGKILL)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 4
    assert f"worker {victim} went away" in said
    assert f"worker {survivor}" not in said
    text = path.read_text().splitlines()
    assert json.loads(text[-1])["reason"] == "incomplete"


def test_a_server_that_shuts_down_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    with open_shop(workers=1) as shop, recording(shop, path, 600) as process:
        await_recordings(shop, 1)
        with load_once(shop):
            shop.server.process.terminate()
        _, said = process.communicate(timeout=60)

    assert process.returncode == 4, said
    assert "went away" in said
    assert json.loads(path.read_text().splitlines()[-1])["recording"] == "end"


@contextmanager
def load_once(shop: Shop) -> Iterator[None]:
    httpx.get(f"{shop.server.url}/hold?ms=1")
    yield
