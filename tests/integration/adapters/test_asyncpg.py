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
from apf_middleware.gates.gate import GateRequest, ParkDecision
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


@pytest.mark.parametrize(("size", "count"), [(4, 3), (5, 2), (10, 4)])
async def test_connections_in_use_elsewhere_are_not_granted(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    monkeypatch.setattr("apf_middleware.adapters.asyncpg._PROMISED_FOR_NS", 60 * 10**9)  # on a busy machine
    async with pool_of(postgres, size) as pool, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        pool_gate(gates, "db", pool)
        outsiders = [await pool.acquire() for _ in range(count)]
        waiting, most = 0, 0

        async def use(_path: str) -> None:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting + pool.get_size() - pool.get_idle_size())
            async with pool.acquire() as connection:
                waiting -= 1
                await connection.fetchval("SELECT pg_sleep(0.002)")

        protected = HandlerApp(tasks, gates, use)
        for waiter in protected.request_many(20, users=4):
            await waiter.end()
        for outsider in outsiders:
            await pool.release(outsider)

        assert most == size


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

        gate._forget_at = 0  # the while is over
        await until(lambda: len(protected.started) == 3)
        door.set()
        for waiter in waiters:
            await waiter.end()


async def test_a_connection_that_is_taken_and_returned_unseen_is_not_awaited() -> None:
    """One of four is in use elsewhere, and each request ends before the next look at the pool."""
    pool, request = SlowPool(4), GateRequest("level", "schema", "flow")
    gate = pool_gate(Gates(), "db", pool)
    pool.used = 1
    leases = [gate.acquire(0, request, "", 1) for _ in range(4)]
    assert leases[:3] == [1, 1, 1]
    assert leases[3] == ParkDecision(below=1)
    pool.used = 3  # that of one request has come back
    for _ in range(10):
        gate.release("", 1)
        assert gate.acquire(0, request, "", 1) == 1
        assert gate.acquire(0, request, "", 1) == ParkDecision(below=1)

    pool.used = 4
    assert gate.acquire(0, request, "", 1) == ParkDecision(below=1)
    pool.used = 3  # the other user's comes back, too
    assert gate.acquire(0, request, "", 1) == 1
    assert gate.limit == gate.used("") == 4
