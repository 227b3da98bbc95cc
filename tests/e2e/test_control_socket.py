"""The control socket of real servers: it answers while a server runs, and is gone when a signal has ended it."""

import http.client
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.e2e.terminal import heeded_sigint
from tests.support.servers import Kind, Server, serve

pytestmark = pytest.mark.timeout(120)

CONFIG = Path(__file__).parent / "data" / "playground.yaml"
SERVERS: dict[str, tuple[Kind, tuple[str, ...], int]] = {
    "uvicorn": ("uvicorn", (), 1),
    "uvicorn-2-workers": ("uvicorn", ("--workers", "2"), 2),
    "hypercorn": ("hypercorn", ("--workers", "0"), 1),
    "hypercorn-trio": ("hypercorn", ("--workers", "0", "--worker-class", "trio"), 1),
    "granian-2-workers": ("granian", ("--workers", "2"), 2),
}


def wait_for_workers(sockets: Path, workers: int) -> None:
    """Return when each worker has its socket."""
    deadline = time.monotonic() + 60
    while len(list(sockets.iterdir())) < workers:
        assert time.monotonic() < deadline, "a worker hasn't started in time"
        time.sleep(0.05)


def wait_for_answers(server: Server, workers: int) -> None:
    """Return when each worker has answered: granian's never end if they get a signal before they serve."""
    deadline = time.monotonic() + 60
    answered: set[bytes] = set()
    while len(answered) < workers:
        assert time.monotonic() < deadline, "a worker hasn't answered in time"
        with urlopen(f"{server.url}/pid", timeout=60) as answer:  # noqa: S310 - our own server
            answered.add(answer.read())


def status_of(path: Path, page: str) -> int:
    connection = http.client.HTTPConnection("apf", timeout=60)
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.settimeout(60)
        connection.sock.connect(str(path))
        connection.request("GET", page)
        return connection.getresponse().status


@pytest.fixture(params=SERVERS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[signal.Signals, tuple[Server, Path]]]:
    """Two servers of a kind, one for each signal, with the directories of their sockets."""
    kind, options, workers = SERVERS[request.param]
    found = {}
    with heeded_sigint(), ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            sockets = tmp_path / number.name
            sockets.mkdir()
            environment = {"APF_TEST_CONFIG": str(CONFIG), "APF_RUNTIME_DIR": str(sockets)}
            running = serve("tests.e2e.playground:app", *options, kind=kind, environment=environment, ready="/tell")
            found[number] = stack.enter_context(running), sockets
        for server, sockets in found.values():
            wait_for_workers(sockets, workers)
            wait_for_answers(server, workers)
        yield found


@pytest.mark.timeout(300)  # of a busy machine, on which two servers with workers start one after the other
def test_sockets_answer_until_a_signal_has_ended_a_server(pair: dict[signal.Signals, tuple[Server, Path]]) -> None:
    for _, sockets in pair.values():
        assert {status_of(path, "/gates") for path in sockets.iterdir()} == {200}
    for number, (server, _) in pair.items():
        server.process.send_signal(number)
    for number, (server, sockets) in pair.items():
        server.process.wait(60)
        assert list(sockets.iterdir()) == [], f"after {number.name}\n{server.output()}"
