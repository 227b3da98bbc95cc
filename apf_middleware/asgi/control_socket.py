"""The control socket of one worker: operators can reach it even when no other request gets through.

Each worker has a file of its own, so that each can be addressed, and only the owner of the server's process can open
it. The socket exists from the beginning of the lifespan to its end. An error is logged, and ends the socket or one
of its connections, but never the server.

A `ControlConnection` serves an ASGI application over HTTP/1.1 with h11, on asyncio and on trio. Its peer is authorized
for everything, but requests are checked like those of any client, because a faulty program may send them. A connection
serves one request at a time. Requests are bounded in length and in time, and connections in number. uvicorn's protocol
class, which runs on asyncio only, has no such bounds on connections and on the time that a request may take to arrive.
"""

import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import anyio
import h11
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteStream, SocketAttribute, SocketListener, TaskStatus
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.config.sockets import is_refused, prepare_directory, remove_dead, socket_path
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import log_event
from apf_middleware.runtime.unix_streams import accept_stream

__all__ = ["ControlConnection", "ControlSocket", "Peer", "Responder", "peer_of"]

_MODE: Final = 0o600
_MOST_CONNECTIONS: Final = 32
_BACKLOG: Final = 128
_GRACE_S: Final = 0.5  # a new connection gets this time to send its request before it counts as idle
_PAUSE_S: Final = 0.1  # the time between two attempts when no file descriptor or no connection is free
_HEAD_BYTES: Final = 16 * 1024
_PART_BYTES: Final = 64 * 1024
_TIMEOUT_S: Final = 30.0
"""The time limit for a request until its response begins, for each further part of it, and between two requests."""

_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_CREDENTIALS: Final = struct.Struct("3i")

Peer = str
"""The process at the other end, as the operating system reports it."""

Responder = Callable[[Scope, Receive, Send, Peer], Awaitable[None]]


def peer_of(stream: ByteStream) -> Peer:
    """Return ``uid:1000 pid:4242`` of the process that has connected; ``owner`` where the system reports none."""
    option: int | None = getattr(socket, "SO_PEERCRED", None)  # Linux has it
    if option is None:
        return "owner"
    connected = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - Django's is another
    raw = connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return f"uid:{uid} pid:{pid}"


