"""A coroutine that runs in the callbacks of the futures that it awaits."""

import asyncio

import pytest

from apf_middleware.runtime.callback_task import CallbackTask

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Steps:
    """A coroutine function that awaits two futures, and notes how far it has come."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.first: asyncio.Future[str] = loop.create_future()
        self.second: asyncio.Future[str] = loop.create_future()
        self.seen: list[str] = []

    async def run(self) -> None:
        try:
            self.seen.append("begun")
            self.seen.append(await self.first)
            self.seen.append(await self.second)
        finally:
            self.seen.append("ended")


@pytest.fixture
async def steps() -> Steps:
    return Steps()


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_it_begins_at_once_and_continues_when_its_futures_are_done(steps: Steps) -> None:
    task = CallbackTask(steps.run())
    assert steps.seen == ["begun"]
    assert repr(task) == "<CallbackTask waiting>"
    steps.first.set_result("one")
    await turn()
    assert steps.seen == ["begun", "one"]
    steps.second.set_result("two")
    await turn()
    assert steps.seen == ["begun", "one", "two", "ended"]
    assert repr(task) == "<CallbackTask over>"
    task.cancel()


async def test_a_coroutine_that_never_waits_is_over_at_once() -> None:
    ran: list[bool] = []

    async def run() -> None:
        ran.append(True)

    assert repr(CallbackTask(run())) == "<CallbackTask over>"
    assert ran


async def test_it_may_have_no_current_task(steps: Steps) -> None:
    tasks: list[object] = []

    async def run() -> None:
        await steps.first
        tasks.append(asyncio.current_task())

    CallbackTask(run())
    steps.first.set_result("one")
    await turn()
    assert tasks == [None]


async def test_when_it_is_cancelled_its_coroutine_is_closed_and_runs_no_more(steps: Steps) -> None:
    task = CallbackTask(steps.run())
    task.cancel()
    assert steps.seen == ["begun", "ended"]
    steps.first.set_result("one")
    await turn()
    task.cancel()
    assert steps.seen == ["begun", "ended"]


async def test_a_coroutine_whose_future_is_done_ends_by_itself_although_it_is_cancelled(steps: Steps) -> None:
    task = CallbackTask(steps.run())
    steps.first.set_result("one")
    task.cancel()
    assert steps.seen == ["begun"]
    steps.second.set_result("two")
    await turn()
    assert steps.seen == ["begun", "one", "two", "ended"]


async def test_an_error_of_a_future_is_raised_in_the_coroutine() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen: list[BaseException] = []

    async def run() -> None:
        try:
            await failing
        except OSError as error:
            seen.append(error)

    CallbackTask(run())
    failing.set_exception(OSError("gone"))
    await turn()
    assert [str(error) for error in seen] == ["gone"]


async def test_a_cancelled_future_ends_the_coroutine(steps: Steps) -> None:
    task = CallbackTask(steps.run())
    steps.first.cancel()
    await turn()
    assert steps.seen == ["begun", "ended"]
    assert repr(task) == "<CallbackTask over>"
