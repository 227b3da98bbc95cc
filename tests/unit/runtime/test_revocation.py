"""A revocation wakes its handler, from whichever thread it is set."""

import asyncio
import threading

import anyio
import pytest

from apf_middleware.runtime import Revocation

pytestmark = pytest.mark.anyio


async def test_a_revocation_that_is_set_already_is_not_waited_for() -> None:
    revocation = Revocation()
    assert not revocation.is_set()
    revocation.set()
    revocation.set()
    assert revocation.is_set()
    await revocation.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_handler_that_waits_is_woken(in_thread: bool) -> None:  # noqa: FBT001
    revocation = Revocation()
    woken: list[int] = []

    async def wait() -> None:
        await revocation.wait()
        woken.append(threading.get_ident())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            if in_thread:
                await anyio.to_thread.run_sync(revocation.set)
            else:
                revocation.set()
    assert woken == [threading.get_ident()]


def test_a_handler_whose_loop_has_ended_is_asked_in_vain() -> None:
    """The code that asks for the seats must not fail for that."""
    revocation = Revocation()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # which asyncio calls for tasks that never end
    task = loop.create_task(revocation.wait())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    revocation.set()

    assert revocation.is_set()
    assert not task.done()
