"""Answers in time on a real uvicorn under overload: ``python -m benchmarks.deadlines_wire [--json] [--seconds 10]``.

Clients ask for 2 to 10 times what 10 seats can serve, with a new connection for each request, and give up after a
second. Each row has the goodput, the part of the seats' time that went into answers that were in time, and the numbers
of requests by their ends. In the rows ``deadlines`` the clients say in a header how long they wait, and in the rows
``predictions`` the server also rejects those on arrival that it expects to be late. ``told`` is the part of the
requests without an answer in time that heard so within 5 ms, and ``told_p50_ms`` the median of the time until they did.
The server and the load have a core each, where there are two; both are busy at 10 times the load.
"""

import argparse
import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text
from benchmarks.measure import print_rows
from tests.support.servers import cores, pinned, serve

__all__ = ["OVERLOADS", "ROWS", "make_app", "measure"]

OVERLOADS: Final = (2, 5, 10)
ROWS: Final = {"hang-ups": "", "deadlines": ", deadlines: {}", "predictions": ', deadlines: {prediction: "on"}'}
"""The rows, and what the configuration of each says about deadlines."""

_SEATS: Final = 10
_LEAST_S, _MOST_S = 0.04, 0.12
_RATE: Final = _SEATS / ((_LEAST_S + _MOST_S) / 2)
_PATIENCE_S: Final = 1.0
_STEP_S: Final = 0.002
_SOON_S: Final = 0.005
_VARIABLE: Final = "APF_BENCHMARK_DEADLINES"
_CONFIGURATION: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none{deadlines}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 100, waitLimit: 15s, queuing: {{queues: 8, handSize: 2, queueLengthLimit: 2000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, distinguisher: {{source: header, name: x-tenant}}, rules: [{{httpRules: [{{}}]}}]}}
"""


async def _work(_request: Request) -> PlainTextResponse:
    """Answer after a random time, with that time."""
    duration = random.uniform(_LEAST_S, _MOST_S)
    await asyncio.sleep(duration)
    return PlainTextResponse(f"{duration:.6f}")


def make_app() -> APFMiddleware:
    """Return the app of the row that the environment names."""
    configuration = load_text(_CONFIGURATION.format(seats=_SEATS, deadlines=ROWS[os.environ[_VARIABLE]]))
    return APFMiddleware(Starlette(routes=[Route("/", _work)]), configuration)


class _Clients:
    """Clients of the server at ``port``, with these ``headers``; ``used_s`` are the seat-seconds of their answers."""

    def __init__(self, port: int, headers: str) -> None:
        self._port = port
        self._headers = headers
        self.ends: Counter[str] = Counter()
        self.told_s: list[float] = []  # until those without an answer in time knew it
        self.used_s = 0.0

    async def load(self, rate: float, seconds: float) -> float:
        """Make so many requests a second; return the seconds until the last one has ended."""
        began = time.monotonic()
        tasks: list[asyncio.Task[None]] = []
        while (elapsed := time.monotonic() - began) < seconds:
            tasks += [asyncio.create_task(self._ask(number)) for number in range(len(tasks), round(elapsed * rate))]
            await asyncio.sleep(_STEP_S)
        await asyncio.gather(*tasks)
        return time.monotonic() - began

    async def _ask(self, number: int) -> None:
        tenant = "heavy" if number % 5 else f"light-{number % 11}"
        request = f"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-tenant: {tenant}\r\n{self._headers}\r\n"
        writer: asyncio.StreamWriter | None = None
        sent = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                sent = time.monotonic()
                writer.write(request.encode())
                answer = await reader.read()
        except (TimeoutError, OSError):
            self.ends["too_late"] += 1
            self.told_s.append(time.monotonic() - sent)
            return
        finally:
            if writer is not None:
                writer.close()
        if answer.startswith(b"HTTP/1.1 200 "):
            self.ends["in_time"] += 1
            self.used_s += float(answer.rpartition(b"\r\n")[2])
        else:
            self.ends["rejected"] += 1
            self.told_s.append(time.monotonic() - sent)


def measure(overload: float, row: str, *, seconds: float) -> dict[str, Any]:
    """Return the row of one run, on a fresh server."""
    server_core, load_core = cores() or (None, None)
    environment = {_VARIABLE: row}
    options = ("--factory", "--no-access-log")
    with (
        serve("benchmarks.deadlines_wire:make_app", *options, environment=environment, core=server_core) as server,
        pinned(load_core),
    ):
        header = f"grpc-timeout: {round(_PATIENCE_S * 1000)}m\r\n" if ROWS[row] else ""
        clients = _Clients(server.port, header)
        elapsed = asyncio.run(clients.load(_RATE * overload, seconds))
    told = sorted(clients.told_s)
    return {
        "overload": overload,
        "row": row,
        "goodput": round(clients.used_s / elapsed / _SEATS, 3),
        **{name: clients.ends[name] for name in ("in_time", "rejected", "too_late")},
        "told": round(sum(one <= _SOON_S for one in told) / max(1, len(told)), 3),
        "told_p50_ms": round(1000 * told[len(told) // 2], 1) if told else None,
    }


def _rows(seconds: float) -> Iterator[dict[str, Any]]:
    for overload in OVERLOADS:
        for row in ROWS:
            yield measure(overload, row, seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deadlines_wire", description="Answers in time.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    rows = list(_rows(options.seconds))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
