"""The middleware on real servers, over real sockets: what clients see must not depend on the server."""

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.servers import Kind, Server, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONFIG = Path(__file__).parent / "data" / "playground.yaml"
APP = "tests.e2e.playground:app"
SERVERS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "uvicorn-uvloop": ("uvicorn", ("--loop", "uvloop", "--http", "httptools")),
    "uvicorn-asyncio": ("uvicorn", ("--loop", "asyncio", "--http", "h11", "--lifespan", "off")),
    "hypercorn-asyncio": ("hypercorn", ("--worker-class", "asyncio", "--backlog", "2048")),
    "hypercorn-trio": ("hypercorn", ("--worker-class", "trio", "--backlog", "2048")),
    "granian": ("granian", ("--workers", "1")),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    kind, options = SERVERS[request.param]
    with serve(APP, *options, kind=kind, environment={"APF_TEST_CONFIG": str(CONFIG)}, ready="/tell") as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, limits=limits, timeout=60, trust_env=False) as client:
        yield client


async def count_of(client: httpx.AsyncClient, mark: str) -> int:
    happened: dict[str, int] = (await client.get("/tell")).json()
    return happened.get(mark, 0)


async def until(condition: Callable[[], Awaitable[bool]], patience: float = 60) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + patience
    while not await condition():
        assert time.monotonic() < deadline, "it didn't happen in time"
        await asyncio.sleep(0.01)


async def waiting(client: httpx.AsyncClient) -> int:
    text = (await client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith("apf_current_inqueue_requests{")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


async def fill_seats(client: httpx.AsyncClient) -> list[asyncio.Task[httpx.Response]]:
    """Occupy both seats until they are freed."""
    before = await count_of(client, "filler")
    params: dict[str, str] = {"ms": "60000", "mark": "filler"}
    tasks = [asyncio.create_task(client.get("/hold", params=params, headers={"X-User": "filler"})) for _ in range(2)]

    async def both() -> bool:
        return await count_of(client, "filler") == before + 2

    await until(both)
    return tasks


async def free_seats(client: httpx.AsyncClient, fillers: list[asyncio.Task[httpx.Response]]) -> None:
    await client.get("/let-go", params={"mark": "filler"})
    assert {filler.status_code for filler in await asyncio.gather(*fillers)} == {200}


async def until_waiting(client: httpx.AsyncClient, number: int) -> None:
    async def so_many() -> bool:
        return await waiting(client) == number

    await until(so_many)


async def cancelled(client: httpx.AsyncClient) -> int:
    lines = [line for line in (await client.get("/metrics")).text.splitlines() if 'reason="cancelled"' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("apf_rejected_requests_total{"))


async def test_a_response_names_schema_and_level(client: httpx.AsyncClient) -> None:
    response = await client.get("/who", headers={"X-User": "alice"})

    assert response.status_code == 200
    assert response.headers["x-apf-flow-schema"] == "everybody"
    assert response.headers["x-apf-priority-level"] == "crowd"
    assert response.json() == {"level": "crowd", "schema": "everybody", "flow": "alice", "seats": 1, "waited": 0.0}


async def test_a_request_without_a_free_seat_waits_and_is_served(client: httpx.AsyncClient) -> None:
    fillers = await fill_seats(client)
    asked = asyncio.create_task(client.get("/who", headers={"X-User": "bob"}))
    await until_waiting(client, 1)
    await free_seats(client, fillers)

    assert (await asked).json()["waited"] > 0


async def test_a_client_that_hangs_up_while_queued_is_not_served(server: Server, client: httpx.AsyncClient) -> None:
    fillers, before = await fill_seats(client), await cancelled(client)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /hold?mark=gone HTTP/1.1\r\nHost: x\r\nX-User: bob\r\n\r\n")
        await until_waiting(client, 1)
    await until_waiting(client, 0)
    assert not any(filler.done() for filler in fillers), "it left at once, not when a seat came free"
    assert await cancelled(client) == before + 1, "it left because its client did, and not after its time"
    await free_seats(client, fillers)

    assert await count_of(client, "gone") == 0


async def test_an_upload_survives_the_waiting(client: httpx.AsyncClient) -> None:
    fillers = await fill_seats(client)
    body = bytes(range(256)) * 8192  # 2 MiB

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    asked = asyncio.create_task(client.post("/echo", content=parts(), headers={"X-User": "carol"}))
    await until_waiting(client, 1)
    await free_seats(client, fillers)
    response = await asked

    assert response.status_code == 200
    assert response.json()["size"] == len(body)
    assert response.json()["sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_body_that_the_app_does_not_receive_keeps_no_seat(
    server: Server, client: httpx.AsyncClient, method: str
) -> None:
    head = f"{method} /hold?ms=20 HTTP/1.1\r\nHost: x\r\nX-User: mallory\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode() + b"1\r\nx\r\n" * 40 + b"0\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), 60)).split(b" ")[1] == b"200"
        writer.close()

    assert (await client.get("/who")).status_code == 200


