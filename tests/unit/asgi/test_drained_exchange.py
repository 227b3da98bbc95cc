"""Responses to requests whose bodies the app hasn't received, on a server that keeps a bounded number of messages."""

from typing import TYPE_CHECKING

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.drained_exchange import DrainedExchange, needs_draining, wrap_with_draining
from tests.support.asgi_exchange import http_scope

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

pytestmark = pytest.mark.anyio

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
LAST: Message = {"type": "http.response.body", "body": b"done"}
ROOM = 3


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.asgi.drained_exchange._GRACE_S", 0.001)


class BoundedServer:
    """A server that keeps `ROOM` messages, and keeps the disconnect in the task that sends the last message."""

    def __init__(self, parts: int, *, is_whole: bool = False) -> None:
        self.kept: MemoryObjectSendStream[Message]
        self.received: MemoryObjectReceiveStream[Message]
        self.kept, self.received = anyio.create_memory_object_stream[Message](ROOM)
        self.sent: list[Message] = []
        self.error: Exception | None = None
        for number in range(parts):
            more = not is_whole or number + 1 < parts
            self.kept.send_nowait({"type": "http.request", "body": b"x", "more_body": more})

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message == LAST:
            await self.kept.send({"type": "http.disconnect"})
            if self.error is not None:
                raise self.error

    def close(self) -> None:
        self.kept.close()
        self.received.close()


async def test_a_response_is_completed_although_the_server_has_no_room() -> None:
    server = BoundedServer(parts=ROOM)
    exchange = DrainedExchange(server.received.receive, server.send)
    with anyio.fail_after(60):
        await exchange.send(START)
        assert server.received.statistics().current_buffer_used == ROOM, "nothing is dropped before the last message"
        await exchange.send(LAST)
        assert await exchange.receive() == {"type": "http.disconnect"}

    assert server.sent == [START, LAST]
    server.close()


async def test_an_app_that_waits_for_the_client_meanwhile_learns_of_the_end() -> None:
    server = BoundedServer(parts=ROOM)
    exchange = DrainedExchange(server.received.receive, server.send)
    heard: list[str] = []

    async def listen() -> None:
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await exchange.receive())["type"])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.send, LAST)
            tasks.start_soon(listen)
    server.close()


async def test_the_errors_of_the_server_reach_the_app() -> None:
    server = BoundedServer(parts=ROOM)
    server.error = OSError("gone")
    with anyio.fail_after(60), pytest.raises(OSError, match="gone"):
        await DrainedExchange(server.received.receive, server.send).send(LAST)
    server.close()


async def test_after_a_whole_body_the_disconnect_is_the_servers_own() -> None:
    server = BoundedServer(parts=ROOM, is_whole=True)
    exchange = DrainedExchange(server.received.receive, server.send)
    for _ in range(ROOM):
        await exchange.receive()
    await exchange.send(LAST)

    assert server.received.statistics().current_buffer_used == 1
    assert await exchange.receive() == {"type": "http.disconnect"}
    server.close()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.usefixtures("short_grace")
async def test_the_last_message_is_given_up_after_the_client_has_gone(*, is_known: bool) -> None:
    """Hypercorn waits for ever until a closed connection of HTTP/2 has taken it."""
    server = BoundedServer(parts=1, is_whole=True)
    ended: list[bool] = []

    async def send(_message: Message) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    exchange = DrainedExchange(server.received.receive, send, is_multiplexed=True)
    await exchange.receive()
    server.kept.send_nowait({"type": "http.disconnect"})
    if is_known:
        assert await exchange.receive() == {"type": "http.disconnect"}
    with anyio.fail_after(60):
        await exchange.send(LAST)
        assert await exchange.receive() == {"type": "http.disconnect"}

    assert ended == [True]
    server.close()


@pytest.mark.parametrize(("header", "is_drained"), [("transfer-encoding", True), ("accept", False)])
async def test_only_requests_with_bodies_are_drained(header: str, *, is_drained: bool) -> None:
    server, sends = BoundedServer(parts=1), []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        sends.append(send)

    scope = http_scope("/", headers={header: "chunked"})
    await wrap_with_draining(app)(scope, server.received.receive, server.send)

    assert (sends != [server.send]) is is_drained
    server.close()


def test_hypercorn_is_known_by_its_lifespan() -> None:
    class Lifespan:
        async def asgi_receive(self) -> Message:
            return {}

    assert not needs_draining(Lifespan().asgi_receive)
    Lifespan.__module__ = "hypercorn.asyncio.lifespan"
    assert needs_draining(Lifespan().asgi_receive)
