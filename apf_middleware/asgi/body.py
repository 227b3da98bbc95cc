"""Receive what a client sends before the app asks for it, so that no seat is held meanwhile and hang-ups are noticed.

One `RequestBody` calls the server's ``receive`` in the app's place and keeps the messages:

- *before the request asks for seats*, until the body is whole or a buffer is full (`RequestBody.gather`);
- *while the request waits for seats*, in a task of its own, past the end of the body (`RequestBody.watch`), because a
  server reports a hang-up only to a call of ``receive``, and some (hypercorn, granian) only after the whole body;
- *while the app waits for more of a long body*: if nothing comes for a while (`HELD_NS`), the seats are given back,
  more is received as before, and the request asks for seats again in its flow's queue (`Upload`).

The app receives the same messages in the same order, and after its response ``http.disconnect``, as the ASGI
specification has it and as if the server had kept them. Memory, number and time are bounded by `IncomingBodies`, which
interrupts a request that has to end. A client that sent ``Expect: 100-continue`` is not asked for its body before its
request has seats, so nothing is received for it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.scope import headers_of
from apf_middleware.classification.digest import NO_VALUES
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime import Admission, Incoming, IncomingBodies

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from apf_middleware.classification import Classification
    from apf_middleware.runtime.waiting import Cancellable, Waiter

__all__ = [
    "LONGEST_BODY",
    "MOST_MESSAGES",
    "Client",
    "RequestBody",
    "Upload",
    "announcement",
    "expects_continue",
    "is_readable",
    "watch_of_client",
]

LONGEST_BODY: Final = 64 * 1024
"""The longest body, in bytes, that is read for an estimate."""

MOST_MESSAGES: Final = 256
"""No more is received when so many messages are kept, however short they are."""

_MESSAGE_BYTES: Final = 256  # of memory, for each message that isn't the last of its body
_NO_BODY: Final = frozenset({b"0", b""})
_ANNOUNCING: Final = frozenset({b"content-length", b"transfer-encoding", b"expect"})
_BEGINNINGS: Final = frozenset({"http.request", "websocket.connect"})
_HANG_UPS: Final = frozenset({"http.disconnect", "websocket.disconnect"})
_CONTENT: Final = frozenset({"http.response.body", "http.response.zerocopysend", "http.response.pathsend"})
_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING
_running_loop: Final = asyncio._get_running_loop  # noqa: SLF001 - the public one raises where none runs


class RequestBody:
    """The messages of one request, as far as they were received; `receive` gives them to the app.

    ``is_whole`` means that the body is complete or its client has gone. With ``is_silent`` nothing is received before
    the app asks. ``is_ahead`` means that the body comes before the request asks for seats, so that an app doesn't hold
    seats while it waits for the rest.
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
        self._incoming: Incoming | None = None  # made when the request has to wait
        self._kept: tuple[Message, ...] = ()  # a list takes more memory, and many requests may wait
        self._length = self._cost = 0  # bytes of content, and of memory
        self._pending: tuple[Any, Any] | None = None  # a call of ``receive`` that has made its first step
        self._task: tuple[asyncio.Task[Any], int] | None = None  # to interrupt, and its cancellations so far
        self._error: Exception | None = None  # of the server's ``receive``, for the app's
        self._news: anyio.Event | None = None  # set when the watching task has received or ended
        self._watching: Cancellable | None = None  # the watching task
        self._waiter: Waiter | None = None
        self._is_asking = self._is_watched = False  # the watching task calls ``receive``; it is wanted to
        self._has_room = True
        self._has_content = self._has_ended = self._has_trailers = self._is_answered = False
        self.is_silent: bool = is_silent
        self.is_ahead: bool = is_ahead
        self.is_whole: bool = False
        self.has_gone: bool = False

    @classmethod
    def of(cls, bodies: IncomingBodies, messages: "Receive | RequestBody", place: "Classification") -> "RequestBody":
        """Return the body that comes by ``messages``, of which some may have been received already."""
        return messages if isinstance(messages, RequestBody) else cls(bodies, place, messages)

    @property
    def reason(self) -> Reason | None:
        """Why the request has to end: its body was too slow, its client has gone, …; None if it needn't."""
        if self.has_gone:
            return Reason.CANCELLED
        return None if self._incoming is None else self._incoming.reason

    @property
    def incoming(self) -> Incoming:
        """The request's entry among the incoming ones."""
        if self._incoming is None:
            self._incoming = Incoming(self._classification)
        return self._incoming

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept that the app hasn't received."""
        return not self._kept

    # Keeping

    def _keep(self, message: Message) -> None:
        kind, more = message.get("type"), message.get("more_body", False)
        size = len(message.get("body") or message.get("bytes") or message.get("text") or b"")
        self._kept += (message,)
        if size:
            self._has_content = True
            self._length += size
        self._cost += size + _MESSAGE_BYTES if more else size
        # Beyond the end of the body one message more is kept, the hang-up. A server that says something else there
        # (a second request) doesn't wait for the client, and would be called in a loop.
        if self.is_whole or kind not in _BEGINNINGS:
            self._has_ended = True
            self.has_gone = self.has_gone or kind in _HANG_UPS
        self.is_whole = not more
        if self._incoming is not None:
            self._incoming.arrived += size
            self._charge()
        elif self._is_asking:
            self._charge()

    def _charge(self) -> None:
        """Count what is kept: the request waits, so it may be kept for long."""
        incoming = self._incoming
        owed = self._cost if incoming is None else self._cost - incoming.kept
        if owed:
            self._has_room = self._bodies.keep(self.incoming, owed)

    def _may_receive(self, limit: int) -> bool:
        """Whether more of the body may be kept."""
        return self._length <= limit and len(self._kept) < MOST_MESSAGES and self._has_room

    def _forget(self, messages: tuple[Message, ...], rest: tuple[Message, ...]) -> None:
        """Keep ``rest`` without ``messages``."""
        self._kept = rest
        for message in messages:
            size = len(message.get("body") or message.get("bytes") or message.get("text") or b"")
            self._length -= size
            self._cost -= size + _MESSAGE_BYTES if message.get("more_body", False) else size
        if self._incoming is not None:
            self._bodies.give(self._incoming, self._incoming.kept - self._cost)

    # Before the request asks for seats, and while its app waits for more

    @property
    def is_there(self) -> bool:
        """Whether there is nothing to receive before the request asks for seats."""
        return self.is_whole or self.is_silent

    def receive_at_once(self) -> None:
        """Receive what has arrived already, without waiting.

        Most bodies have arrived when they are asked for. Whether a call of ``receive`` has to wait shows when its first
        step is taken by hand; then `gather` continues that call. On trio everything is left to `gather`, because calls
        must be made in its cancel scope.
        """
        if _running_loop() is not None:
            self._call()

    def _call(self) -> bool:
        """Call ``receive``; False if that has to wait."""
        steps = self._receive().__await__()
        try:
            self._pending = steps, next(steps)
        except StopIteration as done:
            self._keep(done.value)
            return True
        return False

    async def gather(self, limit: int, begin_to_wait: Callable[[], None] | None = None) -> None:
        """Receive until the body is whole, or more than ``limit`` bytes or as much as may be are kept.

        If ``begin_to_wait`` is given, it is called in place of counting the request among the incoming ones when it
        has to wait. Unless it is counted by the time that a message has come, that one is enough.
        """
        if _running_loop() is None:
            with anyio.CancelScope() as scope:
                self.incoming.interrupt = scope.cancel
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
                    await self._next_news()
                    if self._error is not None:
                        break  # the app hears of it
                elif self._pending is not None or not self._call():
                    begin()
                    self._keep(await self._finish_call())
                if begin_to_wait is not None and not self.incoming.is_counted:
                    break
        finally:
            if self._incoming is not None:
                self._bodies.end(self._incoming)

    @coroutine
    def _finish_call(self) -> Generator[Any, Any, Message]:
        """Return what the pending call of ``receive`` returns."""
        assert self._pending is not None, "otherwise there is nothing to finish"
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
            message: Message = done.value
            return message

    def _begin_to_wait(self) -> None:
        if not self.incoming.is_counted:
            self.note_task()
            self.count()

    def count(self) -> None:
        """Count the request among the incoming ones: its body hasn't arrived."""
        self._charge()
        self._bodies.begin(self.incoming)

    def note_task(self) -> None:
        """Have the running task interrupted if the request has to end."""
        if _running_loop() is None:  # trio's task has a scope
            return
        task = asyncio.current_task()
        if task is not None:
            self._task = task, task.cancelling()
            self.incoming.interrupt = task.cancel

    def _is_interrupted(self) -> bool:
        """Whether `IncomingBodies` has cancelled the task, and nothing else has."""
        if self._task is None or self._incoming is None or self._incoming.reason is None:
            return False
        task, cancelling = self._task
        return task.uncancel() <= cancelling

    def parsed(self) -> Mapping[str, object]:
        """Return the JSON object that the body is; nothing if it is none, or too long, or the client has gone."""
        if not self.is_whole or self._length > LONGEST_BODY or self.reason is not None:
            return NO_VALUES
        return _parsed(b"".join([message.get("body", b"") for message in self._kept]))

    # While the request waits for seats

    def watch(
        self, waiter: "Waiter", start: "Callable[[Callable[[], Coroutine[Any, Any, None]]], Cancellable]"
    ) -> None:
        """Receive in a task that ``start`` starts, until `hand_over`, and notify ``waiter`` if the client hangs up."""
        if self.has_gone:
            waiter.hang_up()
        self._waiter = waiter
        if self.is_silent or self._has_ended or self._error is not None:
            return
        self._is_watched = True
        self._charge()  # beside what is received from now on
        if not self._is_asking:  # otherwise a call goes on that began in an earlier wait
            self._is_asking = True
            self._watching = start(self._watch)

    async def _watch(self) -> None:
        limit = self._bodies.settings.buffer
        try:
            while self._is_watched and not self._has_ended and (self.is_whole or self._may_receive(limit)):
                # In this coroutine: one more would take its memory for each request that waits.
                self._keep(await self._receive())
        except Exception as error:  # noqa: BLE001 - it is raised where the app receives, as it would be without us
            self._error = error
        finally:
            self._is_asking = False
            self._tell()
        if self.has_gone and self._waiter is not None:
            self._waiter.hang_up()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    async def _next_news(self) -> None:
        """Wait until the watching task has received something; its call goes on when this one is cancelled."""
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()

    # While the app runs

    def hand_over(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return the app's ``receive`` and ``send``: those given, which are the server's, if nothing was kept."""
        self._send = send
        self._is_watched, self._waiter = False, None
        return (self.receive, self.send) if self._kept or self._is_asking or self._error else (receive, send)

    def stop_watching(self) -> None:
        """Receive no more in the app's place; a call that has begun goes on, so that nothing is lost."""
        self._is_watched = False
        self._waiter = None

    @property
    def is_open(self) -> bool:
        """Whether something is kept or received that ends with the request."""
        return self._watching is not None or bool(self._kept)

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        while not (self._kept or self._is_answered):
            error, self._error = self._error, None
            if error is not None:
                raise error
            if not self._is_asking:
                return await self._receive()
            await self._next_news()
        if self._is_answered:
            return {"type": "http.disconnect"}
        if not self._has_content and self._kept[-1].get("type") == "http.disconnect":
            # An app that looks once whether its client is there doesn't get an empty body first.
            self._forget(self._kept[:-1], self._kept[-1:])
        message, *later = self._kept
        if later or self._incoming is not None:
            self._forget(self._kept[:1], tuple(later))
        else:
            self._kept, self._length, self._cost = (), 0, 0
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the app, and note whether its response is complete while something is kept."""
        assert self._send is not None, "the app sends after `hand_over`"
        if self._kept or self._is_asking:  # otherwise it is the server's ``receive`` that knows what comes next
            return self._send_and_note(self._send, message)
        return self._send(message)

    async def _send_and_note(self, send: Send, message: Message) -> None:
        await send(message)
        kind = message["type"]
        if kind == "http.response.start":
            self._has_trailers = message.get("trailers", False)
            return
        if kind == "http.response.trailers":
            self._is_answered = not message.get("more_trailers", False)
        elif kind in _CONTENT:
            self._is_answered = not (message.get("more_body", False) or self._has_trailers)
        if self._is_answered:
            self.close()

    def close(self) -> None:
        """Receive no more and keep nothing: the request is over."""
        self.stop_watching()
        watching, self._watching = self._watching, None  # or the two hold each other until a collection
        if watching is not None:
            watching.cancel()
            self._is_asking = False
        if self._kept:
            self._forget(self._kept, ())
        self._tell()

    def __repr__(self) -> str:
        return f"<RequestBody: {len(self._kept)} messages kept>"


Client = tuple[Admission, Scope, Receive, RequestBody | None]
"""A request that waits for seats, how to receive what its client sends, and what was received before."""


def watch_of_client(client: Client) -> RequestBody:
    """Return what watches the client of a waiting request."""
    admission, scope, receive, body = client
    if body is not None:
        return body
    destination = admission.destination
    bodies = destination.controller.bodies
    is_silent = expects_continue(scope)
    return RequestBody(bodies, destination.classification, receive, is_silent=is_silent, is_ahead=False)


Wait = Callable[[Admission, Scope, Receive, RequestBody], Awaitable[object]]
"""Wait for seats, and watch the client meanwhile."""

Reject = Callable[[Admission, Scope, Send], Awaitable[None]]
"""Tell a client why its request isn't served."""


class Upload:
    """The rest of a long ``body``, which the app of ``admission`` receives itself.

    A client that sends the beginning at once and the rest very slowly would hold the seats of its request all the
    time. They are therefore given back while the app waits for more. A request that gets no seats again, or whose body
    is too slow, is ended: the client gets an error unless a response has begun, and the app ``http.disconnect``.

    ``wait`` waits for seats, ``reject`` answers a request that gets none.
    """

    __slots__ = ("_admission", "_body", "_exchange", "_has_begun", "_is_cut", "_is_suspended", "_reject", "_wait")

    def __init__(
        self,
        body: RequestBody,
        admission: Admission,
        exchange: tuple[Scope, Receive, Send],
        *,
        wait: Wait,
        reject: Reject,
    ) -> None:
        self._body = body
        self._admission = admission
        self._exchange = exchange
        self._wait = wait
        self._reject = reject
        self._has_begun = self._is_cut = self._is_suspended = False
        body.hand_over(exchange[1], exchange[2])

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        body = self._body
        if self._is_cut:
            return {"type": "http.disconnect"}
        if body.is_empty and not body.is_whole and self._may_be_suspended():
            bodies = self._admission.destination.controller.bodies
            try:
                await body.gather(bodies.settings.buffer, self._begin_to_wait)
            finally:
                bodies.held.end(self)
            if self._is_suspended:
                self._is_suspended = False
                if body.reason is not Reason.CANCELLED and not await self._resume():
                    return await self._cut()
        return await body.receive()

    def _may_be_suspended(self) -> bool:
        """Whether the request has seats that can be given back and asked for again."""
        admission = self._admission
        destination = admission.destination
        if self._has_begun or admission.state is not _SEATED or destination.gates:
            return False
        return not (admission.work.linger_ns or destination.runtime.shared.exempt)

    def _begin_to_wait(self) -> None:
        self._body.note_task()
        self._admission.destination.controller.bodies.held.begin(self)

    def suspend(self) -> None:
        """Give the seats back, because nothing can be done until more of the body has come."""
        if self._may_be_suspended():
            self._is_suspended = True
            self._admission.destination.controller.release(self._admission)
            self._body.incoming.is_running = True
            self._body.count()

    async def _resume(self) -> bool:
        """Ask for seats again; False if there are none for this request."""
        admission, body = self._admission, self._body
        destination = admission.destination
        controller = destination.controller
        if body.reason is not None:
            admission.renew()
            controller.refuse(controller.now(), admission, body.reason)
            return False
        if controller.is_closing or controller.registry.levels.get(admission.level) is not destination.runtime:
            return True  # no request can arrive there any more: this one finishes like others that run
        admission.renew()
        controller.arrive(controller.now(), admission)
        if admission.state is _WAITING:
            scope, receive, _ = self._exchange
            await self._wait(admission, scope, receive, body)
            body.stop_watching()
        return admission.state is _SEATED

    async def _cut(self) -> Message:
        """End the request, though its app runs."""
        self._is_cut = True
        scope, _, send = self._exchange
        if not self._has_begun:
            self._has_begun = True
            await self._reject(self._admission, scope, send)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a message of the app, unless the request has already been answered with an error."""
        if not self._is_cut:
            self._has_begun = True
            await self._body.send(message)

    def __repr__(self) -> str:
        return f"<Upload of {self._body!r}>"


def _parsed(raw: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return NO_VALUES
    return found if isinstance(found, dict) else NO_VALUES


def announcement(scope: Scope) -> Literal["", "coming", "expected"]:
    """Return whether a request announces a body that is coming, or one that it sends when it is asked to."""
    is_coming = is_expected = False
    if scope["type"] != "http":  # a WebSocket's handshake may have such headers, and has no body
        return ""
    for name, value in headers_of(scope):
        if name in _ANNOUNCING:  # one look for most headers
            if name == b"expect":
                is_expected = value.lower() == b"100-continue"
            elif value in _NO_BODY:
                return ""
            else:
                is_coming = True
    if not (is_coming or not scope.get("http_version", "1.1").startswith("1")):  # HTTP/2 needs no header for a body
        return ""
    return "expected" if is_expected else "coming"


def expects_continue(scope: Scope) -> bool:
    """Return whether the client waits to be asked for its body; HTTP knows no other expectation."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers_of(scope))


def is_readable(scope: Scope) -> bool:
    """Return whether this request has a body of JSON that isn't known to be too long, and that may be asked for."""
    if scope["type"] != "http" or expects_continue(scope):
        return False
    headers = {name: value for name, value in headers_of(scope)}  # noqa: C416 - a pair may be a list
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"0")
    return (kind == b"application/json" or kind.endswith(b"+json")) and length.isdigit() and int(length) <= LONGEST_BODY
