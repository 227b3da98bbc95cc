"""Receiving a request's body before its app does: so that no seat is held while it comes, and for estimates.

The app receives it again, message for message, and whatever comes after it. Nobody who waits to be asked for a body
(``Expect: 100-continue``) is asked for it. What bounds the requests that are being received is `IncomingBodies`; it
interrupts a request that has to end.

Most bodies are there when they are asked for. Those cost one call of ``receive`` and no place among the incoming
ones: whether a call has to wait is seen by taking its first step by hand.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Generator, Mapping
from types import coroutine
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.exchange import Exchange
from apf_middleware.asgi.hangup import expects_continue
from apf_middleware.classification.digest import NO_VALUES
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Incoming, IncomingBodies

if TYPE_CHECKING:
    from apf_middleware.classification import Classification

__all__ = ["LONGEST_BODY", "Body", "is_announced", "is_readable"]

LONGEST_BODY: Final = 64 * 1024
"""So many bytes are read for an estimate; a longer body tells nothing."""

_NO_BODY: Final = frozenset({b"0", b""})


class Body:
    """The body of one request, as far as it was received; `receive` gives it to the app.

    ``reason`` is why its request has to end, if it has: its body was too slow, or its client has gone.
    """

    __slots__ = ("_bodies", "_incoming", "_is_whole", "_kept", "_length", "_receive", "_task")

    def __init__(self, bodies: IncomingBodies, classification: "Classification", receive: Receive) -> None:
        self._bodies = bodies
        self._incoming = Incoming(classification)
        self._receive = receive
        self._kept: deque[Message] = deque()
        self._length = 0
        self._is_whole = False
        self._task: tuple[asyncio.Task[Any], int] | None = None

    @classmethod
    def of(cls, bodies: IncomingBodies, messages: "Receive | Body", classification: "Classification") -> "Body":
        """The body that comes by ``messages``, of which some may have been received already."""
        return messages if isinstance(messages, Body) else cls(bodies, classification, messages)

    @property
    def reason(self) -> Reason | None:
        return self._incoming.reason

    async def gather(self, limit: int) -> None:
        """Receive until the body is whole, or more than ``limit`` bytes or as much as may be are kept."""
        if self._is_whole:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with anyio.CancelScope() as scope:
                self._incoming.interrupt = scope.cancel
                await self._gather(limit)
            return
        try:
            await self._gather(limit)
        except asyncio.CancelledError:
            if not self._is_interrupted():
                raise

    async def _gather(self, limit: int) -> None:
        has_room = True
        try:
            while has_room and self._length <= limit and not self._is_whole:
                has_room = self._keep(await _received(self._receive, self._begin_to_wait))
        finally:
            self._bodies.end(self._incoming)

    def _begin_to_wait(self) -> None:
        """The body isn't there: its request is among the incoming ones until it is."""
        incoming = self._incoming
        if incoming.is_counted:
            return
        task = _current_task()
        if task is not None:
            self._task = task, task.cancelling()
            incoming.interrupt = task.cancel
        self._bodies.keep(incoming, self._length - incoming.kept)
        self._bodies.begin(incoming)

    def _is_interrupted(self) -> bool:
        """Whether it was us who cancelled the task, and nobody else has."""
        if self._task is None or self._incoming.reason is None:
            return False
        task, cancelling = self._task
        return task.uncancel() <= cancelling

    def _keep(self, message: Message) -> bool:
        """Keep what has come; False if that was all that may be kept."""
        self._kept.append(message)
        if message["type"] != "http.request":
            self._is_whole = True
            self._incoming.reason = Reason.CANCELLED
            return True
        size = len(message.get("body", b""))
        self._length += size
        self._is_whole = not message.get("more_body", False)
        return not self._incoming.is_counted or self._bodies.keep(self._incoming, size)

    def parsed(self) -> Mapping[str, object]:
        """The JSON object that the body is; nothing if it is none, or too long, or the client has gone."""
        if not self._is_whole or self._length > LONGEST_BODY or self.reason is not None:
            return NO_VALUES
        return _parsed(b"".join([message.get("body", b"") for message in self._kept]))

    def hand_over(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return the app's ``receive`` and ``send``; the rest of the body comes by ``receive``."""
        self._receive = receive
        exchange = Exchange(self.receive, send, self.close)
        return exchange.receive, exchange.send

    async def receive(self) -> Message:
        """The next message, for the app."""
        if not self._kept:
            return await self._receive()
        message = self._kept.popleft()
        size = len(message.get("body", b""))
        self._length -= size
        if self._incoming.kept:
            self._bodies.give(self._incoming, size)
        return message

    def close(self) -> None:
        """The request is over: what the app hasn't received isn't kept any longer."""
        self._kept.clear()
        self._bodies.give(self._incoming, self._incoming.kept)

    def __repr__(self) -> str:
        return f"<Body: {len(self._kept)} messages kept>"


@coroutine
def _received(receive: Receive, begin_to_wait: Callable[[], None]) -> Generator[Any, Any, Message]:
    """Call ``receive``; ``begin_to_wait`` is called if it can't return at once."""
    steps = receive().__await__()
    try:
        waits_for = next(steps)
        begin_to_wait()
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is for whoever waits there
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(sent)
    except StopIteration as done:
        message: Message = done.value
        return message


def _current_task() -> "asyncio.Task[Any] | None":
    """The task that runs now; None where it isn't asyncio's."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _parsed(raw: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return NO_VALUES
    return found if isinstance(found, dict) else NO_VALUES


def is_announced(scope: Scope) -> bool:
    """Whether a body is on its way, as far as anybody knows before it comes, and may be asked for."""
    is_told = False
    for name, value in scope.get("headers") or ():
        if name == b"content-length":
            if value in _NO_BODY:
                return False
            is_told = True
        elif name == b"transfer-encoding":
            is_told = True
        elif name == b"expect" and value.lower() == b"100-continue":
            return False
    return is_told or not scope.get("http_version", "1.1").startswith("1")  # HTTP/2 needs no header to send a body


def is_readable(scope: Scope) -> bool:
    """Whether this request has a body of JSON that isn't known to be too long, and that may be asked for."""
    if scope["type"] != "http" or expects_continue(scope):
        return False
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"0")
    return (kind == b"application/json" or kind.endswith(b"+json")) and length.isdigit() and int(length) <= LONGEST_BODY
