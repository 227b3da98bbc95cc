"""So many requests to each host at a time, with real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from apf_middleware import Gates
from apf_middleware.adapters.httpx import HostGate, host_gate
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import GateRequest
from tests.support.handler_app import HandlerApp
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Downstream:
    """A server that notes how many requests it had at a time, by Host header.

    It answers a request when so many as ``await_most`` says have been there at once, and 5 ms later.
    """

    def __init__(self) -> None:
        self.await_most: dict[str, int] = {}
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        host = head.lower().partition("host: ")[2].partition(":")[0]
        self.now[host] = self.now.get(host, 0) + 1
        self.most[host] = max(self.most.get(host, 0), self.now[host])
        await until(lambda: self.most[host] >= self.await_most.get(host, 0))
        await asyncio.sleep(0.005)
        self.now[host] -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def downstream() -> AsyncIterator[Downstream]:
    found = Downstream()
    async with await asyncio.start_server(found.answer, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found


def asked(request: GateRequest) -> str | None:
    """``/db/host/number`` asks a host."""
    assert request.digest is not None
    parts = request.digest.path.split("/")
    return parts[2] if len(parts) > 3 else None


def gate_of(gates: Gates, otherwise: int | None = None) -> HostGate:
    return host_gate(gates, "db", {"127.0.0.1": 2, "Localhost": 1}, host=asked, otherwise=otherwise)


async def test_each_host_has_its_own_limit() -> None:
    async with downstream() as server, anyio.create_task_group() as tasks:
        server.await_most = {"127.0.0.1": 2}
        gates = Gates(flush=60)
        gate = gate_of(gates)
        async with httpx.AsyncClient(transport=gate.transport(), trust_env=False) as client:

            async def ask(path: str) -> None:
                await client.get(f"http://{path.split('/')[2]}:{server.port}/")

            protected = HandlerApp(tasks, gates, ask)
            paths = [f"/db/{host}/{number}" for number in range(8) for host in ("127.0.0.1", "LOCALHOST")]
            waiters = [protected.request(path) for path in paths]
            for waiter in waiters:
                await waiter.end()

        assert {waiter.status for waiter in waiters} == {200}
        assert server.most == {"127.0.0.1": 2, "localhost": 1}
        assert protected.rescues == 0
        assert protected.is_idle()


@pytest.mark.parametrize("otherwise", [None, 7])
async def test_operators_see_the_limit_of_each_host(otherwise: int | None) -> None:
    async with anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        gate_of(gates, otherwise)
        assert [(one.key, one.limit) for one in gates.list()] == [(None, otherwise)]

        gates.close("db")
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint())
        for host in ("127.0.0.1", "localhost", "other"):
            protected.request(f"/db/{host}/1")
        await until(lambda: protected.parked == (2 if otherwise is None else 3))

        limits = {one.key: one.limit for one in gates.list()}
        assert limits == {"127.0.0.1": 2, "localhost": 1} | ({} if otherwise is None else {"other": otherwise})
        gates.open("db")


async def test_requests_outside_of_the_gate_count_until_their_response_is_closed() -> None:
    async with downstream() as server, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        gate = gate_of(gates)
        async with httpx.AsyncClient(transport=gate.transport(), trust_env=False) as client:
            protected = HandlerApp(tasks, gates, lambda _: client.get(f"http://localhost:{server.port}/"))
            async with client.stream("GET", f"http://localhost:{server.port}/"):
                waiter = protected.request("/db/localhost/1")
                await until(lambda: protected.parked == 1)
                await asyncio.sleep(0.02)
                assert protected.started == []
            await waiter.end()

        assert waiter.status == 200
        assert (gate.used("localhost"), protected.rescues) == (0, 0)


async def test_connections_in_use_elsewhere_are_not_granted() -> None:
    async with downstream() as server, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        gate = gate_of(gates)
        async with httpx.AsyncClient(transport=gate.transport(), trust_env=False) as client:
            url = f"http://127.0.0.1:{server.port}/"
            protected = HandlerApp(tasks, gates, lambda _: client.get(url))
            async with client.stream("GET", url):
                server.most.clear()
                for waiter in [protected.request(f"/db/127.0.0.1/{number}") for number in range(6)]:
                    await waiter.end()

        assert server.most == {"127.0.0.1": 1}


async def test_a_failed_request_releases_its_permit() -> None:
    gates = Gates()
    gate = gate_of(gates)
    async with httpx.AsyncClient(transport=gate.transport(), trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
        assert gate.used("127.0.0.1") == 0


async def test_a_response_that_was_read_before_releases_its_permit() -> None:
    """Such as one of a transport that caches, or of httpx's own for tests."""
    gates = Gates()
    gate = gate_of(gates)
    transport = gate.transport(httpx.MockTransport(lambda _: httpx.Response(200, text="here")))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://localhost/")).text == "here"
        assert gate.used("localhost") == 0


async def test_a_host_without_a_limit_is_not_counted() -> None:
    async with anyio.create_task_group() as tasks:
        gates, other = Gates(), Gates()
        gate_of(gates)
        limited = host_gate(other, "db", {}, host=lambda _: "Anywhere", otherwise=1)
        assert limited.key(GateRequest("l", "s", "f")) == "anywhere"
        assert limited.limit_of("anywhere") == 1

        door = anyio.Event()
        protected = HandlerApp(tasks, gates, lambda _: door.wait())
        waiters = [protected.request(f"/db/elsewhere/{number}") for number in range(5)]
        await until(lambda: len(protected.started) == 5)
        door.set()
        for waiter in waiters:
            await waiter.end()


async def parts() -> AsyncIterator[bytes]:
    yield b"here"


@pytest.mark.parametrize("limited", ["www.Bücher.example", "www.xn--bcher-kva.example"])
@pytest.mark.parametrize("called", ["www.bücher.example", "WWW.xn--bcher-kva.example"])
async def test_an_international_name_is_that_of_one_host(limited: str, called: str) -> None:
    gate = host_gate(Gates(), "db", {limited: 1}, host=lambda _: called)
    key = gate.key(GateRequest("l", "s", "f"))
    transport = gate.transport(httpx.MockTransport(lambda _: httpx.Response(200, content=parts())))
    async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", f"http://{called}/"):
        assert gate.limit_of(key) == 1
        assert gate.is_full(key)
    assert not gate.is_full(key)


@pytest.mark.parametrize(("limits", "otherwise"), [({"a": 0}, None), ({}, 0)])
async def test_a_limit_of_zero_is_refused(limits: dict[str, int], otherwise: int | None) -> None:
    with pytest.raises(InvalidValueError, match="at least 1"):
        host_gate(Gates(), "db", limits, host=asked, otherwise=otherwise)


@pytest.mark.parametrize("host", ["https://api.example", "api.example:8080", "api.example/", "me@api.example"])
async def test_what_is_more_than_the_name_of_a_host_is_refused(host: str) -> None:
    with pytest.raises(InvalidValueError, match=r"it must be the name of a host\. Leave the scheme"):
        host_gate(Gates(), "db", {host: 1}, host=asked)
    gate = host_gate(Gates(), "db", {"api.example": 1}, host=lambda _: host)
    with pytest.raises(InvalidValueError, match="it must be the name of a host"):
        gate.key(GateRequest("level", "schema", "flow"))


@pytest.mark.parametrize("host", ["[::1]", "::1"])
async def test_an_address_of_version_6_is_the_same_host_with_and_without_brackets(host: str) -> None:
    gate = host_gate(Gates(), "db", {host: 1}, host=lambda _: "[::1]")
    assert gate.key(GateRequest("level", "schema", "flow")) == "::1"