class ControlConnection:
    """The requests on ``stream``, answered by ``respond``.

    ``since`` is the time at which the server began to wait for the current request. ``is_idle`` is whether the server
    waits for the client: for a request or the rest of it, or until the client reads the answer.
    """

    __slots__ = ("_connection", "_limit", "_peer", "_respond", "_scope", "_stream", "_watch", "is_idle", "since")

    def __init__(self, stream: ByteStream, respond: Responder) -> None:
        self._stream = stream
        self._respond = respond
        self._peer: Peer = ""
        self._scope, self._limit, self._watch = (anyio.CancelScope() for _ in range(3))
        self.since: float = anyio.current_time()
        self.is_idle: bool = True
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    async def run(self) -> None:
        """Serve until the peer closes, sends something that isn't HTTP, or is too slow, or until `end` is called."""
        with self._scope, suppress(*_GONE):
            try:
                self._peer = peer_of(self._stream)
                is_over = False
                while not is_over:
                    # Stays true after a time-out of the exchange, because then the connection is in an unknown state.
                    is_over = True
                    with anyio.move_on_after(_TIMEOUT_S) as self._limit:
                        is_over = not await self._exchange()
                    self.since = anyio.current_time()
            except h11.RemoteProtocolError as error:
                await self._answer_malformed(error)

    def end(self) -> None:
        """End the connection at once."""
        self._scope.cancel()

    @contextmanager
    def _idling(self) -> Iterator[None]:
        self.is_idle = True
        try:
            yield
        finally:
            self.is_idle = False

    async def _exchange(self) -> bool:
        """Serve one request; False if there can't be another."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            return False
        await self._respond(_scope(event), self._receive, self._send, self._peer)
        connection = self._connection
        while connection.their_state is h11.SEND_BODY:  # skip a body that the app hasn't read
            if connection.next_event() is h11.NEED_DATA:
                return False  # the rest may never arrive, so the connection is closed instead
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return False
        connection.start_next_cycle()
        return True

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._connection.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # the type can't exclude NEED_DATA
            if self._connection.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            with self._idling():
                await self._read()

    async def _read(self) -> None:
        """Pass the next bytes to h11; none are the end of the stream, and an error if a request is incomplete."""
        try:
            data = await self._stream.receive(_PART_BYTES)
        except (anyio.EndOfStream, *_GONE):
            data = b""
        self._connection.receive_data(data)

    async def _receive(self) -> Message:
        if self._connection.their_state is h11.SEND_BODY:
            event = await self._next()
            if isinstance(event, h11.Data):
                return {"type": "http.request", "body": bytes(event.data), "more_body": True}
            if isinstance(event, h11.EndOfMessage):
                return {"type": "http.request", "body": b"", "more_body": False}
        await self._wait_until_over()
        return {"type": "http.disconnect"}

    async def _wait_until_over(self) -> None:
        """Wait until the response is complete or the peer has closed the connection, be it its own side only."""
        connection = self._connection
        with anyio.CancelScope() as self._watch:
            while connection.our_state in {h11.SEND_RESPONSE, h11.SEND_BODY}:
                early, has_closed = connection.trailing_data
                if has_closed:
                    return
                if early:  # a part of the next request: reading on for the end could take any amount of memory
                    await anyio.sleep_forever()
                await self._read()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._write(h11.Response(status_code=message["status"], headers=message.get("headers", ())))
        else:
            if body := message.get("body"):
                await self._write(h11.Data(data=body))
            if not message.get("more_body", False):
                await self._write(h11.EndOfMessage())
                self._watch.cancel()
        self._limit.deadline = anyio.current_time() + _TIMEOUT_S

    async def _answer_malformed(self, error: h11.RemoteProtocolError) -> None:
        """Answer with the error of the protocol, unless a response has begun."""
        if self._connection.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        body = f"{error}\n".encode("ascii", "backslashreplace")
        headers = [("content-type", "text/plain"), ("content-length", str(len(body))), ("connection", "close")]
        with anyio.move_on_after(_TIMEOUT_S), suppress(*_GONE):
            await self._write(h11.Response(status_code=error.error_status_hint, headers=headers))
            await self._write(h11.Data(data=body))
            await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        if data:
            with self._idling():
                await self._stream.send(data)


class ControlSocket:
    """The socket of ``app`` in ``directory``, where ``respond`` answers requests."""

    __slots__ = ("_app", "_connections", "_directory", "_inode", "_path", "_respond")

    def __init__(self, directory: Path, app: str, respond: Responder) -> None:
        self._directory = directory
        self._app = app
        self._respond = respond
        self._path: Path | None = None
        self._inode: tuple[int, int] | None = None
        self._connections: set[ControlConnection] = set()

    @property
    def path(self) -> Path | None:
        """The path of the socket's file while it is open."""
        return self._path

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open the socket, report that to ``task_status``, and serve until cancelled.

        Errors are logged and not raised, because a server can work without a control socket.
        """
        try:
            listener = await self._open()
        except Exception as error:  # noqa: BLE001 - systems without such sockets raise different errors
            log_event(logging.ERROR, "apf.socket-failed", app=self._app, directory=self._directory, error=str(error))
            # the server's start waits for this, and would fail without it
            task_status.started()
            return
        task_status.started()
        log_event(logging.INFO, "apf.socket-opened", path=self._path)
        try:
            async with listener:
                await self._accept(listener)
        except Exception as error:  # noqa: BLE001 - any error ends the socket only, not the server
            log_event(logging.ERROR, "apf.socket-failed", path=self._path, error=f"{type(error).__name__}: {error}")
        finally:
            self.remove()

    async def _open(self) -> SocketListener:
        path = self._choose()
        # The file has another name until the socket listens: a worker that starts at this moment removes files of
        # sockets that refuse connections. No client can connect between the bind and the change of the mode, because
        # the socket doesn't listen yet.
        unready = path.with_name(f".{path.name}_")
        listener = await anyio.create_unix_listener(unready, mode=_MODE, backlog=_BACKLOG)
        # Renaming a file keeps its inode, which is read first because the final name may soon be another worker's file.
        self._inode = _inode_of(unready)
        unready.replace(path)
        self._path = path
        return listener

    def _choose(self) -> Path:
        """Return the path for the socket's file; InvalidValueError if a live process listens there."""
        prepare_directory(self._directory)
        remove_dead(self._directory)
        path = socket_path(self._directory, self._app, os.getpid())
        if os.path.lexists(path) and not is_refused(path):
            hint = "Give each middleware of a process an admin.app of its own, and each container a directory"
            raise InvalidValueError("socket", str(path), "another process or middleware listens there", hint)
        return path

    async def _accept(self, listener: SocketListener) -> None:
        """Accept connections, even after the process ran out of file descriptors, which ends a listener's ``serve``."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await accept_stream(listener)
                except OSError as error:
                    log_event(logging.WARNING, "apf.socket-refuses", path=self._path, error=str(error))
                    await anyio.sleep(_PAUSE_S)
                    continue
                try:
                    # only after a client has connected, because this may end another connection
                    await self._make_room()
                except BaseException:
                    # No task has the stream yet, so nothing else would close it.
                    await anyio.aclose_forcefully(stream)
                    raise
                connection = ControlConnection(stream, self._respond)
                self._connections.add(connection)
                tasks.start_soon(self._serve_one, stream, connection)

    async def _make_room(self) -> None:
        """Wait until there is room for another connection; end the one that has been idle for the longest time.

        Connections that send nothing therefore can't keep the owner out. A request that is being answered is not ended.
        """
        while len(self._connections) >= _MOST_CONNECTIONS:
            before = anyio.current_time() - _GRACE_S
            idle = [connection for connection in self._connections if connection.is_idle and connection.since < before]
            if idle:
                longest = min(idle, key=attrgetter("since"))
                longest.end()
                self._connections.remove(longest)  # at once: its task runs only after the next connection is counted
            else:
                await anyio.sleep(_PAUSE_S)

    async def _serve_one(self, stream: ByteStream, connection: ControlConnection) -> None:
        try:
            await connection.run()
        except Exception as error:  # noqa: BLE001 - any error ends this connection only
            log_event(logging.ERROR, "apf.socket-error", path=self._path, error=f"{type(error).__name__}: {error}")
        finally:
            # `_make_room` may have removed it already
            self._connections.discard(connection)
            await anyio.aclose_forcefully(stream)

    def remove(self) -> None:
        """Remove the socket's file, unless another file has its name; this may be called in a signal handler."""
        # Taken first, so that a signal handler which interrupts this call finds nothing more to remove.
        path, self._path = self._path, None
        if path is None:
            return
        with suppress(OSError):
            if _inode_of(path) == self._inode:
                path.unlink()

    def __repr__(self) -> str:
        return f"<ControlSocket at {self._path or self._directory}{'' if self._path else ', closed'}>"


def _inode_of(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _scope(request: h11.Request) -> Scope:
    """Return the scope of a request, as a server makes it."""
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
