"""A lock that the tasks of one event loop share, and that outlives the loop."""

import asyncio
from pathlib import Path

import anyio
import pytest
from starlette.applications import Starlette

from apf_middleware import APFMiddleware
from apf_middleware.asgi.loop_lock import LoopLock


@pytest.mark.anyio
async def test_one_task_at_a_time_has_it() -> None:
    lock, events = LoopLock(), []

    async def enter(name: str) -> None:
        async with lock.here():
            events.append(name)
            await anyio.lowlevel.checkpoint()
            events.append(name)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(enter, name)

    assert events[::2] == events[1::2], "one by one"
    assert "of <EventLoop" in repr(lock)


@pytest.mark.parametrize("backends", [("asyncio", "trio"), ("trio", "asyncio")])
def test_a_reload_works_on_one_kind_of_event_loop_after_the_other(backends: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "apf.yaml"
    file.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 3}\n")
    middleware = APFMiddleware(Starlette(), file)
    assert [anyio.run(middleware.reload, backend=backend) for backend in backends] == [True, True]


def test_a_lock_of_a_loop_that_has_ended_is_free() -> None:
    lock = LoopLock()

    async def hold() -> None:
        await lock.here().acquire()

    async def take() -> bool:
        with anyio.fail_after(60):
            await lock.here().acquire()
        return lock.here().locked()

    asyncio.run(hold())
    assert asyncio.run(take())
