"""Streams on a real server: a hundred idle ones hold up nobody, there are no more than may be, nor slow readers."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.servers import Server, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONFIG = Path(__file__).parent / "data" / "streams.yaml"
IDLE = "/stream?n=2&ms=600000&type=text/event-stream"
PARTS, SIZE = 60, 200_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve("tests.e2e.playground:app", environment={"APF_TEST_CONFIG": str(CONFIG)}, ready="/who") as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        yield client


async def open_streams(client: httpx.AsyncClient) -> int:
    text = (await client.get("/metrics")).text
    [line] = [line for line in text.splitlines() if line.startswith('apf_open_streams{priority_level="crowd"}')]
    return int(float(line.rpartition(" ")[2]))


async def until_open(client: httpx.AsyncClient, number: int) -> None:
    deadline = time.monotonic() + 60
    while (found := await open_streams(client)) != number:
        assert time.monotonic() < deadline, f"{found} streams are open, not {number}"
        await asyncio.sleep(0.02)


class Client:
    """One connection, and what came on it so far."""

    def __init__(self, port: int, path: str, *headers: str, rcvbuf: int | None = None) -> None:
        self._socket = socket.socket()
        if rcvbuf is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self._socket.connect(("127.0.0.1", port))
        self._head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()
        self._socket.setblocking(False)  # noqa: FBT003 - that is how it is called
        self.heard = bytearray()

    async def ask(self) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, self._head)

    async def hear(self, until: bytes) -> bytes:
        """All that came, as soon as ``until`` has."""
        looked = 0
        while self.heard.find(until, max(0, looked - len(until))) < 0:
            looked = len(self.heard)
            part = await asyncio.get_running_loop().sock_recv(self._socket, 1_000_000)
            assert part, "it went on"
            self.heard += part
        return bytes(self.heard)

    def close(self) -> None:
        self._socket.close()


async def test_idle_streams_delay_no_request_and_their_number_is_limited(
    server: Server, client: httpx.AsyncClient
) -> None:
    streams = [Client(server.port, IDLE, f"X-User: u{number % 7}") for number in range(100)]
    with contextlib.ExitStack() as clients:
        for stream in streams:
            clients.callback(stream.close)
            await stream.ask()
            await stream.hear(b"xxxxx")
        async with contextlib.AsyncExitStack() as sockets:
            for _ in range(10):
                await sockets.enter_async_context(connect(f"ws://127.0.0.1:{server.port}/talk", proxy=None))
            await until_open(client, 110)
            answer = (await client.get("/who")).json()
            assert (answer["waited"], answer["seats"]) == (0, 1)

            known = [Client(server.port, IDLE, "Accept: text/event-stream") for _ in range(6)]
            for stream in known:
                clients.callback(stream.close)
                await stream.ask()
            heads = [(await stream.hear(b"\r\n\r\n")).partition(b"\r\n")[0] for stream in known]
            assert sorted(heads) == [b"HTTP/1.1 200 OK"] * 5 + [b"HTTP/1.1 429 Too Many Requests"]
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with connect(f"ws://127.0.0.1:{server.port}/talk", proxy=None):
                    pass
            assert refused.value.response.status_code == 429
            assert b"stream-limit" in (refused.value.response.body or b"")
            assert (await client.get("/who")).status_code == 200
    await until_open(client, 0)
    assert "Traceback" not in server.output()


async def test_clients_that_do_not_read_hold_no_seats_and_get_everything_in_the_end(
    server: Server, client: httpx.AsyncClient
) -> None:
    path = f"/stream?n={PARTS}&size={SIZE}&ms=0"
    readers = [Client(server.port, path, "Connection: close", rcvbuf=65_536) for _ in range(2)]
    with contextlib.ExitStack() as clients:
        for reader in readers:
            clients.callback(reader.close)
            await reader.ask()
        await until_open(client, 2)
        assert (await client.get("/who")).json()["seats"] == 1
        for reader in readers:
            heard = await reader.hear(b"0\r\n\r\n")
            assert heard.partition(b"\r\n\r\n")[2].count(b"x") == PARTS * SIZE
    await until_open(client, 0)
    assert "Traceback" not in server.output()
