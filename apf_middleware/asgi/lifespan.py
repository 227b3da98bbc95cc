"""The startup and the shutdown of a server, as the lifespan protocol and signals tell of them.

A server that is told to stop first waits for all requests that it has, and only then tells the app. Requests that wait
in a queue would hold it up, or be cut off when it waits no longer. So the signal itself is listened to from startup to
shutdown: requests that wait are rejected, those that run finish. The server's own handler is called as before.
"""

import asyncio
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.process import current_process
from types import FrameType
from typing import Any, Final, Protocol

from anyio import TASK_STATUS_IGNORED, create_task_group
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.exceptions import APFError
from apf_middleware.runtime.alarm import Alarm

__all__ = ["ParentWatch", "Serving", "Signals", "caller_on_loop", "live", "live_beside", "refuse_to_start"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_POLL_NS: Final = 100_000_000  # as often as hypercorn's worker itself


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
    """Calls a function when the process is asked to stop, and then the handler that was there before.

    Other ``numbers`` may be named in place of SIGTERM and SIGINT. Unless they ``may_end`` the process, the system's own
    action isn't taken where there was no handler.
    """

    __slots__ = ("_before", "_leave", "_may_end", "_numbers", "_perish")

    def __init__(self, *numbers: signal.Signals, may_end: bool = True) -> None:
        self._numbers = numbers or _SIGNALS
        self._may_end = may_end
        self._leave: Callable[[], None] = _nothing
        self._perish: Callable[[], None] = _nothing
        self._before: dict[signal.Signals, Any] = {}

    def listen(self, leave: Callable[[], None], perish: Callable[[], None] = _nothing) -> None:
        """Call ``leave`` at a signal from now on, and ``perish`` if the signal is about to kill the process.

        Only the main thread may; elsewhere nothing happens.
        """
        self._leave, self._perish = leave, perish
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
            self._perish()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def forget(self) -> None:
        """Give the signals back, unless somebody else has taken them since."""
        for one, before in self._before.items():
            if signal.getsignal(one) == self._asked:
                signal.signal(one, before)
        self._before.clear()


class ParentWatch:
    """Calls a function when the parent process asks this worker to stop by an event, as hypercorn's does.

    Such a worker gets no signal, and the server tells its apps nothing before their requests have ended. The event is
    an argument of the worker's process. It is polled: a process that is killed while it waits for an event of
    `multiprocessing` blocks the process that sets the event.
    """

    __slots__ = ("_alarm", "_event", "_leave", "_now")

    def __init__(self, now: Callable[[], int]) -> None:
        arguments = getattr(current_process(), "_kwargs", None) or {}
        self._event = arguments.get("shutdown_event")
        self._now = now
        self._leave: Callable[[], None] = _nothing
        self._alarm = Alarm(self._look, now)

    def start(self, leave: Callable[[], None]) -> None:
        """Call ``leave`` once when the event is set; in other processes nothing happens."""
        self._leave = leave
        if callable(getattr(self._event, "is_set", None)):
            self._alarm.ask(self._now() + _POLL_NS)

    def _look(self) -> None:
        assert self._event is not None, "otherwise the alarm isn't set"
        if self._event.is_set():
            self._leave()
        else:
            self._alarm.ask(self._now() + _POLL_NS)

    def stop(self) -> None:
        """Watch no longer."""
        self._alarm.cancel()


async def live(
    app: ASGIApp,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    begin: Callable[[], None],
    end: Callable[[], None],
    ready: Callable[[], None] = _nothing,
    close: Callable[[], None] = _nothing,
    finish: Callable[[], Awaitable[None]] = checkpoint,
) -> None:
    """Run the lifespan of ``app``.

    ``begin`` is called before the startup of the app. ``ready`` is called after it; what it raises is told to the
    server as a failed startup, and raised in the app, which can clean up. ``end`` is called before the shutdown, or
    when the startup has failed. ``finish`` is awaited before the shutdown of the app. ``close`` is called before the
    server is told that the app has ended: a server may end the process at once.
    """
    lifespan = _Lifespan(receive, send, begin=begin, end=end, ready=ready, close=close, finish=finish)
    try:
        await app(scope, lifespan.receive, lifespan.send)
    finally:
        lifespan.end()


class _Lifespan:
    """The messages between a server and an app, and what is called when they pass."""

    __slots__ = ("_begin", "_close", "_end", "_finish", "_has_begun", "_is_refused", "_ready", "_receive", "_send")

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        begin: Callable[[], None],
        end: Callable[[], None],
        ready: Callable[[], None],
        close: Callable[[], None],
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        self._receive, self._send = receive, send
        self._begin, self._end, self._ready, self._close = begin, end, ready, close
        self._finish = finish
        self._has_begun = self._is_refused = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "lifespan.startup":
            self._has_begun = True
            self._begin()
        elif message["type"] == "lifespan.shutdown":
            self.end()
            await self._finish()
        return message

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return  # the server knows already that the startup has failed
        if message["type"] == "lifespan.startup.complete":
            try:
                self._ready()
            except APFError as error:
                self._is_refused = True
                self._close_all()
                await refuse_to_start(self._send, error)
                raise
        else:
            self._close_all()
        await self._send(message)

    def end(self) -> None:
        """Call ``end``, once for each ``begin``."""
        if self._has_begun:
            self._has_begun = False
            self._end()

    def _close_all(self) -> None:
        self.end()
        self._close()


async def refuse_to_start(send: Send, error: Exception) -> None:
    """Tell the server that the startup has failed, and why."""
    told = str(error) if isinstance(error, APFError) else "".join(traceback.format_exception(error))
    await send({"type": "lifespan.startup.failed", "message": told})


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
