"""Let hypercorn complete the responses that it would never complete, whose requests would keep their seats for ever.

**Bodies that haven't been received.** Hypercorn keeps at most ten messages for an app, and waits for room before it
keeps another one. When a response is complete, it keeps ``http.disconnect``, in the task that sends the last message.
If the body hasn't been received by then, this task waits for ever, even if the client disconnects. So ten parts of a
body, sent to any path, would take a seat away from all other clients; and each rejected upload would stay in memory.
Therefore the rest of the body is received and dropped while the last message is sent.

**Clients that disconnect before that.** Hypercorn notices a disconnect while it sends any message, also to a WebSocket,
and waits in the same way. So ten messages that the app doesn't receive, and a disconnect, would take a seat away, too.
Therefore the messages that hypercorn keeps are dropped if a look at the sending task shows that it waits for room, and
when the app has returned or raised without completing its response, because hypercorn completes it then.

**Clients that disconnect from HTTP/2.** Hypercorn waits until the connection has taken what is sent, also if the
connection has been closed meanwhile. Therefore this wait is ended some time after the disconnect, and nothing is sent
after it. Hypercorn closes the streams of a connection one by one, and one that has no room for its disconnect keeps all
others from getting theirs. So each looks at the connection, too, and makes room at its end.

**WebSockets whose clients send data too early.** Hypercorn answers 400 to data that comes before the handshake has been
accepted, and tells the app neither of this nor of the disconnect. Therefore the app is told when it asks for messages.

Other servers need no such help.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from anyio import CancelScope, Event, create_task_group, sleep
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.body import HANG_UPS, announcement, completes_response
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.event_loop import is_asyncio

__all__ = ["DrainedExchange", "needs_draining"]

# The modules of the objects that keep messages for an app: of a lifespan, and of a request on asyncio and on trio.
_KEEPERS: Final = ("hypercorn.", "asyncio.queues", "trio")
_ABNORMAL: Final = 1006  # the close code of a connection that has ended without one
_GRACE_S: Final = 1.0  # for a last message after the disconnect, which usually is a part of its sending
_LOOK_NS: Final = 1_000_000_000  # between two looks at the tasks that send
_now: Final = time.monotonic_ns


def needs_draining(receive: Receive) -> bool:
    """Return whether the server is hypercorn, by the ``receive`` of its lifespan or of a request."""
    return type(getattr(receive, "__self__", None)).__module__.startswith(_KEEPERS)


class DrainedExchange:
    """The messages between hypercorn and the middleware for one request: with a body, a WebSocket, or of HTTP/2.

    The middleware receives from hypercorn itself; what the app has received is noted by `note_received`.
    """

    __slots__ = (
        "_alarm",
        "_body",
        "_has_gone",
        "_is_multiplexed",
        "_is_whole",
        "_receive",
        "_send",
        "_senders",
        "_stream",
        "_was_over",
        "has_trailers",
    )

    def __init__(self, receive: Receive, send: Send, *, is_multiplexed: bool = False) -> None:
        self._receive = receive
        self._send = send
        self._stream: object = _stream_of(send)  # None if it is unknown
        self._is_multiplexed = is_multiplexed
        self._body: object = None  # what the app receives from: hypercorn, or what has received in its place
        self._senders: dict[Any, CancelScope] = {}  # the tasks that send now
        self._alarm = Alarm(self._look, _now)
        self._has_gone = self._is_whole = False
        self._was_over = False  # at the last look
        self.has_trailers: bool = False

    @classmethod
    def of(cls, scope: Scope, receive: Receive, send: Send) -> "DrainedExchange | None":
        """Return the exchange of a request; None if it needs none."""
        if scope["type"] == "http" and not announcement(scope):
            return None
        return cls(receive, send, is_multiplexed=not scope.get("http_version", "1.1").startswith("1"))

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Wrap ``app``, so that it learns of the end of its response although the disconnect has been dropped."""

        def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            self._body = getattr(receive, "__self__", None)
            side = _AppSide(self, receive, send, is_websocket=scope["type"] == "websocket")
            return app(scope, side.receive, side.send)

        return run

    @property
    def is_safe(self) -> bool:
        """Whether hypercorn itself completes the response."""
        return self._is_whole and not self._is_multiplexed

    def note_received(self, message: Message) -> None:
        """Note what has been received."""
        self._has_gone = message["type"] in HANG_UPS
        self._is_whole = message["type"].startswith("http.") and not message.get("more_body", False)

    @property
    def is_empty(self) -> bool:
        """Whether hypercorn has closed the exchange and has no message left, not even the disconnect."""
        return self._is_closed and not _kept_by(self._receive)

    @property
    def _is_closed(self) -> bool:
        return getattr(self._stream, "closed", False)

    @property
    def _is_disconnected(self) -> bool:
        """Whether hypercorn has begun to close the connection of HTTP/2; it may not have come to this stream yet."""
        return getattr(getattr(getattr(self._stream, "send", None), "__self__", None), "closed", False)

    @property
    def _is_over(self) -> bool:
        """Whether nothing can be sent any more, because the client has disconnected from HTTP/2."""
        if not self._is_multiplexed:
            return False
        # On trio, the watch of a request that waited for seats may have received the disconnect.
        if self._has_gone or self._is_closed or self._is_disconnected or getattr(self._body, "has_gone", False):
            return True
        kept = _kept_by(self._receive)
        return bool(kept) and kept[-1]["type"] in HANG_UPS

    def end(self) -> None:
        """Drop what hypercorn keeps, because the app has returned or raised, and hypercorn may have more to keep."""
        # On HTTP/2 hypercorn fails if more of an ended stream comes: the connection on asyncio, the server on trio.
        if not self._is_whole and (not self._is_multiplexed or (self._is_disconnected and is_asyncio())):
            _remove_bound(self._receive)
            _drop_kept(self._receive)

    async def send(self, message: Message) -> None:
        """Send a message; while the last one is sent, receive what hasn't been received."""
        kind = message["type"]
        if kind == "http.response.start":
            self.has_trailers = message.get("trailers", False)
        if self._is_over:
            await checkpoint()  # an app that sends without end must not stop the event loop
        elif completes_response(message, has_trailers=self.has_trailers) and not self.is_safe:
            await self._send_and_drain(message)
        else:
            await self._send_watched(message)

    async def _send_watched(self, message: Message) -> None:
        """Send a message; looks make room for the disconnect, and give the message up some time after it."""
        sender = _current_task()
        with CancelScope() as scope:
            self._senders[sender] = scope
            self._alarm.ask(_now() + _LOOK_NS)
            try:
                await self._send(message)
            finally:
                del self._senders[sender]

    def _look(self) -> None:
        """Drop what hypercorn keeps if a task that sends waits for room, and look again while there are such tasks."""
        if any(_waits_for_room(sender, self._receive) for sender in self._senders):
            _drop_kept(self._receive)
        was_over, self._was_over = self._was_over, self._is_over
        if was_over:
            for scope in self._senders.values():
                scope.cancel()
        if self._senders:
            self._alarm.ask(_now() + _LOOK_NS)

    async def _send_and_drain(self, message: Message) -> None:
        """Send the last message, and meanwhile drain the body, but give up some time after a disconnect."""
        failure: Exception | None = None
        async with create_task_group() as tasks:
            tasks.start_soon(self._drain, tasks.cancel_scope)
            try:
                await self._send_watched(message)
            except Exception as error:  # noqa: BLE001 - raised below, because the task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _drain(self, sending: CancelScope) -> None:
        """Receive and drop the rest of the body; after the disconnect, cancel ``sending``."""
        with suppress(Exception):  # the response has been made, and its sender needn't know
            while not self._has_gone:
                self.note_received(await self._receive())
            await sleep(_GRACE_S)
            sending.cancel()

    def __repr__(self) -> str:
        return f"<DrainedExchange: {'gone' if self._has_gone else 'open'}>"


