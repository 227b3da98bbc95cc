"""Responses to requests whose bodies haven't been received, on a server that keeps a bounded number of messages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import sniffio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.drained_exchange import DrainedExchange, needs_draining
from tests.support.asgi_exchange import http_scope, websocket_scope

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

pytestmark = pytest.mark.anyio

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
LAST: Message = {"type": "http.response.body", "body": b"done"}
TRAILERS: Message = {"type": "http.response.trailers", "headers": []}
PART: Message = {**LAST, "more_body": True}
GONE: Message = {"type": "http.disconnect"}
ROOM = 3


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.asgi.drained_exchange._GRACE_S", 0.001)
    monkeypatch.setattr("apf_middleware.asgi.drained_exchange._LOOK_NS", 1_000_000)


class BoundedServer:
    """A server that keeps `ROOM` messages, and keeps the disconnect in the task that sends the last message."""

    def __init__(self, parts: int, *, is_whole: bool = False) -> None:
        self.kept: MemoryObjectSendStream[Message]
        self.received: MemoryObjectReceiveStream[Message]
        self.kept, self.received = anyio.create_memory_object_stream[Message](ROOM)
        self.sent: list[Message] = []
        self.error: Exception | None = None
        self.is_whole = is_whole
        for number in range(parts):
            more = not is_whole or number + 1 < parts
            self.kept.send_nowait({"type": "http.request", "body": b"x", "more_body": more})

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        await anyio.wait_all_tasks_blocked()
        if message in (LAST, TRAILERS):
            if not self.is_whole:  # more has arrived meanwhile
                for _ in range(2 * ROOM):
                    await self.kept.send({"type": "http.request", "body": b"x", "more_body": True})
            await self.kept.send({"type": "http.disconnect"})
            await anyio.wait_all_tasks_blocked()
            if self.error is not None:
                raise self.error

    def close(self) -> None:
        self.kept.close()
        self.received.close()


async def run_app(exchange: DrainedExchange, app: Callable[[Receive, Send], Awaitable[None]], receive: Receive) -> None:
    """Call ``app``, which receives by ``receive``, with its side of the exchange."""

    async def called(_scope: Scope, receive: Receive, send: Send) -> None:
        await app(receive, send)

    with anyio.fail_after(60):
        await exchange.wrap(called)(http_scope("/"), receive, exchange.send)


@pytest.mark.parametrize(
    "messages", [(START, LAST), ({**START, "trailers": True}, {**LAST, "body": b"not the last one"}, TRAILERS)]
)
async def test_a_response_is_completed_although_the_server_has_no_room(messages: tuple[Message, ...]) -> None:
    server = BoundedServer(parts=ROOM)
    exchange = DrainedExchange(server.received.receive, server.send)
    with anyio.fail_after(60):
        for message in messages:
            kept = server.received.statistics().current_buffer_used
            assert kept == ROOM, "nothing is dropped before the last message"
            await exchange.send(message)

    assert server.sent == [*messages]
    server.close()


async def test_an_app_receives_the_disconnect_that_has_been_dropped() -> None:
    server = BoundedServer(parts=ROOM)

    async def app(receive: Receive, send: Send) -> None:
        await send(LAST)
        assert await receive() == GONE

    await run_app(DrainedExchange(server.received.receive, server.send), app, server.received.receive)
    assert server.sent == [LAST]
    server.close()


async def test_an_app_that_waits_for_the_client_meanwhile_learns_of_the_end() -> None:
    server = BoundedServer(parts=ROOM)
    heard: list[str] = []

    async def app(receive: Receive, send: Send) -> None:
        async def listen() -> None:
            while not heard or heard[-1] != "http.disconnect":
                heard.append((await receive())["type"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await send(LAST)

    await run_app(DrainedExchange(server.received.receive, server.send), app, server.received.receive)
    server.close()


async def never() -> Message:
    """Receive nothing."""
    await anyio.sleep_forever()
    raise AssertionError


async def test_an_app_that_waits_learns_of_the_end_although_its_disconnect_is_dropped() -> None:
    """A queue of asyncio gives the message to another call if that one comes before the waiting call resumes."""
    server = BoundedServer(parts=1)

    async def app(receive: Receive, send: Send) -> None:
        async def answer() -> None:
            await anyio.wait_all_tasks_blocked()
            await send(LAST)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            assert await receive() == GONE

    await run_app(DrainedExchange(server.received.receive, server.send), app, never)
    server.close()


async def test_the_errors_of_the_server_reach_the_app() -> None:
    server = BoundedServer(parts=ROOM)
    server.error = OSError("gone")
    with anyio.fail_after(60), pytest.raises(OSError, match="gone"):
        await DrainedExchange(server.received.receive, server.send).send(LAST)
    server.close()


async def test_after_a_whole_body_the_disconnect_is_the_servers_own() -> None:
    server = BoundedServer(parts=ROOM, is_whole=True)

    async def app(receive: Receive, send: Send) -> None:
        for _ in range(ROOM):
            await receive()
        await send(LAST)

        assert server.received.statistics().current_buffer_used == 1
        assert await receive() == GONE
        assert server.received.statistics().current_buffer_used == 0

    await run_app(DrainedExchange(server.received.receive, server.send), app, server.received.receive)
    server.close()


class ClosedConnection:
    """A connection of HTTP/2 that has been closed while hypercorn waits until it has taken a message."""

    def __init__(self) -> None:
        self.closed = False
        self.ended: list[Message] = []
        self.keep: Callable[[Message], None]
        self.put: Callable[[Message], Coroutine[Any, Any, None]]
        if sniffio.current_async_library() == "trio":
            import trio  # noqa: PLC0415 - for this backend only

            channels = trio.open_memory_channel[Message](ROOM)
            self.keep, self.put, self.receive = channels[0].send_nowait, channels[0].send, channels[1].receive
        else:
            queue = asyncio.Queue[Message](ROOM)
            self.keep, self.put, self.receive = queue.put_nowait, queue.put, queue.get

    async def send(self, message: Message) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.append(message)


@pytest.mark.parametrize("message", [PART, LAST, {"type": "websocket.send", "text": "x"}])
@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.usefixtures("short_grace")
async def test_a_message_is_given_up_after_the_client_has_gone(message: Message, *, is_wrapped: bool) -> None:
    connection = ClosedConnection()

    async def send(message: Message) -> None:
        await connection.send(message)

    exchange = DrainedExchange(connection.receive, send if is_wrapped else connection.send, is_multiplexed=True)

    async def leave() -> None:
        await anyio.wait_all_tasks_blocked()
        connection.closed = True
        connection.keep(GONE)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await exchange.send(message)
        assert connection.ended == [message]
        await exchange.send(PART)
        await exchange.send(LAST)

    assert connection.ended == [message], "nothing is sent after the disconnect"


class StreamOfClosedConnection(ClosedConnection):
    """A stream that hasn't been closed with its connection, because hypercorn waits for room in another one."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = ClosedConnection()
        self.send = self.connection.send  # type: ignore[method-assign]

    async def app_send(self, message: Message) -> None:
        await self.send(message)


