"""A server for asyncio beside an app on trio: it runs in a thread with an event loop of its own.

The app stays on its own event loop. A request is forwarded to it, and each of its calls of ``receive`` and ``send`` is
forwarded back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from anyio import CancelScope, CapacityLimiter, Event, create_task_group, get_cancelled_exc_class, sleep_forever
from anyio.to_thread import run_sync
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.runtime.event_loop import EventLoop

__all__ = ["serve_in_thread"]

T = TypeVar("T")


async def serve_in_thread(serve: Callable[[ASGIApp], Coroutine[Any, Any, None]], app: ASGIApp) -> None:
    """Run ``serve`` on asyncio in another thread until cancelled; ``app`` runs in the caller's event loop."""
    from trio.lowlevel import enable_ki_protection  # noqa: PLC0415 - it is installed where this is called

    # Otherwise trio may raise a KeyboardInterrupt in a request, where it doesn't end the server.
    run = enable_ki_protection(_run)
    home, loop = EventLoop(), asyncio.new_event_loop()
    async with create_task_group() as requests:

        async def forward(scope: Scope, receive: Receive, send: Send) -> None:
            done: Future[bool] = Future()
            done.set_running_or_notify_cancel()  # from now on, only the app can end it
            calls = partial(_call, loop, home, receive), partial(_call, loop, home, send)
            home.post(partial(requests.start_soon, run, partial(app, scope, *calls), done))
            if not await asyncio.wrap_future(done):
                while (await receive())["type"] != "http.disconnect":
                    """Wait for the server to close its connections: an earlier return would be an error to it."""

        # The context of this task says that the event loop is trio's, so the thread's tasks get another one.
        serving = loop.create_task(serve(forward), context=Context())
        # The task group waits for the thread, so it is still open when the thread asks it to run a request.
        requests.start_soon(_run_loop, loop, serving, requests.cancel_scope)
        try:
            await sleep_forever()
        finally:
            with suppress(RuntimeError):  # the loop is closed if ``serve`` has failed
                loop.call_soon_threadsafe(serving.cancel)
    serving.result()  # raises the error of ``serve``


async def _run_loop(loop: asyncio.AbstractEventLoop, serving: asyncio.Task[None], ended: CancelScope) -> None:
    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(asyncio.wait([serving]))

    with CancelScope(shield=True):  # ``serving`` is cancelled instead, in the thread
        await run_sync(run, limiter=CapacityLimiter(1))
    ended.cancel()


async def _run(answer: Callable[[], Awaitable[None]], done: "Future[bool]") -> None:
    """Run ``answer`` in the event loop of the app; the result is False if it has been cancelled."""
    try:
        await answer()
    except get_cancelled_exc_class():
        done.set_result(False)
        raise
    except Exception as error:  # noqa: BLE001 - it is raised in the server
        done.set_exception(error)
    else:
        done.set_result(True)


async def _call(
    loop: asyncio.AbstractEventLoop, home: EventLoop, function: Callable[..., Awaitable[T]], *values: object
) -> T:
    """Return the result of ``function``, which runs in ``loop`` while the caller waits in ``home``."""

    async def call() -> T:
        return await function(*values)

    result = asyncio.run_coroutine_threadsafe(call(), loop)
    ready = Event()
    result.add_done_callback(lambda _: home.post(ready.set))
    try:
        await ready.wait()
    finally:
        result.cancel()  # does nothing if it is complete
    return result.result()
