"""The control socket: its permissions and protocol, and that none of its failures ends the server."""

import asyncio
import http.client
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.control_connections import serve_connections
from apf_middleware.config import Configuration
from tests.support.protected_app import configuration, settle
from tests.support.until import until
from tests.support.virtual_loop import VirtualLoop

pytestmark = pytest.mark.anyio


async def quiet(_scope: Scope, receive: Receive, send: Send) -> None:
    """Do nothing, as an app."""
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


@asynccontextmanager
async def living(middleware: APFMiddleware) -> AsyncIterator[None]:
    """Run the lifespan of a server, from the end of its startup to that of its shutdown."""
    to_app, from_server = anyio.create_memory_object_stream[Message](2)
    started, ended = anyio.Event(), anyio.Event()

    async def send(message: Message) -> None:
        (started if message["type"] == "lifespan.startup.complete" else ended).set()

    async with anyio.create_task_group() as tasks, to_app, from_server:
        tasks.start_soon(partial(middleware, {"type": "lifespan"}, from_server.receive, send))
        await to_app.send({"type": "lifespan.startup"})
        with anyio.fail_after(60):
            await started.wait()
        yield
        await to_app.send({"type": "lifespan.shutdown"})
        with anyio.fail_after(60):
            await ended.wait()


def contents(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def configuration_with_socket(directory: Path, app: str = "shop") -> Configuration:
    return configuration(server=f", admin: {{socket: {json.dumps(str(directory))}, app: {app}}}")


def guarded(directory: Path, app: str = "shop") -> APFMiddleware:
    return APFMiddleware(quiet, configuration_with_socket(directory, app))


def said(path: Path, *words: bytes, end: bool = False) -> bytes:
    """Return the response, read until the other side closes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        with suppress(BrokenPipeError):  # it may have refused what was said so far
            for word in words:
                client.sendall(word)
        if end:
            client.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionResetError):  # also an end, if something that was said hasn't been read
            while part := client.recv(65536):
                heard += part
        return heard


def asked(path: Path, page: str) -> tuple[int, Any]:
    response = said(path, f"GET {page} HTTP/1.1\r\nHost: apf\r\nConnection: close\r\n\r\n".encode())
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if b"json" in head else body


async def test_a_worker_has_a_socket_that_only_its_owner_can_open(directory: Path) -> None:
    middleware = guarded(directory / "run")
    async with living(middleware):
        path = directory / "run" / f"shop.{os.getpid()}.sock"
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        status, levels = await run_sync(asked, path, "/dump_priority_levels?format=json")
        assert status == 200
        assert "crowd" in [level["level"] for level in levels["levels"]]
        assert middleware.service.control_socket is not None
        assert middleware.service.control_socket.path == path
        assert contents(path.parent) == [path], "nothing is left of how it was made"
    assert contents(path.parent) == [], "it goes with the server"


async def test_the_openapi_document_covers_the_control_socket(directory: Path) -> None:
    async with living(guarded(directory)):
        path = directory / f"shop.{os.getpid()}.sock"
        status, description = await run_sync(asked, path, "/openapi.json")
        assert status == 200
        assert "/dump_queues" in description["paths"]
        assert (await run_sync(asked, path, "/nothing%20here?x=1"))[0] == 404
        assert (await run_sync(asked, path, "/"))[0] == 404


async def test_several_requests_may_come_on_one_connection(directory: Path) -> None:
    def talk(path: Path) -> list[int]:
        connection = http.client.HTTPConnection("apf")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        statuses = []
        for page in ("/dump_queues", "/none", "/flows"):
            connection.request("GET", page)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        connection.close()
        return statuses

    async with living(guarded(directory)):
        assert await run_sync(talk, directory / f"shop.{os.getpid()}.sock") == [200, 404, 200]


@pytest.mark.parametrize(
    ("words", "end", "answer"),
    [
        ((b"nonsense\r\n\r\n",), False, b"HTTP/1.1 400"),
        ((b"GET / HTTP/1.1\r\n\r\n",), False, b"HTTP/1.1 400"),  # no Host
        ((b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",), False, b"HTTP/1.1 400"),
        ((b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000,), False, b"HTTP/1.1 400"),
        ((b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",), False, b"HTTP/1.1 400"),
        ((b"\x16\x03\x01\x02\x00",), True, b"HTTP/1.1 400"),
        ((b"GET / HT",), True, b""),
        ((b"",), True, b""),
        ((b"GET / HTTP/1.0\r\n\r\n",), False, b"HTTP/1.1 404"),
        ((b"HEAD /flows HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",), False, b"HTTP/1.1 200"),
    ],
)
async def test_invalid_http_is_refused_and_the_next_request_is_served(
    directory: Path,
    words: tuple[bytes, ...],
    end: bool,  # noqa: FBT001 - pytest names it
    answer: bytes,
) -> None:
    async with living(guarded(directory)):
        path = directory / f"shop.{os.getpid()}.sock"
        heard = await run_sync(partial(said, path, *words, end=end))
        assert heard.startswith(answer)
        assert (b"\r\n\r\n" in heard) == bool(answer), "what is said is said to its end"
        assert (await run_sync(asked, path, "/flows"))[0] == 200


HALF_ORDER = b"POST /queues HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n123"


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)  # noqa: FBT003 - it has no name
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


async def test_idle_connections_do_not_block_the_owner(directory: Path) -> None:
    halves = (b"", b"GET / HT", HALF_ORDER)
    async with living(guarded(directory)):
        path = directory / f"shop.{os.getpid()}.sock"
        with ExitStack() as opened:
            clients = []
            for number in range(100):
                client = opened.enter_context(socket.socket(socket.AF_UNIX))
                clients.append(client)
                client.settimeout(60)
                await run_sync(client.connect, str(path))
                client.sendall(halves[number % 3])
                if number % 10 == 0:
                    with anyio.fail_after(60):
                        assert (await run_sync(asked, path, "/flows"))[0] == 200
            await settle()
            with anyio.fail_after(60):
                assert (await run_sync(asked, path, "/flows"))[0] == 200
            await settle()
            assert sum(map(is_open, clients)) <= 32


async def test_a_connection_in_use_is_not_closed_for_a_new_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apf_middleware.asgi.control_connections._MOST_CONNECTIONS", 2)
    middleware = guarded(directory)
    started, goes_on = 0, anyio.Event()
    admin = middleware.service.admin
    assert admin is not None
    answer = admin.answer_owner

    async def slow(scope: Scope, receive: Receive, send: Send, name: str) -> None:
        nonlocal started
        started += 1
        await goes_on.wait()
        await answer(scope, receive, send, name)

    monkeypatch.setattr(middleware.service.admin, "answer_owner", slow)
    statuses: list[int] = []

    async def ask(path: Path) -> None:
        statuses.append((await run_sync(asked, path, "/flows"))[0])

    async with living(middleware):
        path = directory / f"shop.{os.getpid()}.sock"
        async with anyio.create_task_group() as tasks:
            for number in (1, 2):
                tasks.start_soon(ask, path)
                await until(lambda number=number: started == number)  # type: ignore[misc]  # mypy infers none
            assert (await run_sync(asked, path, "/flows"))[0] == 503, "the server is busy, and says so"
            assert (started, statuses) == (2, [])
            goes_on.set()
        await ask(path)
    assert (started, statuses) == (3, [200] * 3)


STREAM = b"GET /stream HTTP/1.1\r\nHost: apf\r\n\r\n"
LAST_STREAM = b"GET /stream HTTP/1.1\r\nHost: apf\r\nConnection: close\r\n\r\n"


class StreamingAdmin:
    """Answers with three parts, of which it sends the last when a test lets it; ``messages`` are those that it gets."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.has_begun, self.goes_on = anyio.Event(), anyio.Event()

    async def answer_owner(self, scope: Scope, receive: Receive, send: Send, _name: str) -> None:
        self.messages.append((await receive())["type"])
        response = StreamingResponse(self._parts(), media_type="text/plain")
        await response(scope, partial(self._receive, receive), send)

    async def _receive(self, receive: Receive) -> Message:
        message = await receive()
        self.messages.append(message["type"])
        return message

    async def _parts(self) -> AsyncIterator[str]:
        for part in ("one,", "two,"):
            yield part
            await settle()
        self.has_begun.set()
        await self.goes_on.wait()
        yield "three"


@pytest.fixture
def streaming(directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[APFMiddleware, StreamingAdmin]:
    middleware, admin = guarded(directory), StreamingAdmin()
    monkeypatch.setattr(middleware.service.admin, "answer_owner", admin.answer_owner)
    return middleware, admin


async def test_a_streamed_answer_is_sent_to_its_end(
    directory: Path, streaming: tuple[APFMiddleware, StreamingAdmin]
) -> None:
    middleware, admin = streaming
    heard: list[bytes] = []

    async def listen() -> None:
        heard.append(await run_sync(said, directory / f"shop.{os.getpid()}.sock", STREAM, LAST_STREAM))

    async with living(middleware), anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        with anyio.fail_after(60):
            await admin.has_begun.wait()
        assert admin.messages == ["http.request"]
        admin.goes_on.set()

    assert heard[0].count(b"HTTP/1.1 200") == 2, "a request that comes early is answered in its turn"
    assert heard[0].count(b"4\r\none,\r\n4\r\ntwo,\r\n5\r\nthree\r\n0\r\n\r\n") == 2


@asynccontextmanager
async def listener(directory: Path, admin: StreamingAdmin) -> AsyncIterator[socket.socket]:
    """Connect a client, and yield its connection when it is being answered."""
    with socket.socket(socket.AF_UNIX) as client:
        await run_sync(client.connect, str(directory / f"shop.{os.getpid()}.sock"))
        client.sendall(STREAM)
        with anyio.fail_after(60):
            await admin.has_begun.wait()
        yield client


async def test_an_app_is_told_when_its_peer_has_gone(
    directory: Path, streaming: tuple[APFMiddleware, StreamingAdmin]
) -> None:
    middleware, admin = streaming
    async with living(middleware):
        async with listener(directory, admin):
            assert admin.messages == ["http.request"]
        await until(lambda: admin.messages == ["http.request", "http.disconnect"])


async def test_requests_that_come_early_are_not_kept_without_limit(
    directory: Path, streaming: tuple[APFMiddleware, StreamingAdmin]
) -> None:
    middleware, admin = streaming
    async with living(middleware), listener(directory, admin) as client:
        client.setblocking(False)  # noqa: FBT003 - it has no name
        sent = 0
        for _ in range(100):
            with suppress(BlockingIOError):
                sent += client.send(bytes(2**16))
            await settle()
        assert 2**16 < sent < 2**21
        admin.goes_on.set()


async def test_an_app_that_waits_for_the_end_learns_of_the_complete_answer(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middleware = guarded(directory)
    messages: list[str] = []

    async def answer(_scope: Scope, receive: Receive, send: Send, _name: str) -> None:
        async def listen() -> None:
            messages.append((await receive())["type"])
            messages.append((await receive())["type"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await settle()
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})
            messages.append("complete")
        messages.append((await receive())["type"])

    monkeypatch.setattr(middleware.service.admin, "answer_owner", answer)
    async with living(middleware):
        path = directory / f"shop.{os.getpid()}.sock"
        assert (await run_sync(said, path, LAST_STREAM)).count(b"HTTP/1.1 204") == 1
        await until(lambda: len(messages) == 4)
    # Calls of an app on trio go to another thread, so two that are made at once may return in either order.
    assert sorted(messages) == ["complete", "http.disconnect", "http.disconnect", "http.request"]


def test_a_stream_has_no_time_limit(directory: Path) -> None:
    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        for _ in range(3):
            await anyio.sleep(4000)
            await send({"type": "http.response.body", "body": b"...", "more_body": True})
        await send({"type": "http.response.body"})

    async def play() -> bytes:
        heard = b""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(directory / "socket"))
            listener.listen()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_connections, listener, answer)
                reader, writer = await asyncio.open_unix_connection(directory / "socket")
                writer.write(LAST_STREAM)
                heard = await reader.read()
                writer.close()
                tasks.cancel_scope.cancel()
        return heard

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(play()).endswith(b"\r\n\r\n.........")


async def test_an_error_while_answering_is_logged_and_answered(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = guarded(directory)
    async with living(middleware):
        path = directory / f"shop.{os.getpid()}.sock"
        with monkeypatch.context() as patched:
            # Other tests in this process may have set up uvicorn's and their frameworks' logging.
            log = logging.getLogger("uvicorn.error")
            caplog.set_level(logging.ERROR, log.name)
            patched.setattr(log, "disabled", False)
            patched.setattr(log, "handlers", [caplog.handler])

            async def broken(*_: object) -> None:
                raise LookupError("boom")

            patched.setattr(middleware.service.admin, "answer_owner", broken)
            assert (await run_sync(asked, path, "/flows"))[0] == 500
        assert "LookupError: boom" in caplog.text
        assert (await run_sync(asked, path, "/flows"))[0] == 200


async def test_the_end_of_the_server_ends_a_stream(
    directory: Path, streaming: tuple[APFMiddleware, StreamingAdmin], caplog: pytest.LogCaptureFixture
) -> None:
    middleware, admin = streaming
    async with AsyncExitStack() as opened:
        async with living(middleware):
            client = await opened.enter_async_context(listener(directory, admin))
        client.settimeout(60)
        with suppress(ConnectionResetError):
            assert (await run_sync(client.recv, 2**16)).startswith(b"HTTP/1.1 200")
            assert await run_sync(client.recv, 2**16) == b""
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_the_end_of_the_server_ends_a_request_that_ignores_its_client(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middleware = guarded(directory)
    has_begun, ended = anyio.Event(), anyio.Event()

    async def wait(*_: object) -> None:
        has_begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    monkeypatch.setattr(middleware.service.admin, "answer_owner", wait)
    with socket.socket(socket.AF_UNIX) as client:
        async with living(middleware):
            await run_sync(client.connect, str(directory / f"shop.{os.getpid()}.sock"))
            client.sendall(STREAM)
            with anyio.fail_after(60):
                await has_begun.wait()
    with anyio.fail_after(60):
        await ended.wait()


async def test_a_control_socket_that_cannot_be_created_is_logged_and_the_server_goes_on(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await anyio.Path(directory).chmod(0o777)
    lived = False
    async with living(guarded(directory)):
        lived = True

    assert lived
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "apf.socket-failed" in record.message
    assert "other users must not have write access" in record.message
    assert contents(directory) == []


async def test_a_broken_control_socket_is_logged_and_the_server_goes_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise LookupError("boom")

    monkeypatch.setattr("apf_middleware.asgi.control_socket.serve_connections", broken)
    async with living(guarded(directory)):
        await until(lambda: contents(directory) == [])
    assert "LookupError: boom" in caplog.text


async def test_two_middlewares_with_one_name_have_their_own_sockets(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(guarded(directory)):
        path = directory / f"shop.{os.getpid()}.sock"
        inode = path.stat().st_ino
        async with living(guarded(directory)):
            assert "another process or middleware listens there" in caplog.text
        assert path.stat().st_ino == inode, "who came second doesn't take it away either"
        async with living(guarded(directory, app="stock")):
            assert len(contents(directory)) == 2


async def test_a_file_that_replaced_the_socket_is_not_deleted(directory: Path) -> None:
    async with living(guarded(directory)):
        path = contents(directory)[0]
        path.rename(directory / "away")
        path.write_text("mine")
    assert [(one.name, one.is_file()) for one in contents(directory)] == [("away", False), (path.name, True)]


async def test_files_of_dead_workers_are_removed(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as once:
        dead.bind(str(directory / "shop.1.sock"))
        once.bind(str(directory / f"shop.{os.getpid()}.sock"))  # of an earlier process with the same PID
    async with living(guarded(directory)):
        assert [one.name for one in contents(directory)] == [f"shop.{os.getpid()}.sock"]
        assert (await run_sync(asked, contents(directory)[0], "/flows"))[0] == 200


async def test_an_error_in_the_lifespan_passes_through(directory: Path) -> None:
    async def broken(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        raise LookupError("no database here")

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(_message: Message) -> None: ...

    with pytest.raises(LookupError):
        await APFMiddleware(broken, configuration_with_socket(directory))({"type": "lifespan"}, receive, send)
    assert contents(directory) == []


async def test_the_environment_enables_a_control_socket(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert APFMiddleware(quiet, configuration()).service.control_socket is None
    monkeypatch.setenv("APF_RUNTIME_DIR", str(directory))
    middleware = APFMiddleware(quiet, configuration())
    async with living(middleware):
        assert [one.name for one in contents(directory)] == [f"app.{os.getpid()}.sock"]
        assert middleware.service.controller.running is not None, "somebody may ask for heavy flows"
