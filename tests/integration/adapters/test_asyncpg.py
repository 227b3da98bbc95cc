"""The gate of an asyncpg pool, with a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest

from apf_middleware import Gates
from apf_middleware.adapters.asyncpg import pool_gate
from tests.support.databases import Postgres
from tests.support.handler_app import HandlerApp
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@asynccontextmanager
async def pool_of(server: Postgres, size: int) -> AsyncIterator[Any]:
    pool = await asyncpg.create_pool(server.url, min_size=1, max_size=size)
    try:
        yield pool
    finally:
        await pool.close()


async def test_no_more_requests_are_admitted_than_the_pool_has_connections(postgres: Postgres) -> None:
    async with pool_of(postgres, 3) as pool, anyio.create_task_group() as tasks:
        gates = Gates()
        gate = pool_gate(gates, "db", pool)
        now, most, waits = 0, 0, 0

        async def use(_path: str) -> None:
            nonlocal now, most, waits
            now += 1
            most = max(most, now)
            waits += pool.get_idle_size() == 0 and pool.get_size() == pool.get_max_size()
            async with pool.acquire() as connection:
                await connection.fetchval("SELECT pg_sleep(0.002)")
            now -= 1

        protected = HandlerApp(tasks, gates, use)
        waiters = protected.request_many(20, users=4)
        for waiter in waiters:
            await waiter.end()

        assert [waiter.status for waiter in waiters] == [200] * 20
        assert (most, gate.limit, waits) == (3, 3, 0)
        assert protected.is_idle()


async def test_connections_in_use_elsewhere_count_and_are_polled_until_returned(postgres: Postgres) -> None:
    async with pool_of(postgres, 1) as pool, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)  # no rescue
        gate = pool_gate(gates, "db", pool)
        protected = HandlerApp(tasks, gates, lambda _: pool.fetchval("SELECT 1"))
        outsider = await pool.acquire()
        waiter = protected.request("/db/waiter")
        await until(lambda: gate.counters.evaluations["parked"] > 2)
        assert protected.started == []

        await pool.release(outsider)
        await waiter.end()

        assert waiter.status == 200
        assert protected.rescues == 0


async def test_connections_in_use_elsewhere_are_not_granted(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apf_middleware.adapters.asyncpg._PROMISED_FOR_NS", 60 * 10**9)  # on a busy machine
    async with pool_of(postgres, 4) as pool, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        pool_gate(gates, "db", pool)
        outsiders = [await pool.acquire() for _ in range(3)]
        now, most = 0, 0

        async def use(_path: str) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await pool.fetchval("SELECT pg_sleep(0.002)")
            now -= 1

        protected = HandlerApp(tasks, gates, use)
        for waiter in protected.request_many(8):
            await waiter.end()

        assert most == 1
        for outsider in outsiders:
            await pool.release(outsider)


class SlowPool:
    """Three numbers, and a connection that a request takes long to get."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0

    def get_size(self) -> int:
        return self.size

    def get_max_size(self) -> int:
        return self.size

    def get_idle_size(self) -> int:
        return self.size - self.used


async def test_an_admitted_request_that_takes_no_connection_stops_counting_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others have three of five; those who come in take none, so that nothing tells what became of the promise."""
    monkeypatch.setattr("apf_middleware.adapters.asyncpg._PROMISED_FOR_NS", 60 * 10**9)
    pool, door = SlowPool(5), anyio.Event()
    pool.used = 3
    async with anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        gate = pool_gate(gates, "db", pool)
        protected = HandlerApp(tasks, gates, lambda _: door.wait())
        waiters = protected.request_many(3)
        await until(lambda: len(protected.started) == 2)
        await asyncio.sleep(0.02)
        assert len(protected.started) == 2

        gate._promised_until = 0  # the while is over
        await until(lambda: len(protected.started) == 3)
        door.set()
        for waiter in waiters:
            await waiter.end()
