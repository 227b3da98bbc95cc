"""The backend of `benchmarks.wire_backend` as a process of its own, for servers with several processes.

    python -m benchmarks.fleet_backend --socket /tmp/x/backend --scoreboard /tmp/x/all --attended /tmp/x/attended

Callers keep a pool of connections to a Unix socket, one for each call in flight: a byte begins a call, and a byte is
the answer. A call whose connection has ended goes on to its end, as in a database that doesn't notice that a client has
been killed. One scoreboard counts all calls, the other one those whose callers are still there. This process alone
writes to both, so their counts are exact.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from starlette.types import Receive, Scope, Send

from benchmarks.load import event_loop_factory
from benchmarks.wire_backend import PLACES, SERVICE_S, Scoreboard
from tests.support.servers import ROOT, pinned

__all__ = ["BackendApp", "BackendProcess", "running_backend"]

_CALL: Final = b"?"
_ANSWER: Final = b"!"
_START: Final = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
_BODY: Final = {"type": "http.response.body", "body": b"ok"}
_PATIENCE_S: Final = 60.0


class _Place(asyncio.Protocol):
    """One connection of a caller, which has at most one call in flight."""

    def __init__(self, every: Scoreboard, attended: Scoreboard) -> None:
        self._every = every
        self._attended = attended
        self._transport: asyncio.Transport | None = None
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _data: bytes) -> None:
        # After all that has arrived by now, because the end of another caller may be among it.
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        number = self._every.begin()
        self._is_busy = True
        if self._transport is not None:
            self._attended.begin()
        service = SERVICE_S * max(1.0, number / PLACES) ** 1.5
        asyncio.get_running_loop().call_later(service, self._end)

    def eof_received(self) -> None:
        self._leave()

    def connection_lost(self, _error: Exception | None) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._transport is not None and self._is_busy:
            self._attended.end()
        self._transport = None

    def _end(self) -> None:
        self._every.end()
        self._is_busy = False
        if self._transport is not None:
            self._attended.end()
            self._transport.write(_ANSWER)


class _Caller(asyncio.Protocol):
    """One connection to the backend."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def call(self) -> None:
        """Call the backend; a cancelled call ends the connection."""
        if self._transport is None:
            raise ConnectionResetError("the backend has gone")
        transport, self._answered = self._transport, asyncio.get_running_loop().create_future()
        transport.write(_CALL)
        try:
            await self._answered
        except asyncio.CancelledError:
            transport.abort()
            raise

    def data_received(self, _data: bytes) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionResetError("the backend has gone"))


class BackendApp:
    """An ASGI app that does nothing but call the backend at the Unix socket ``path``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[_Caller] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        caller = self._idle.pop() if self._idle else await self._connect()
        await caller.call()
        self._idle.append(caller)
        await send(_START)
        await send(_BODY)

    async def _connect(self) -> _Caller:
        _, caller = await asyncio.get_running_loop().create_unix_connection(_Caller, self._path)
        return caller


async def _live(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


@dataclass(frozen=True, slots=True)
class BackendProcess:
    """A backend that answers at ``socket``, and its scoreboards: of ``every`` call, and of those still ``attended``."""

    process: subprocess.Popen[bytes]
    socket: Path
    every: Scoreboard
    attended: Scoreboard


def _listens(path: Path) -> bool:
    """Return whether a server accepts connections; the path exists a moment before it does."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


@contextlib.contextmanager
def running_backend(folder: Path, core: int | None) -> Iterator[BackendProcess]:
    """Run a backend with its files in ``folder``, on this core."""
    address, paths = folder / "backend", (folder / "every", folder / "attended")
    every, attended = (Scoreboard(path) for path in paths)
    options = [f"--socket={address}", f"--scoreboard={paths[0]}", f"--attended={paths[1]}"]
    with pinned(core):
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.fleet_backend", *options], cwd=ROOT)  # noqa: S603
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _listens(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the backend doesn't listen at {address} (its status is {process.returncode})")
            time.sleep(0.01)
        yield BackendProcess(process, address, every, attended)
    finally:
        process.terminate()
        process.wait()


async def _serve(address: Path, every: Scoreboard, attended: Scoreboard) -> None:
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, is_over.set)
    await loop.create_unix_server(lambda: _Place(every, attended), str(address), backlog=1000)
    await is_over.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_backend", description="A scarce backend.")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--scoreboard", type=Path, required=True, help="of all calls")
    parser.add_argument("--attended", type=Path, required=True, help="of the calls whose callers are still there")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(_serve(options.socket, Scoreboard(options.scoreboard), Scoreboard(options.attended)))


if __name__ == "__main__":
    main()
