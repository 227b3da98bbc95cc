"""Waiting for what a server tells of itself, instead of for some time that should be enough."""

import asyncio

import httpx

__all__ = ["become"]


async def become(client: httpx.AsyncClient, what: str, wanted: int) -> None:
    """Until so many of the playground's requests are executing, or in queue."""
    line = f'apf_current_{what}_requests{{flow_schema="everybody",priority_level="crowd"}} {wanted}'
    async with asyncio.timeout(10):
        while line not in (await client.get("/metrics")).text.splitlines():  # noqa: ASYNC110 - it comes from elsewhere
            await asyncio.sleep(0.01)
