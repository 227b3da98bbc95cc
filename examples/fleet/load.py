"""A load on the replicas: one tenant with 60 connections that never rest, and five tenants with one request at a time.

``python -m examples.fleet.load http://127.0.0.1:8000`` prints, every five seconds, how many requests of each tenant
were answered and how long they took.
"""

import argparse
import asyncio
import statistics
import time
from collections import defaultdict

import httpx

ELEPHANT_CONNECTIONS = 60
MICE = 5
REPORT_S = 5.0
MOUSE_PAUSE_S = 0.1

Durations = defaultdict[str, list[float]]


async def call(client: httpx.AsyncClient, tenant: str, found: Durations) -> None:
    """Send one request; wait a little after an error, because a replica may have ended."""
    began = time.monotonic()
    try:
        answer = await client.get("/", headers={"X-Tenant": tenant})
    except httpx.TransportError:
        await asyncio.sleep(0.2)
        return
    if answer.is_success:
        found[tenant].append(time.monotonic() - began)


async def repeat(client: httpx.AsyncClient, tenant: str, pause_s: float, found: Durations) -> None:
    while True:
        await call(client, tenant, found)
        await asyncio.sleep(pause_s)


def show(found: Durations) -> None:
    for tenant in sorted(found):
        times = sorted(found[tenant])
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
        print(f"{tenant:9} {len(times):5} requests   median {statistics.median(times):.3f} s   99 % {p99:.3f} s")
    print(flush=True)
    found.clear()


async def run(url: str, seconds: float) -> None:
    found: Durations = defaultdict(list)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as client:
        tasks = [asyncio.create_task(repeat(client, "elephant", 0, found)) for _ in range(ELEPHANT_CONNECTIONS)]
        tasks += [asyncio.create_task(repeat(client, f"mouse-{n}", MOUSE_PAUSE_S, found)) for n in range(MICE)]
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(REPORT_S, left))
            show(found)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.fleet.load")
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    asyncio.run(run(options.url, options.seconds))


if __name__ == "__main__":
    main()
