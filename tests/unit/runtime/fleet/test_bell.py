"""A bell wakes one task; a ring before the wait isn't lost."""

import anyio
import pytest

from apf_middleware.runtime.fleet.bell import Bell

pytestmark = pytest.mark.anyio

_LONG = 60.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_ring_ends_the_wait() -> None:
    bell, ends = Bell(), list[bool]()

    async def wait() -> None:
        ends.append(await bell.wait(_LONG))

    with anyio.fail_after(_LONG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            bell.ring()
    assert repr(bell) == "<Bell>"
    assert ends == [True]


async def test_a_ring_before_the_wait_ends_it_at_once_and_only_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert repr(bell) == "<Bell, rung>"
    with anyio.fail_after(_LONG):
        assert await bell.wait(_LONG)
    assert not await bell.wait(0.001)


async def test_rings_can_be_forgotten() -> None:
    bell = Bell()
    bell.ring()
    bell.silence()
    assert repr(bell) == "<Bell>"


async def test_the_wait_ends_without_a_ring() -> None:
    assert not await Bell().wait(0.001)
