"""The gate of an engine: real pools, real databases, asynchronous and in threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, exc, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from apf_middleware import Gates
from apf_middleware.adapters.sqlalchemy import engine_gate
from apf_middleware.exceptions import InvalidValueError
from tests.support.handler_app import HandlerApp
from tests.support.until import until

if TYPE_CHECKING:
    from tests.support.databases import Postgres

pytestmark = pytest.mark.anyio

UrlOf = Callable[[str], str]


@pytest.fixture(params=["postgresql", "sqlite"])
def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> UrlOf:
    """From a kind of engine to the URL of a database of this kind."""
    if request.param == "sqlite":
        drivers = {"async": "aiosqlite", "sync": "pysqlite"}
        return lambda kind: f"sqlite+{drivers[kind]}:///{tmp_path}/data.db"
    server: Postgres = request.getfixturevalue("postgres")
    drivers = {"async": "asyncpg", "sync": "psycopg"}
    return lambda kind: server.sqlalchemy_url(drivers[kind])


@asynccontextmanager
async def async_engine(url: str, size: int = 2, more: int = 1, patience: float = 0.5) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url, pool_size=size, max_overflow=more, pool_timeout=patience)
    try:
        yield engine
    finally:
        await engine.dispose()


@contextmanager
def sync_engine(url: str, size: int = 2, more: int = 0, patience: float = 0.5) -> Iterator[Engine]:
    engine = create_engine(url, pool_size=size, max_overflow=more, pool_timeout=patience)
    try:
        yield engine
    finally:
        engine.dispose()


class Use:
    """Uses a connection for a moment, at first until so many are used ``together``; notes how many are at a time."""

    def __init__(self, seconds: float = 0.002, together: int = 1) -> None:
        self.seconds = seconds
        self.together = together
        self.now = self.most = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    async def awaits(self, engine: AsyncEngine, _path: str) -> None:
        async with engine.connect() as connection:
            self.enter()
            await connection.execute(text("SELECT 1"))
            await asyncio.sleep(self.seconds)
            await until(lambda: self.most >= self.together)
            self.now -= 1

    def blocks(self, engine: Engine) -> None:
        with engine.connect() as connection:
            self.enter()
            connection.execute(text("SELECT 1"))
            with self._lock:
                self.now -= 1

    async def in_thread(self, engine: Engine, _path: str) -> None:
        await anyio.to_thread.run_sync(self.blocks, engine)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_more_requests_are_admitted_than_the_pool_has_connections(url_of: UrlOf) -> None:
    async with async_engine(url_of("async")) as engine, anyio.create_task_group() as tasks:
        gates, use = Gates(), Use(together=3)
        gate = engine_gate(gates, "db", engine)
        protected = HandlerApp(tasks, gates, partial(use.awaits, engine))
        waiters = protected.request_many(30, users=3)
        for waiter in waiters:
            await waiter.end()

        assert [waiter.status for waiter in waiters] == [200] * 30
        assert use.most == gate.limit == 3
        assert protected.is_idle()


async def test_a_synchronous_engine_is_supported(url_of: UrlOf) -> None:
    with sync_engine(url_of("sync")) as engine:
        async with anyio.create_task_group() as tasks:
            gates, use = Gates(), Use()
            gate = engine_gate(gates, "db", engine)
            protected = HandlerApp(tasks, gates, partial(use.in_thread, engine))
            waiters = protected.request_many(30, users=3)
            for waiter in waiters:
                await waiter.end()

            assert [waiter.status for waiter in waiters] == [200] * 30
            assert gate.limit == 2
            assert use.most <= 2
            assert protected.is_idle()


async def test_the_pool_event_precedes_the_returned_connection(tmp_path: Path) -> None:
    """Why nothing may be decided in the notification: the pool still counts the connection as taken."""
    with sync_engine(f"sqlite:///{tmp_path}/data.db") as engine:
        seen: list[int] = []
        event.listen(engine, "checkin", lambda *_: seen.append(engine.pool.checkedout()))  # type: ignore[attr-defined]
        with engine.connect():
            pass

        assert seen == [1]
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("former", [0, 1], ids=["", "beside a connection of a pool that was disposed of"])
async def test_a_parked_request_goes_on_when_the_event_precedes_the_returned_connection(
    former: int, tmp_path: Path
) -> None:
    """A listener after the gate's holds the thread there, so that the event loop surely looks too early."""
    too_early = threading.Event()

    with sync_engine(f"sqlite:///{tmp_path}/data.db", size=1) as engine, ExitStack() as of_former_pool:
        async with anyio.create_task_group() as tasks:
            gates = Gates(flush=60)  # no rescue
            gate = engine_gate(gates, "db", engine)
            for _ in range(former):
                of_former_pool.callback(engine.pool.dispose)  # it closes the connection that returns to it
                of_former_pool.enter_context(engine.connect())
                engine.dispose()
            event.listen(engine, "checkin", lambda *_: too_early.wait(5))
            outsider = engine.connect()
            protected = HandlerApp(tasks, gates, partial(Use().in_thread, engine))
            waiter = protected.request("/db/waiter")
            await until(lambda: protected.parked == 1)
            parked = gate.counters.evaluations["parked"]
            thread = threading.Thread(target=outsider.close)
            thread.start()
            await until(lambda: gate.counters.evaluations["parked"] > parked + 2)  # it has looked, and looks again

            assert protected.started == []
            too_early.set()
            await waiter.end()
            thread.join()
            assert waiter.status == 200
            assert protected.rescues == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("end", ["close", "detach", "invalidate"])