@pytest.mark.parametrize("message", [START, PART, LAST])
@pytest.mark.usefixtures("short_grace")
async def test_a_message_is_given_up_although_only_the_connection_has_been_closed(message: Message) -> None:
    stream = StreamOfClosedConnection()
    exchange = DrainedExchange(stream.receive, stream.app_send, is_multiplexed=True)

    async def leave() -> None:
        await anyio.wait_all_tasks_blocked()
        stream.connection.closed = True

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await exchange.send(message)
    assert stream.connection.ended == [message]


@pytest.mark.parametrize("is_closed", [False, True])
async def test_an_unreceived_body_is_dropped_at_the_end_of_its_connection(*, is_closed: bool) -> None:
    """Otherwise hypercorn would wait for room for its disconnect, and not close the other streams."""
    stream = StreamOfClosedConnection()
    part: Message = {"type": "http.request", "body": b"x", "more_body": True}
    for _ in range(ROOM):
        stream.keep(part)
    stream.connection.closed = is_closed
    DrainedExchange(stream.receive, stream.app_send, is_multiplexed=True).end()
    is_dropped = is_closed and sniffio.current_async_library() == "asyncio"  # on trio hypercorn's server would fail
    if is_dropped:
        stream.keep(GONE)

    assert await stream.receive() == (GONE if is_dropped else part)


