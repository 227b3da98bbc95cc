"""Let hypercorn complete responses to requests whose bodies the app hasn't received.

Hypercorn keeps at most ten messages for an app, and waits for room before it keeps another one. When a response is
complete, it keeps ``http.disconnect``, in the task that sends the last message. If the app hasn't received its body by
then, this task waits for ever, even if the client disconnects. The request would keep its seats for ever, so ten parts
of a body, sent to any path, would take a seat away from all other clients. Therefore the rest of the body is received
and dropped while the last message is sent. Other servers need no such help.
"""

from collections.abc import Awaitable
from contextlib import suppress

from anyio import Event, create_task_group
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import announcement, completes_response

__all__ = ["DrainedExchange", "needs_draining", "wrap_with_draining"]


def needs_draining(receive: Receive) -> bool:
    """Return whether the server is hypercorn, by the ``receive`` of its lifespan."""
    return type(getattr(receive, "__self__", None)).__module__.startswith("hypercorn.")


def wrap_with_draining(app: ASGIApp) -> ASGIApp:
    """Wrap ``app`` so that bodies that it doesn't receive are drained."""

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if not announcement(scope):
            return app(scope, receive, send)
        exchange = DrainedExchange(receive, send)
        return app(scope, exchange.receive, exchange.send)

    return run


class DrainedExchange:
    """The messages between an app and its server for one request with a body."""

    __slots__ = ("_answered", "_has_trailers", "_is_whole", "_receive", "_send")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._answered: Event | None = None  # set when the last message has been sent
        self._has_trailers = self._is_whole = False

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        if self._answered is not None:
            await self._answered.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the app; while the last one is sent, receive what the app hasn't."""
        if message["type"] == "http.response.start":
            self._has_trailers = message.get("trailers", False)
        if self._is_whole or not completes_response(message, has_trailers=self._has_trailers):
            await self._send(message)
            return
        self._answered = Event()
        failure: Exception | None = None
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(self._drain)
                try:
                    await self._send(message)
                except Exception as error:  # noqa: BLE001 - raised below, because the task group would wrap it
                    failure = error
                tasks.cancel_scope.cancel()
        finally:
            self._answered.set()
        if failure is not None:
            raise failure

    async def _drain(self) -> None:
        """Receive and drop the rest of the body."""
        with suppress(Exception):  # the app has its answer, and needn't know
            while (await self._receive())["type"] != "http.disconnect":
                pass

    def __repr__(self) -> str:
        state = "open" if self._answered is None else "answered"
        return f"<DrainedExchange: {state}>"