async def test_connections_in_use_elsewhere_count_and_their_return_is_an_event(url_of: UrlOf, end: str) -> None:
    async with async_engine(url_of("async"), size=1, more=0) as engine, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        engine_gate(gates, "db", engine)
        protected = HandlerApp(tasks, gates, partial(Use().awaits, engine))
        outsider = await engine.connect()
        waiter = protected.request("/db/waiter")
        await until(lambda: protected.parked == 1)
        await asyncio.sleep(0.01)
        assert protected.started == []

        if end == "detach":
            (await outsider.get_raw_connection()).detach()
        elif end == "invalidate":
            await outsider.invalidate()
        if end != "detach":
            await outsider.close()
        await waiter.end()
        await outsider.close()

        assert waiter.status == 200
        assert protected.rescues == 0
        assert protected.is_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_connections_in_use_elsewhere_are_not_granted(tmp_path: Path) -> None:
    """Of five connections four are in other hands: of ten that come at once one is let in at a time."""
    url = f"sqlite+aiosqlite:///{tmp_path}/data.db"
    async with async_engine(url, size=5, more=0, patience=0.001) as engine, anyio.create_task_group() as tasks:
        gates, use = Gates(flush=60), Use()
        engine_gate(gates, "db", engine)
        outsiders = [await engine.connect() for _ in range(4)]
        protected = HandlerApp(tasks, gates, partial(use.awaits, engine))
        for waiter in protected.request_many(10):
            await waiter.end()

        assert (use.most, protected.errors, protected.rescues) == (1, [], 0)
        for outsider in outsiders:
            await outsider.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_parked_request_goes_on_when_a_connection_used_elsewhere_returns(
    tmp_path: Path,
) -> None:
    """The first has filled the pool, so the second isn't let try: the gate mustn't think that nobody waits."""
    url = f"sqlite+aiosqlite:///{tmp_path}/data.db"
    async with async_engine(url, size=2, more=0) as engine, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        engine_gate(gates, "db", engine)
        doors = {"/db/1": anyio.Event(), "/db/2": anyio.Event(), "/db/3": anyio.Event()}

        async def stay(path: str) -> None:
            async with engine.connect():
                await doors[path].wait()

        protected = HandlerApp(tasks, gates, stay)
        one, two = await engine.connect(), await engine.connect()
        exchanges = [protected.request("/db/1"), protected.request("/db/2")]
        await until(lambda: protected.parked == 2)
        await one.close()
        await until(lambda: protected.started == ["/db/1"] and protected.parked == 1)
        await asyncio.sleep(0.01)
        assert protected.started == ["/db/1"]

        await two.close()
        await until(lambda: protected.started == ["/db/1", "/db/2"])
        exchanges.append(protected.request("/db/3"))
        await until(lambda: protected.parked == 1)
        for path, door in doors.items():
            door.set()
            await exchanges[int(path[-1]) - 1].end()
        assert protected.rescues == 0
        assert protected.is_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_new_pool_of_a_disposed_engine_is_counted(tmp_path: Path) -> None:
    async with async_engine(f"sqlite+aiosqlite:///{tmp_path}/data.db") as engine, anyio.create_task_group() as tasks:
        gates = Gates(flush=60)
        gate = engine_gate(gates, "db", engine)
        assert gate.used("") == 0
        await engine.dispose()
        protected = HandlerApp(tasks, gates, partial(Use().awaits, engine))
        outsiders = [await engine.connect() for _ in range(3)]
        assert gate.used("") == 3
        waiter = protected.request("/db/waiter")
        await until(lambda: protected.parked == 1)
        for outsider in outsiders:
            await outsider.close()
        await waiter.end()

        assert waiter.status == 200
        assert gate.used("") == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_returned_connection_causes_no_event_if_no_request_waits(tmp_path: Path) -> None:
    async with async_engine(f"sqlite+aiosqlite:///{tmp_path}/data.db") as engine, anyio.create_task_group() as tasks:
        gates = Gates()
        gate = engine_gate(gates, "db", engine)
        protected = HandlerApp(tasks, gates, partial(Use().awaits, engine))
        for number in range(3):
            await protected.request(f"/db/{number}").end()

        assert gate.counters.events == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_admitted_request_without_a_connection_leaves_no_state(tmp_path: Path) -> None:
    async with async_engine(f"sqlite+aiosqlite:///{tmp_path}/data.db") as engine, anyio.create_task_group() as tasks:
        gates = Gates()
        gate = engine_gate(gates, "db", engine)
        protected = HandlerApp(tasks, gates, lambda _: anyio.lowlevel.checkpoint())
        for waiter in protected.request_many(10):
            await waiter.end()

        assert gate.used("") == 0
        gate.check()


async def test_without_the_gate_the_same_load_runs_into_the_pools_time_out(tmp_path: Path) -> None:
    """What it is for."""
    with sync_engine(f"sqlite:///{tmp_path}/data.db", size=1, patience=0.01) as engine:
        outsider = engine.connect()
        async with anyio.create_task_group() as tasks:
            protected = HandlerApp(tasks, Gates(), partial(Use().in_thread, engine), gate="[]")
            waiter = protected.request("/db/waiter")
            await waiter.ended.wait()
            assert isinstance(protected.errors[0], exc.TimeoutError)
        outsider.close()


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"poolclass": NullPool}, "a NullPool has no limit that a gate could keep"),
        ({"pool_size": 0}, "its pool must be limited"),
        ({"max_overflow": -1}, "its pool must be limited"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_pool_without_a_limit_is_refused(options: dict[str, object], rule: str, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/data.db", **options)

    with pytest.raises(InvalidValueError, match=rule):
        engine_gate(Gates(), "db", engine)