@pytest.mark.parametrize("is_multiplexed", [False, True])
async def test_what_is_kept_is_dropped_at_the_end_of_an_unreceived_body(*, is_multiplexed: bool) -> None:
    connection = ClosedConnection()
    part: Message = {"type": "http.request", "body": b"x", "more_body": True}
    for _ in range(ROOM):
        connection.keep(part)
    exchange = DrainedExchange(connection.receive, connection.send, is_multiplexed=is_multiplexed)
    exchange.end()
    if not is_multiplexed:
        connection.keep(GONE)

    assert await connection.receive() == (part if is_multiplexed else GONE)


async def test_nothing_is_dropped_if_an_outer_middleware_has_wrapped_receive() -> None:
    connection = ClosedConnection()
    part: Message = {"type": "http.request", "body": b"x", "more_body": True}
    connection.keep(part)

    async def receive() -> Message:
        return await connection.receive()

    DrainedExchange(receive, connection.send).end()
    assert await connection.receive() == part


@pytest.mark.parametrize("message", [START, PART, {"type": "websocket.send", "text": "x"}])
@pytest.mark.parametrize("readers", [0, 1])
@pytest.mark.usefixtures("short_grace")
async def test_a_disconnect_for_which_there_is_no_room_does_not_block_a_message(message: Message, readers: int) -> None:
    """Hypercorn keeps the disconnect in the task that sends, perhaps behind the one that reads from the client."""
    connection = ClosedConnection()
    part: Message = {"type": "http.request", "body": b"x", "more_body": True}
    for _ in range(ROOM):
        connection.keep(part)

    async def send(_message: Message) -> None:
        await anyio.wait_all_tasks_blocked()
        await connection.put(GONE)

    async def app(receive: Receive, send: Send) -> None:
        await send(message)
        while await receive() != GONE:
            pass

    async with anyio.create_task_group() as tasks:
        for _ in range(readers):
            tasks.start_soon(connection.put, part)
        await run_app(DrainedExchange(connection.receive, send), app, connection.receive)


@pytest.mark.usefixtures("short_grace")
async def test_no_message_is_dropped_while_the_client_only_reads_slowly() -> None:
    connection = ClosedConnection()
    parts: list[Message] = [{"type": "http.request", "body": b"%d" % number, "more_body": True} for number in range(5)]
    heard: list[Message] = []
    sent: list[Message] = []

    async def read() -> None:
        for part in parts:
            await connection.put(part)

    async def send(message: Message) -> None:
        await anyio.sleep(0.02)  # many looks
        sent.append(message)

    async def app(receive: Receive, send: Send) -> None:
        await send(START)
        heard.extend([await receive() for _ in parts])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await run_app(DrainedExchange(connection.receive, send), app, connection.receive)
    assert (heard, sent) == (parts, [START])


@pytest.mark.usefixtures("short_grace")
async def test_a_message_is_given_up_if_the_body_has_received_the_disconnect() -> None:
    """On trio the watch of a request that waited for seats may receive it, and the app never asks."""
    connection = ClosedConnection()

    class Body:
        has_gone = False

        async def receive(self) -> Message:
            return await never()

    async def send(message: Message) -> None:
        body.has_gone = True
        await connection.send(message)

    async def app(_receive: Receive, send: Send) -> None:
        await send(PART)
        await send(PART)

    body = Body()
    await run_app(DrainedExchange(connection.receive, send, is_multiplexed=True), app, body.receive)
    assert connection.ended == [PART], "nothing is sent after the disconnect"


@pytest.mark.usefixtures("short_grace")
async def test_the_last_message_is_given_up_although_another_call_waits_for_the_disconnect() -> None:
    """A queue of asyncio wakes the first call that waits, which may be one that nobody continues."""
    connection = ClosedConnection()
    exchange = DrainedExchange(never, connection.send, is_multiplexed=True)

    async def leave() -> None:
        await anyio.wait_all_tasks_blocked()
        connection.closed = True

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await exchange.send(LAST)
    assert connection.ended == [LAST]


class OpenStream(ClosedConnection):
    """A stream whose client takes what is sent."""

    async def send(self, message: Message) -> None:
        self.ended.append(message)


