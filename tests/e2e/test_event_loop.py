"""A real server gives an elastic level fewer seats while reports block its event loop, and gives them back."""

import asyncio
import re
import time
from collections.abc import Callable

import httpx
import pytest

from tests.support.servers import Server, serve

pytestmark = pytest.mark.timeout(120)

PATIENCE_S = 40.0
TARGET = {"APF_BENCHMARK_ELASTIC": "10ms"}  # a machine that is busy with other tests is a few milliseconds late


async def load(server: Server, *, reports: int, until: Callable[[float], bool]) -> float:
    """Ask for reports and light requests until the cap is as wanted; return it."""
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        end, cap = time.monotonic() + PATIENCE_S, -1.0

        async def ask() -> None:
            while cap < 0 and time.monotonic() < end:
                (await client.get("/report")).raise_for_status()

        asking = [asyncio.create_task(ask()) for _ in range(reports)]
        while time.monotonic() < end:
            await client.get("/light")
            text = (await client.get("/metrics")).text
            found = re.search(r'^apf_elastic_cap_seats\{priority_level="reports"\} (\S+)', text, re.MULTILINE)
            assert found is not None
            if until(float(found[1])):
                cap = float(found[1])
                break
            await asyncio.sleep(0.05)
        await asyncio.gather(*asking)
    return cap


def test_seats_fall_while_the_loop_is_blocked_and_rise_after_that() -> None:
    options = ("--factory", "--no-access-log")
    with serve("benchmarks.event_loop:make_app", *options, environment=TARGET) as server:
        assert asyncio.run(load(server, reports=0, until=lambda cap: cap == 100)) == 100
        assert asyncio.run(load(server, reports=16, until=lambda cap: cap == 1)) == 1
        assert asyncio.run(load(server, reports=0, until=lambda cap: cap > 1)) > 1
