"""Taking the first step of a call by hand: for each kind of awaitable that servers have."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import pytest

from apf_middleware.asgi.body import RequestBody, announcement, completes_response, is_for_app, is_readable
from apf_middleware.classification import Classification
from apf_middleware.config.bodies import BodySettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import IncomingBodies
from tests.support.virtual_alarm import VirtualAlarm
from tests.support.watched_client import WatchedClient

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from starlette.types import Message, Receive

MESSAGE: "Message" = {"type": "http.request"}


class Bare:
    """An awaitable whose iterator is nothing else, as a server has it that isn't written in Python."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def __await__(self) -> "Iterator[asyncio.Future[None]]":
        return Steps(self.future)


class Steps:
    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def __iter__(self) -> "Steps":
        return self

    def __next__(self) -> "asyncio.Future[None]":
        if self.future.done():
            raise StopIteration(MESSAGE)
        self.future._asyncio_future_blocking = True
        return self.future


async def plain(future: "asyncio.Future[None]") -> "Message":
    await future
    return MESSAGE


async def _run(kind: type[Bare], ends: str) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bodies = IncomingBodies(lambda: 0)

    def receive() -> Awaitable["Message"]:
        return kind(future)  # type: ignore[return-value]

    body = RequestBody(bodies, Classification("schema", "level", "flow", 0), receive)

    async def call() -> "Message":
        body.receive_at_once()
        await body.gather(1)
        return await body.receive()

    if ends == "at once":
        future.set_result(None)
        body.receive_at_once()
        assert body.is_whole
        assert await call() is MESSAGE
        return
    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    assert bodies.number == 1
    if ends == "later":
        future.set_result(None)
        assert await task is MESSAGE
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.cancelled()


@pytest.mark.parametrize("kind", [Bare, plain])
@pytest.mark.parametrize("ends", ["at once", "later", "cancelled"])
def test_a_suspended_call_is_detected_and_continues_unchanged(kind: type[Bare], ends: str) -> None:
    asyncio.run(_run(kind, ends))