def _stream_of(send: Send) -> object:
    """Return hypercorn's stream by its ``send``, which its task still has if middlewares have wrapped it."""
    task = _current_task()
    running = getattr(getattr(task, "coro", None) or task.get_coro(), "cr_frame", None)
    own = None if running is None else getattr(running.f_locals.get("send"), "__self__", None)
    return own if type(own).__module__.startswith("hypercorn.") else getattr(send, "__self__", None)


def _kept_by(receive: Receive) -> Sequence[Message]:
    """Return the messages that hypercorn keeps for an app, on asyncio or on trio."""
    keeper = getattr(receive, "__self__", None)
    found = getattr(keeper, "_queue", None) or getattr(getattr(keeper, "_state", None), "data", None)
    return found or ()


def _drop_kept(receive: Receive) -> None:
    """Drop the messages that hypercorn keeps, so that the tasks that wait for room continue."""
    keeper = getattr(receive, "__self__", None)
    take = getattr(keeper, "get_nowait", None) or getattr(keeper, "receive_nowait", None)
    if take is not None:  # otherwise a middleware outside this one has wrapped it
        for _ in range(len(_kept_by(receive))):
            take()


def _remove_bound(receive: Receive) -> None:
    """Let hypercorn keep any number of messages: one read from a client may be thousands of a WebSocket."""
    keeper: Any = getattr(receive, "__self__", None)
    if hasattr(keeper, "_maxsize"):
        keeper._maxsize = 0  # noqa: SLF001 - of asyncio
    elif hasattr(keeper, "_state"):
        keeper._state.max_buffer_size = inf  # noqa: SLF001 - of trio


