"""Receiving on behalf of an app: what is buffered, when it ends, and what the app receives afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

import anyio
import anyio.abc
import httpx
import pytest
from starlette.types import Message, Receive

from apf_middleware.asgi.body import MOST_MESSAGES, RequestBody
from apf_middleware.classification import Classification
from apf_middleware.config.bodies import BodySettings
from apf_middleware.runtime import IncomingBodies
from apf_middleware.runtime.waiting import Start
from tests.support.protected_app import ProtectedApp
from tests.support.until import until
from tests.support.watched_client import WatchedClient

pytestmark = pytest.mark.anyio

WHOLE: Message = {"type": "http.request", "body": b"all", "more_body": False}
PART: Message = {"type": "http.request", "body": b"some", "more_body": True}
LONG: Message = {"type": "http.request", "body": b"x" * (BodySettings().buffer + 1), "more_body": True}
EMPTY: Message = {"type": "http.request", "body": b"", "more_body": False}
GONE: Message = {"type": "http.disconnect"}
LAST: Message = {"type": "http.response.body", "body": b"", "more_body": False}
START: Message = {"type": "http.response.start", "status": 200, "headers": []}


class Server:
    """A server that sends the given messages, and nothing else before the response is complete."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self.asked = 0
        self.sent: list[Message] = []
        self.last = LAST
        self.answered = anyio.Event()

    async def receive(self) -> Message:
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        if not self.messages:
            await self.answered.wait()
            return GONE
        return self.messages.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message == self.last:
            self.answered.set()


class PlainServer(Server):
    """A server like uvicorn, whose ``receive`` awaits nothing but futures: it is called without a task of its own.

    After its response, and after a hang-up, it returns without waiting.
    """

    __module__ = "uvicorn.of_a_test"

    async def receive(self) -> Message:
        self.asked += 1
        if self.answered.is_set():
            return GONE
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_soon(lambda: None if turn.done() else turn.set_result(None))
        await turn
        if not self.messages:
            await self.answered.wait()
            return GONE
        return self.messages.pop(0)


class Told(Server):
    """A server that sends what the test tells it to; ``receive`` is of the module of the server ``like``."""

    def __init__(self, like: type[Server]) -> None:
        super().__init__([])
        self.news = anyio.Event()
        self.future: asyncio.Future[None] | None = None
        if like is PlainServer:
            self.receive = PlainCalls(self).receive  # type: ignore[method-assign]

    def tell(self, message: Message) -> None:
        self.messages.append(message)
        self.news.set()
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    def cancel(self) -> None:
        assert self.future is not None
        self.future.cancel()

    async def receive(self) -> Message:
        while not self.messages:
            self.news = anyio.Event()
            await self.news.wait()
        return self.messages.pop(0)


class PlainCalls:
    """The calls of a ``Told`` server, of which each waits for a future."""

    __module__ = "uvicorn.of_a_test"

    def __init__(self, server: Told) -> None:
        self.server = server

    async def receive(self) -> Message:
        while not self.server.messages:
            self.server.future = asyncio.get_running_loop().create_future()
            await self.server.future
        return self.server.messages.pop(0)


@pytest.fixture(params=[("asyncio", Server), ("asyncio", PlainServer), ("trio", Server)], ids=lambda way: str(way[0]))
def way(request: pytest.FixtureRequest) -> tuple[str, type[Server]]:
    found: tuple[str, type[Server]] = request.param
    return found


@pytest.fixture
def anyio_backend(way: tuple[str, type[Server]]) -> str:
    return way[0]


@pytest.fixture
def serve(way: tuple[str, type[Server]]) -> type[Server]:
    return way[1]


def bodies_of(total: int = BodySettings().max_buffered) -> IncomingBodies:
    bodies = IncomingBodies(lambda: 0)
    bodies.adopt(BodySettings(max_buffered=total, buffer=min(total, BodySettings().buffer)), {})
    return bodies


def starter(tasks: anyio.abc.TaskGroup) -> Start:
    """Return the function that starts the tasks which watch."""

    def start(run: Callable[[], Coroutine[None, None, None]]) -> anyio.CancelScope:
        scope = anyio.CancelScope()

        async def run_in_scope() -> None:
            with scope:
                await run()

        tasks.start_soon(run_in_scope)
        return scope

    return start


async def watched(
    server: Server, client: WatchedClient, tasks: anyio.abc.TaskGroup, bodies: IncomingBodies
) -> RequestBody:
    """Return the body that was watched for as long as ``server`` sends messages."""
    body = RequestBody(bodies, Classification("schema", "level", "flow", 0), server.receive, is_ahead=False)

    body.watch(client, starter(tasks))
    await anyio.wait_all_tasks_blocked()
    if isinstance(server, PlainServer):  # each message takes a turn of the event loop
        for _ in range(2 * MOST_MESSAGES):
            await anyio.lowlevel.checkpoint()
    return body


