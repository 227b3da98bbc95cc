"""Tasks that run beside the requests, on asyncio or on trio, for work that no request waits for."""

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["BackgroundTasks"]


class BackgroundTasks:
    """Starts tasks, and keeps them until they have ended."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run ``run`` in a task of its own, which must not raise."""

        async def wait() -> None:
            await run()

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            from trio.lowlevel import spawn_system_task  # noqa: PLC0415 - installed only where trio runs

            spawn_system_task(wait, name=name)
            return
        task = loop.create_task(wait(), name=name)
        self._tasks.add(task)  # the event loop keeps weak references only
        task.add_done_callback(self._tasks.discard)

    def __repr__(self) -> str:
        return f"<BackgroundTasks: {len(self._tasks)}>"
