"""The seats of a backend shared by four workers: ``python -m benchmarks.fleet [--json] [--rounds 3] [--only REGEX]``.

The backend has 10 places of 20 ms and slows down beyond (`benchmarks.fleet_backend`); it is a process of its own and
counts the calls in flight exactly. The load is that of `benchmarks.overload`: ten mice that want ten requests a second
each, and elephants with 200 connections that never rest. Each worker is an own uvicorn with an own port, so that the
load decides which worker gets a connection; mice use all workers in turn.

one              one process with 10 seats
static-2         four workers with 2 seats each
static-3         four workers with 3 seats each, more than the backend takes
redis-semaphore  four workers, and a semaphore in Redis for each request (`benchmarks.fleet_semaphore`)
fleet-host       four workers with 10 seats together: ``fleet: {store: host}``
fleet-redis      the same over Redis: ``fleet: {store: redis://…}``

Scenarios: one elephant with connections to all workers, one elephant at one worker (not the allocator's), five
elephants at all workers.

A fresh server for each row and round. Its workers may run on every core, for that is why there are several; load,
backend and Redis are on the last core, for they stand for other machines. Figures are medians of the rounds, except
``most_in_flight``: the largest. The columns ``*_ratio`` compare with the row ``one`` of the same round. ``jain`` is of
all flows' goodput relative to their max-min fair shares of the backend's 500 calls a second; a mouse's share is what it
asks for. ``exchanges`` are the answers that the allocator gives in a second, to all members together.
"""

import argparse
import contextlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.fleet_app import STATUS_PATH, worker_environment
from benchmarks.fleet_backend import BackendProcess, running_backend
from benchmarks.load import add_plan_arguments, plan_arguments
from benchmarks.measure import print_json, print_table
from benchmarks.wire_configs import write_config
from tests.support import databases
from tests.support.servers import ROOT, Server, cores, pinned, serve

__all__ = ["ROWS", "SCENARIOS", "FleetRow", "Scenario", "fleet_status", "measure", "together", "workers"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FleetRow:
    """What stands before the backend: a number of workers with one configuration, or without any."""

    name: str
    config: str | None
    workers: int = 4
    needs_redis: bool = False


ROWS: Final = (
    FleetRow("one", "overload", workers=1),
    FleetRow("static-2", "overload-2-seats"),
    FleetRow("static-3", "overload-3-seats"),
    FleetRow("redis-semaphore", None, needs_redis=True),
    FleetRow("fleet-host", "overload-fleet"),
    FleetRow("fleet-redis", "overload-fleet-redis", needs_redis=True),
)
"""All rows; the others are compared with the first one."""

_BASE: Final = "one"


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many elephants there are, and whether they connect to all workers."""

    name: str
    elephants: int = 1
    everywhere: bool = True


SCENARIOS: Final = (
    Scenario("elephant on all workers"),
    Scenario("elephant on one worker", everywhere=False),
    Scenario("five elephants", elephants=5),
)

_LARGEST: Final = {"most_in_flight"}
_COMPARED: Final = {"total_goodput": "goodput_ratio", "mice_p50_ms": "p50_ratio", "mice_p99_ms": "p99_ratio"}
_MEASURED: Final = (
    "most_in_flight",
    "total_goodput",
    "goodput_ratio",
    "mice_ok_pct",
    "mice_p50_ms",
    "p50_ratio",
    "mice_p99_ms",
    "p99_ratio",
    "jain",
    "refused",
    "server_cpu",
    "exchanges",
    "load_cpu",
)
_COLUMNS: Final = ("scenario", "row", *_MEASURED)


def measure(scenario: Scenario, rows: Sequence[FleetRow], rounds: int, plan: Mapping[str, Any]) -> Iterator[Row]:
    """Measure the rows in turns, so that what else happens on the machine happens to all of them."""
    reports: dict[str, list[Row]] = {row.name: [] for row in rows}
    for number in range(rounds):
        for row in rows:
            its = {**plan, "elephants": scenario.elephants, "seed": plan["seed"] + number}
            reports[row.name].append(_measure_once(scenario, row, its))
    for name, its_reports in reports.items():
        about = {"scenario": scenario.name, "row": name, "rounds": rounds, "is_pinned": cores() is not None}
        yield about | together(its_reports, reports.get(_BASE, ()))


def together(reports: Sequence[Row], base: Sequence[Row]) -> Row:
    """Return the figures of several rounds as one, beside those of the rounds of the row to compare with."""
    compared = [dict(report) for report in reports]
    for report, its in zip(compared, base, strict=False):
        for name, ratio in _COMPARED.items():
            report[ratio] = report[name] / its[name] if report[name] and its[name] else None
    return {name: _one_figure(name, [report.get(name) for report in compared]) for name in _MEASURED}


def _one_figure(name: str, values: Sequence[float | None]) -> float | None:
    """Return one figure of several rounds; a round in which it isn't known has no say."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if name in _LARGEST else round(statistics.median(known), 3)


def _measure_once(scenario: Scenario, row: FleetRow, plan: Mapping[str, Any]) -> Row:
    _, load_core = cores() or (None, None)
    with workers(row) as (backend, servers):
        ports = [server.port for server in servers]
        elephant_ports = ports if scenario.everywhere else ports[-1:]
        before = _exchanges(servers)
        begin = time.monotonic()
        report = _run_load(backend, servers, elephant_ports, plan, load_core)
        exchanges = (_exchanges(servers) - before) / (time.monotonic() - begin)
    return report | {"most_in_flight": report["peak_in_flight"], "exchanges": exchanges or None}


@contextlib.contextmanager
def workers(row: FleetRow) -> Iterator[tuple[BackendProcess, Sequence[Server]]]:
    """Run the workers of a row, and their backend."""
    _, other_core = cores() or (None, None)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="apf-fleet-")))
        backend = stack.enter_context(running_backend(folder, other_core))
        url = None
        if row.needs_redis:
            with pinned(other_core):
                url = stack.enter_context(databases.redis()).url
        config = write_config(row.config, folder) if row.config else None
        environment = worker_environment(backend.socket, config, url)
        options = ("--factory", "--loop", "auto", "--http", "auto", "--lifespan", "on")
        yield (
            backend,
            [
                stack.enter_context(serve("benchmarks.fleet_app:make_app", *options, environment=environment))
                for _ in range(row.workers)
            ],
        )