async def test_a_stream_is_not_touched(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/stream", params={"n": "4", "ms": "20"}) as response:
        parts = [part async for part in response.aiter_raw()]

    assert b"".join(parts) == b"xxxxx" * 4
    assert len(parts) > 1, "parts come when they are sent"
    assert response.headers["x-apf-priority-level"] == "crowd"


async def test_an_error_is_answered_by_the_server_and_releases_the_seat(client: httpx.AsyncClient) -> None:
    for _ in range(4):  # each on its own connection, which servers close after an error
        assert (await client.get("/boom", headers={"Connection": "close"})).status_code == 500
    assert (await client.get("/who")).status_code == 200


async def test_background_work_is_done(client: httpx.AsyncClient) -> None:
    before = await count_of(client, "background")
    assert (await client.get("/after")).text == "done"

    async def done() -> bool:
        return await count_of(client, "background") == before + 1

    await until(done)


async def test_a_request_that_waits_too_long_is_rejected_with_a_problem_document(client: httpx.AsyncClient) -> None:
    fillers = await fill_seats(client)
    response = await client.get("/who", headers={"X-User": "dave"})
    await free_seats(client, fillers)

    assert response.status_code == 429
    assert response.headers["content-type"] == "application/problem+json"
    assert 1 <= int(response.headers["retry-after"]) <= 60
    problem = response.json()
    assert (problem["reason"], problem["level"]) == ("time-out", "crowd")
    assert problem["waited"] > 4.9


async def test_a_websocket_holds_no_seat_once_it_is_accepted(server: Server, client: httpx.AsyncClient) -> None:
    url = f"ws://127.0.0.1:{server.port}/talk"
    sockets = [await connect(url, proxy=None) for _ in range(5)]
    try:
        for one in sockets:
            await one.send("hello")
            assert await one.recv() == "HELLO"
        assert (await client.get("/who")).json()["waited"] == 0
    finally:
        for one in sockets:
            await one.close()


async def test_a_websocket_that_finds_no_seat_is_denied(server: Server, client: httpx.AsyncClient) -> None:
    fillers = await fill_seats(client)
    with pytest.raises(websockets.exceptions.WebSocketException) as caught:
        await connect(f"ws://127.0.0.1:{server.port}/talk", proxy=None)
    await free_seats(client, fillers)

    assert isinstance(caught.value, websockets.exceptions.InvalidStatus)
    response = caught.value.response
    assert response.status_code in {403, 429}
    if response.status_code == 429:
        assert json.loads(response.body or b"{}")["reason"] == "time-out"


async def test_a_slow_reader_keeps_its_own_seat_and_no_more(server: Server, client: httpx.AsyncClient) -> None:
    before = await count_of(client, "stream-left")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2048)
    writer.write(b"GET /stream?n=40&ms=0&size=250000 HTTP/1.1\r\nHost: x\r\nX-User: slow\r\n\r\n")
    await reader.readexactly(1000)
    served = [(await client.get("/who")).json()["waited"] for _ in range(5)]

    assert max(served) == 0
    assert await count_of(client, "stream-left") == before, "it is still being sent"
    writer.close()

    async def left() -> bool:
        return await count_of(client, "stream-left") == before + 1

    await until(left)


async def test_a_thousand_simultaneous_connections_are_all_answered(server: Server, client: httpx.AsyncClient) -> None:
    async def one(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            request = f"GET /hold?ms=1 HTTP/1.1\r\nHost: x\r\nX-User: u{number % 50}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            answer = await asyncio.wait_for(reader.read(), 60)
            return int(answer.split(b" ", 2)[1])
        finally:
            writer.close()

    statuses = await asyncio.gather(*[one(number) for number in range(1000)])

    assert len(statuses) == 1000
    assert set(statuses) <= {200, 429}
    assert 200 in statuses, "how many is a matter of how fast the server takes connections"

    await until_waiting(client, 0)