@pytest.mark.parametrize("disconnect", ["is received", "is kept", "has been dropped"])
async def test_nothing_is_sent_over_http_2_after_the_disconnect(disconnect: str) -> None:
    stream = OpenStream()
    stream.keep({"type": "http.request", "body": b"x", "more_body": True})
    scope = {**http_scope("/"), "http_version": "2"}
    exchange = DrainedExchange.of(scope, stream.receive, stream.send)
    assert exchange is not None

    async def app(receive: Receive, send: Send) -> None:
        await send(START)
        if disconnect == "has been dropped":
            stream.closed = True
        else:
            stream.keep(GONE)
        if disconnect == "is received":
            await receive()
            assert await receive() == GONE
        await send(PART)
        await send(LAST)
        assert await receive() == GONE

    await run_app(exchange, app, stream.receive)
    assert stream.ended == [START]


async def test_an_app_that_sends_to_nobody_leaves_the_event_loop_to_others() -> None:
    stream = OpenStream()
    stream.closed = True
    exchange = DrainedExchange(stream.receive, stream.send, is_multiplexed=True)
    runs = anyio.Event()

    async def other() -> None:
        runs.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(3):
            await exchange.send(PART)
        assert runs.is_set()


async def test_over_http_1_the_server_decides_what_is_sent_after_the_disconnect() -> None:
    stream = OpenStream()
    stream.keep(GONE)

    async def app(receive: Receive, send: Send) -> None:
        assert await receive() == GONE
        await send(START)
        await send(LAST)

    await run_app(DrainedExchange(stream.receive, stream.send), app, stream.receive)
    assert stream.ended == [START, LAST]


async def test_all_that_a_websocket_has_not_received_is_dropped_when_its_app_has_returned() -> None:
    """Hypercorn passes on all messages that came at once, although it has closed the WebSocket meanwhile."""
    connection = ClosedConnection()
    connection.keep({"type": "websocket.connect"})
    exchange = DrainedExchange.of(websocket_scope(), connection.receive, connection.send)
    assert exchange is not None

    async def read() -> None:
        for _ in range(3 * ROOM):
            await connection.put({"type": "websocket.receive", "text": "x"})

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        await anyio.wait_all_tasks_blocked()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await exchange.wrap(app)(websocket_scope(), connection.receive, exchange.send)
            exchange.end()


async def test_a_websocket_that_was_closed_before_it_was_accepted_receives_the_disconnect() -> None:
    connection = ClosedConnection()
    connection.keep({"type": "websocket.connect"})
    exchange = DrainedExchange.of(websocket_scope(), connection.receive, connection.send)
    assert exchange is not None
    heard: list[Message] = []

    async def close() -> None:
        await anyio.wait_all_tasks_blocked()
        connection.keep({"type": "websocket.receive", "text": "x"})
        connection.closed = True

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        heard.extend([await receive(), await receive(), await receive()])
        connection.keep({"type": "websocket.disconnect", "code": 1001})
        heard.append(await receive())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            await exchange.wrap(app)(websocket_scope(), connection.receive, exchange.send)
    assert [(one["type"], one.get("code")) for one in heard] == [
        ("websocket.connect", None),
        ("websocket.receive", None),
        ("websocket.disconnect", 1006),
        ("websocket.disconnect", 1001),
    ]


@pytest.mark.parametrize(
    ("header", "version", "is_needed"),
    [("transfer-encoding: chunked", "1.1", True), ("accept: *", "1.1", False), ("content-length: 0", "2", True)],
)
async def test_only_requests_with_bodies_and_those_of_http_2_need_help(
    header: str, version: str, *, is_needed: bool
) -> None:
    async def call(*_: Message) -> Message:
        return GONE

    async def send(_message: Message) -> None: ...

    name, _, value = header.partition(": ")
    scope = {**http_scope("/", headers={name: value}), "http_version": version}
    assert (DrainedExchange.of(scope, call, send) is not None) is is_needed


async def test_hypercorn_is_known_by_the_lifespan_and_by_requests() -> None:
    class Lifespan:
        async def asgi_receive(self) -> Message:
            return {}

    assert not needs_draining(Lifespan().asgi_receive)
    Lifespan.__module__ = "hypercorn.asyncio.lifespan"
    assert needs_draining(Lifespan().asgi_receive)
    assert needs_draining(ClosedConnection().receive)