@pytest.mark.parametrize(
    ("more", "announced"),
    [
        ({"headers": [(b"content-length", b"1")]}, "coming"),
        ({"headers": [(b"transfer-encoding", b"chunked")]}, "coming"),
        ({"headers": [(b"content-length", b"1"), (b"expect", b"100-Continue")]}, "expected"),
        ({"headers": [(b"content-length", b"0")]}, ""),
        ({"headers": [(b"content-length", b"9")], "starlette.max_body_size": 9}, "coming"),
        ({"headers": [(b"content-length", b"10")], "starlette.max_body_size": 9}, "expected"),
        ({"headers": [(b"content-length", b"x")], "starlette.max_body_size": 9}, "expected"),
        ({"headers": [(b"content-length", b"0" * 5000)], "starlette.max_body_size": 9}, "expected"),
        ({"headers": [(b"transfer-encoding", b"chunked")], "starlette.max_body_size": 9}, "expected"),
        (
            {"headers": [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")], "starlette.max_body_size": 9},
            "expected",
        ),
        ({"headers": [], "starlette.max_body_size": 9}, ""),
        ({"headers": [(b"content-length", b"0"), (b"transfer-encoding", b"chunked")]}, "coming"),
        ({"headers": [(b"transfer-encoding", b"chunked"), (b"content-length", b"0")]}, "coming"),
        ({"headers": []}, ""),
        ({"headers": [], "http_version": "2"}, "coming"),
        ({"headers": [(b"content-length", b"0")], "http_version": "2"}, "coming"),
        ({"headers": [], "http_version": "2", "method": "POST", "starlette.max_body_size": 9}, "expected"),
        ({"headers": [], "http_version": "2", "method": "GET", "starlette.max_body_size": 9}, "coming"),
        ({"headers": [], "http_version": "2", "method": "DELETE", "starlette.max_body_size": 9}, "coming"),
        (
            {
                "headers": [(b"content-length", b"10")],
                "http_version": "2",
                "method": "GET",
                "starlette.max_body_size": 9,
            },
            "expected",
        ),
        ({"headers": [(b"content-length", b"1")], "type": "websocket"}, ""),
        ({"headers": [], "type": "websocket", "http_version": "2"}, ""),
    ],
)
def test_only_http_requests_announce_bodies(more: dict[str, object], announced: str) -> None:
    assert announcement({"type": "http", "http_version": "1.1", **more}) == announced


@pytest.mark.parametrize(
    ("message", "has_trailers", "completes"),
    [
        ({"type": "http.response.start"}, False, False),
        ({"type": "http.response.body"}, False, True),
        ({"type": "http.response.body", "more_body": True}, False, False),
        ({"type": "http.response.body"}, True, False),
        ({"type": "http.response.trailers"}, True, True),
        ({"type": "http.response.trailers", "more_trailers": True}, True, False),
    ],
)
def test_the_last_part_completes_a_response(message: "Message", has_trailers: bool, completes: bool) -> None:  # noqa: FBT001
    assert completes_response(message, has_trailers=has_trailers) is completes


@pytest.mark.parametrize(("name", "expects"), [(b"expect", True), (b"x-expect", False)])
def test_only_one_header_says_that_a_client_expects_to_continue(name: bytes, expects: bool) -> None:  # noqa: FBT001
    assert is_for_app({"type": "http", "headers": [(name, b"100-Continue"), (b"content-length", b"1")]}) is expects


@pytest.mark.parametrize(
    ("kind", "length", "is_read"),
    [
        ("http", b"2", True),
        ("http", b"9" * 5000, False),  # Python refuses to convert it
        ("http", b"x", False),
        ("websocket", b"2", False),
    ],
)
def test_only_bodies_of_http_and_of_a_known_length_are_read(kind: str, length: bytes, is_read: bool) -> None:  # noqa: FBT001
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    assert is_readable({"type": kind, "headers": headers}) is is_read


@pytest.mark.parametrize(("more", "parsed"), [(False, {"seats": 1}), (True, {})])
def test_a_body_of_which_more_is_to_come_is_not_parsed(more: bool, parsed: object) -> None:  # noqa: FBT001
    async def run() -> None:
        async def receive() -> "Message":
            return {"type": "http.request", "body": b'{"seats": 1}', "more_body": more}

        body = body_of(receive)
        body.receive_at_once()
        assert body.parsed() == parsed

    asyncio.run(run())


class Server:
    """A server's request whose messages come when a test says so; its ``receive`` awaits nothing but futures."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def receive(self) -> "Message":
        return await self.future


Server.__module__ = "uvicorn.of_a_test"


def body_of(receive: "Receive") -> RequestBody:
    return RequestBody(IncomingBodies(lambda: 0), Classification("schema", "level", "flow", 0), receive)


def no_task(run: object) -> "asyncio.Task[None]":
    raise AssertionError(f"{run!r} needs no task")


def test_a_hang_up_is_noticed_in_a_later_wait_too() -> None:
    async def run() -> None:
        server, first, second = Server(), WatchedClient(), WatchedClient()
        body = body_of(server.receive)
        body.watch(first, no_task)
        body.stop_watching()
        body.watch(second, no_task)
        server.future.set_result({"type": "http.disconnect"})
        await asyncio.sleep(0)
        assert (first.has_gone, second.has_gone) == (False, True)

    asyncio.run(run())


def test_a_hang_up_before_a_wait_ends_it() -> None:
    calls: list[Message] = []

    async def receive() -> "Message":
        calls.append({"type": "http.disconnect"})
        return calls[-1]

    async def run() -> None:
        body, client = body_of(receive), WatchedClient()
        body.receive_at_once()
        body.watch(client, no_task)
        assert client.has_gone
        assert len(calls) == 1, "nothing comes after it"

    asyncio.run(run())


def test_a_body_that_was_received_at_once_is_charged_while_its_request_waits() -> None:
    async def run() -> None:
        server = Server()
        server.future.set_result({"type": "http.request", "body": b"x" * 1000})
        body = body_of(server.receive)
        body.receive_at_once()
        assert body.incoming.kept == 0
        server.future = asyncio.get_running_loop().create_future()
        body.watch(WatchedClient(), no_task)
        assert body.incoming.kept == 1000
        body.close()
        assert body.incoming.kept == 0

    asyncio.run(run())


def test_what_the_app_has_received_is_charged_no_longer() -> None:
    async def run() -> None:
        messages = asyncio.Queue["Message"]()
        for part, more in ((b"x" * 100, True), (b"y" * 50, False)):
            messages.put_nowait({"type": "http.request", "body": part, "more_body": more})
        body = body_of(messages.get)
        body.watch(WatchedClient(), no_task)
        whole = body.incoming.kept
        assert whole > 150, "messages take some memory, too"
        await body.receive()
        assert body.incoming.kept == 50
        await body.receive()
        assert body.incoming.kept == 0
        body.close()

    asyncio.run(run())


def test_an_error_of_the_server_in_a_wait_reaches_the_app() -> None:
    calls: list[str] = []

    async def receive() -> "Message":
        calls.append("receive")
        raise OSError("gone")

    async def send(message: "Message") -> None: ...

    async def run() -> None:
        body = body_of(receive)
        for _ in range(2):
            body.watch(WatchedClient(), lambda watch: asyncio.create_task(watch()))
            await asyncio.sleep(0)
        of_app, _ = body.hand_over(receive, send)
        with pytest.raises(OSError, match="gone"):
            await of_app()
        assert len(calls) == 1

    asyncio.run(run())


def test_the_task_that_watches_ends_with_a_wait_that_is_cancelled() -> None:
    async def run() -> None:
        async def receive() -> "Message":
            await asyncio.get_running_loop().create_future()
            return MESSAGE

        tasks: list[asyncio.Task[None]] = []

        def start(watch: "Callable[[], Coroutine[object, object, None]]") -> "asyncio.Task[None]":
            tasks.append(asyncio.create_task(watch()))
            return tasks[0]

        body = body_of(receive)
        body.watch(WatchedClient(), start)
        await asyncio.sleep(0)
        body.end_watch()
        await asyncio.wait(tasks, timeout=5)
        assert tasks[0].cancelled()

    asyncio.run(run())


def test_a_task_is_not_interrupted_any_more_when_its_body_is_there() -> None:
    async def run() -> None:
        server = Server()
        body = body_of(server.receive)
        asyncio.get_running_loop().call_soon(server.future.set_result, MESSAGE)
        await body.gather(1)
        assert body.is_whole
        body.incoming.interrupt()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_all_parts_of_a_body_count_for_the_window_in_which_they_arrive() -> None:
    async def run() -> None:
        alarm = VirtualAlarm()
        bodies = IncomingBodies(lambda: alarm.now, alarm.make)
        bodies.adopt(BodySettings(patience_ns=10, min_rate=10**9), {})
        parts = asyncio.Queue["Message"]()
        body = RequestBody(bodies, Classification("schema", "level", "flow", 0), parts.get)
        gathered = asyncio.create_task(body.gather(1000))
        await asyncio.sleep(0)  # the window begins
        for _ in range(2):
            parts.put_nowait({"type": "http.request", "body": b"x" * 5, "more_body": True})
            for _ in range(3):
                await asyncio.sleep(0)
        reasons = []
        for end in (10, 20):
            alarm.run(end)
            reasons.append(body.reason)
        assert reasons == [None, Reason.SLOW_BODY]
        await gathered

    asyncio.run(run())
