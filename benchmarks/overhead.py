"""What a request costs more behind a middleware, in process: ``python -m benchmarks.overhead [--json]``.

No sockets: an app is called with scopes as a server makes them, `benchmarks.wire_requests`. In each round all rows take
turns, and ``added_us`` is the median over the rounds of a row's distance to the bare app in the same round, with its
quartiles: what else happens on the machine happens to both.

alone      one request after the other, so that a seat is always free. ours: one caller, 20 paths that come again;
           -new-path: each path is new; -new-caller: each client's address is; -kubernetes: its 11 schemas instead of
           the defaults; -token: callers have a bearer token of a file; -fleet: as the only member of a fleet on this
           host; -post: with a body that has arrived, which the app reads; -on-seats: where bodies are received on seats
           only
contended  64 tasks for 10 seats, and an app that yields once: almost all requests wait. 16 flows
memory     10,000 requests wait for 10 seats: bytes each, beyond what the same tasks take without a middleware
"""

import argparse
import asyncio
import gc
import re
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.load import event_loop_factory
from benchmarks.measure import print_json, print_table, quartiles
from benchmarks.wire_apps import APPS, SEATS, WRAPPERS, ours, raw
from benchmarks.wire_configs import write_config
from benchmarks.wire_requests import RequestMaker, send

__all__ = ["ROWS", "MeasuredRow", "OverheadRow", "Served", "choose", "measure_bytes", "measure_times"]

Row = dict[str, Any]

BATCH: Final = 128  # requests that are made beforehand: few enough to be still in the processor's cache
TASKS: Final = 64
TURNS: Final = 16  # of one task, in a contended batch
CROWD: Final = 10_000


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """A wrapper around an app (``config`` is for ours), and the requests that it gets.

    If it ``is_started``, the app goes through its lifespan as at a server, with what then runs beside the requests.
    """

    mode: str
    name: str
    base: str = "raw"
    wrapper: str = "bare"
    config: str | None = None
    requests: Mapping[str, bool] = field(default_factory=dict)
    is_started: bool = False

    @property
    def is_bare(self) -> bool:
        return self.wrapper == "bare"

    def build(self, app: ASGIApp, folder: Path) -> ASGIApp:
        return ours(app, write_config(self.config, folder)) if self.config else WRAPPERS[self.wrapper](app)


_NEW_PATH: Final = {"new_paths": True}
_TENANTS: Final = {"tenants": True}
_POST: Final = {"body": True}

ROWS: Final = (
    OverheadRow("alone", "bare"),
    OverheadRow("alone", "noop", wrapper="noop"),
    OverheadRow("alone", "semaphore", wrapper="semaphore"),
    OverheadRow("alone", "prometheus", wrapper="prometheus"),
    OverheadRow("alone", "capacity-limiter", wrapper="capacity-limiter"),
    OverheadRow("alone", "ours", wrapper="ours"),
    OverheadRow("alone", "ours-new-path", wrapper="ours", requests=_NEW_PATH),
    OverheadRow("alone", "ours-new-caller", wrapper="ours", requests={"new_callers": True}),
    OverheadRow("alone", "ours-kubernetes", wrapper="ours", config="kubernetes"),
    OverheadRow("alone", "ours-kubernetes-new-path", wrapper="ours", config="kubernetes", requests=_NEW_PATH),
    OverheadRow("alone", "ours-token", wrapper="ours", config="tokens", requests={"token": True}),
    OverheadRow("alone", "ours-fleet", wrapper="ours", config="fleet", is_started=True),
    OverheadRow("alone", "bare-post", base="reading", requests=_POST),
    OverheadRow("alone", "noop-post", base="reading", wrapper="noop", requests=_POST),
    OverheadRow("alone", "ours-post", base="reading", wrapper="ours", requests=_POST),
    OverheadRow("alone", "ours-post-on-seats", base="reading", wrapper="ours", config="on-seats", requests=_POST),
    OverheadRow("alone", "bare-starlette", base="starlette"),
    OverheadRow("alone", "noop-starlette", base="starlette", wrapper="noop"),
    OverheadRow("alone", "semaphore-starlette", base="starlette", wrapper="semaphore"),
    OverheadRow("alone", "ours-starlette", base="starlette", wrapper="ours"),
    OverheadRow("alone", "ours-starlette-new-path", base="starlette", wrapper="ours", requests=_NEW_PATH),
    OverheadRow("contended", "bare", requests=_TENANTS),
    OverheadRow("contended", "semaphore", wrapper="semaphore", requests=_TENANTS),
    OverheadRow("contended", "capacity-limiter", wrapper="capacity-limiter", requests=_TENANTS),
    OverheadRow("contended", "ours", wrapper="ours", config="contended", requests=_TENANTS),
    OverheadRow("memory", "bare", requests=_TENANTS),
    OverheadRow("memory", "semaphore", wrapper="semaphore", requests=_TENANTS),
    OverheadRow("memory", "ours", wrapper="ours", config="memory", requests=_TENANTS),
)
"""All rows; the bare one of a mode and base comes before those that are compared with it."""


