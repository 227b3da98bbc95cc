"""Several workers on one port: each reports the metrics of all, also after one of them has been killed."""

import asyncio
import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from tests.support.servers import serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONFIG = Path(__file__).parent / "data" / "playground.yaml"
DISPATCHED = re.compile(
    r'^apf_dispatched_requests_total\{flow_schema="everybody",priority_level="crowd"\} (\S+)$', re.MULTILINE
)
SEATS = re.compile(r"^apf_server_seats (\S+)$", re.MULTILINE)
EXECUTING = re.compile(
    r'^apf_current_executing_requests\{flow_schema="everybody",priority_level="crowd"\} (\S+)$', re.MULTILINE
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def ask(url: str, path: str) -> httpx.Response:
    """Send a request on its own connection, so that any worker may get it."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        return await client.get(path, headers={"Connection": "close"})


async def numbers(url: str, pattern: re.Pattern[str]) -> set[float]:
    """Return the metrics of several scrapes, whichever workers answer them."""
    texts = [(await ask(url, "/metrics")).text for _ in range(6)]
    return {float(found) for text in texts for found in pattern.findall(text)}


def workers_of(pid: int) -> set[int]:
    """Return the worker processes that a supervisor has started and that serve."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


async def become(url: str, pattern: re.Pattern[str], least: float, most: float) -> None:
    """Wait until all workers report from ``least`` to ``most``: they publish their values twice a second."""
    values: set[float] = set()
    for _ in range(300):
        values = await numbers(url, pattern)
        if values and least <= min(values) and max(values) <= most:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"all should report from {least} to {most}, but they report {sorted(values)}")


async def test_all_workers_tell_the_sum_and_one_that_was_killed_leaves_its_counters(tmp_path: Path) -> None:
    environment = {"APF_TEST_CONFIG": str(CONFIG), "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    with serve("tests.e2e.playground:app", "--workers", "3", environment=environment, ready="/tell") as server:
        answers = await asyncio.gather(*[ask(server.url, "/who") for _ in range(40)])
        assert {answer.status_code for answer in answers} == {200}
        await become(server.url, DISPATCHED, 40, 40)
        await become(server.url, SEATS, 6, 6)

        holding = [asyncio.create_task(ask(server.url, "/hold?ms=50000")) for _ in range(6)]
        running = {0.0}
        async with asyncio.timeout(40):
            while (
                max(running) < 1
            ):  # some wait at workers whose seats are taken, so the number of running ones is random
                running = await numbers(server.url, EXECUTING)
        before = workers_of(server.pid)
        assert len(before) == 3
        for victim in before:
            os.kill(victim, signal.SIGKILL)
        await asyncio.gather(*holding, return_exceptions=True)
        for _ in range(600):
            if len(workers_of(server.pid) - before) == 3:
                break
            await asyncio.sleep(0.1)
        answers = await asyncio.gather(*[ask(server.url, "/who") for _ in range(10)])

        assert {answer.status_code for answer in answers} == {200}
        assert max(running) >= 1, "there was something that had to be forgotten"
        await become(server.url, EXECUTING, 0, 0)
        await become(server.url, DISPATCHED, 50, 56)  # what dead workers counted isn't lost
