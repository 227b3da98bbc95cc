"""The control socket of one worker: operators can reach it even when no other request gets through.

Each worker has a file of its own, so that each can be addressed, and only the owner of the server's process can open
it. The socket exists from the beginning of the lifespan to its end. An error is logged, and ends the socket or one of
its requests, but never the server.
"""

import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi.asyncio_thread import serve_in_thread
from apf_middleware.asgi.control_connections import Peer, serve_connections
from apf_middleware.config.sockets import is_refused, prepare_directory, remove_dead, socket_path
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import log_event
from apf_middleware.runtime.event_loop import is_asyncio
from apf_middleware.runtime.forks import close_in_children

__all__ = ["ControlSocket", "Responder"]

_MODE: Final = 0o600
_BACKLOG: Final = 128

Responder = Callable[[Scope, Receive, Send, Peer], Awaitable[None]]


class ControlSocket:
    """The socket of ``app`` in ``directory``, where ``respond`` answers requests."""

    __slots__ = ("_app", "_directory", "_inode", "_path", "_respond")

    def __init__(self, directory: Path, app: str, respond: Responder) -> None:
        self._directory = directory
        self._app = app
        self._respond = respond
        self._path: Path | None = None
        self._inode: tuple[int, int] | None = None

    @property
    def path(self) -> Path | None:
        """The path of the socket's file while it is open."""
        return self._path

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open the socket, report that to ``task_status``, and serve until cancelled.

        Errors are logged and not raised, because a server can work without a control socket.
        """
        try:
            listener = self._open()
        except Exception as error:  # noqa: BLE001 - systems without such sockets raise different errors
            log_event(logging.ERROR, "apf.socket-failed", app=self._app, directory=self._directory, error=str(error))
            # the server's start waits for this, and would fail without it
            task_status.started()
            return
        task_status.started()
        log_event(logging.INFO, "apf.socket-opened", path=self._path)
        try:
            with listener:
                await self._accept(listener)
        except Exception as error:  # noqa: BLE001 - any error ends the socket only, not the server
            log_event(logging.ERROR, "apf.socket-failed", path=self._path, error=f"{type(error).__name__}: {error}")
        finally:
            self.remove()

    async def _accept(self, listener: socket.socket) -> None:
        serve = partial(serve_connections, listener)
        await (serve(self._answer) if is_asyncio() else serve_in_thread(serve, self._answer))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(scope, receive, send, scope["state"]["peer"])

    def _open(self) -> socket.socket:
        path = self._choose()
        # The file has another name until the socket listens: a worker that starts at this moment removes files of
        # sockets that refuse connections. No client can connect between the bind and the change of the mode, because
        # the socket doesn't listen yet.
        unready = path.with_name(f".{path.name}_")
        if unready.is_socket():  # of an earlier process that had this number and was killed at this moment
            unready.unlink()
        listener = socket.socket(socket.AF_UNIX)
        close_in_children(listener)  # one would look like a worker that is too busy to answer
        try:
            listener.bind(os.fspath(unready))
            unready.chmod(_MODE)
            listener.listen(_BACKLOG)
            # Renaming a file keeps its inode, which is read first because the final name may soon be another worker's.
            self._inode = _inode_of(unready)
            unready.replace(path)
        except BaseException:
            listener.close()
            raise
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