class Served:
    """Counts the calls that reach an app: a row that refuses some would be quick and worthless."""

    __slots__ = ("_app", "count", "yields")

    def __init__(self, app: ASGIApp, *, yields: bool = False) -> None:
        self._app = app
        self.count = 0
        self.yields = yields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        self.count += 1
        if self.yields:
            await asyncio.sleep(0)
        await self._app(scope, receive, send)


class MeasuredRow:
    """One row being measured, with what it took in each round."""

    __slots__ = ("_app", "_maker", "_served", "row", "us")

    def __init__(self, row: OverheadRow, folder: Path) -> None:
        self.row = row
        self._served = Served(APPS[row.base](), yields=row.mode == "contended")
        self._app = row.build(self._served, folder)
        self._maker = RequestMaker(**row.requests)
        self.us: list[float] = []

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Begin and end the lifespan, if the row asks for it."""
        if not self.row.is_started:
            yield
            return
        events: asyncio.Queue[Message] = asyncio.Queue()
        has_begun = asyncio.Event()

        async def send(message: Message) -> None:
            if message["type"].endswith(".failed"):
                raise RuntimeError(f"row {self.row.name}: {message}")
            has_begun.set()

        events.put_nowait({"type": "lifespan.startup"})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._live(events.get, send))
            await has_begun.wait()
            yield
            events.put_nowait({"type": "lifespan.shutdown"})

    async def _live(self, receive: Receive, send: Send) -> None:
        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    async def run(self, requests: int) -> float:
        """Microseconds per request, of about as many as asked for."""
        batch, size = (self._contended, TASKS * TURNS) if self.row.mode == "contended" else (self._alone, BATCH)
        number = max(1, requests // size)
        before = self._served.count
        # A full collection passes over the caches of all other rows, too. One of them during a round, by chance,
        # adds 7 to 10 µs to each of its requests.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        taken = 0
        for _ in range(number):
            taken += await batch(size)
        if self._served.count - before != number * size:
            missing = number * size - (self._served.count - before)
            raise RuntimeError(f"row {self.row.name}: {missing} of {number * size} requests did not reach the app")
        return taken / (number * size) / 1000

    async def _alone(self, size: int) -> int:
        app, requests = self._app, self._maker.make(size)
        begin = time.perf_counter_ns()
        for scope, receive in requests:
            await app(scope, receive, send)
        await asyncio.sleep(0)  # what it leaves for later belongs to its cost
        return time.perf_counter_ns() - begin

    async def _contended(self, size: int) -> int:
        app, requests = self._app, self._maker.make(size)

        async def take_turns(first: int) -> None:
            for scope, receive in requests[first::TASKS]:
                await app(scope, receive, send)

        begin = time.perf_counter_ns()
        await asyncio.gather(*map(take_turns, range(TASKS)))
        return time.perf_counter_ns() - begin


async def measure_times(rows: Sequence[OverheadRow], folder: Path, rounds: int, requests: int) -> Sequence[Row]:
    """Return the rows of the modes alone and contended; bare ones must be among them."""
    measured = [MeasuredRow(row, folder) for row in rows if row.mode != "memory"]
    async with AsyncExitStack() as stack:
        for one in measured:
            await stack.enter_async_context(one.started())
            await one.run(requests // 4)  # warm up
        for _ in range(rounds):
            for one in measured:
                one.us.append(await one.run(requests))
    return [_compared(one, measured) for one in measured]


def _compared(one: MeasuredRow, measured: Sequence[MeasuredRow]) -> Row:
    row = one.row
    [bare] = [
        other for other in measured if other.row.is_bare and (other.row.mode, other.row.base) == (row.mode, row.base)
    ]
    added = [mine - its for mine, its in zip(one.us, bare.us, strict=True)]
    low, middle, high = quartiles(added)
    return {
        "mode": row.mode,
        "row": row.name,
        "base": row.base,
        "us_per_request": round(statistics.median(one.us), 3),
        "added_us": round(middle, 3),
        "added_us_q1": round(low, 3),
        "added_us_q3": round(high, 3),
    }


async def measure_bytes(rows: Sequence[OverheadRow], folder: Path, crowd: int = CROWD) -> Sequence[Row]:
    """Return the rows of the mode memory, each beside the first of them."""
    sizes = [(row, await _bytes_each(row, folder, crowd)) for row in rows if row.mode == "memory"]
    return [
        {
            "mode": row.mode,
            "row": row.name,
            "base": row.base,
            "waiting": 0 if row.is_bare else crowd - SEATS,
            "bytes_per_request": round(size),
            "added_bytes": round(size - sizes[0][1]),
        }
        for row, size in sizes
    ]


async def _bytes_each(row: OverheadRow, folder: Path, crowd: int) -> float:
    """Of a crowd's requests. Their scopes are the server's, and so are not counted."""
    end = asyncio.Event()
    entered = 0

    async def stay(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal entered
        entered += 1
        await end.wait()
        await raw(scope, receive, send)

    app = row.build(stay, folder)
    requests = RequestMaker(**row.requests).make(crowd)
    gc.collect()
    tracemalloc.start()
    tasks = [asyncio.ensure_future(app(scope, receive, send)) for scope, receive in requests]
    for pause in (0, 0, 0.1, 0.1):  # until they wait, and whoever listens to their clients does too
        await asyncio.sleep(pause)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expected = crowd if row.is_bare else SEATS
    if entered != expected:
        raise RuntimeError(f"row {row.name}: {entered} requests reached the app, but {expected} should have")
    end.set()
    await asyncio.gather(*tasks)
    return size / crowd


def choose(pattern: str) -> Sequence[OverheadRow]:
    """Return the rows whose names or modes match, and the bare ones that they are compared with."""
    matching = [row for row in ROWS if re.search(pattern, f"{row.mode} {row.name}")]
    needed = {(row.mode, row.base) for row in matching}
    return [row for row in ROWS if row in matching or (row.is_bare and (row.mode, row.base) in needed)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description="What a middleware costs.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=10_000, help="of one row in one round")
    parser.add_argument("--crowd", type=int, default=CROWD, help="requests that wait in the rows of the mode memory")
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose mode and name match, say 'alone ours'")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    chosen = choose(options.only)
    if options.rounds < 1 or options.requests < BATCH or not SEATS < options.crowd <= CROWD or not chosen:
        rules = f"--rounds must be at least 1, --requests {BATCH}, and --crowd {SEATS + 1}, at most {CROWD}"
        parser.error(f"{rules}; --only must match a row")
    loops = event_loop_factory(options.loop)
    with tempfile.TemporaryDirectory(prefix="apf-overhead-") as folder, asyncio.Runner(loop_factory=loops) as runner:
        times = runner.run(measure_times(chosen, Path(folder), options.rounds, options.requests))
        sizes = runner.run(measure_bytes(chosen, Path(folder), options.crowd))
    if options.json:
        print_json([*times, *sizes])
        return
    for rows in (times, sizes):
        if rows:
            print_table(tuple(rows[0]), (list(row.values()) for row in rows))
            print()


if __name__ == "__main__":
    main()
