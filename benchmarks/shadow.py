"""What a shadow costs beside the middleware itself, in process: ``python -m benchmarks.shadow [--json]``.

As in `benchmarks.overhead`, an app is called with scopes as a server makes them, and all rows take turns in each round.
``cpu_us`` is the processor time of a request beyond that of the bare app, the median over the rounds; ``ratio`` is what
the shadow adds to it, in units of what the middleware takes without one.

alone       one request after the other, so that a seat is always free
with-admin  the same with the admin on, by which shadows are started: it keeps the running requests
contended   64 tasks for 10 seats, and an app that yields once: almost all requests wait. 16 flows
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apf_middleware import APFMiddleware
from apf_middleware.asgi.shadow import ShadowTrial
from apf_middleware.config import Configuration, load, load_text
from benchmarks.load import event_loop_factory
from benchmarks.measure import print_rows
from benchmarks.overhead import TASKS, TURNS, Served
from benchmarks.wire_apps import raw
from benchmarks.wire_configs import write_config
from benchmarks.wire_requests import RequestMaker, send

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["CONFIGS", "MODES", "ROWS", "ShadowedApp", "measure"]

Row = dict[str, Any]

BATCH: Final = TASKS * TURNS
CONFIGS: Final = {
    "alone": "",
    "with-admin": "apiVersion: apf/v1\nkind: Server\nspec: {admin: {groups: [operators]}}",
}
ROWS: Final = ("bare", "off", "classify-only", "shadow")
MODES: Final = ("alone", "with-admin", "contended")


class ShadowedApp:
    """An app behind our middleware, perhaps with a shadow of the same configuration, and the times of its batches."""

    def __init__(self, row: str, mode: str, configuration: Configuration) -> None:
        self.row, self.mode = row, mode
        self.cpu_us: list[float] = []
        self._served = Served(raw, yields=mode == "contended")
        self._maker = RequestMaker(tenants=mode == "contended")
        self._app: ASGIApp = self._served
        if row != "bare":
            self._app = middleware = APFMiddleware(self._served, configuration)
            if row != "off":
                trial = ShadowTrial(configuration, "", "same", classify_only=row == "classify-only")
                middleware.service.shadow.start(trial)

    async def run(self, batches: int) -> float:
        """Return the processor time of a request in microseconds."""
        gc.collect()
        before, taken = self._served.count, 0
        for _ in range(batches):
            taken += await self._batch()
        if self._served.count - before != batches * BATCH:
            raise RuntimeError(f"row {self.row}: requests did not reach the app")
        return taken / (batches * BATCH) / 1000

    async def _batch(self) -> int:
        app, requests = self._app, self._maker.make(BATCH)

        async def take_turns(first: int) -> None:
            for scope, receive in requests[first::TASKS]:
                await app(scope, receive, send)

        begin = time.process_time_ns()
        if self.mode != "contended":
            for scope, receive in requests:
                await app(scope, receive, send)
        else:
            await asyncio.gather(*map(take_turns, range(TASKS)))
        return time.process_time_ns() - begin


async def measure(folder: Path, rounds: int, batches: int) -> Sequence[Row]:
    """Return a row for each mode and each kind of shadow."""
    found: list[Row] = []
    for mode in MODES:
        configuration = load(write_config("contended", folder)) if mode == "contended" else load_text(CONFIGS[mode])
        apps = [ShadowedApp(row, mode, configuration) for row in ROWS]
        for app in apps:
            await app.run(1)  # warm up
        for _ in range(rounds):
            for app in apps:
                app.cpu_us.append(await app.run(batches))
        found += _rows(apps)
    return found


def _rows(apps: Sequence[ShadowedApp]) -> Sequence[Row]:
    bare, off, *_ = apps
    own = _median_above(off, bare)
    return [
        {
            "mode": app.mode,
            "row": app.row,
            "cpu_us": round(_median_above(app, bare), 3),
            "ratio": round(_median_above(app, off) / own, 3),
        }
        for app in apps[1:]
    ]


def _median_above(app: ShadowedApp, other: ShadowedApp) -> float:
    return statistics.median(mine - its for mine, its in zip(app.cpu_us, other.cpu_us, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shadow", description="What a shadow costs.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batches", type=int, default=5, help=f"of {BATCH} requests, of one row in one round")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    if options.rounds < 1 or options.batches < 1:
        parser.error("--rounds and --batches must be at least 1")
    loops = event_loop_factory(options.loop)
    with tempfile.TemporaryDirectory(prefix="apf-shadow-") as folder, asyncio.Runner(loop_factory=loops) as runner:
        rows = runner.run(measure(Path(folder), options.rounds, options.batches))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
