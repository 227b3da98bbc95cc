"""The ``send`` of an app: it looks at each message, and knows whether the last one still waits for the client."""

from collections.abc import Awaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from starlette.types import Message, Send

from apf_middleware.asgi.coroutines import MARK_FOR_ASYNCIO, MARK_FOR_INSPECT, as_coroutine
from apf_middleware.asgi.scope import Headers
from apf_middleware.asgi.stream_policy import begin_response, is_event_stream
from apf_middleware.runtime import Admission

if TYPE_CHECKING:
    from apf_middleware.runtime.blocked_sends import BlockedSends

__all__ = ["RESPONSE_STARTS", "AppReply", "HttpReply", "WebSocketReply", "with_headers"]

RESPONSE_STARTS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""The types of messages that start a response or accept a WebSocket, and may have headers."""

_COROUTINE: Final[type] = CoroutineType
_E: Final = frozenset(b"eE")  # the character at index 5 of text/event-stream


class AppReply:
    """Passes messages of the response to the server's ``send``; a subclass looks at them and adds ``headers``.

    It isn't a coroutine function, but returns what the server's ``send`` returns, so a message costs no coroutine of
    its own. It is marked as a coroutine function, because adapters to synchronous apps (asgiref's) ask for that.

    If the level releases the seats of clients that don't read, a reply adds itself to those that are looked at.
    """

    __slots__ = ("_admission", "_call", "_headers", "_seen", "_seen_at", "_send", "_sends")

    _is_coroutine: ClassVar[object] = MARK_FOR_ASYNCIO
    _is_coroutine_marker: ClassVar[object] = MARK_FOR_INSPECT

    def __init__(self, send: Send, headers: Headers, admission: Admission) -> None:
        self._send = send
        self._headers = headers  # to add to the response
        self._admission = admission
        self._call: Any = None  # the last call of the server's
        self._seen: Any = None  # the one that waited at the last look, and the first look at which it did
        self._seen_at = 0
        sends = admission.destination.runtime.streams.sends
        self._sends: BlockedSends = sends
        if sends.limit_ns:
            sends.senders[admission] = self  # until the app has returned
            if admission.seated_at >= sends.look_at:
                sends.plan(admission.seated_at)

    # Declared here, because it takes a place in the objects of the compiled build: those of a class that only its
    # subclasses can call would have another layout than theirs.
    def __call__(self, message: Message) -> Awaitable[None]:
        """Pass a message on."""
        raise NotImplementedError

    def _wrap(self, call: Awaitable[None]) -> Awaitable[None]:
        """Return a coroutine that says whether it waits; not all servers and compiled middlewares give one."""
        if not self._sends.limit_ns:
            self._call = None
            return call
        found = self._call = as_coroutine(call)
        return found

    def is_blocked(self, now: int, limit_ns: int) -> bool:
        """Return whether one message has been waiting for the client since ``limit_ns`` ago, as far as looks show."""
        seen = self._seen
        if seen is None or not seen.cr_suspended:  # while it waits, the app may send more in other tasks
            seen = self._call
            if seen is None or not seen.cr_suspended:
                return False
            self._seen, self._seen_at = seen, now
        return now - self._seen_at >= limit_ns

    def release(self) -> None:
        """Give the seats back, unless that has been done; if there is no place for another stream, try again later."""
        self._seen = None
        self._admission.release_blocked()


class HttpReply(AppReply):
    """The ``send`` of an HTTP app."""

    __slots__ = ()

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message; if it starts the response, add headers and find out whether this is a stream."""
        admission = self._admission
        # The specification says dict, on which the compiled build works faster than on other mappings.
        event = message if isinstance(message, dict) else dict(message)
        kind: str = event["type"]
        if kind != "http.response.start":
            call = self._call = self._send(event)
            return call if type(call) is _COROUTINE else self._wrap(call)
        if admission.destination.gates:  # some leases may be needed only until now
            admission.destination.controller.release_leases(admission, early=True)
        status: int = event["status"]
        if status >= 500:
            admission.fail(status)
        found = event.get("headers")
        headers: list[Any] = found if isinstance(found, list) else [*(found or ())]
        if found and headers is not found:  # an app may pass an iterator, which can only be read once
            event = {**event, "headers": headers}  # the app may send the same dict again
        is_stream = False
        for header in headers:
            pair: tuple[Any, ...] = header if isinstance(header, tuple) else tuple(header)
            name = pair[0]
            if len(name) == 12 and (name == b"content-type" or name.lower() == b"content-type"):
                value = pair[1]
                is_stream = len(value) > 16 and value[5] in _E and is_event_stream(value)  # mostly without a call
                break
        if self._headers:
            event = event.copy()  # the app may send the same dict again
            event["headers"] = headers + self._headers
        call = self._call = self._send(event)  # observers hear of the status before the seats are given back
        if is_stream or admission.stream is not None:
            begin_response(admission, is_stream=is_stream)
        return call if type(call) is _COROUTINE else self._wrap(call)


class WebSocketReply(AppReply):
    """The ``send`` of a WebSocket's app; an accepted WebSocket is a stream."""

    __slots__ = ()

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message; if it answers the handshake, add headers."""
        kind = message["type"]
        if kind in {"websocket.accept", "websocket.http.response.start"}:
            if self._headers:
                message = with_headers(message, self._headers)
            begin_response(self._admission, is_stream=kind == "websocket.accept")
            if kind != "websocket.accept" and message["status"] >= 500:
                self._admission.fail(message["status"])
        call = self._call = self._send(message)
        return call if type(call) is _COROUTINE else self._wrap(call)


def with_headers(message: Message, extra: Headers) -> Message:
    """Return a message that starts a response, with ``extra`` headers after its own."""
    # The app may send the same dict again, so it isn't changed.
    return {**message, "headers": [*message.get("headers", ()), *extra]}