@pytest.mark.parametrize(
    ("said", "gone", "asked"),
    [
        ([GONE], True, 1),
        ([WHOLE, GONE], True, 2),
        ([PART, PART, WHOLE, GONE], True, 4),
        ([PART, EMPTY, GONE], True, 3),
        ([PART, GONE], True, 2),
        ([LONG, WHOLE, GONE], False, 1),
        ([{**LONG, "more_body": False}, GONE], True, 2),
        ([{**PART, "body": b""}] * 1000, False, MOST_MESSAGES),
        ([WHOLE, WHOLE, WHOLE, GONE], False, 2),
        ([{"type": "something.new"}, GONE], False, 1),
        ([{"type": "websocket.connect"}, {"type": "websocket.disconnect"}], True, 2),
        ([{"type": "websocket.connect"}, {"type": "websocket.receive"}], False, 2),
    ],
)
async def test_messages_are_received_until_a_disconnect_or_a_full_buffer(
    serve: type[Server],
    said: list[Message],
    gone: bool,  # noqa: FBT001
    asked: int,
) -> None:
    everything, server, client, bodies = list(said), serve(said), WatchedClient(), bodies_of()
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies)
        receive, _ = body.hand_over(server.receive, server.send)
        assert client.has_gone is gone
        assert server.asked == asked
        messages = [await receive() for _ in range(len(said))]

    assert messages == everything
    assert bodies.kept == 0


async def test_all_together_keep_no_more_than_may_be_buffered(serve: type[Server]) -> None:
    """What exceeds the limit isn't received; complete bodies fit."""
    bodies, client = bodies_of(60_000), WatchedClient()
    long = {**PART, "body": b"x" * 10_000}
    async with anyio.create_task_group() as tasks:
        servers = [serve([long, long, long, PART]) for _ in range(3)]
        kept = [await watched(server, client, tasks, bodies) for server in servers]
        whole = serve([WHOLE, GONE])
        await watched(whole, client, tasks, bodies)

        assert [server.asked for server in servers] == [3, 1, 1], "a flow has at most half of it, and a message of each"
        assert client.has_gone
        for body in kept:
            body.close()
        later = serve([PART, PART, GONE])
        await watched(later, client, tasks, bodies)
        assert later.asked == 3
        tasks.cancel_scope.cancel()
    bodies.check()


async def test_a_message_is_not_lost_when_receive_is_cancelled(serve: type[Server]) -> None:
    server, client = serve([]), WatchedClient()
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies_of())
        receive, _ = body.hand_over(server.receive, server.send)
        with anyio.move_on_after(0.01) as scope:
            await receive()
        assert scope.cancelled_caught
        assert server.asked == 1, "the call goes on"
        body.close()


async def test_an_error_of_the_server_reaches_the_app(serve: type[Server]) -> None:
    async def broken() -> Message:
        await anyio.lowlevel.checkpoint()
        raise OSError("broken pipe")

    server, client = serve([]), WatchedClient()
    server.receive = broken  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies_of())
        receive, _ = body.hand_over(server.receive, server.send)
        with pytest.raises(OSError, match="broken pipe"):
            await receive()


async def test_an_app_that_has_read_its_body_receives_a_disconnect_after_its_response_at_once(
    serve: type[Server],
) -> None:
    for said in ([WHOLE], [EMPTY], [PART, WHOLE]):
        server = serve(said)
        async with anyio.create_task_group() as tasks:
            body = await watched(server, WatchedClient(), tasks, bodies_of())
            receive, send = body.hand_over(server.receive, server.send)
            assert [await receive() for _ in said] == said
            await send(START)
            assert await at_once(receive) is None
            await send(LAST)
            assert await at_once(receive) == GONE
            body.close()


async def test_what_comes_between_the_wait_and_the_first_call_of_the_app_is_not_lost(serve: type[Server]) -> None:
    """Also if it comes in the same turn of the event loop in which the wait ends, or in a second wait."""
    for waits_again in (False, True):
        server, client, bodies = Told(serve), WatchedClient(), bodies_of()
        async with anyio.create_task_group() as tasks:
            body = await watched(server, client, tasks, bodies)
            server.tell(WHOLE)
            receive, _ = body.hand_over(server.receive, server.send)
            if waits_again:
                body.watch(client, starter(tasks))
                await anyio.wait_all_tasks_blocked()
                assert not client.has_gone
                server.tell(GONE)
                await anyio.wait_all_tasks_blocked()
                assert client.has_gone
            else:
                server.tell(GONE)
            assert [await receive(), await receive()] == [WHOLE, GONE]
            body.close()
        bodies.check()


