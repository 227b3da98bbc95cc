"""What gates in Redis hold is neither lost nor taken twice when Redis doesn't answer for a while."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from apf_middleware import Gates
from apf_middleware.adapters import lua
from apf_middleware.adapters.redis import RedisSharing, redis_capacity
from apf_middleware.adapters.redis_connections import NotSentError
from apf_middleware.gates import CustomGate, GateRequest, Park
from tests.support import databases
from tests.support.databases import Redis as RedisServer
from tests.support.handler_app import HandlerApp
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

QUICK = RedisSharing(timeout=0.2)
KEY = "apf:db:"
REQUEST = GateRequest("level", "schema", "alice")
# ours and that of redis-py, which are equally long, and ours without a connection
TIMEOUTS = (TimeoutError, RedisTimeoutError, NotSentError)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with databases.redis() as server:
        yield server


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    client = Redis.from_url(server.url)
    yield client
    await client.aclose()


@contextlib.asynccontextmanager
async def capacity(redis: Redis, limit: int = 3, hold: float = 60, sharing: RedisSharing = QUICK) -> AsyncIterator[Any]:
    """Return an app's gate of so many places, closed at the end."""
    gates = Gates()
    redis_capacity(gates, "db", redis, limit=limit, hold=hold, sharing=sharing)
    gate = gates.scheduler.gates["db"]
    assert isinstance(gate, CustomGate)
    yield gate.own
    await gate.aclose()


async def acquired(gate: Any, count: int = 1) -> list[Any]:  # noqa: ANN401
    """Return permits, although a busy machine may make an attempt last too long."""
    leases: list[Any] = []
    while len(leases) < count:
        with contextlib.suppress(*TIMEOUTS):
            leases.append(await gate.try_acquire(REQUEST, "", 1))
    await until(lambda: not len(gate._releases))
    return leases


async def taken(redis: Redis) -> int:
    return int(await redis.zcount(KEY, 1, "+inf"))


async def test_permits_are_released_when_redis_answers_again(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis) as gate:
        leases = await acquired(gate, 3)
        server.pause()
        for lease in leases:
            gate.release(lease)
        await asyncio.sleep(0.5)
        assert len(gate._releases) == 3
        server.resume()
        await until(lambda: not len(gate._releases))

        assert await taken(redis) == 0


async def test_an_acquire_whose_reply_was_lost_takes_no_permit(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis, limit=20) as gate:
        await asyncio.gather(*(acquired(gate) for _ in range(8)))  # over as many connections
        server.pause()
        found = await asyncio.gather(*(gate.try_acquire(REQUEST, "", 1) for _ in range(8)), return_exceptions=True)
        assert all(isinstance(one, TIMEOUTS) for one in found)
        lost = [one for one in found if not isinstance(one, NotSentError)]
        assert 0 < len(lost) == len(gate._releases)
        server.resume()
        await until(lambda: not len(gate._releases))
        await asyncio.sleep(0.1)

        assert await taken(redis) == 8


