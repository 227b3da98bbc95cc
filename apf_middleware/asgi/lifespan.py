"""The server's beginning and end: when it shuts down, whoever waits is sent away, and whoever runs finishes.

A server that is told to stop first waits for all requests that it has, and only then tells the app. Requests that wait
in a queue would hold it up, or be cut off by its patience. So the signal itself is listened to, between the startup and
the shutdown that the lifespan protocol tells of; the server's own handler is called as before.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any, Final, Protocol

from anyio import TASK_STATUS_IGNORED, create_task_group
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Serving", "Signals", "caller_on_loop", "live", "live_beside"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Serving(Protocol):
    """What runs until it is cancelled, and tells when it has begun; it doesn't raise."""

    async def __call__(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None: ...


def _nothing() -> None:
    """Before anybody listens."""


def caller_on_loop(function: Callable[[], None]) -> Callable[[], None]:
    """A function that has ``function`` called by the running event loop, and that a signal handler may call."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from trio.lowlevel import current_trio_token  # noqa: PLC0415 - whoever runs trio has it, others needn't

        return partial(current_trio_token().run_sync_soon, function)
    return lambda: None if loop.is_closed() else _discard(loop.call_soon_threadsafe(function))


def _discard(_handle: object) -> None:
    """What a signal handler has no use for."""


class Signals:
    """Has a function called when the process is asked to stop, and then whoever else wanted to know.

    Other ``numbers`` may be named in place of SIGTERM and SIGINT. Unless they ``may_end`` the process, what the system
    would do where nobody listens isn't done.
    """

    __slots__ = ("_before", "_leave", "_may_end", "_numbers")

    def __init__(self, *numbers: signal.Signals, may_end: bool = True) -> None:
        self._numbers = numbers or _SIGNALS
        self._may_end = may_end
        self._leave: Callable[[], None] = _nothing
        self._before: dict[signal.Signals, Any] = {}

    def listen(self, leave: Callable[[], None]) -> None:
        """From now on; only the main thread may, and elsewhere nothing happens."""
        self._leave = leave
        if threading.current_thread() is not threading.main_thread() or self._before:
            return
        for one in self._numbers:
            before = signal.getsignal(one)
            if before is not None:  # None: not Python's, so it can't be called from here
                self._before[one] = before
                signal.signal(one, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._leave()
        before = self._before.get(signal.Signals(number))
        if callable(before):
            before(number, frame)
        elif before is signal.SIG_DFL and self._may_end:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def forget(self) -> None:
        """Give the signals back, unless somebody else has taken them since."""
        for one, before in self._before.items():
            if signal.getsignal(one) == self._asked:
                signal.signal(one, before)
        self._before.clear()


async def live(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, begin: Callable[[], None], end: Callable[[], None]
) -> None:
    """The lifespan of ``app``: ``begin`` is called before it starts, ``end`` before it stops."""

    async def listened() -> Message:
        message = await receive()
        if message["type"] == "lifespan.startup":
            begin()
        elif message["type"] == "lifespan.shutdown":
            end()
        return message

    await app(scope, listened, send)


async def live_beside(serve: Serving, living: Callable[[], Awaitable[None]]) -> None:
    """``living``, with ``serve`` begun before it and ended after it. What ``living`` raises comes out as it is."""
    failure: Exception | None = None
    async with create_task_group() as tasks:
        await tasks.start(serve)
        try:
            await living()
        except Exception as error:  # noqa: BLE001 - it is raised below, where no group wraps it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
