"""Waiting until a server reports a number in its metrics, instead of for a time that should be enough."""

import asyncio

import httpx

__all__ = ["become", "report"]


async def become(client: httpx.AsyncClient, what: str, wanted: int) -> None:
    """Wait until so many of the playground's requests are executing, or in queue."""
    await report(client, f'apf_current_{what}_requests{{flow_schema="everybody",priority_level="crowd"}} {wanted}')


async def report(client: httpx.AsyncClient, line: str) -> None:
    """Wait until the server's metrics have this line."""
    async with asyncio.timeout(60):
        while line not in (await client.get("/metrics")).text.splitlines():  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.01)
