"""One connection of the control socket: HTTP/1.1 by h11, spoken to an ASGI application.

The other side may do everything, so it needn't be fenced in; but what it says is checked as any client's is, for it may
be a program with a mistake in it. One connection at a time has one request, and all are bounded in length and in time.
"""

import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import unquote

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from starlette.types import Message, Receive, Scope, Send

__all__ = ["Peer", "Responder", "Wire", "peer_of"]

_HEAD_BYTES: Final = 16 * 1024
_PART_BYTES: Final = 64 * 1024
_PATIENCE_S: Final = 30.0
"""For one request with its answer, and between two of them."""

_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_CREDENTIALS: Final = struct.Struct("3i")

Peer = str
"""Who is at the other end, as the system tells it."""

Responder = Callable[[Scope, Receive, Send, Peer], Awaitable[None]]


def peer_of(stream: SocketStream) -> Peer:
    """``uid:1000 pid:4242`` of whoever has connected; without numbers where the system tells none."""
    option: int | None = getattr(socket, "SO_PEERCRED", None)  # Linux has it
    if option is None:
        return "owner"
    connected = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - Django's is another
    raw = connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return f"uid:{uid} pid:{pid}"


class Wire:
    """The requests that come on ``stream``, answered by ``respond``.

    ``since`` is when the present request was first waited for. ``is_idle`` tells that the other side is waited for: to
    send a request or the rest of it, or to read its answer.
    """

    __slots__ = ("_connection", "_peer", "_respond", "_scope", "_stream", "is_idle", "since")

    def __init__(self, stream: SocketStream, respond: Responder) -> None:
        self._stream = stream
        self._respond = respond
        self._peer: Peer = ""
        self._scope = anyio.CancelScope()
        self.since: float = anyio.current_time()
        self.is_idle: bool = True
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    async def run(self) -> None:
        """Until the other side has no more requests, or makes no sense, or `end` is called."""
        with self._scope, suppress(*_GONE):
            try:
                self._peer = peer_of(self._stream)
                is_over = False
                while not is_over:
                    is_over = True
                    with anyio.move_on_after(_PATIENCE_S):
                        is_over = not await self._exchange()
                    self.since = anyio.current_time()
            except h11.RemoteProtocolError as error:
                await self._complain(error)

    def end(self) -> None:
        """Leave the other side, whatever it was about to say or to read."""
        self._scope.cancel()

    @contextmanager
    def _idling(self) -> Iterator[None]:
        self.is_idle = True
        try:
            yield
        finally:
            self.is_idle = False

    async def _exchange(self) -> bool:
        """One request and its answer; False if there won't be another."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            return False
        await self._respond(_scope(event), self._receive, self._send, self._peer)
        connection = self._connection
        while connection.their_state is h11.SEND_BODY:  # what nobody wanted to read
            if connection.next_event() is h11.NEED_DATA:
                return False  # and hasn't come yet: it isn't waited for
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return False
        connection.start_next_cycle()
        return True

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._connection.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # NEED_DATA is what is left out
            if self._connection.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                with self._idling():
                    data = await self._stream.receive(_PART_BYTES)
            except anyio.EndOfStream:
                data = b""
            self._connection.receive_data(data)

    async def _receive(self) -> Message:
        if self._connection.their_state is h11.SEND_BODY:
            event = await self._next()
            if isinstance(event, h11.Data):
                return {"type": "http.request", "body": bytes(event.data), "more_body": True}
            if isinstance(event, h11.EndOfMessage):
                return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._write(h11.Response(status_code=message["status"], headers=message["headers"]))
            return
        if message["body"]:
            await self._write(h11.Data(data=message["body"]))
        if not message.get("more_body", False):
            await self._write(h11.EndOfMessage())

    async def _complain(self, error: h11.RemoteProtocolError) -> None:
        """Say that this is no HTTP, if there is still somebody to hear it."""
        if self._connection.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        body = f"{error}\n".encode("ascii", "backslashreplace")
        headers = [("content-type", "text/plain"), ("content-length", str(len(body))), ("connection", "close")]
        with anyio.move_on_after(_PATIENCE_S), suppress(*_GONE):
            await self._write(h11.Response(status_code=error.error_status_hint, headers=headers))
            await self._write(h11.Data(data=body))
            await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        if data:
            with self._idling():
                await self._stream.send(data)


def _scope(request: h11.Request) -> Scope:
    """As a server makes it of what came over a network, as far as that makes sense here."""
    target, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.http_version.decode("ascii"),
        "scheme": "http",
        "server": None,
        "client": None,
        "method": request.method.decode("ascii"),
        "path": unquote(target.decode("ascii")),
        "raw_path": target,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
    }