async def test_a_call_that_the_server_cancels_ends_the_watch(serve: type[Server]) -> None:
    if serve is not PlainServer:
        return  # a task is cancelled as a whole, by anyio
    server, client = Told(serve), WatchedClient()
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies_of())
        server.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not client.has_gone
        server.tell(WHOLE)
        receive, _ = body.hand_over(server.receive, server.send)
        assert await receive() == WHOLE


ANSWERS: list[list[Message]] = [
    [{"type": "http.response.body"}],
    [{"type": "http.response.body", "more_body": True}, {"type": "http.response.body", "body": b"x"}],
    [{"type": "http.response.pathsend", "path": "/etc/hostname"}],
    [{"type": "http.response.zerocopysend", "file": 3}],
]
TRAILER: Message = {"type": "http.response.trailers", "headers": []}


@pytest.mark.parametrize("said", [[WHOLE], [PART, PART], [EMPTY], [], [EMPTY, GONE], [WHOLE, GONE], [LONG, WHOLE]])
@pytest.mark.parametrize(
    "answer",
    [
        *([START, *answer] for answer in ANSWERS),
        *([{**START, "trailers": True}, *answer, {**TRAILER, "more_trailers": True}, TRAILER] for answer in ANSWERS),
    ],
)
async def test_after_its_response_an_app_receives_a_disconnect_at_once(
    serve: type[Server], said: list[Message], answer: list[Message]
) -> None:
    """As the specification says, and so that a single non-blocking receive finds it."""
    server, client, bodies = serve(said), WatchedClient(), bodies_of()
    server.last = answer[-1]
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies)
        receive, send = body.hand_over(server.receive, server.send)
        for message in answer:
            await send(message)
        for _ in range(3):
            assert await at_once(receive) == GONE
        body.close()

    assert server.sent == answer
    assert bodies.kept == 0


async def at_once(receive: Receive) -> Message | None:
    """Return what can be received at once, as frameworks check whether a client is still connected."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        return await receive()
    return None


async def test_an_app_can_receive_until_its_response_ends(serve: type[Server]) -> None:
    server, client = serve([PART, WHOLE]), WatchedClient()
    async with anyio.create_task_group() as tasks:
        body = await watched(server, client, tasks, bodies_of())
        receive, send = body.hand_over(server.receive, server.send)
        await send(START)
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        assert [await receive(), await receive()] == [PART, WHOLE]
        waiting = anyio.Event()

        async def wait_for_the_end() -> None:
            assert await receive() == GONE
            waiting.set()

        tasks.start_soon(wait_for_the_end)
        await anyio.wait_all_tasks_blocked()
        assert not waiting.is_set()
        await send(LAST)
        with anyio.fail_after(60):
            await waiting.wait()
        body.close()


async def test_the_app_receives_a_disconnect_instead_of_an_empty_body(serve: type[Server]) -> None:
    """An app that checks once sees the disconnect; a body that isn't empty has to be read first."""
    async with anyio.create_task_group() as tasks:
        for said in ([EMPTY, GONE], [WHOLE, GONE]):
            server = serve(said)
            body = await watched(server, WatchedClient(), tasks, bodies_of())
            receive, _ = body.hand_over(server.receive, server.send)
            assert await receive() == said[bool(said[0]["body"]) - 1]


async def test_an_upload_that_arrives_while_a_seat_comes_free_is_not_lost() -> None:
    """The client's body is an asynchronous generator, which a cancelled step would end."""
    asked, came = anyio.Event(), anyio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"first,"
        asked.set()
        await came.wait()
        yield b"second"

    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        transport = httpx.ASGITransport(protected.middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            answers: list[httpx.Response] = []

            async def upload() -> None:
                answers.append(await client.post("/read", content=body(), headers={"X-User": "bob"}))

            tasks.start_soon(upload)
            await until(asked.is_set)
            assert protected.waiting == 1
            protected.finish()
            await holder.end()
            came.set()
            await until(lambda: bool(answers))

        assert answers[0].status_code == 200
        assert b"".join(message["body"] for message in protected.bodies["/read"]) == b"first,second"
        assert protected.is_idle()


async def test_the_app_is_called_when_receive_failed_during_the_wait() -> None:
    failed = anyio.Event()

    async def broken() -> Message:
        await anyio.lowlevel.checkpoint()
        failed.set()
        raise OSError("broken pipe")

    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        waiting, reading = protected.open("/waiting"), protected.open("/read")
        for one in (waiting, reading):
            one.receive = broken  # type: ignore[method-assign]
            one.start()
        await until(failed.is_set)
        protected.finish()
        for one in (holder, waiting, reading):
            await one.end()

        assert (waiting.status, waiting.error) == (200, None)
        assert isinstance(reading.error, OSError)
        assert protected.is_idle()
