"""Of which clients the connection is looked at; and that uvicorn's connections show what is looked for there."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from apf_middleware.asgi.body import RequestBody
from apf_middleware.asgi.waiting_client import WaitingClient
from apf_middleware.classification import Classification
from apf_middleware.runtime import IncomingBodies
from tests.support.asgi_exchange import http_scope, websocket_scope
from tests.support.level_world import LevelWorld


class Cycle:
    """A request of a server like uvicorn."""

    __module__ = "uvicorn.protocols.http.of_a_test"
    disconnected = False

    async def receive(self) -> Message:
        raise NotImplementedError


class Lost(Cycle):
    __module__ = Cycle.__module__
    disconnected = True


class Later:
    """A request of a uvicorn that doesn't tell."""

    __module__ = Cycle.__module__

    async def receive(self) -> Message:
        raise NotImplementedError


class Other(Cycle):
    __module__ = "another.server"


async def receive() -> Message:
    raise NotImplementedError


def client_of(receive: Receive, scope: Scope | None = None, body: RequestBody | None = None) -> WaitingClient:
    return WaitingClient(LevelWorld().arrive(), http_scope() if scope is None else scope, receive, body)


def test_the_connection_of_a_request_of_uvicorn_without_a_body_is_looked_at() -> None:
    cycle = Cycle()
    assert client_of(cycle.receive).connection() is cycle
    assert client_of(cycle.receive, http_scope("/", "POST", {"Content-Length": "0"})).connection() is cycle


@pytest.mark.parametrize("receive", [Lost().receive, Later().receive, Other().receive, receive])
def test_other_connections_are_not_looked_at(receive: Receive) -> None:
    assert client_of(receive).connection() is None


@pytest.mark.parametrize(
    "scope",
    [
        websocket_scope(),
        http_scope("/", "POST", {"Content-Length": "4"}),
        http_scope("/", "POST", {"Transfer-Encoding": "chunked"}),
        http_scope("/", "POST", {"Content-Length": "4", "Expect": "100-continue"}),
        http_scope("/", "POST", http_version="2"),
    ],
)
def test_a_request_whose_client_may_send_more_is_watched(scope: Scope) -> None:
    assert client_of(Cycle().receive, scope).connection() is None


def test_a_request_whose_body_is_received_is_watched() -> None:
    cycle = Cycle()
    body = RequestBody(IncomingBodies(lambda: 0), Classification("schema", "level", "flow", 0), cycle.receive)
    client = client_of(cycle.receive, body=body)
    assert client.connection() is None
    assert client.body is body


class Transport(asyncio.Transport):
    """A transport whose other end is a test."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_connections_of_uvicorn_show_a_hang_up(http: str) -> None:
    found: list[Any] = []
    may_end = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(client_of(receive, scope).connection())
        await may_end.wait()

    config = Config(app, http=http, lifespan="off", log_config=None)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config.load()
    make_protocol: Any = config.http_protocol_class
    protocol = make_protocol(config, ServerState(), {})
    protocol.connection_made(Transport())
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0)
    [connection] = found
    assert connection is not None
    shown = [connection.disconnected]
    protocol.connection_lost(None)
    shown.append(connection.disconnected)
    assert shown == [False, True]
    may_end.set()
    await asyncio.gather(*protocol.tasks)