def _run_load(
    backend: BackendProcess,
    servers: Sequence[Server],
    elephant_ports: Sequence[int],
    plan: Mapping[str, Any],
    core: int | None,
) -> Row:
    command = [sys.executable, "-m", "benchmarks.load", "--json", f"--scoreboard={backend.attended.path}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in plan.items()]
    ports = [str(server.port) for server in servers]
    command += ["--port", ports[0], "--ports", *ports, "--elephant-ports", *map(str, elephant_ports)]
    command += ["--pid", *(str(server.pid) for server in servers)]
    with pinned(core):
        result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    report: Row = json.loads(result.stdout)[0]
    return report


def _exchanges(servers: Sequence[Server]) -> int:
    return sum(fleet_status(server).get("exchanges", 0) for server in servers)


def fleet_status(server: Server) -> Row:
    """Return what a worker knows of its fleet; nothing if it isn't a member of one."""
    with urllib.request.urlopen(server.url + STATUS_PATH, timeout=10) as response:  # noqa: S310 - our own server
        text = response.read()
    found: Row = json.loads(text) if text.startswith(b"{") else {}
    return found


def _runnable(rows: Sequence[FleetRow]) -> Sequence[FleetRow]:
    """Return the rows for which there is all that they need, and say which others there are."""
    has_redis = shutil.which("redis-server") is not None
    for row in rows:
        if row.needs_redis and not has_redis:
            print(f"Not measured: {row.name}, for redis-server is not installed.", file=sys.stderr)
    return [row for row in rows if has_redis or not row.needs_redis]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description="Four workers, one backend.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose names match")
    parser.add_argument("--scenario", metavar="REGEX", default="", help="scenarios whose names match")
    add_plan_arguments(parser)
    options = parser.parse_args()
    plan = plan_arguments(parser, options)
    chosen = [row for row in ROWS if re.search(options.only, row.name)]
    scenarios = [one for one in SCENARIOS if re.search(options.scenario, one.name)]
    if options.rounds < 1 or not chosen or not scenarios:
        known = [row.name for row in ROWS], [one.name for one in SCENARIOS]
        parser.error(f"--rounds must be at least 1; --only and --scenario must match one of {known}")
    rows = [row for one in scenarios for row in measure(one, _runnable(chosen), options.rounds, plan)]
    if options.json:
        print_json(rows)
        return
    if cores() is None:
        print("One core only: servers and load take it from each other, and latencies are worth little.")
    print_table(_COLUMNS, (["-" if line[column] is None else line[column] for column in _COLUMNS] for line in rows))


if __name__ == "__main__":
    main()
