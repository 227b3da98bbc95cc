"""The startup and the shutdown of a server, as reported by the lifespan protocol and by signals.

When a server receives a signal to stop, it first waits for all of its requests and only then sends the app the
lifespan's shutdown. Queued requests would delay the shutdown, or be cut off when the server stops waiting. The
middleware therefore handles the signal itself from startup to shutdown: queued requests are rejected, and running ones
finish (`runtime.controller.Controller.close`). The server's own handler is called as before.
"""

import asyncio
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

from anyio import TASK_STATUS_IGNORED, CancelScope, Event, create_task_group, sleep
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.exceptions import APFError
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.log import log_event

__all__ = [
    "LifespanSteps",
    "ParentWatch",
    "Serving",
    "refuse_to_start",
    "run_beside",
    "run_lifespan",
]

_MARK: Final = "apf.middleware"  # the key that this middleware adds to the scope of the lifespan
_REMEDY: Final = "remove one of the two middlewares, unless each request is meant to take seats of both"
_RESTART_S: Final = 1.0  # between the error of a service and its next start
_POLL_NS: Final = 100_000_000  # the interval at which hypercorn's worker polls, too


class Serving(Protocol):
    """A task that reports when it has started and runs until it is cancelled."""

    async def __call__(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None: ...


def _nothing() -> None:
    """Do nothing; this is the callback until another is set."""


def _arguments_of_process() -> Mapping[str, Any]:
    """Return the named arguments that `multiprocessing` has given this process; none if it hasn't started it."""
    module = sys.modules.get("multiprocessing.process")  # a process that it has started has imported it
    return {} if module is None else getattr(module.current_process(), "_kwargs", None) or {}


class ParentWatch:
    """A watch for the event with which a parent process stops its workers, as hypercorn does.

    Such a worker receives no signal, and its app receives no lifespan message before all requests have ended. The event
    is an argument of the worker's process. It is polled, because a process that is killed while it waits for an event
    of `multiprocessing` blocks the process that sets the event.
    """

    __slots__ = ("_alarm", "_event", "_leave", "_now")

    def __init__(self, now: Callable[[], int]) -> None:
        self._event = _arguments_of_process().get("shutdown_event")
        self._now = now
        self._leave: Callable[[], None] = _nothing
        self._alarm = Alarm(self._look, now)

    def start(self, leave: Callable[[], None]) -> None:
        """Call ``leave`` once when the event is set; do nothing in a process without such an event."""
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
        """Stop watching."""
        self._alarm.cancel()


class LifespanSteps(Protocol):
    """The steps at startup and shutdown, which `Service` implements: its `end` rejects waiting requests."""

    def begin(self) -> None:
        """Begin, before the startup of the app."""

    def ready(self) -> None:
        """Check the app's startup; an APFError fails it, and is raised in the app, which can clean up."""

    def end(self) -> None:
        """End, before the shutdown of the app or when its startup has failed."""

    async def finish(self) -> None:
        """Complete the end asynchronously, before the shutdown of the app."""

    def close(self) -> None:
        """Clean up before the app's last message is passed to the server, which may end the process at once."""


async def run_lifespan(app: ASGIApp, scope: Scope, receive: Receive, send: Send, steps: LifespanSteps) -> None:
    """Run the lifespan of ``app`` with these ``steps``; if the app doesn't take part in it, answer in its place.

    An app that doesn't support lifespans, such as Django's, raises an exception or returns before it has received
    anything. Others return when they have started. A server would end the lifespan then, and with it whatever runs from
    startup to shutdown: a process without its part in a fleet, for example, has no seats.

    A second middleware around the same app is noticed here, where it costs requests nothing. An app that is mounted in
    another one gets no lifespan of the other one, and may have a middleware of its own.
    """
    if _MARK in scope:
        log_event(logging.WARNING, "apf.added-twice", hint=_REMEDY)
    lifespan = _Lifespan(receive, send, steps)
    try:
        try:
            await app({**scope, _MARK: True}, lifespan.receive, lifespan.send)
        except Exception as error:
            if lifespan.next_step != "startup":
                raise
            log_event(logging.INFO, "apf.lifespan-unsupported", error=repr(error))
        await lifespan.complete()
    finally:
        lifespan.end()


class _Lifespan:
    """The lifespan messages between a server and an app, with ``steps`` between them.

    ``next_step`` is ``startup`` before the app receives or sends anything, ``shutdown`` from the end of its startup
    until it receives again, and empty at all other times.
    """

    __slots__ = ("_has_begun", "_is_refused", "_receive", "_send", "_steps", "next_step")

    def __init__(self, receive: Receive, send: Send, steps: LifespanSteps) -> None:
        self._receive, self._send, self._steps = receive, send, steps
        self._has_begun = self._is_refused = False
        self.next_step: Literal["startup", "shutdown", ""] = "startup"

    async def complete(self) -> None:
        """Receive and answer what is left, in the place of an app that has returned."""
        while step := self.next_step:
            await self.receive()
            await self.send({"type": f"lifespan.{step}.complete"})

    async def receive(self) -> Message:
        self.next_step = ""
        message = await self._receive()
        if message["type"] == "lifespan.startup":
            self._has_begun = True
            self._steps.begin()
        elif message["type"] == "lifespan.shutdown":
            self.end()
            await self._steps.finish()
        return message

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return  # the server has already received the failure of the startup
        self.next_step = ""
        if message["type"] == "lifespan.startup.complete":
            try:
                self._steps.ready()
            except APFError as error:
                self._is_refused = True
                self._close()
                await refuse_to_start(self._send, error)
                raise
            self.next_step = "shutdown"
        elif message["type"].startswith("lifespan."):  # an app that answers it like a request goes on
            self._close()
        await self._send(message)

    def end(self) -> None:
        """Call `LifespanSteps.end`, once for each call of `LifespanSteps.begin`."""
        if self._has_begun:
            self._has_begun = False
            self._steps.end()

    def _close(self) -> None:
        self.end()
        self._steps.close()


async def refuse_to_start(send: Send, error: Exception) -> None:
    """Report a failed startup and its reason to the server."""
    message = str(error) if isinstance(error, APFError) else "".join(traceback.format_exception(error))
    await send({"type": "lifespan.startup.failed", "message": message})


async def _keep_serving(serve: Serving, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Run a service, and run it again some time after an error.

    An error in the task group of a service would cancel the app, whose requests would all be rejected from then on.
    """
    while True:
        try:
            await serve(task_status=task_status)
        except Exception as error:  # noqa: BLE001 - any error
            trace = "".join(traceback.format_exception(error))
            name = getattr(serve, "__qualname__", repr(serve))
            log_event(logging.ERROR, "apf.service-failed", service=name, error=trace)
        else:
            return
        with suppress(RuntimeError):  # it may have failed before it was started, or after
            task_status.started()
        task_status = TASK_STATUS_IGNORED
        await sleep(_RESTART_S)


async def run_beside(services: Sequence[Serving], send: Send, living: Callable[[Send], Awaitable[None]]) -> None:
    """Run ``living`` while the ``services`` run beside it; an exception from ``living`` is raised unwrapped.

    The services end before the app's last message is passed to ``send``: the server may end the process then, and
    uvicorn does. If it only ends the event loop, its cancellation of what is left here isn't raised: uvicorn would log
    that the app doesn't support the lifespan.
    """
    failure: Exception | None = None
    has_lived = False
    scope, ended = CancelScope(), Event()

    async def send_last(message: Message) -> None:
        if message["type"] != "lifespan.startup.complete":
            scope.cancel()
            await ended.wait()
        await send(message)

    try:
        async with create_task_group() as tasks:
            await tasks.start(_serve_all, services, scope, ended)
            try:
                await living(send_last)
            except Exception as error:  # noqa: BLE001 - raised below, outside of the task group, which would wrap it
                failure = error
            scope.cancel()
            has_lived = True
    except asyncio.CancelledError:
        if not has_lived:
            raise
    if failure is not None:
        raise failure


async def _serve_all(
    services: Sequence[Serving], scope: CancelScope, ended: Event, *, task_status: TaskStatus[None]
) -> None:
    """Run the services until ``scope`` is cancelled, and set ``ended`` when they have ended."""
    try:
        with scope:
            async with create_task_group() as tasks:
                for serve in services:
                    await tasks.start(_keep_serving, serve)
                task_status.started()
    finally:
        ended.set()
