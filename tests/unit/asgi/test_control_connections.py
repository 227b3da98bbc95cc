"""The connections of a control socket: their number, and the process at the other end."""

import gc
import logging
import os
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi.control_connections import peer_of, serve_connections

pytestmark = pytest.mark.anyio

REQUEST = b"GET / HTTP/1.1\r\nHost: apf\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: apf\r\nContent-Length: 10\r\n\r\n123"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "socket"


class App:
    """Answers with the peer; it waits for ``goes_on`` first. ``running`` requests are being answered."""

    def __init__(self) -> None:
        self.running = 0
        self.goes_on = anyio.Event()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.running += 1
        await self.goes_on.wait()
        self.running -= 1
        body = scope["state"]["peer"].encode()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(path: Path, app: App) -> AsyncIterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_connections, listener, app)
            yield
            tasks.cancel_scope.cancel()


async def connect(path: Path, *, send: bytes = b"") -> ByteStream:
    client = await anyio.connect_unix(path)
    await client.send(send)
    return client


async def hear(client: ByteStream) -> bytes:
    """Return the next part of a response; nothing if the connection has been closed."""
    with anyio.fail_after(60):
        try:
            return await client.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return b""


async def test_a_request_has_its_peer(path: Path) -> None:
    app = App()
    app.goes_on.set()
    async with serving(path, app), await connect(path, send=REQUEST) as client:
        heard = b""
        while b"pid" not in heard:
            heard += await hear(client)
        assert f"uid:{os.geteuid()} pid:{os.getpid()}".encode() in heard


def test_the_owner_has_no_number_where_the_system_reports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with socket.socket(socket.AF_UNIX) as connected:
        assert peer_of(connected) == "owner"


async def test_the_connection_that_was_idle_longest_ends_for_a_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apf_middleware.asgi.control_connections._MOST_CONNECTIONS", 3)
    app = App()
    async with serving(path, app):
        clients = [await connect(path, send=sent) for sent in (REQUEST, HALF, b"GET / HT")]
        with anyio.fail_after(60):
            while app.running < 2:  # also the one whose body isn't complete
                await anyio.lowlevel.checkpoint()
        clients += [await connect(path), await connect(path, send=REQUEST)]
        assert [await hear(client) for client in clients[1:3]] == [b"", b""]
        with anyio.fail_after(60):
            while app.running < 3:
                await anyio.lowlevel.checkpoint()
        app.goes_on.set()
        assert b"200 OK" in await hear(clients[0])
        assert b"200 OK" in await hear(clients[4])
        for client in clients:
            await anyio.aclose_forcefully(client)


async def test_the_access_log_of_the_apps_server_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(log, "propagate", True)
    before = list(log.handlers), log.propagate
    async with serving(path, App()), await connect(path):
        assert (log.handlers, log.propagate) == before


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": fast}) for fast in (False, True)])
async def test_connections_that_are_being_accepted_at_the_end_are_closed(path: Path, turns: int) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        async with serving(path, App()):
            await anyio.lowlevel.checkpoint()
            with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as other:
                client.connect(str(path))  # accepted in the next turn of the event loop
                other.connect(str(path))
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
        gc.collect()
    assert not warned
