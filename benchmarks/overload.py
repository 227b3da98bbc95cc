"""An elephant and ten mice over real sockets: ``python -m benchmarks.overload [--json]``.

An app whose backend has 10 places of 20 ms and collapses beyond (`benchmarks.wire_backend`), behind what there is
against that, and a load that it can't take (`benchmarks.load`): 200 connections that never rest, beside ten callers who
want ten requests a second each. 500 a second can be served, so that the mice could have all they ask for. With
``--scenarios`` there are 600 connections after that, and then five elephants: FIFO fails at the one, caps per tenant
at the other.

bare              nothing
uvicorn-limit-N   ``uvicorn --limit-concurrency N``
semaphore         asyncio.Semaphore(10): whoever comes first
semaphore-reject  the same, and requests that find no place free are rejected
round-robin       tenants take turns, with 50 waiting requests each (`benchmarks.wire_round_robin`)
ours              10 seats, flows by the header X-Tenant, a queue for each as in the web defaults
ours-sharded      the same with 128 queues and a hand of 6
ours-small-hand   the same with a hand of 2: with fewer queues an elephant has fewer turns, but hands collide sooner

A fresh server for each row and round, on one core, the load on the other. Figures are medians of the rounds, except
``peak_in_flight``, ``load_cpu`` and ``late_p99_ms``: the largest. ``cpu_ratio`` is that of ``server_cpu`` to the round
robin's in the same round, if that row is measured too.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from benchmarks.load import LoadReport, add_plan_arguments, plan_arguments
from benchmarks.measure import print_json, print_table
from benchmarks.wire_apps import environment
from benchmarks.wire_backend import Scoreboard
from benchmarks.wire_configs import write_config
from tests.support.servers import ROOT, cores, pinned, serve

__all__ = ["ROWS", "OverloadRow", "measure"]

Row = dict[str, Any]

_LARGEST: Final = {"peak_in_flight", "load_cpu", "late_p99_ms"}
_COLUMNS: Final = (
    "elephants",
    "connections",
    "row",
    "mice_ok_pct",
    "mice_p50_ms",
    "mice_p99_ms",
    "mice_p99_all_ms",
    "elephant_goodput",
    "total_goodput",
    "jain",
    "peak_in_flight",
    "wasted_pct",
    "server_cpu",
    "cpu_ratio",
    "load_cpu",
    "late_p99_ms",
)


@dataclass(frozen=True, slots=True)
class OverloadRow:
    """What stands before the backend: a wrapper, a configuration of ours, options of the server."""

    name: str
    wrapper: str = "bare"
    config: str | None = None
    options: Sequence[str] = ()
    app: str = "backend"


ROWS: Final = (
    OverloadRow("bare"),
    OverloadRow("uvicorn-limit-10", options=("--limit-concurrency", "10")),
    OverloadRow("uvicorn-limit-100", options=("--limit-concurrency", "100")),
    OverloadRow("semaphore", "semaphore"),
    OverloadRow("semaphore-reject", "semaphore-reject"),
    OverloadRow("round-robin", "round-robin"),
    OverloadRow("ours-sharded", "ours", "overload-sharded"),
    OverloadRow("ours", "ours", "overload"),
    OverloadRow("ours-small-hand", "ours", "overload-small-hand"),
)
"""All rows, ours last."""

_BASE: Final = "round-robin"

SCENARIOS: Final[Sequence[Mapping[str, int]]] = (
    {"elephants": 1, "connections": 200},
    {"elephants": 1, "connections": 600},
    {"elephants": 5, "connections": 200},
)
"""Changes of the plan for ``--scenarios``."""


def measure(rows: Sequence[OverloadRow], rounds: int, plan: Mapping[str, Any]) -> Iterator[Row]:
    """Rows take turns, so that what else happens on the machine happens to all of them."""
    measured: dict[str, list[Row]] = {row.name: [] for row in rows}
    for number in range(rounds):
        for row in rows:
            measured[row.name].append(_measure_once(row, {**plan, "seed": plan["seed"] + number}))
    base = measured.get(_BASE, [])
    for name, reports in measured.items():
        together = {field.name: _together(field.name, reports) for field in fields(LoadReport)}
        succeeded = [report["mice_ok_pct"] for report in reports if report["mice_ok_pct"] is not None]
        about = {"elephants": plan["elephants"], "connections": plan["connections"], "rounds": rounds}
        spread = {"mice_ok_pct_min": min(succeeded, default=None), "mice_ok_pct_max": max(succeeded, default=None)}
        ratios = [_ratio(report, its) for report, its in zip(reports, base, strict=False)]
        compared = {"cpu_ratio": _together("cpu_ratio", [{"cpu_ratio": ratio} for ratio in ratios])}
        yield {"row": name, **about, **together, **compared, **spread, "is_pinned": cores() is not None}


def _ratio(report: Row, base: Row) -> float | None:
    """Return the ratio of the servers' processor time."""
    return report["server_cpu"] / base["server_cpu"] if report["server_cpu"] and base["server_cpu"] else None


def _together(name: str, reports: Sequence[Row]) -> float | None:
    """One figure of several rounds; a round without it, because nobody was served, has no say."""
    known: list[float] = [report[name] for report in reports if report[name] is not None]
    if not known:
        return None
    return max(known) if name in _LARGEST else round(statistics.median(known), 3)


def _measure_once(row: OverloadRow, plan: Mapping[str, Any]) -> Row:
    server_core, load_core = cores() or (None, None)
    with tempfile.TemporaryDirectory(prefix="apf-overload-") as folder:
        scoreboard = Scoreboard(Path(folder) / "scoreboard")
        config = write_config(row.config, Path(folder)) if row.config else None
        with serve(
            "benchmarks.wire_apps:make_app",
            *("--factory", "--loop", "auto", "--http", "auto", "--lifespan", "off", *row.options),
            environment=environment(row.app, row.wrapper, config) | scoreboard.environment(),
            core=server_core,
        ) as server:
            arguments = [f"--{name.replace('_', '-')}={value}" for name, value in plan.items()]
            known = [f"--port={server.port}", f"--pid={server.pid}", f"--scoreboard={scoreboard.path}"]
            with pinned(load_core):
                result = subprocess.run(  # noqa: S603 - our own program
                    [sys.executable, "-m", "benchmarks.load", "--json", *known, *arguments],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    check=True,
                    text=True,
                )
            report: Row = json.loads(result.stdout)[0]
            return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description="An elephant and ten mice.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose names match")
    parser.add_argument("--scenarios", action="store_true", help="one elephant, one of 600 connections, five elephants")
    add_plan_arguments(parser)
    options = parser.parse_args()
    plan = plan_arguments(parser, options)
    chosen = [row for row in ROWS if re.search(options.only, row.name)]
    if options.rounds < 1 or not chosen:
        parser.error(f"--rounds must be at least 1, and --only must match one of {[row.name for row in ROWS]}")
    scenarios = SCENARIOS if options.scenarios else [{}]
    rows = [row for scenario in scenarios for row in measure(chosen, options.rounds, {**plan, **scenario})]
    if options.json:
        print_json(rows)
        return
    if cores() is None:
        print("One core only: server and load take it from each other, and latencies are worth little.")
    print_table(_COLUMNS, (["-" if line[column] is None else line[column] for column in _COLUMNS] for line in rows))


if __name__ == "__main__":
    main()
