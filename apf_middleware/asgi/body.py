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
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.exchange import Exchange
from apf_middleware.asgi.hangup import expects_continue
from apf_middleware.asgi.headers import headers_of
from apf_middleware.classification.digest import NO_VALUES
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Incoming, IncomingBodies

if TYPE_CHECKING:
    from apf_middleware.asgi.hangup import Hearing
    from apf_middleware.classification import Classification

__all__ = ["LONGEST_BODY", "Body", "announcement", "is_readable"]

LONGEST_BODY: Final = 64 * 1024
"""So many bytes are read for an estimate; a longer body tells nothing."""

_NO_BODY: Final = frozenset({b"0", b""})


class Body:
    """The body of one request, as far as it was received; `receive` gives it to the app.

    ``reason`` is why its request has to end, if it has: its body was too slow, or its client has gone.
    """

    __slots__ = ("_bodies", "_kept", "_length", "_receive", "_task", "hearing", "incoming", "is_whole")

    def __init__(self, bodies: IncomingBodies, classification: "Classification", receive: Receive) -> None:
        self._bodies = bodies
        self._receive = receive
        self._kept: deque[Message] = deque()
        self._length = 0  # of what is kept
        self._task: tuple[asyncio.Task[Any], int] | None = None
        self.hearing: Hearing | None = None  # of a wait for seats, whom the rest came by
        self.incoming: Incoming = Incoming(classification)
        self.is_whole: bool = False  # or its client has gone: nothing more will come

    @classmethod
    def of(cls, bodies: IncomingBodies, messages: "Receive | Body", classification: "Classification") -> "Body":
        """The body that comes by ``messages``, of which some may have been received already."""
        return messages if isinstance(messages, Body) else cls(bodies, classification, messages)

    @property
    def reason(self) -> Reason | None:
        return self.incoming.reason

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept that the app hasn't received."""
        return not self._kept

    async def gather(self, limit: int, begin_to_wait: Callable[[], None] | None = None) -> None:
        """Receive until the body is whole, or more than ``limit`` bytes or as much as may be are kept.

        If ``begin_to_wait`` is given, it is called in place of counting the request among the incoming ones when it
        has to wait. Unless it is counted by the time that a message has come, that one is enough.
        """
        if self.is_whole:
            return
        begin = begin_to_wait or self._begin_to_wait
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with anyio.CancelScope() as scope:
                self.incoming.interrupt = scope.cancel
                await self._gather(limit, begin, goes_on=begin_to_wait is None)
            return
        try:
            await self._gather(limit, begin, goes_on=begin_to_wait is None)
        except asyncio.CancelledError:
            if not self._is_interrupted():
                raise

    async def _gather(self, limit: int, begin: Callable[[], None], *, goes_on: bool) -> None:
        has_room = True
        try:
            while has_room and self._length <= limit and not self.is_whole:
                has_room = self._keep(await _received(self._receive, begin))
                if not (goes_on or self.incoming.is_counted):
                    break
        finally:
            self._bodies.end(self.incoming)

    def count(self) -> None:
        """Count the request among the incoming ones, for its body isn't there."""
        self._bodies.keep(self.incoming, self._length - self.incoming.kept)
        self._bodies.begin(self.incoming)

    def _begin_to_wait(self) -> None:
        if not self.incoming.is_counted:
            self.note_task()
            self.count()

    def note_task(self) -> None:
        """The task that runs now is the one to interrupt."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # it is trio's, and has a scope
            return
        if task is not None:
            self._task = task, task.cancelling()
            self.incoming.interrupt = task.cancel

    def _is_interrupted(self) -> bool:
        """Whether it was us who cancelled the task, and nobody else has."""
        if self._task is None or self.incoming.reason is None:
            return False
        task, cancelling = self._task
        return task.uncancel() <= cancelling

    def _keep(self, message: Message) -> bool:
        """Keep what has come; False if that was all that may be kept."""
        self._kept.append(message)
        if message["type"] != "http.request":
            self.is_whole = True
            self.incoming.reason = Reason.CANCELLED
            return True
        size = len(message.get("body", b""))
        self._length += size
        self.is_whole = not message.get("more_body", False)
        return not self.incoming.is_counted or self._bodies.keep(self.incoming, size)

    def parsed(self) -> Mapping[str, object]:
        """The JSON object that the body is; nothing if it is none, or too long, or the client has gone."""
        if not self.is_whole or self._length > LONGEST_BODY or self.reason is not None:
            return NO_VALUES
        return _parsed(b"".join([message.get("body", b"") for message in self._kept]))

    def go_on(self, receive: Receive) -> None:
        """What is still to come comes by ``receive``."""
        self._receive = receive

    def hand_over(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return the app's ``receive`` and ``send``; what comes after the body comes by ``receive``."""
        self._receive = receive
        exchange = Exchange(self.receive, send, self.close)
        return exchange.receive, exchange.send

    @property
    def is_open(self) -> bool:
        """Whether something has to be given back when the request is over."""
        return self.incoming.kept > 0 or self.hearing is not None

    async def receive(self) -> Message:
        """The next message, for the app."""
        if not self._kept:
            return await self._receive()
        message = self._kept.popleft()
        size = len(message.get("body", b""))
        self._length -= size
        if self.incoming.kept:
            self._bodies.give(self.incoming, size)
        return message

    def close(self) -> None:
        """The request is over: what the app hasn't received isn't kept any longer."""
        self._kept.clear()
        if self.hearing is not None:
            self.hearing.stop()
        self._bodies.give(self.incoming, self.incoming.kept)

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
            except BaseException as error:
                throw = getattr(steps, "throw", None)  # which iterators of servers (granian) may lack
                if throw is None:
                    raise
                waits_for = throw(error)
            else:
                waits_for = next(steps) if sent is None else steps.send(sent)
    except StopIteration as done:
        message: Message = done.value
        return message


def _parsed(raw: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return NO_VALUES
    return found if isinstance(found, dict) else NO_VALUES


def announcement(scope: Scope) -> Literal["", "coming", "expected"]:
    """Whether a body is on its way, as far as anybody knows before it comes, or comes when it is asked for."""
    is_coming = is_expected = False
    for name, value in headers_of(scope):
        if name == b"content-length":
            if value in _NO_BODY:
                return ""
            is_coming = True
        elif name == b"transfer-encoding":
            is_coming = True
        elif name == b"expect":
            is_expected = value.lower() == b"100-continue"
    if not (is_coming or not scope.get("http_version", "1.1").startswith("1")):  # HTTP/2 needs no header for a body
        return ""
    return "expected" if is_expected else "coming"


def is_readable(scope: Scope) -> bool:
    """Whether this request has a body of JSON that isn't known to be too long, and that may be asked for."""
    if scope["type"] != "http" or expects_continue(scope):
        return False
    headers = {name: value for name, value in headers_of(scope)}  # noqa: C416 - a pair may be a list
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"0")
    return (kind == b"application/json" or kind.endswith(b"+json")) and length.isdigit() and int(length) <= LONGEST_BODY
