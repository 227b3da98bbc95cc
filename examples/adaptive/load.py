"""Ask for items with 40 connections until there are about N seats: ``python -m examples.adaptive.load URL N``."""

import argparse
import asyncio
import re
import time

import httpx

CONNECTIONS = 40
PATIENCE_S = 120.0  # on a busy machine, durations say little about the database


async def ask(client: httpx.AsyncClient) -> None:
    """Ask for items, one after the other, and pause when rejected."""
    while True:
        answer = await client.get("/items")
        if answer.status_code != 200:
            await asyncio.sleep(0.05)


async def seats(client: httpx.AsyncClient) -> int:
    """Return the present number of seats."""
    metrics = (await client.get("/metrics")).text
    [found] = re.findall(r"(?m)^apf_server_seats (\d+)", metrics)
    return int(found)


async def look(client: httpx.AsyncClient, wanted: int) -> str:
    """Wait until the server has about as many seats as ``wanted``, and say so."""
    end, number = time.monotonic() + PATIENCE_S, 0
    while time.monotonic() < end:
        await asyncio.sleep(0.5)
        number = await seats(client)
        if 0.75 * wanted <= number <= 1.35 * wanted:
            return f"about {wanted} seats"
    return f"{number} seats after {PATIENCE_S:.0f} seconds"


async def run(url: str, wanted: int) -> str:
    """Return what has become of the seats after a while under load."""
    async with httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=None), timeout=60) as client:
        asking = [asyncio.create_task(ask(client)) for _ in range(CONNECTIONS)]
        try:
            return await look(client, wanted)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.adaptive.load")
    parser.add_argument("url", help="http://127.0.0.1:8000/")
    parser.add_argument("seats", type=int, help="the number of seats to wait for")
    given = parser.parse_args()
    print(asyncio.run(run(given.url, given.seats)))


if __name__ == "__main__":
    main()
