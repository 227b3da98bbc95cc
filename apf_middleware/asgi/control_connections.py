"""The connections of a control socket: uvicorn's HTTP/1.1 on asyncio, bounded in number and with the peer's identity.

uvicorn's `Server` isn't used. It would take over the signals of the process, log its start and its end beside those of
the server that runs the app, and look ten times per second whether it should end.
"""

import asyncio
import socket
import struct
from operator import attrgetter
from typing import Any, Final

from anyio import CancelScope
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

__all__ = ["ControlConnection", "Peer", "peer_of", "serve_connections"]

_MOST_CONNECTIONS: Final = 32
_HEAD_BYTES: Final = 16 * 1024
_KEEP_ALIVE_S: Final = 30
_GRACE_S: Final = 0.5  # at the end, requests get this time to notice that their clients are disconnected
_CREDENTIALS: Final = struct.Struct("3i")

Peer = str
"""The process at the other end, as the operating system reports it."""


def peer_of(connected: socket.socket) -> Peer:
    """Return ``uid:1000 pid:4242`` of the process that has connected; ``owner`` where the system reports none."""
    option: int | None = getattr(socket, "SO_PEERCRED", None)  # Linux has it
    if option is None:
        return "owner"
    pid, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return f"uid:{uid} pid:{pid}"


class ControlConnection(H11Protocol):
    """One connection. Its peer is in the ``state`` of each request's scope.

    If there are too many connections, a new one ends the one that has been idle for the longest time, so connections
    that send nothing can't keep the owner out. A request that is being answered is not ended; if all connections are
    in use, the request of a new one is answered with 503. Requests have no time limit: they may stream.
    """

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # Config's ``access_log`` would disable the access log of the server that runs the app, too.
        self.access_log = False
        self.app_state: dict[str, Any] = {"peer": peer_of(transport.get_extra_info("socket"))}
        self._since = self.loop.time()
        others = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        idle = [one for one in others if isinstance(one, ControlConnection) and one.is_idle]
        if len(others) >= _MOST_CONNECTIONS and idle:
            min(idle, key=attrgetter("_since")).transport.abort()

    def data_received(self, data: bytes) -> None:
        self._since = self.loop.time()
        super().data_received(data)

    @property
    def is_idle(self) -> bool:
        """Whether the client is waited for: for a request or the rest of it, or until it reads the answer."""
        request: Any = self.cycle  # None before the first request, which its type doesn't say
        if request is None or request.response_complete or request.more_body:
            return True
        return self.flow.write_paused


async def serve_connections(listener: socket.socket, app: ASGIApp) -> None:
    """Serve ``app`` on ``listener``, and close it when cancelled; the event loop must be asyncio's."""
    config = Config(
        app,
        http=ControlConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
        workers=1,
        limit_concurrency=_MOST_CONNECTIONS + 1,
        timeout_keep_alive=_KEEP_ALIVE_S,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    config.load()
    state, nothing = ServerState(), dict[str, Any]()
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: ControlConnection(config, state, nothing), sock=listener)
    try:
        await loop.create_future()
    finally:
        loop.remove_reader(listener)  # asyncio can't complete the acceptance of a connection after the server's close
        with CancelScope(shield=True):
            await _let_loop_run()  # a connection that has been accepted is made in one of the next turns
            server.close()
            for connection in list(state.connections):
                connection.transport.abort()
            await _let_loop_run()  # the transports close their sockets in the next turn
            # uvicorn logs a request that is cancelled as an error, so requests first get a chance to end by themselves.
            if running := set(state.tasks):
                await asyncio.wait(running, timeout=_GRACE_S)
        for task in state.tasks:
            task.cancel()


async def _let_loop_run() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
