"""Tasks beside the requests."""

import anyio
import pytest

from apf_middleware.asgi.background_tasks import BackgroundTasks

pytestmark = pytest.mark.anyio


async def test_a_task_runs_by_itself_and_is_forgotten() -> None:
    tasks, done = BackgroundTasks(), anyio.Event()

    async def work() -> int:
        done.set()
        return 7

    tasks.start("work", work)
    with anyio.fail_after(60):
        await done.wait()
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    assert repr(tasks) == "<BackgroundTasks: 0>"
