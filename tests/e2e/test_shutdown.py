"""The shutdown of a real server: requests that wait are rejected at once, and requests that run finish."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e.observing import become, report
from tests.support.servers import Kind, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONFIG = Path(__file__).parent / "data" / "playground.yaml"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("uvicorn", ("--loop", "uvloop")),
        ("uvicorn", ("--loop", "asyncio")),
        ("hypercorn", ("--graceful-timeout", "20", "--workers", "0")),
        ("hypercorn", ("--graceful-timeout", "20")),  # its worker gets no signal, but an event of its parent
        ("hypercorn", ("--graceful-timeout", "20", "--worker-class", "trio")),
        ("granian", ()),
    ],
    ids=["uvicorn-uvloop", "uvicorn-asyncio", "hypercorn", "hypercorn-worker", "hypercorn-worker-trio", "granian"],
)
async def test_a_server_that_stops_rejects_waiting_requests_and_finishes_running_ones(
    kind: Kind, options: tuple[str, ...], tmp_path: Path
) -> None:
    config = tmp_path / "apf.yaml"
    config.write_text(CONFIG.read_text().replace("spec: {seats: 2", "spec: {bodies: {holdSeats: false}, seats: 2"))
    environment = {"APF_TEST_CONFIG": str(config)}
    with serve("tests.e2e.playground:app", *options, kind=kind, environment=environment, ready="/tell") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
            running = [asyncio.create_task(client.get("/hold", params={"ms": "4000"})) for _ in range(2)]
            await become(client, "executing", 2)
            waiting = [asyncio.create_task(client.get("/hold")) for _ in range(4)]
            await become(client, "inqueue", 4)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nbegun")
            await report(client, 'apf_receiving_requests{priority_level="crowd"} 1')
            server.process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*waiting)
            uploading = await reader.readline()
            assert not any(one.done() for one in running)
            writer.close()

            assert {answer.status_code for answer in answers} == {503}
            assert {answer.headers["connection"] for answer in answers} == {"close"}
            assert uploading.split()[1] == b"503", "the request whose body is still arriving"
            assert {answer.status_code for answer in await asyncio.gather(*running)} == {200}
        assert server.process.wait(60) in {0, -signal.SIGTERM}
