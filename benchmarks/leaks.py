"""The memory that requests leave behind: ``python -m benchmarks.leaks [--json] [--requests 1000000]``.

No sockets: scopes as a server makes them pass the middleware, after others that fill its caches. A row is one
way in which requests end:

admitted    a seat is free
new-caller  likewise, but each request comes from another address, which is a flow of its own
queued      of 50 that arrive together, 49 wait for the only seat
rejected    the only seat is taken, and the level has no queues
cancelled   50 wait, and their tasks are cancelled
hung-up     50 wait, and their clients disconnect

``blocks`` is the number of Python's memory blocks in use at the end beyond those at the beginning, after collections of
garbage, and ``rss_kib`` the growth of the process's resident memory, which also counts what the compiled build
allocates by itself; it is given where the system shows it in /proc. If each request left anything behind, ``blocks``
would be at least the number of requests; in the row of new callers it depends on how full the caches are, which hold
some 8,000 callers. ``us`` is the time per request.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from apf_middleware import APFMiddleware, is_compiled
from apf_middleware.config import load_text
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.wait_monitor import WATCH_AFTER_NS
from benchmarks.measure import print_json, print_table
from benchmarks.wire_requests import Receiver, RequestMaker, send

__all__: list[str] = []

Row = dict[str, Any]

BATCH: Final = 50
STATM: Final = Path("/proc/self/statm")
PAGE_KIB: Final = 4

CONFIG: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: 1, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 1000, {limit}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: clientAddress}}, rules: [{{httpRules: [{{}}]}}]}}
"""
QUEUES: Final = "waitLimit: 1h, queuing: {queues: 8, handSize: 2, queueLengthLimit: 100}"
NO_QUEUES: Final = "response: Reject"

_START: Final = {"type": "http.response.start", "status": 204, "headers": []}
_BODY: Final = {"type": "http.response.body", "body": b""}
_GONE: Final = {"type": "http.disconnect"}


class Leaver:
    """A client that disconnects when it is told to."""

    def __init__(self, gone: asyncio.Event) -> None:
        self._first: Receive | None = Receiver()
        self._gone = gone

    async def __call__(self) -> Message:
        if self._first is not None:
            first, self._first = self._first, None
            return await first()
        await self._gone.wait()
        return _GONE


class Load:
    """A middleware with one seat, requests for it, and an app that keeps the seat while it is ``held``."""

    def __init__(self, limit: str = QUEUES, *, new_callers: bool = False) -> None:
        self.middleware = APFMiddleware(self._app, load_text(CONFIG.format(limit=limit)))
        self._requests = RequestMaker(new_callers=new_callers)
        self._has_seat, self._held = asyncio.Event(), asyncio.Event()
        self._holder: asyncio.Task[None] | None = None

    @property
    def level(self) -> LevelRuntime:
        return self.middleware.service.controller.levels["all"]

    def outcomes(self) -> Counter[str]:
        """Return the number of requests by outcome."""
        counters = self.level.counters_of("all", writes=False)
        seated = {"at-once": counters.at_once, "after-wait": counters.after_wait}
        return Counter(seated | {str(reason): number for reason, number in counters.rejected.items()})

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/hold":
            self._has_seat.set()
            await self._held.wait()
        await asyncio.sleep(0)
        await send(_START)
        await send(_BODY)

    async def hold(self) -> None:
        """Take the only seat until `let_go`."""
        [(scope, receive)] = self._requests.make(1)
        self._holder = asyncio.create_task(self.middleware({**scope, "path": "/hold"}, receive, send))
        await self._has_seat.wait()

    async def let_go(self) -> None:
        self._held.set()
        if self._holder is not None:
            await self._holder

    async def one_by_one(self) -> None:
        for scope, receive in self._requests.make(BATCH):
            await self.middleware(scope, receive, send)

    async def together(self) -> None:
        await asyncio.gather(*(self.middleware(scope, receive, send) for scope, receive in self._requests.make(BATCH)))

    async def _queue_all(self) -> None:
        """Let all tasks that were just created run until they wait in a queue."""
        await asyncio.sleep(0)
        waiting = self.level.shared.queueset.waiting
        if waiting != BATCH:
            raise RuntimeError(f"{waiting} requests wait, not {BATCH}")

    async def cancelled(self) -> None:
        tasks = [
            asyncio.create_task(self.middleware(scope, receive, send)) for scope, receive in self._requests.make(BATCH)
        ]
        await self._queue_all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def hung_up(self) -> None:
        gone = asyncio.Event()
        requests = [self.middleware(scope, Leaver(gone), send) for scope, _ in self._requests.make(BATCH)]
        tasks = [asyncio.create_task(request) for request in requests]
        await self._queue_all()
        gone.set()
        await asyncio.gather(*tasks)


KINDS: Final[dict[str, tuple[Callable[[], Load], Callable[[Load], Awaitable[None]], bool]]] = {
    "admitted": (Load, Load.one_by_one, False),
    "new-caller": (lambda: Load(new_callers=True), Load.one_by_one, False),
    "queued": (Load, Load.together, False),
    "rejected": (lambda: Load(NO_QUEUES), Load.one_by_one, True),
    "cancelled": (Load, Load.cancelled, True),
    "hung-up": (Load, Load.hung_up, True),
}
"""The load of each row, what is done again and again, and whether the seat is taken meanwhile."""


async def _memory() -> tuple[int, int | None]:
    await asyncio.sleep(10 * WATCH_AFTER_NS / 10**9)  # a wait that is over is in a list until its monitor looks again
    gc.collect()
    rss = int(STATM.read_text().split()[1]) * PAGE_KIB if STATM.exists() else None
    return sys.getallocatedblocks(), rss


async def measure(kind: str, requests: int, warm_up: int) -> Row:
    """Return the row of one kind."""
    make, serve, is_held = KINDS[kind]
    load = make()
    if is_held:
        await load.hold()
    for _ in range(warm_up // BATCH):
        await serve(load)
    outcomes = load.outcomes()
    blocks, rss = await _memory()
    begin = time.perf_counter()
    for _ in range(requests // BATCH):
        await serve(load)
    took = time.perf_counter() - begin
    blocks_after, rss_after = await _memory()
    [(outcome, number)] = (load.outcomes() - outcomes).most_common(1)
    if number < 0.9 * requests:
        raise RuntimeError(f"{kind}: only {number} requests ended with {outcome}")
    await load.let_go()
    return {
        "kind": kind,
        "outcome": outcome,
        "build": "compiled" if is_compiled else "pure",
        "requests": requests // BATCH * BATCH,
        "blocks": blocks_after - blocks,
        "rss_kib": None if rss is None or rss_after is None else rss_after - rss,
        "us": round(took / requests * 1e6, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--warm-up", type=int, default=100_000, help="requests that fill the caches before")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args(arguments)
    rows = [asyncio.run(measure(kind, options.requests, options.warm_up)) for kind in options.kinds]
    if options.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
