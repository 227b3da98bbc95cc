"""Receive a client's messages before the app asks for them, so that no seat is held meanwhile and hang-ups are noticed.

One `RequestBody` calls the server's ``receive`` in the app's place and keeps the messages:

- *before the request asks for seats*, until the body is whole or a buffer is full (`RequestBody.gather`);
- *while the request waits for seats*, past the end of the body (`RequestBody.watch`), because a server reports a
  hang-up only to a call of ``receive``, and some (hypercorn, granian) only after the whole body;
- *while the app waits for more of a long body*, for which `upload.Upload` gives the seats back.

The app receives the same messages in the same order, and ``http.disconnect`` after its response, as the ASGI
specification requires. `IncomingBodies` bounds the memory, number and time of incoming bodies, and interrupts a request
that has to end. Only the app may ask for some bodies (`is_for_app`), so nothing is received of them before it does: a
client that sent ``Expect: 100-continue`` must not be asked before its request has seats, and where a limit of Starlette
is exceeded, ``receive`` raises an exception, although the app's route may allow more.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import MethodType, coroutine
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.scope import headers_of
from apf_middleware.classification.digest import NO_VALUES
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import IncomingBodies, IncomingBody

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from apf_middleware.classification import Classification
    from apf_middleware.runtime.waiting import Cancellable, Waiter

__all__ = [
    "HANG_UPS",
    "LONGEST_BODY",
    "MOST_MESSAGES",
    "RequestBody",
    "announcement",
    "completes_response",
    "is_for_app",
    "is_readable",
    "receiver_of",
]

LONGEST_BODY: Final = 64 * 1024
"""The longest body, in bytes, that is read for an estimate."""

MOST_MESSAGES: Final = 256
"""The maximum number of messages that are kept, however short they are."""

HANG_UPS: Final = frozenset({"http.disconnect", "websocket.disconnect"})
"""The types of the messages that tell that the client has gone."""

_MESSAGE_BYTES: Final = 256  # of memory besides the content, counted for each message but the last of a body
_NO_BODY: Final = frozenset({b"0", b""})
_ANNOUNCING: Final = frozenset({b"content-length", b"transfer-encoding", b"expect"})
_LIMIT: Final = "starlette.max_body_size"  # the key of the limit that Starlette's and FastAPI's ``max_body_size`` set
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})  # methods that hardly ever come with a body
_MOST_DIGITS: Final = 20  # of a length; Python refuses to convert thousands
_BEGINNINGS: Final = frozenset({"http.request", "websocket.connect"})
_CONTENT: Final = frozenset({"http.response.body", "http.response.zerocopysend", "http.response.pathsend"})
# The modules of the objects whose ``receive`` awaits nothing but futures: uvicorn's requests, and hypercorn's queues.
_PLAIN: Final = ("uvicorn.", "asyncio.queues")
_running_loop: Final = asyncio._get_running_loop  # noqa: SLF001 - the public one raises if no loop runs


class RequestBody:
    """The messages of one request that have been received; the app gets them from `receive`.

    ``is_whole`` means that the body is complete or its client has disconnected. With ``is_silent`` nothing is received
    before the app asks. ``is_ahead`` means that the body is received before the request asks for seats, so that an app
    doesn't hold seats while it waits for the rest.
    """

    __slots__ = (
        "_bodies",
        "_classification",
        "_cost",
        "_error",
        "_has_content",
        "_has_ended",
        "_has_room",
        "_has_trailers",
        "_incoming",
        "_is_answered",
        "_is_asking",
        "_is_plain",
        "_is_watched",
        "_kept",
        "_length",
        "_news",
        "_pending",
        "_receive",
        "_send",
        "_task",
        "_waiter",
        "_watching",
        "has_gone",
        "is_ahead",
        "is_silent",
        "is_whole",
    )

    def __init__(
        self,
        bodies: IncomingBodies,
        classification: "Classification",
        receive: Receive,
        *,
        is_silent: bool = False,
        is_ahead: bool = True,
    ) -> None:
        self._bodies = bodies
        self._classification = classification
        self._receive = receive
        self._send: Send | None = None
        self._incoming: IncomingBody | None = None  # made when the request has to wait
        self._kept: tuple[Message, ...] = ()  # a list takes more memory for each waiting request
        self._length = self._cost = 0  # bytes of content, and of memory
        self._pending: tuple[Any, Any] | None = None  # a call of ``receive`` that has made its first step
        self._task: tuple[asyncio.Task[Any], int] | None = None  # to interrupt, and its earlier cancellations
        self._error: Exception | None = None  # from the server's ``receive``, to be raised in the app's
        self._news: anyio.Event | None = None  # set when the watching task has received a message or ended
        self._watching: Cancellable | None = None  # the watching task
        self._waiter: Waiter | None = None
        self._is_asking = self._is_watched = False  # whether the watch calls ``receive``, and whether it should
        self._is_plain = False  # whether the watch needs no task
        self._has_room = True
        self._has_content = self._has_ended = self._has_trailers = self._is_answered = False
        self.is_silent: bool = is_silent
        self.is_ahead: bool = is_ahead
        self.is_whole: bool = False
        self.has_gone: bool = False

    @classmethod
    def of(cls, bodies: IncomingBodies, messages: "Receive | RequestBody", place: "Classification") -> "RequestBody":
        """Return the body that ``messages`` are received into; it exists already if some were received before."""
        return messages if isinstance(messages, RequestBody) else cls(bodies, place, messages)

    @property
    def reason(self) -> Reason | None:
        """The reason why the request has to end, such as a body that was too slow; None if it may continue."""
        if self.has_gone:
            return Reason.CANCELLED
        return None if self._incoming is None else self._incoming.reason

    @property
    def incoming(self) -> IncomingBody:
        """The request's entry in `IncomingBodies`."""
        if self._incoming is None:
            self._incoming = IncomingBody(self._classification)
        return self._incoming

    @property
    def is_empty(self) -> bool:
        """True if the app has received all messages that were kept."""
        return not self._kept

    # Keeping

    def _keep(self, message: Message) -> None:
        kind, more = message.get("type"), message.get("more_body", False)
        size = _size_of(message)
        self._kept += (message,)
        if size:
            self._has_content = True
            self._length += size
        self._cost += size + _MESSAGE_BYTES if more else size
        # After the end of the body one more message is kept, normally the hang-up. If the server returns another one,
        # such as a second request, its ``receive`` doesn't wait for the client, and more calls would be a busy loop.
        if self.is_whole or kind not in _BEGINNINGS:
            self._has_ended = True
            self.has_gone = self.has_gone or kind in HANG_UPS
        self.is_whole = not more
        if self._incoming is not None:
            self._incoming.arrived += size
            self._charge()
        elif self._is_asking:
            self._charge()

    def _charge(self) -> None:
        """Charge the kept messages to the request, because it waits and may keep them for a long time."""
        incoming = self._incoming
        owed = self._cost if incoming is None else self._cost - incoming.kept
        if owed:
            self._has_room = self._bodies.keep(self.incoming, owed)

    def _may_receive(self, limit: int) -> bool:
        """Return whether more of the body may be kept."""
        return self._length <= limit and len(self._kept) < MOST_MESSAGES and self._has_room

    def _forget(self, messages: tuple[Message, ...], rest: tuple[Message, ...]) -> None:
        """Drop ``messages``, and keep only ``rest``."""
        self._kept = rest
        for message in messages:
            size = _size_of(message)
            self._length -= size
            self._cost -= size + _MESSAGE_BYTES if message.get("more_body", False) else size
        if self._incoming is not None:
            self._bodies.give(self._incoming, self._incoming.kept - self._cost)

    # Before the request asks for seats, and while its app waits for more

    @property
    def is_there(self) -> bool:
        """True if nothing has to be received before the request asks for seats."""
        return self.is_whole or self.is_silent

    def receive_at_once(self) -> None:
        """Receive what has arrived already, without waiting.

        Most bodies arrive with their request. The first step of a call of ``receive`` is made here without awaiting the
        call, and shows whether it has to wait; if so, `gather` continues that call. On trio `gather` makes all calls,
        because they must be made in its cancel scope.
        """
        if _running_loop() is not None:
            self._call()

    def _call(self) -> bool:
        """Call ``receive``, and return whether it had a message at once; otherwise the call is pending."""
        steps = self._receive().__await__()
        try:
            self._pending = steps, next(steps)
        except StopIteration as done:
            self._keep(done.value)
            return True
        return False

    async def gather(self, limit: int, begin_to_wait: Callable[[], None] | None = None) -> None:
        """Receive until the body is whole, more than ``limit`` bytes are kept, or no more may be kept.

        When the request has to wait, it is counted (`count`). If ``begin_to_wait`` is given, that is called instead,
        and one message suffices unless the request has been counted by the time at which the message arrives.
        """
        if _running_loop() is None:
            with anyio.CancelScope() as scope:
                self.incoming.begin_to_wait(scope.cancel)
                await self._gather(limit, begin_to_wait)
            return
        try:
            await self._gather(limit, begin_to_wait)
        except asyncio.CancelledError:
            if not self._is_interrupted():
                raise

    async def _gather(self, limit: int, begin_to_wait: Callable[[], None] | None) -> None:
        begin = begin_to_wait or self._begin_to_wait
        try:
            while not self.is_whole and self._may_receive(limit):
                if self._is_asking:
                    begin()
                    await self._wait_for_news()
                    if self._error is not None:
                        break  # `receive` raises it in the app
                elif self._pending is not None or not self._call():
                    begin()
                    message = await self._finish_call()
                    if message is not None:
                        self._keep(message)
                if begin_to_wait is not None and not self.incoming.is_counted:
                    break
        finally:
            if self._incoming is not None:
                self._incoming.end_to_wait()
                self._bodies.end(self._incoming)

    @coroutine
    def _finish_call(self) -> Generator[Any, Any, Message | None]:
        """Return what the pending call of ``receive`` returns; None if it is a call of `_watch`, which keeps that."""
        assert self._pending is not None, "`_call` has left a call that has to wait"
        (steps, waits_for), self._pending = self._pending, None
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    throw = getattr(steps, "throw", None)  # some servers' iterators (granian's) have none
                    if throw is None:
                        raise
                    waits_for = throw(error)
                else:
                    waits_for = next(steps) if sent is None else steps.send(sent)
        except StopIteration as done:
            message: Message | None = done.value
            return message

    def _begin_to_wait(self) -> None:
        if not self.incoming.is_counted:
            self.note_task()
            self.count()

    def count(self) -> None:
        """Count the request among those with an incoming body."""
        self._charge()
        self._bodies.begin(self.incoming)

    def note_task(self) -> None:
        """Let `IncomingBodies` interrupt the running task if the request has to end."""
        if _running_loop() is None:  # on trio, `gather` has a cancel scope for this
            return
        task = asyncio.current_task()
        if task is not None:
            self._task = task, task.cancelling()
            self.incoming.begin_to_wait(task.cancel)

    def _is_interrupted(self) -> bool:
        """Return whether only `IncomingBodies` has cancelled the task."""
        if self._task is None or self.incoming.reason is None:
            return False
        task, cancelling = self._task
        # The task may also have been cancelled from outside, in the same turn of the event loop. That cancellation must
        # take effect.
        return task.uncancel() <= cancelling

    def parsed(self) -> Mapping[str, object]:
        """Return the body as a JSON object; empty if it is no JSON object or too long, or if the request has to end."""
        if not self.is_whole or self._length > LONGEST_BODY or self.reason is not None:
            return NO_VALUES
        return _parsed(b"".join([message.get("body", b"") for message in self._kept]))

    # While the request waits for seats

    def watch(
        self, waiter: "Waiter", start: "Callable[[Callable[[], Coroutine[Any, Any, None]]], Cancellable]"
    ) -> None:
        """Receive until `hand_over`, and notify ``waiter`` if the client hangs up.

        A ``receive`` that awaits nothing but futures is called without a task, which takes much less time, and its last
        call is left to the app. Any other one may use what belongs to a task, such as cancel scopes, so ``start``
        starts one for it.
        """
        if self.has_gone:
            waiter.hang_up()
        self._waiter = waiter
        if self.is_silent or self._has_ended or self._error is not None:
            return
        self._is_watched = True
        self._charge()
        if self._is_asking:  # a call is still running that began in an earlier wait
            return
        self._is_asking = True
        self._is_plain = _is_plain(self._receive)
        if not self._is_plain:
            self._watching = start(self._watch)
        elif self._pending is None:
            self._step(self._watch().__await__())
        else:  # from an earlier wait
            self._pending[1].add_done_callback(self._continue)

    def _step(self, steps: Any) -> None:  # noqa: ANN401 - an iterator; that of mypyc has no type
        """Make the next step of `_watch`; if it has to wait for a future, the step after that is pending."""
        self._pending = future = None
        try:  # noqa: SIM105 - `suppress` would create an object for each request that waits
            future = next(steps, None)
        except asyncio.CancelledError:
            pass  # the server has cancelled the future
        if future is not None:
            self._pending = steps, future
            if self._is_asking:
                future.add_done_callback(self._continue)

    def _continue(self, done: object) -> None:
        """Continue the watch, because the future that it waits for is ``done``."""
        pending = self._pending
        if self._is_asking and pending is not None and pending[1] is done:  # otherwise the watch has ended meanwhile
            self._step(pending[0])

    async def _watch(self) -> None:
        limit = self._bodies.settings.buffer
        try:
            while self._is_watched and not self._has_ended and (self.is_whole or self._may_receive(limit)):
                # Another coroutine would take memory for each waiting request, so `receive` is awaited here.
                message = await self._receive()
                if self._is_asking or self._is_plain:  # otherwise the request has ended meanwhile
                    self._keep(message)
        except Exception as error:  # noqa: BLE001 - `receive` raises it in the app, as the server would
            self._error = error
        finally:
            self._is_asking = False
            self._notify()
        if self.has_gone and self._waiter is not None:
            self._waiter.hang_up()

    def end_watch(self) -> None:
        """End the watch, because the task that waits has been cancelled."""
        self.stop_watching()
        if self._send is None:  # otherwise the app may have given its call of `receive` a time limit, and go on
            self.close()

    def _notify(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    async def _wait_for_news(self) -> None:
        """Wait until the watching task receives a message or ends; a cancellation of the wait doesn't end that task."""
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()

    # While the app runs

    def hand_over(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return ``receive`` and ``send`` for the app: the given ones of the server if nothing is kept here."""
        self._send = send
        self.stop_watching()
        if self._pending is not None and not self._has_content:
            return self.receive, send  # the server tells the pending call when the response is complete
        is_needed = self._kept or self._is_asking or self._error is not None or self._pending is not None
        return (self.receive, self.send) if is_needed else (receive, send)

    def stop_watching(self) -> None:
        """Stop receiving in the app's place; a call that has begun isn't cancelled, so that its message isn't lost."""
        self._is_watched = False
        self._waiter = None
        if self._is_plain and self._is_asking:
            self._is_asking = False
            if self._pending is not None:
                self._pending[1].remove_done_callback(self._continue)

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        pending = self._pending
        if self._is_plain and not self._is_asking and pending is not None and pending[1].done():
            self._step(pending[0])  # an app that asks once after the response has to get the disconnect
        while not (self._kept or self._is_answered):
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._is_asking:
                await self._wait_for_news()
            elif self._pending is None:
                return await self._receive()
            elif (found := await self._finish_call()) is not None:
                return found
        if self._is_answered:
            return {"type": "http.disconnect"}
        if not self._has_content and self._kept[-1].get("type") == "http.disconnect":
            # An app that asks once whether its client is connected must not get an empty body first.
            self._forget(self._kept[:-1], self._kept[-1:])
        message, *later = self._kept
        if later or self._incoming is not None:
            self._forget(self._kept[:1], tuple(later))
        else:
            self._kept, self._length, self._cost = (), 0, 0
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the app; while messages are kept or received here, note when the response is complete."""
        assert self._send is not None, "the app sends after `hand_over`"
        # Without kept messages the app receives from the server, which notes this itself.
        if (self._kept or self._is_asking) and self._is_last(message):
            return self._send_last(self._send, message)
        return self._send(message)

    def _is_last(self, message: Message) -> bool:
        """Return whether a message completes the response."""
        kind = message["type"]
        if kind == "http.response.start":
            self._has_trailers = message.get("trailers", False)
            return False
        return completes_response(message, has_trailers=self._has_trailers)

    async def _send_last(self, send: Send, message: Message) -> None:
        await send(message)
        self._is_answered = True
        self.close()

    def close(self) -> None:
        """Stop receiving and drop the kept messages, because the request is over."""
        self.stop_watching()
        if self._is_plain and self._pending is not None and self._pending[1].done():
            self._is_plain = False  # so that the message is dropped
            self._step(self._pending[0])  # takes less than half the time in which an unfinished call is destroyed
        watching, self._watching, self._pending = self._watching, None, None  # breaks reference cycles
        if watching is not None:
            watching.cancel()
            self._is_asking = False
        if self._cost:
            self._forget(self._kept, ())
        self._kept = ()
        self.has_gone = True  # a task that the app has left behind must not ask for seats
        self._notify()

    def __repr__(self) -> str:
        return f"<RequestBody: {len(self._kept)} messages kept>"


def completes_response(message: Message, *, has_trailers: bool) -> bool:
    """Return whether a message completes the response, which ends with trailers or without."""
    kind = message["type"]
    if kind == "http.response.trailers":
        return not message.get("more_trailers", False)
    return kind in _CONTENT and not (message.get("more_body", False) or has_trailers)


def receiver_of(receive: Receive) -> Any:  # noqa: ANN401 - it belongs to the server
    """Return the object that ``receive`` is a method of; None if it is none."""
    # `getattr` with a default would take ten times as long where there is no such attribute.
    return receive.__self__ if isinstance(receive, MethodType) else None


def _is_plain(receive: Receive) -> bool:
    """Return whether ``receive`` awaits nothing but futures of the event loop."""
    return type(receiver_of(receive)).__module__.startswith(_PLAIN)


def _size_of(message: Message) -> int:
    content = message.get("body")  # most messages have this key
    return len(content if content is not None else message.get("bytes") or message.get("text") or b"")


def _parsed(raw: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return NO_VALUES
    return found if isinstance(found, dict) else NO_VALUES


def announcement(scope: Scope) -> Literal["", "coming", "expected"]:
    """Return ``coming`` if a body is announced, ``expected`` if only the app may ask for it; otherwise nothing.

    A length of 0 announces nothing, but doesn't contradict what else announces a body: h11 heeds the encoding if there
    are both, and a body of HTTP/2 ends only when the client says so.
    """
    if scope["type"] != "http":  # the handshake of a WebSocket has no body, even if its headers announce one
        return ""
    is_coming = not scope.get("http_version", "1.1").startswith("1")  # HTTP/2 needs no header for a body
    is_expected = False
    for name, value in headers_of(scope):
        if name in _ANNOUNCING:  # one test for most headers
            if name == b"expect":
                is_expected = value.lower() == b"100-continue"
            elif value not in _NO_BODY:
                is_coming = True
    if not is_coming:
        return ""
    return "expected" if is_expected or (_LIMIT in scope and _may_exceed(scope)) else "coming"


def _may_exceed(scope: Scope) -> bool:
    """Return whether a body may be longer than the limit in the scope, which the app's route may raise."""
    length = b""
    for name, value in headers_of(scope):
        if name == b"transfer-encoding":  # a length beside it means nothing
            return True
        if name == b"content-length":
            length = value
    if not length and scope.get("method") in _BODILESS:  # of HTTP/2, and its client must be watched while it waits
        return False
    return not _is_within(length, scope[_LIMIT])


def _is_within(length: bytes, limit: int) -> bool:
    """Return whether a ``Content-Length`` is a number of at most ``limit``."""
    return length.isdigit() and len(length) <= _MOST_DIGITS and int(length) <= limit


def is_for_app(scope: Scope) -> bool:
    """Return whether only the app may ask for the body, for example because its client waits for ``100 Continue``."""
    return announcement(scope) == "expected"


def is_readable(scope: Scope) -> bool:
    """Return whether a request has a JSON body that may be received now and isn't known to be too long."""
    if scope["type"] != "http" or is_for_app(scope):
        return False
    headers = {name: value for name, value in headers_of(scope)}  # noqa: C416 - a pair may be a list
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"0")
    return (kind == b"application/json" or kind.endswith(b"+json")) and _is_within(length, LONGEST_BODY)