async def test_an_acquire_that_is_cancelled_takes_no_permit(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis, sharing=RedisSharing(timeout=10)) as gate:
        await acquired(gate)
        server.pause()
        asking = [asyncio.create_task(gate.try_acquire(REQUEST, "", 1)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)
        assert all(one.cancelled() for one in asking)
        server.resume()
        await until(lambda: not len(gate._releases))
        await asyncio.sleep(0.1)

        assert await taken(redis) == 1


async def test_an_acquire_that_arrives_after_its_withdrawal_takes_no_permit(redis: Redis) -> None:
    acquire, withdraw = redis.register_script(lua.ACQUIRE_PLACES), redis.register_script(lua.WITHDRAW_PLACES)

    assert await withdraw(keys=[KEY], args=[60_000_000, "late:0", "late:1"]) == 0
    assert await acquire(keys=[KEY], args=[3, 60_000_000, "late:0", "late:1"]) == 0
    assert await acquire(keys=[KEY], args=[3, 60_000_000, "a:0", "a:1", "a:2"]) == 1  # what was withdrawn takes no room
    assert await withdraw(keys=[KEY], args=[60_000_000, "a:0", "a:1", "a:2"]) == 3
    assert await taken(redis) == 0


async def test_withdrawals_expire(redis: Redis) -> None:
    acquire, withdraw = redis.register_script(lua.ACQUIRE_PLACES), redis.register_script(lua.WITHDRAW_PLACES)
    await withdraw(keys=[KEY], args=[20_000, "late:0"])
    await acquire(keys=[KEY], args=[3, 60_000_000, "a:0"])
    assert await redis.pttl(KEY) > 50_000
    await withdraw(keys=[KEY], args=[20_000, "other:0"])
    assert await redis.pttl(KEY) > 50_000, "a shorter time doesn't end a longer one"
    await asyncio.sleep(0.05)
    await acquire(keys=[KEY], args=[3, 60_000_000, "b:0"])

    assert await redis.zcard(KEY) == 2


async def test_many_simultaneous_releases_use_few_connections(redis: Redis) -> None:
    async with capacity(redis, limit=500, sharing=RedisSharing(timeout=10, connections=3)) as gate:
        leases = await asyncio.gather(*(gate.try_acquire(REQUEST, "", 1) for _ in range(500)))
        assert not any(isinstance(lease, Park) for lease in leases)
        for lease in leases:
            gate.release(lease)
        await until(lambda: not len(gate._releases))

        assert await taken(redis) == 0
        assert len(await redis.client_list()) <= 2 * 3 + 1


async def test_the_connections_of_the_app_are_not_used(server: RedisServer) -> None:
    client = Redis.from_url(server.url, max_connections=1)
    await client.ping()
    async with capacity(client) as gate:
        waiting = asyncio.ensure_future(client.blpop(["nothing"], timeout=1))
        await asyncio.sleep(0.05)
        [lease] = await acquired(gate)
        gate.release(lease)
        await until(lambda: not len(gate._releases))
        await waiting

        assert await taken(client) == 0
    await client.aclose()


async def test_a_server_that_stops_returns_permits_that_it_still_gets(server: RedisServer, redis: Redis) -> None:
    gates = Gates()
    redis_capacity(gates, "db", redis, limit=3, hold=60, sharing=RedisSharing(timeout=10))
    async with anyio.create_task_group() as tasks:
        protected = HandlerApp(tasks, gates, lambda _: asyncio.sleep(0))
        assert (await protected.request("/db/1").end()).status == 200
        server.pause()
        asking = [protected.request(f"/db/{number}") for number in range(2, 5)]
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(0.2, server.resume)
        protected.middleware.service.end()
        await protected.middleware.service.finish()

        assert await taken(redis) == 0
        assert {(await one.end()).status for one in asking} == {503}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_another_event_loop_gets_connections_of_its_own(redis: Redis) -> None:
    """The first loop ends without closing the gate, like that of a test client without a lifespan."""
    async with capacity(redis, limit=8, sharing=RedisSharing(timeout=10, connections=1)) as gate:

        async def live(*, closes: bool) -> None:
            leases = await asyncio.gather(*(gate.try_acquire(REQUEST, "", 1) for _ in range(4)))
            for lease in leases[:2]:
                gate.release(lease)
            await until(lambda: not len(gate._releases))
            if closes:
                await gate.aclose()

        for number, closes in enumerate((False, True, True), start=1):
            await asyncio.to_thread(asyncio.run, live(closes=closes))
            assert await taken(redis) == 2 * number
        gc.collect()


async def test_an_acquire_that_was_never_sent_needs_no_withdrawal(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis, sharing=RedisSharing(timeout=0.2, connections=1)) as gate:
        await acquired(gate)
        server.pause()
        found = await asyncio.gather(*(gate.try_acquire(REQUEST, "", 1) for _ in range(5)), return_exceptions=True)
        assert all(isinstance(one, TIMEOUTS) for one in found)
        never_sent = [one for one in found if isinstance(one, NotSentError)]
        assert never_sent
        assert len(gate._releases) == len(found) - len(never_sent)
        server.resume()


async def test_an_acquire_without_a_connection_needs_no_withdrawal(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis) as gate:
        await acquired(gate)
        server.stop()
        found = await asyncio.gather(*(gate.try_acquire(REQUEST, "", 1) for _ in range(20)), return_exceptions=True)

        errors = [error for error in found if isinstance(error, NotSentError)]
        assert len(errors) >= 19  # one may have been sent over the connection that was open before
        assert len(gate._releases) == len(found) - len(errors)
        for error in errors:
            assert isinstance(error.__cause__, RedisConnectionError)
            assert str(error) == f"no connection to Redis: ConnectionError: {error.__cause__}"


async def test_an_acquire_whose_connection_hangs_needs_no_withdrawal(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis) as gate:
        server.pause()
        with pytest.raises(NotSentError, match="Redis: none came free or could be opened within the time-out"):
            await gate.try_acquire(REQUEST, "", 1)
        assert len(gate._releases) == 0
        server.resume()


async def test_without_redis_a_permit_expires_in_time(server: RedisServer, redis: Redis) -> None:
    async with capacity(redis, hold=1) as gate:
        [lease] = await acquired(gate)
        server.stop()
        gate.release(lease)
        await asyncio.sleep(0.1)
        assert len(gate._releases) == 1
        await until(lambda: not len(gate._releases))
