"""A server that is asked to stop while requests wait: they are sent away at once, and those that run finish."""

import asyncio
import signal
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.servers import Kind, serve
from tests.e2e.observing import become

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
        ("hypercorn", ("--workers", "0")),  # with more, its workers aren't told of the signal that it gets
    ],
    ids=["uvicorn-uvloop", "uvicorn-asyncio", "hypercorn"],
)
async def test_a_server_that_stops_sends_away_who_waits_and_finishes_what_runs(
    kind: Kind, options: tuple[str, ...]
) -> None:
    environment = {"APF_TEST_CONFIG": str(CONFIG)}
    with serve("tests.e2e.playground:app", *options, kind=kind, environment=environment, ready="/tell") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client:
            running = [asyncio.create_task(client.get("/hold", params={"ms": "1500"})) for _ in range(2)]
            await become(client, "executing", 2)
            waiting = [asyncio.create_task(client.get("/hold")) for _ in range(4)]
            await become(client, "inqueue", 4)
            server.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            answers = await asyncio.gather(*waiting)
            took = time.monotonic() - began

            assert {answer.status_code for answer in answers} == {503}
            assert {answer.headers["connection"] for answer in answers} == {"close"}
            assert took < 0.6, "not when those that run have finished"
            assert {answer.status_code for answer in await asyncio.gather(*running)} == {200}
        assert server.process.wait(10) in {0, -signal.SIGTERM}
