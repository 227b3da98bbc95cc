"""A server on asyncio in a thread beside an app on trio."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.asyncio_thread import serve_in_thread
from apf_middleware.runtime.event_loop import EventLoop

pytestmark = pytest.mark.anyio

Serve = Callable[[ASGIApp], Coroutine[Any, Any, None]]


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


class Client:
    """One request, made in the thread of the server: what it sends, and ``sent``, what the app has answered."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.thread = 0
        self.outcome: BaseException | str = "running"

    async def serve(self, app: ASGIApp) -> None:
        await self.ask(app)
        await asyncio.sleep(3600)

    async def ask(self, app: ASGIApp) -> None:
        self.thread = threading.get_ident()
        self.is_over = asyncio.Event()
        try:
            await app({"type": "http"}, self.receive, self.send)
            self.outcome = "complete"
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.outcome = error

    async def receive(self) -> Message:
        if not self.sent:
            return {"type": "http.request", "thread": threading.get_ident()}
        await self.is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.sent.append({**message, "sent_in": threading.get_ident()})


async def run(serve: Serve, app: ASGIApp, until: Callable[[], bool]) -> None:
    """Serve until ``until`` holds."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_in_thread, serve, app)
            while not until():
                await checkpoint()
            tasks.cancel_scope.cancel()


async def test_an_app_runs_in_its_own_loop_and_its_calls_in_the_servers() -> None:
    client, home, here = Client(), EventLoop(), []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        here.append(home.is_here)
        message = await receive()
        here.append(home.is_here)
        await send({"type": "http.response.body", "body": message["thread"]})
        here.append(home.is_here)

    await run(client.serve, app, lambda: client.outcome != "running")
    assert client.outcome == "complete"
    assert client.thread != threading.get_ident()
    assert client.sent == [{"type": "http.response.body", "body": client.thread, "sent_in": client.thread}]
    assert here == [True, True, True]


async def test_an_error_of_the_app_is_raised_in_the_server() -> None:
    client = Client()

    async def app(*_: object) -> None:
        raise LookupError("boom")

    await run(client.serve, app, lambda: client.outcome != "running")
    assert isinstance(client.outcome, LookupError)


async def test_an_error_of_the_servers_calls_is_raised_in_the_app() -> None:
    caught: list[OSError] = []

    async def serve(app: ASGIApp) -> None:
        async def broken(*_: object) -> None:
            raise OSError("gone")

        await app({}, Client().receive, broken)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            await send({})
        except OSError as error:
            caught.append(error)

    await serve_in_thread(serve, app)
    assert str(caught[0]) == "gone"


async def test_an_error_of_the_server_is_raised() -> None:
    async def serve(_app: ASGIApp) -> None:
        raise LookupError("boom")

    async def app(*_: object) -> None: ...

    with pytest.raises(LookupError, match="boom"):
        await serve_in_thread(serve, app)


async def test_the_end_cancels_the_app_and_returns_to_the_server_after_its_client_has_gone() -> None:
    client = Client()
    ended: list[str] = []

    async def serve(app: ASGIApp) -> None:
        request = asyncio.create_task(client.ask(app))
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.append(str(client.outcome))
            client.is_over.set()
            await request

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            await send({})
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    await run(serve, app, lambda: bool(client.sent))
    assert sorted(ended) == ["cancelled", "running"]
    assert client.outcome == "complete"


async def test_a_server_that_is_cancelled_at_once_leaves_nothing() -> None:
    client = Client()

    async def app(*_: object) -> None: ...

    threads = threading.active_count()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await serve_in_thread(client.serve, app)
    assert client.outcome == "running"
    assert threading.active_count() <= threads + 1, "the idle thread is kept for others"
