"""Let hypercorn complete the responses that it would never complete, whose requests would keep their seats for ever.

**Bodies that the app hasn't received.** Hypercorn keeps at most ten messages for an app, and waits for room before it
keeps another one. When a response is complete, it keeps ``http.disconnect``, in the task that sends the last message.
If the app hasn't received its body by then, this task waits for ever, even if the client disconnects. So ten parts of
a body, sent to any path, would take a seat away from all other clients. Therefore the rest of the body is received and
dropped while the last message is sent.

**Clients that disconnect from HTTP/2.** Hypercorn waits until the connection has taken the last message of a stream,
also if the connection has been closed meanwhile. Therefore this wait is ended some time after ``http.disconnect``.

Other servers need no such help.
"""

from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from anyio import CancelScope, Event, create_task_group, sleep
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import announcement, completes_response

__all__ = ["DrainedExchange", "needs_draining", "wrap_with_draining"]

_GRACE_S: Final = 1.0  # for a last message after the disconnect, which usually is a part of its sending


def needs_draining(receive: Receive) -> bool:
    """Return whether the server is hypercorn, by the ``receive`` of its lifespan."""
    return type(getattr(receive, "__self__", None)).__module__.startswith("hypercorn.")


def wrap_with_draining(app: ASGIApp) -> ASGIApp:
    """Wrap ``app`` so that bodies that it doesn't receive are drained."""

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if not announcement(scope):
            return app(scope, receive, send)
        is_multiplexed = not scope.get("http_version", "1.1").startswith("1")
        exchange = DrainedExchange(receive, send, is_multiplexed=is_multiplexed)
        return app(scope, exchange.receive, exchange.send)

    return run


class DrainedExchange:
    """The messages between an app and its server for one request, which has a body or ``is_multiplexed`` (HTTP/2)."""

    __slots__ = ("_answered", "_has_gone", "_has_trailers", "_is_multiplexed", "_is_whole", "_receive", "_send")

    def __init__(self, receive: Receive, send: Send, *, is_multiplexed: bool = False) -> None:
        self._receive = receive
        self._send = send
        self._is_multiplexed = is_multiplexed
        self._answered: Event | None = None  # set when the last message has been sent
        self._has_gone = self._has_trailers = self._is_whole = False

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        if self._answered is not None:
            await self._answered.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._has_gone = message["type"] == "http.disconnect"
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the app; while the last one is sent, receive what the app hasn't."""
        if message["type"] == "http.response.start":
            self._has_trailers = message.get("trailers", False)
        is_safe = self._is_whole and not self._is_multiplexed
        if is_safe or not completes_response(message, has_trailers=self._has_trailers):
            await self._send(message)
            return
        self._answered = Event()
        failure: Exception | None = None
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(self._drain, tasks.cancel_scope)
                try:
                    await self._send(message)
                except Exception as error:  # noqa: BLE001 - raised below, because the task group would wrap it
                    failure = error
                tasks.cancel_scope.cancel()
        finally:
            self._answered.set()
        if failure is not None:
            raise failure

    async def _drain(self, sending: CancelScope) -> None:
        """Receive and drop the rest of the body; after the disconnect, cancel ``sending``."""
        with suppress(Exception):  # the app has its answer, and needn't know
            while not self._has_gone:
                self._has_gone = (await self._receive())["type"] == "http.disconnect"
            await sleep(_GRACE_S)
            sending.cancel()

    def __repr__(self) -> str:
        state = "open" if self._answered is None else "answered"
        return f"<DrainedExchange: {state}>"
