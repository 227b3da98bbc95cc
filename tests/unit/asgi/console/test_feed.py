"""The stream of documents: one a second for all pages, none without pages, and its end."""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from apf_middleware.asgi.console.feed import LIFETIME_S, ConsoleFeed
from tests.support.admin_world import WALL, AdminWorld
from tests.support.virtual_loop import VirtualLoop

GREETING: dict[str, Any] = {"actor": "olga", "may_change": True}


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(coroutine)


def events(text: bytes) -> list[tuple[str, Any]]:
    """Return the events of a part of a stream, as a browser reads them."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def read(feed: ConsoleFeed, into: list[tuple[float, str, Any]], *, pause: float = 0, most: int = 1000) -> None:
    """Read a stream to its end, or ``most`` events, with a pause after each part."""
    async with aclosing(feed.events(GREETING)) as stream:
        async for part in stream:
            into += [(anyio.current_time(), name, document) for name, document in events(part)]
            if len(into) >= most:
                return
            await anyio.sleep(pause)


def test_a_page_is_greeted_and_gets_a_document_at_once_and_then_each_second() -> None:
    async def scenario() -> None:
        world, found = AdminWorld(), list[tuple[float, str, Any]]()
        await anyio.sleep(0.3)
        feed = ConsoleFeed(world, lambda: WALL)
        await read(feed, found, most=5)

        assert [(name, round(at, 2)) for at, name, _ in found] == [
            *(("hello", 0.3), ("state", 0.3)),
            *(("state", 1), ("state", 2), ("state", 3)),
        ]
        assert found[0][2] == GREETING
        assert found[1][2]["seats"] == 2
        assert feed.made == 4

    run(scenario())


def test_several_pages_share_the_documents() -> None:
    async def scenario() -> None:
        feed = ConsoleFeed(AdminWorld(), lambda: WALL)
        pages = [list[tuple[float, str, Any]]() for _ in range(5)]
        async with anyio.create_task_group() as tasks:
            for number, page in enumerate(pages):
                await anyio.sleep(0.01 * number)
                tasks.start_soon(lambda page=page: read(feed, page, most=6))  # type: ignore[misc]

        assert feed.made == 5
        assert all(len(page) == 6 for page in pages)

    run(scenario())


def test_without_pages_no_document_is_made() -> None:
    async def scenario() -> None:
        feed = ConsoleFeed(AdminWorld(), lambda: WALL)
        await read(feed, [], most=3)
        made = feed.made
        await anyio.sleep(60)

        assert feed.made == made == 2

    run(scenario())


def test_a_slow_page_misses_documents_and_gets_the_latest() -> None:
    async def scenario() -> None:
        world, found = AdminWorld(), list[tuple[float, str, Any]]()
        feed = ConsoleFeed(world, lambda: WALL)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: read(feed, found, pause=4.5, most=4))
            await anyio.sleep(3)
            world.request("late")

        assert [round(at) for at, _, _ in found] == [0, 0, 5, 10]
        assert found[2][2]["present_flows"] == 1
        assert feed.made == 3

    run(scenario())


def test_a_stream_ends_after_its_lifetime_so_that_its_caller_is_authenticated_again() -> None:
    async def scenario() -> None:
        feed, found = ConsoleFeed(AdminWorld(), lambda: WALL), list[tuple[float, str, Any]]()
        await read(feed, found)

        assert anyio.current_time() == pytest.approx(LIFETIME_S, abs=1.5)
        assert len(found) == pytest.approx(LIFETIME_S, abs=3)

    run(scenario())


def test_a_stream_ends_when_the_server_shuts_down() -> None:
    async def scenario() -> None:
        world = AdminWorld()
        feed = ConsoleFeed(world, lambda: WALL)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: read(feed, []))
            await anyio.sleep(2.5)
            world.controller.close()

        assert anyio.current_time() <= 2.75

    run(scenario())
