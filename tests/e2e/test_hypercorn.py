"""Requests that hypercorn itself would never complete: they keep no seats, and their connections end."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import h2.connection
import h2.settings
import httpx
import pytest

from tests.support.servers import Server, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONFIG = Path(__file__).parent / "data" / "playground.yaml"
WIDE = 2**31 - 1  # the largest window of HTTP/2
CLOSED = """
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: closed}
spec: {shares: 1, state: Closed}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: closed}
spec:
  level: closed
  precedence: 3
  rules:
  - httpRules: [{paths: [/closed]}]
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["asyncio app", "asyncio mounted", "asyncio fast", "trio app", "trio mounted"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    worker, app = request.param.split()
    config = tmp_path_factory.mktemp("config") / "apf.yaml"
    config.write_text(CONFIG.read_text() + CLOSED)
    options, environment = ("--worker-class", worker), {"APF_TEST_CONFIG": str(config)}
    with serve(
        f"tests.e2e.playground:{app}", *options, kind="hypercorn", environment=environment, ready="/tell"
    ) as running:
        yield running


async def open_streams(client: httpx.AsyncClient) -> bool:
    return 'apf_open_streams{priority_level="crowd"} 0' not in (await client.get("/metrics")).text


async def is_served(server: Server) -> bool:
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        return (await client.get("/who")).status_code == 200


async def status_of(server: Server, sent: bytes) -> bytes:
    """Return the status of the first response, after the server has ended the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    async with asyncio.timeout(50):
        received = await reader.read()
    writer.close()
    return received.split(b" ")[1]


async def test_the_connection_of_a_rejected_request_ends_although_its_body_was_not_received(server: Server) -> None:
    """Otherwise each rejected upload would stay in memory."""
    request = b"GET /closed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 400
    following = b"GET /tell HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert await status_of(server, request + b"0\r\n\r\n" + following) == b"503"
    assert await is_served(server)


async def test_the_connection_of_a_request_that_raises_ends_although_its_body_was_not_received(server: Server) -> None:
    request = b"GET /boom HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 400

    assert await status_of(server, request) == b"500"
    assert await is_served(server)


async def test_a_client_that_leaves_behind_a_body_that_is_not_received_keeps_no_seat(server: Server) -> None:
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /hold?ms=300 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30)
        await asyncio.sleep(0.1)  # the app runs
        reset = struct.pack("ii", 1, 0)  # hypercorn notices it at once
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()

    assert await is_served(server)


async def test_a_client_of_http_2_that_leaves_its_download_keeps_no_seat(server: Server) -> None:
    for _ in range(3):
        connection = h2.connection.H2Connection()
        connection.initiate_connection()
        connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WIDE})
        connection.increment_flow_control_window(WIDE - 65_535)
        headers = {":method": "GET", ":path": "/download", ":scheme": "http", ":authority": "x"}
        connection.send_headers(1, [*headers.items()], end_stream=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(connection.data_to_send())
        await reader.readexactly(100_000)  # the download has begun
        writer.transport.abort()

    assert await is_served(server)


async def test_a_client_of_http_2_that_leaves_bodies_that_are_not_received_keeps_no_seat(server: Server) -> None:
    """Hypercorn waits for room for the disconnect of one stream, and keeps the lock that the others need to send."""
    for _ in range(8):
        connection = h2.connection.H2Connection()
        connection.initiate_connection()
        for stream, ms in ((1, 400), (3, 200)):
            headers = {":method": "GET", ":path": f"/hold?ms={ms}", ":scheme": "http", ":authority": "x"}
            connection.send_headers(stream, [*headers.items()])
        for _ in range(30):
            connection.send_data(1, b"x")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(connection.data_to_send())
        await asyncio.sleep(0.1)  # the app runs
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()

    assert await is_served(server)


@pytest.mark.parametrize("server", ["asyncio app", "asyncio fast"], indirect=True)  # on trio, hypercorn itself fails
async def test_a_websocket_whose_client_sends_too_early_does_not_stay_open(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    keys = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    request = b"GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + keys + b"\r\n"
    writer.write(request + b"\x81\x82\0\0\0\0hi")  # at once, so that the app can't accept before the data has come
    async with asyncio.timeout(50):
        assert (await reader.readline()).split()[1] == b"400"
    writer.close()

    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client, asyncio.timeout(50):
        while await open_streams(client):  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.02)
