"""The cost of a request that is rejected at once, through uvicorn: ``python -m benchmarks.rejections [--json]``.

Under overload most requests are rejected, so this cost decides how much of a server is left for the others.

semaphore         `asyncio.Semaphore`: requests that find no place free are rejected; the others are compared with it
round-robin       tenants take turns, and may have 50 waiting requests each (`benchmarks.wire_round_robin`)
ours              10 seats, a queue for each flow as in the web defaults, 50 waiting requests each
ours-sharded      the same with 64 queues and a hand of 8
ours-unqueued     10 seats and no queues

All rows send an answer with the same status, headers and length, which is checked. Each has a uvicorn of its own
(uvloop, httptools, one worker), and all of these share one core. Requests that don't end hold all seats and fill the
queues of one tenant. Then wrk sends requests of this tenant, from the other core, for a second to each server in turn,
and so on. ``cpu_us`` is what the server takes of the processor per request, and ``ratio`` is to the semaphore in the
same turn, so noise on the machine hits both: medians of all turns with their quartiles.
"""

import argparse
import contextlib
import re
import shutil
import socket
import statistics
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import print_rows
from benchmarks.wire_apps import environment
from benchmarks.wire_configs import write_config
from benchmarks.wrk import run_wrk
from tests.support.servers import Server, cores, cpu_seconds, serve

__all__ = ["BASE", "ROWS", "Burst", "RejectionRow", "compare", "measure", "require_same"]

Row = dict[str, Any]

TENANT: Final = "elephant"
_HOLDING: Final = 500  # requests that don't end: more than the seats and the queues of one tenant hold


@dataclass(frozen=True, slots=True)
class RejectionRow:
    """A wrapper around the app, or a configuration of ours."""

    name: str
    config: str | None = None

    @property
    def wrapper(self) -> str:
        return "ours" if self.config else self.name


BASE: Final = RejectionRow("semaphore-reject")
"""The row that the others are compared with."""

ROWS: Final = (
    BASE,
    RejectionRow("round-robin"),
    RejectionRow("ours", "rejections"),
    RejectionRow("ours-sharded", "contended"),
    RejectionRow("ours-unqueued", "unqueued"),
)
"""All rows."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The requests of one run of wrk, and the processor time that the server took for each."""

    requests: int
    cpu_us: float


def measure(rows: Sequence[RejectionRow], turns: int, seconds: int = 1) -> Iterator[Row]:
    """Measure the rows, which take turns; the first one is the base."""
    bursts: dict[str, list[Burst]] = {row.name: [] for row in rows}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="apf-rejections-")))
        servers = {row.name: stack.enter_context(_serve(row, folder)) for row in rows}
        for server in servers.values():
            stack.enter_context(_hold(server))
        for server in servers.values():
            _burst(server, seconds)  # warm up
        require_same({name: _rejection(server) for name, server in servers.items()})
        for _ in range(turns):
            for name, server in servers.items():
                bursts[name].append(_burst(server, seconds))
    for name, measured in bursts.items():
        yield {"row": name, **compare(measured, bursts[rows[0].name]), "is_pinned": cores() is not None}


def compare(measured: Sequence[Burst], base: Sequence[Burst]) -> Row:
    """Return the medians and quartiles of the cost, and of its ratio to the base in the same turn."""
    costs = [burst.cpu_us for burst in measured]
    ratios = [burst.cpu_us / its.cpu_us for burst, its in zip(measured, base, strict=True)]
    quartiles: Row = {}
    for name, values, digits in (("cpu_us", costs, 2), ("ratio", ratios, 3)):
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        quartiles |= {name: round(middle, digits), f"{name}_q1": round(low, digits), f"{name}_q3": round(high, digits)}
    return {**quartiles, "requests": sum(burst.requests for burst in measured), "turns": len(measured)}


@contextlib.contextmanager
def _serve(row: RejectionRow, folder: Path) -> Iterator[Server]:
    config = write_config(row.config, folder) if row.config else None
    core, _ = cores() or (None, None)
    with serve(
        "benchmarks.wire_apps:make_app",
        *("--factory", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
        environment=environment("holding", row.wrapper, config),
        core=core,
    ) as server:
        yield server


@contextlib.contextmanager
def _hold(server: Server) -> Iterator[None]:
    """Take all seats and all places of the tenant."""
    request = f"GET /hold HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant: {TENANT}\r\n\r\n".encode()
    with contextlib.ExitStack() as connections:
        for _ in range(_HOLDING):
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(request)
        yield


def _rejection(server: Server) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, the headers and the body of a rejection."""
    request = urllib.request.Request(server.url, headers={"X-Tenant": TENANT})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return response.status, {}, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def require_same(answers: Mapping[str, tuple[int, Mapping[str, str], bytes]]) -> None:
    """Raise RuntimeError unless all rows reject with the same headers, and with bodies of nearly the same length."""
    for name, (status, _, _) in answers.items():
        if status != 429:
            raise RuntimeError(f"row {name} answered {status}, not 429: its seats and queues aren't full")
    headers = {name: sorted(found) for name, (_, found, _) in answers.items()}
    lengths = {name: len(body) for name, (_, _, body) in answers.items()}
    if len(set(map(repr, headers.values()))) > 1 or max(lengths.values()) > 1.2 * min(lengths.values()):
        raise RuntimeError(f"the rows reject with different answers: {headers}, {lengths}")


def _burst(server: Server, seconds: int) -> Burst:
    """Send requests, which must all be rejected, for some seconds."""
    _, core = cores() or (None, None)
    before = cpu_seconds(server.pid)
    [found] = run_wrk([server.url], seconds, core, headers=[f"X-Tenant: {TENANT}"])
    after = cpu_seconds(server.pid)
    if before is None or after is None:
        raise RuntimeError("this system doesn't tell the processor time of a process")
    if found.non_2xx != found.requests or found.errors:
        raise RuntimeError(f"not all requests were rejected: {found}")
    return Burst(found.requests, (after - before) / found.requests * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rejections", description="What rejections cost.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=1, help="of one burst")
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose names match, beside the base")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk makes the load, and it isn't installed. Install it (apt-get install wrk, brew install wrk)")
    chosen = [row for row in ROWS if row is BASE or re.search(options.only, row.name)]
    if options.turns < 1 or options.seconds < 1:
        parser.error("--turns and --seconds must be at least 1")
    rows = list(measure(chosen, options.turns, options.seconds))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
