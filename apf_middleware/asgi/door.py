"""The control socket of one worker: where operators come in while nothing else may get through.

It has a file of its own, so that each worker can be told by itself, and only who owns the server can open it. It is
there from the lifespan's beginning to its end. Whatever goes wrong with it is logged and ends the door at most: the
server goes on.
"""

import logging
import os
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import SocketListener, SocketStream, TaskStatus

from apf_middleware.asgi.wire import Responder, Wire
from apf_middleware.config.sockets import is_refused, prepare_directory, remove_dead, socket_path
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import log_event

__all__ = ["Door"]

_MODE: Final = 0o600
_MOST_CONNECTIONS: Final = 32
_BACKLOG: Final = 128
_GRACE_S: Final = 0.5  # a connection that has just been made has had no time to say anything
_PAUSE_S: Final = 0.1  # when no file descriptor or no connection is free, one may be after it


class Door:
    """Answers by ``respond`` whoever comes to ``app``'s socket in ``directory``."""

    __slots__ = ("_app", "_directory", "_inode", "_path", "_respond", "_wires")

    def __init__(self, directory: Path, app: str, respond: Responder) -> None:
        self._directory = directory
        self._app = app
        self._respond = respond
        self._path: Path | None = None
        self._inode: tuple[int, int] | None = None
        self._wires: set[Wire] = set()

    @property
    def path(self) -> Path | None:
        """Where the socket is, while it is open."""
        return self._path

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open, tell that it is, and serve until cancelled.

        It doesn't raise: a server without a door is still a server.
        """
        try:
            listener = await self._open()
        except Exception as error:  # noqa: BLE001 - a system without such sockets says so in ways of its own
            log_event(logging.ERROR, "apf.socket-failed", app=self._app, directory=self._directory, error=str(error))
            task_status.started()
            return
        task_status.started()
        log_event(logging.INFO, "apf.socket-opened", path=self._path)
        try:
            async with listener:
                await self._accept(listener)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the door and not the server
            log_event(logging.ERROR, "apf.socket-failed", path=self._path, error=f"{type(error).__name__}: {error}")
        finally:
            self.remove()

    async def _open(self) -> SocketListener:
        path = self._choose()
        # Under another name until somebody listens: who finds a socket that refuses may take it for a dead one's.
        unready = path.with_name(f".{path.name}_")
        listener = await anyio.create_unix_listener(unready, mode=_MODE, backlog=_BACKLOG)
        told = unready.lstat()
        self._inode = told.st_dev, told.st_ino
        unready.replace(path)
        self._path = path
        return listener

    def _choose(self) -> Path:
        """Where the socket is to be; whoever was there before is dead, or it is an error."""
        prepare_directory(self._directory)
        remove_dead(self._directory)
        path = socket_path(self._directory, self._app, os.getpid())
        if os.path.lexists(path) and not is_refused(path):
            hint = "Give each middleware of a process an admin.app of its own, and each container a directory"
            raise InvalidValueError("socket", str(path), "somebody else listens there", hint)
        return path

    async def _accept(self, listener: SocketListener) -> None:
        """Like the listener's own ``serve``, which ends when it runs out of file descriptors."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    log_event(logging.WARNING, "apf.socket-refuses", path=self._path, error=str(error))
                    await anyio.sleep(_PAUSE_S)
                    continue
                try:
                    await self._make_room()
                except BaseException:
                    await anyio.aclose_forcefully(stream)
                    raise
                wire = Wire(stream, self._respond)
                self._wires.add(wire)
                tasks.start_soon(self._serve_one, stream, wire)

    async def _make_room(self) -> None:
        """With as many connections as there may be, end the one that has been idle for longest.

        So connections that say nothing can't keep out one that does. A request that is being answered is left alone.
        """
        while len(self._wires) >= _MOST_CONNECTIONS:
            before = anyio.current_time() - _GRACE_S
            idle = [wire for wire in self._wires if wire.is_idle and wire.since < before]
            if idle:
                longest = min(idle, key=attrgetter("since"))
                longest.end()
                self._wires.remove(longest)
            else:
                await anyio.sleep(_PAUSE_S)

    async def _serve_one(self, stream: SocketStream, wire: Wire) -> None:
        try:
            await wire.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this connection alone
            log_event(logging.ERROR, "apf.socket-error", path=self._path, error=f"{type(error).__name__}: {error}")
        finally:
            self._wires.discard(wire)
            await anyio.aclose_forcefully(stream)

    def remove(self) -> None:
        """Remove the socket's file, unless another one is in its place."""
        path, self._path = self._path, None
        if path is None:
            return
        with suppress(OSError):
            told = path.lstat()
            if (told.st_dev, told.st_ino) == self._inode:
                path.unlink()

    def __repr__(self) -> str:
        return f"<Door at {self._path or self._directory}{'' if self._path else ', closed'}>"
