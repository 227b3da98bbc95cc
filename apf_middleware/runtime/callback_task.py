"""A coroutine that runs in the callbacks of the futures that it awaits, at a fraction of what a task costs.

It is for coroutines that await nothing but futures of asyncio. They have no current task, so what asks for one, such as
the cancel scopes of anyio, can't be used in them.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["CallbackTask"]

_NEVER_AGAIN: Final = (StopIteration, asyncio.CancelledError)


class CallbackTask:
    """Run ``coroutine``: at once until it waits for a future for the first time, and further whenever one is done."""

    __slots__ = ("_coroutine", "_future")

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._future: asyncio.Future[Any] | None = None
        self._step(None)

    def _step(self, _done: object) -> None:
        try:
            future: asyncio.Future[Any] = self._coroutine.send(None)
        except _NEVER_AGAIN:
            self._future = None
        else:
            self._future = future
            future.add_done_callback(self._step)

    def cancel(self) -> None:
        """End the coroutine, unless its future is done: then it continues soon, and can end by itself."""
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.remove_done_callback(self._step)
            self._coroutine.close()

    def __repr__(self) -> str:
        return f"<CallbackTask {'over' if self._future is None else 'waiting'}>"