def _waits_for_room(task: Any, receive: Receive) -> bool:  # noqa: ANN401 - a task of asyncio or trio
    """Return whether a task waits until hypercorn can keep another message, on asyncio or on trio."""
    keeper = getattr(receive, "__self__", None)
    putters = getattr(keeper, "_putters", None)
    if putters is not None:
        return getattr(task, "_fut_waiter", None) in putters
    return task in getattr(getattr(keeper, "_state", None), "send_tasks", ())


def _current_task() -> Any:  # noqa: ANN401
    if is_asyncio():
        return asyncio.current_task()
    from trio.lowlevel import current_task  # noqa: PLC0415 - trio is installed only where apps run on it

    return current_task()


class _AppSide:
    """The messages between the middleware and the app; `DrainedExchange` may have dropped the app's disconnect."""

    __slots__ = ("_answered", "_exchange", "_is_connected", "_is_websocket", "_receive", "_send", "_waiting")

    def __init__(self, exchange: DrainedExchange, receive: Receive, send: Send, *, is_websocket: bool) -> None:
        self._exchange = exchange
        self._is_websocket = is_websocket
        self._is_connected = False  # whether the app has received the beginning of a WebSocket
        self._receive = receive
        self._send = send
        self._answered: Event | None = None  # set when the last message has been sent
        self._waiting: set[CancelScope] = set()  # the calls of `receive`

    async def receive(self) -> Message:
        if self._is_connected and self._exchange.is_empty:
            return {"type": "websocket.disconnect", "code": _ABNORMAL}
        if self._answered is None:
            with CancelScope() as scope:
                self._waiting.add(scope)
                try:
                    message = await self._receive()
                finally:
                    self._waiting.discard(scope)
                self._exchange.note_received(message)
                self._is_connected = self._is_websocket
                return message
        assert self._answered is not None, "otherwise the call isn't cancelled"
        await self._answered.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        exchange = self._exchange
        if exchange.is_safe or not completes_response(message, has_trailers=exchange.has_trailers):
            await self._send(message)
            return
        self._answered = Event()
        try:
            await self._send(message)
        finally:
            self._answered.set()
            for scope in tuple(self._waiting):
                scope.cancel()
