"""Adaptive seats on a real uvicorn: ``python -m benchmarks.adaptive_wire [--json] [--seconds 20] [--only cpu]``.

Sixty clients, each with a connection of its own, ask one after the other without a pause, and pause for 20 ms if they
are rejected. The app is one of two:

cpu        awaits 16 ms, and computes for 4 ms in a thread: more than 5 requests at once only wait for the processor
postgres   takes one of 10 connections of a pool, and sleeps in PostgreSQL for 20 ms, after half of the time for 60 ms

Each row has a number of seats, or ``adaptive`` for bounds of 2 and 200. ``goodput`` are the answers within a second,
``p99`` is that of the time in the app, in ms; both are also given relative to the best fixed number, which is the
fastest of those with 0.99 of the largest goodput. ``seats`` is the mean number in the last third. The first quarter of
the time, in which an adaptive number is found, isn't counted. The server has one core, and the clients and PostgreSQL
the other one.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text
from benchmarks.measure import print_rows
from tests.support.databases import postgres
from tests.support.servers import cores, pinned, serve

__all__ = ["CASES", "FIXED", "make_app", "measure"]

CASES: Final = ("cpu", "postgres")
FIXED: Final = (2, 5, 10, 20, 60)

_CLIENTS: Final = 60
_PATIENCE_S: Final = 1.0
_PAUSE_S: Final = 0.02
_CONNECTIONS: Final = 10
_SLEEPS_S: Final = (0.02, 0.06)
_VARIABLE: Final = "APF_BENCHMARK_ADAPTIVE"
_CONFIGURATION: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 100, waitLimit: 500ms, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 500}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""


def _burn(seconds: float) -> None:
    """Compute for so much time of the processor."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


async def _compute(_request: Request) -> Response:
    began = time.perf_counter()
    await asyncio.sleep(0.016)
    await to_thread.run_sync(_burn, 0.004)
    return JSONResponse({"took": time.perf_counter() - began})


async def _query(request: Request) -> Response:
    began = time.perf_counter()
    async with request.app.state.pool.acquire() as connection:
        await connection.execute("select pg_sleep((select seconds from pace))")
    return JSONResponse({"took": time.perf_counter() - began})


@asynccontextmanager
async def _with_pool(app: Starlette) -> AsyncIterator[None]:
    url = json.loads(os.environ[_VARIABLE])["url"]
    if not url:
        yield
        return
    import asyncpg  # noqa: PLC0415 - only for this case

    async with asyncpg.create_pool(url, min_size=_CONNECTIONS, max_size=_CONNECTIONS) as app.state.pool:
        yield


def make_app() -> APFMiddleware:
    """Return the app that the environment asks for."""
    settings = json.loads(os.environ[_VARIABLE])
    routes = [Route("/", _query if settings["url"] else _compute)]
    app = Starlette(routes=routes, lifespan=_with_pool)
    return APFMiddleware(app, load_text(_CONFIGURATION.format(seats=settings["seats"])))


class _Clients:
    """Clients of the server at ``port``, and what they see from the time ``counted_from`` on."""

    def __init__(self, port: int, counted_from: float, until: float) -> None:
        self._port = port
        self._counted_from = counted_from
        self._until = until
        self.served = 0
        self.took: list[float] = []
        self.seats: list[float] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CLIENTS):
                tasks.create_task(self._ask_on())
            tasks.create_task(self._look())

    async def _ask_on(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while (began := time.monotonic()) < self._until:
                status, body = await _exchange(reader, writer, "/")
                now = time.monotonic()
                if status != 200:
                    await asyncio.sleep(_PAUSE_S)
                elif began >= self._counted_from:
                    self.served += now - began <= _PATIENCE_S
                    self.took.append(json.loads(body)["took"])
        finally:
            writer.close()

    async def _look(self) -> None:
        """Read the number of seats twice a second."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while time.monotonic() < self._until:
            _, body = await _exchange(reader, writer, "/metrics")
            [line] = [line for line in body.decode().splitlines() if line.startswith("apf_server_seats ")]
            self.seats.append(float(line.split()[1]))
            await asyncio.sleep(0.5)
        writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, bytes]:
    writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, rest = head.partition(b"content-length:")
    return int(head.split()[1]), await reader.readexactly(int(rest.split()[0]))


async def _set_pace(url: str, seconds: float) -> None:
    import asyncpg  # noqa: PLC0415 - only for this case

    connection = await asyncpg.connect(url)
    await connection.execute("create table if not exists pace (seconds float8); delete from pace")
    await connection.execute("insert into pace values ($1)", seconds)
    await connection.close()


async def _play(clients: _Clients, url: str, seconds: float) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(clients.run())
        if url:
            await asyncio.sleep(seconds / 2)
            await _set_pace(url, _SLEEPS_S[1])


def measure(url: str, seats: int | None, seconds: float) -> dict[str, Any]:
    """Return the figures of one run on a fresh server, with PostgreSQL at ``url`` or with the processor."""
    if url:
        asyncio.run(_set_pace(url, _SLEEPS_S[0]))
    server_core, load_core = cores() or (None, None)
    written = "{adaptive: {min: 2, max: 200}}" if seats is None else str(seats)
    environment = {_VARIABLE: json.dumps({"url": url, "seats": written})}
    options = ("--factory", "--no-access-log")
    with (
        serve("benchmarks.adaptive_wire:make_app", *options, environment=environment, core=server_core) as server,
        pinned(load_core),
    ):
        now = time.monotonic()
        clients = _Clients(server.port, now + seconds / 4, now + seconds)
        asyncio.run(_play(clients, url, seconds))
    took, last = sorted(clients.took), clients.seats[-max(1, len(clients.seats) // 3) :]
    return {
        "row": "adaptive" if seats is None else str(seats),
        "goodput": round(clients.served / (seconds * 3 / 4), 1),
        "p99": round(1000 * took[int(0.99 * len(took))], 1) if took else None,
        "seats": round(sum(last) / len(last), 1),
    }


def _compared(case: str, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows beside the best fixed number."""
    fixed = [row for row in rows if row["row"] != "adaptive"]
    most = max(row["goodput"] for row in fixed)
    best = min((row for row in fixed if row["goodput"] >= 0.99 * most), key=lambda row: row["p99"])
    for row in rows:
        ratios = {f"{name}_ratio": round(row[name] / best[name], 3) for name in ("goodput", "p99")}
        yield {"case": case, **row, **ratios, "is_best": row is best}


def _rows(cases: Sequence[str], fixed: Sequence[int], seconds: float) -> Iterator[dict[str, Any]]:
    for case in cases:
        numbers: list[int | None] = [*fixed, None]
        if case == "cpu":
            yield from _compared(case, [measure("", seats, seconds) for seats in numbers])
            continue
        with postgres() as database:
            yield from _compared(case, [measure(database.url, seats, seconds) for seats in numbers])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptive_wire", description="Adaptive seats.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=CASES, help="the only case")
    parser.add_argument("--fixed", type=int, nargs="+", default=FIXED, help="the fixed numbers of seats")
    options = parser.parse_args()
    rows = list(_rows([options.only] if options.only else CASES, options.fixed, options.seconds))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
