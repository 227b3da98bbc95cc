"""Three real servers share ten seats over a real Redis, which is killed, stopped, emptied, or slow."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from redis.asyncio import Redis as Client

from tests.e2e.fleet_load import SEATS, Backend, Load, backend_and_environment, loaded
from tests.support import databases
from tests.support.databases import Redis
from tests.support.prerequisites import require_redis
from tests.support.servers import Server, free_port, serve
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

SERVERS = 3
MEMBERS = 5  # the largest number for which fallback seats are set aside, one for each
LEASE_S = 2.0
OVERLOADED = 100  # answers that show that the fleet works


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def redis() -> Iterator[Redis]:
    require_redis()
    with databases.redis() as server:
        yield server


@contextlib.asynccontextmanager
async def fleet(folder: Path, port: int) -> AsyncIterator[tuple[Sequence[Server], Backend, Load]]:
    """Run servers under load; each has one fallback seat."""
    settings = f"{{store: 'redis://127.0.0.1:{port}', lease: {LEASE_S}s, fallback: {{members: {MEMBERS}, share: 0.5}}}}"
    async with backend_and_environment(folder, settings) as (backend, variables), contextlib.AsyncExitStack() as stack:
        starts = [serve("tests.e2e.fleet_member:app", environment=variables, ready="/metrics") for _ in range(SERVERS)]
        servers = []
        for start in starts:
            servers.append(await asyncio.to_thread(start.__enter__))
            stack.push_async_callback(asyncio.to_thread, start.__exit__, None, None, None)
        async with loaded([server.url for server in servers]) as load:
            yield servers, backend, load
    assert backend.most <= SEATS
    assert load.statuses.keys() == {200}


async def works(backend: Backend, servers: int = SERVERS) -> None:
    """Wait until all seats are in use but the fallback seats of other members, and requests end."""
    done = backend.finished
    await until(lambda: backend.in_flight == SEATS - (MEMBERS - servers) and backend.finished > done + OVERLOADED)


async def owner(redis: Redis) -> int:
    """Return the process of the allocator."""
    async with Client.from_url(redis.url) as client:
        found = await client.hget("apf:{app}:state", "owner")
    assert isinstance(found, bytes)
    return int(found.split(b"-")[-2])


async def test_the_budget_holds_while_servers_are_killed(tmp_path: Path, redis: Redis) -> None:
    async with fleet(tmp_path, redis.port) as (servers, backend, load):
        await works(backend)
        os.kill(await owner(redis), signal.SIGKILL)
        await until(lambda: any(server.process.poll() is not None for server in servers))
        await works(backend, SERVERS - 1)
        dead = next(server for server in servers if server.process.poll() is not None)
        assert set(load.workers) == {str(server.pid) for server in servers}
        assert await owner(redis) != dead.pid


async def test_a_server_that_ends_leaves_the_fleet_at_once(tmp_path: Path, redis: Redis) -> None:
    settings = f"{{store: 'redis://127.0.0.1:{redis.port}', lease: 60s}}"
    async with backend_and_environment(tmp_path, settings) as (_, variables), Client.from_url(redis.url) as client:
        with serve("tests.e2e.fleet_member:app", environment=variables, ready="/metrics") as server:
            async with asyncio.timeout(60):
                while not await client.hexists("apf:{app}:state", "owner"):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.01)
            assert await owner(redis) == server.pid
            server.process.terminate()
            await asyncio.to_thread(server.process.wait, 60)
        fields = {b"epoch", b"owner", b"until", b"count", b"unsure", b"round", b"standing", b"stood"}
        assert set(await client.hkeys("apf:{app}:state")) == fields
        assert await client.hget("apf:{app}:state", "until") == b"0", "another member may begin an epoch"


async def test_a_redis_that_is_killed_and_comes_back_empty(tmp_path: Path, redis: Redis) -> None:
    async with fleet(tmp_path, redis.port) as (_, backend, _):
        await works(backend)
        redis.process.kill()
        await asyncio.sleep(LEASE_S + 0.5)
        done = backend.finished
        await until(lambda: backend.finished > done + 20)  # fallback seats
        assert backend.in_flight <= SERVERS
        with databases.redis(redis.port):
            await works(backend)


async def test_a_redis_that_is_stopped_for_longer_than_a_lease(tmp_path: Path, redis: Redis) -> None:
    async with fleet(tmp_path, redis.port) as (_, backend, _):
        await works(backend)
        redis.pause()
        try:
            await asyncio.sleep(LEASE_S + 0.5)
            await until(lambda: backend.in_flight <= SERVERS)
        finally:
            redis.resume()
        await works(backend)


async def test_a_redis_whose_connections_are_slow_and_break(tmp_path: Path, redis: Redis) -> None:
    proxy = Proxy(redis.port)
    port = free_port()
    async with await asyncio.start_server(proxy.connect, "127.0.0.1", port), fleet(tmp_path, port) as (_, backend, _):
        await works(backend)
        proxy.delay_s, proxy.broken = 0.05, 0.01
        done = backend.finished
        await until(lambda: proxy.breaks > 2 and backend.finished > done + 2 * OVERLOADED)
        proxy.delay_s = proxy.broken = 0.0
        await works(backend)


class Proxy:
    """Connections to a port; each message is delayed by up to ``delay_s``, or breaks its connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.delay_s = self.broken = 0.0
        self.breaks = 0
        self.random = random.Random(1)

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond = await asyncio.open_connection("127.0.0.1", self.port)
        ways = self.copy(reader, beyond[1]), self.copy(beyond[0], writer)
        await asyncio.gather(*ways, return_exceptions=True)

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                if self.delay_s:
                    await asyncio.sleep(self.random.uniform(0, self.delay_s))
                if self.random.random() < self.broken:
                    self.breaks += 1
                    break
                writer.write(data)
                await writer.drain()
        writer.close()
