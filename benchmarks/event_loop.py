"""Light requests beside reports that block the event loop: ``python -m benchmarks.event_loop [--json] [--seconds 20]``.

A real uvicorn serves reports, each of which computes for 20 ms on the event loop and never awaits anything, to 16
clients that ask again at once, and light requests, which come 50 times a second. In the second row the level of the
reports is elastic. Each row has quantiles of the light requests' times from the moment at which they should have been
sent, the reports a second, the p99 of the lag as the server's metrics have it, and the cap at the end. The last line is
the ratio of the two p99s of light requests.
"""

import argparse
import asyncio
import os
import time
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text
from benchmarks.measure import print_json, print_table
from tests.support.servers import cores, pinned, serve

__all__ = ["light_ratio", "make_app", "measure"]

_CLIENTS: Final = 16
_LIGHT_EVERY_S: Final = 0.02
_BLOCKED_S: Final = 0.02
_WARM_UP_S: Final = 4.0  # until caps are where they stay
_TARGET: Final = "2ms"
_VARIABLE: Final = "APF_BENCHMARK_ELASTIC"
_CONFIGURATION: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: 100, defaults: none, eventLoop: {{lagTarget: {target}}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: reports}}
spec: {{shares: 30, lendablePercent: 100, elastic: {elastic}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 70}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: reports}}
spec: {{level: reports, precedence: 10, rules: [{{httpRules: [{{paths: [/report]}}]}}]}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: web}}
spec: {{level: web, precedence: 20, rules: [{{httpRules: [{{}}]}}]}}
"""


async def _report(_request: Request) -> PlainTextResponse:
    end = time.perf_counter() + _BLOCKED_S
    while time.perf_counter() < end:
        pass
    return PlainTextResponse("a report")


async def _light(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("light")


def make_app() -> APFMiddleware:
    """Return the app, with an elastic level if the environment has a target for its lag."""
    target = os.environ.get(_VARIABLE)
    text = _CONFIGURATION.format(elastic="true" if target else "false", target=target or _TARGET)
    routes = [Route("/report", _report), Route("/light", _light)]
    return APFMiddleware(Starlette(routes=routes), load_text(text))


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _close(connection: _Connection) -> None:
    connection[1].close()
    await connection[1].wait_closed()


class _Clients:
    """Clients of the server at ``port``: the times of light requests, and the number of reports."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._begin = self._end = 0.0
        self.light_s: list[float] = []
        self.reports = 0

    async def load(self, seconds: float) -> None:
        """Load the server for so long after the warm-up."""
        self._begin = time.monotonic() + _WARM_UP_S
        self._end = self._begin + seconds
        connections: asyncio.Queue[_Connection] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CLIENTS):
                tasks.create_task(self._ask_reports())
            due = time.monotonic()
            while due < self._end:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.create_task(self._ask_light(due, connections))
                due += _LIGHT_EVERY_S
        while not connections.empty():
            await _close(connections.get_nowait())

    async def _ask(self, path: str, connection: _Connection) -> None:
        reader, writer = connection
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{path} was answered with {head!r}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))

    async def _ask_reports(self) -> None:
        connection = await asyncio.open_connection("127.0.0.1", self._port)
        while time.monotonic() < self._end:
            await self._ask("/report", connection)
            self.reports += time.monotonic() >= self._begin
        await _close(connection)

    async def _ask_light(self, due: float, connections: asyncio.Queue[_Connection]) -> None:
        if connections.empty():
            connection = await asyncio.open_connection("127.0.0.1", self._port)
        else:
            connection = connections.get_nowait()
        await self._ask("/light", connection)
        if due >= self._begin:
            self.light_s.append(time.monotonic() - due)
        connections.put_nowait(connection)


def measure(*, is_elastic: bool, seconds: float) -> dict[str, Any]:
    """Return the row of one run, on a fresh server."""
    server_core, load_core = cores() or (None, None)
    environment = {_VARIABLE: _TARGET if is_elastic else ""}
    options = ("--factory", "--no-access-log")
    with (
        serve("benchmarks.event_loop:make_app", *options, environment=environment, core=server_core) as server,
        pinned(load_core),
    ):
        clients = _Clients(server.port)
        asyncio.run(clients.load(seconds))
        metrics = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).text
    ordered = sorted(clients.light_s)
    return {
        "row": "elastic" if is_elastic else "not elastic",
        "light_p50_ms": round(1000 * ordered[len(ordered) // 2], 1),
        "light_p99_ms": round(1000 * ordered[len(ordered) * 99 // 100], 1),
        "reports_per_s": round(clients.reports / seconds, 1),
        "lag_p99_ms": round(1000 * _value(metrics, 'apf_event_loop_lag_seconds{percentile="99"}'), 1),
        "cap": int(_value(metrics, 'apf_elastic_cap_seats{priority_level="reports"}')) if is_elastic else None,
    }


def _value(metrics: str, series: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith(series))


def light_ratio(rows: list[dict[str, Any]]) -> float:
    """Return the p99 of light requests beside an elastic level, divided by that beside another."""
    before, after = (row["light_p99_ms"] for row in rows)
    return round(float(after / before), 3)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_loop", description="A blocked event loop.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    rows = [measure(is_elastic=is_elastic, seconds=options.seconds) for is_elastic in (False, True)]
    if options.json:
        print_json(rows)
    else:
        print_table(tuple(rows[0]), (tuple(row.values()) for row in rows))
        print(f"ratio of p99: {light_ratio(rows)}")


if __name__ == "__main__":
    main()
