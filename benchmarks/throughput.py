"""Requests a second through uvicorn: ``python -m benchmarks.throughput [--json]``.

uvicorn (uvloop, httptools, one worker, no access log) has one core to itself, wrk with 64 connections the other. A new
server for each row and round, warmed up for a second. ``ratio`` is to the bare app in the same round, and so is
``cpu_ratio``, that of what the server takes of the processor per request: it holds too when the load's core was busy
with something else, which ``foreign_cpu`` tells (in cores, at the most). A response other than 2xx makes the row
worthless, so there must be none.
"""

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import print_json, print_table
from benchmarks.wire_apps import environment
from benchmarks.wire_configs import write_config
from tests.support.servers import Server, busy_seconds, cores, cpu_seconds, pinned, serve

__all__ = ["BASES", "ROWS", "Measured", "ThroughputRow", "measure", "parse_wrk"]

Row = dict[str, Any]

BASES: Final = ("raw", "starlette", "fastapi")
CONNECTIONS: Final = 64
PATH: Final = "/items/42"


@dataclass(frozen=True, slots=True)
class ThroughputRow:
    """A wrapper around each of the apps."""

    name: str
    config: str | None = None


ROWS: Final = (
    ThroughputRow("bare"),
    ThroughputRow("noop"),
    ThroughputRow("semaphore"),
    ThroughputRow("headers"),
    ThroughputRow("ours"),
)
"""All rows; the bare one, with which the others are compared, first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What wrk says of one run, and what the server took meanwhile."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    non_2xx: int
    errors: int
    cpu_us: float | None = None
    foreign_cpu: float | None = None


_UNITS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def parse_wrk(text: str) -> Measured:
    """Parse the output of ``wrk --latency``, or raise a ValueError with its text."""

    def find(pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, text)
        if found is None:
            raise ValueError(f"wrk's output has nothing that matches {pattern!r}:\n{text}")
        return found.groups()

    def latency(percent: int) -> float:
        value, unit = find(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)\s")
        return float(value) * _UNITS[unit]

    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    return Measured(
        requests=int(find(r"(\d+) requests in ")[0]),
        per_second=float(find(r"Requests/sec:\s+([\d.]+)")[0]),
        p50_ms=latency(50),
        p99_ms=latency(99),
        non_2xx=int(refused[1]) if refused else 0,
        errors=sum(map(int, failed.groups())) if failed else 0,
    )


def measure(rows: Sequence[tuple[str, ThroughputRow]], rounds: int, seconds: int, warm_up: int = 1) -> Iterator[Row]:
    """Each row is a base and what is put around it; those of a base take turns."""
    runs: dict[tuple[str, str], list[Measured]] = {(base, row.name): [] for base, row in rows}
    for _ in range(rounds):
        for base, row in rows:
            runs[base, row.name].append(_run(base, row, seconds, warm_up))
    for (base, name), measured in runs.items():
        yield _compared(base, name, measured, runs[base, "bare"])


def _run(base: str, row: ThroughputRow, seconds: int, warm_up: int) -> Measured:
    server_core, load_core = cores() or (None, None)
    with tempfile.TemporaryDirectory(prefix="apf-throughput-") as folder:
        config = write_config(row.config, Path(folder)) if row.config else None
        with serve(
            "benchmarks.wire_apps:make_app",
            *("--factory", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
            environment=environment(base, row.name, config),
            core=server_core,
        ) as server:
            if warm_up:
                _wrk(server, warm_up, load_core)
            busy, taken, begin = busy_seconds(), cpu_seconds(server.pid), time.perf_counter()
            loaded = _load_seconds()
            found = parse_wrk(_wrk(server, seconds, load_core))
            elapsed, loaded = time.perf_counter() - begin, _load_seconds() - loaded
            taken = _since(taken, cpu_seconds(server.pid))
            busy = _since(busy, busy_seconds())
    foreign = None if busy is None or taken is None else max(0.0, busy - taken - loaded) / elapsed
    cpu_us = None if taken is None else taken / found.requests * 1e6
    return replace(found, cpu_us=cpu_us, foreign_cpu=foreign)


def _wrk(server: Server, seconds: int, core: int | None) -> str:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", server.url + PATH]
    with pinned(core):
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout  # noqa: S603 - nobody else gives it


def _load_seconds() -> float:
    """Return the processor time of the processes that were started and have ended, such as wrk."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _compared(base: str, name: str, measured: Sequence[Measured], bare: Sequence[Measured]) -> Row:
    ratios = [mine.per_second / its.per_second for mine, its in zip(measured, bare, strict=True)]
    cpu = [one.cpu_us for one in measured if one.cpu_us is not None]
    pairs = [(mine.cpu_us, its.cpu_us) for mine, its in zip(measured, bare, strict=True)]
    cpu_ratios = [mine / its for mine, its in pairs if mine is not None and its]
    foreign = [one.foreign_cpu for one in measured if one.foreign_cpu is not None]
    return {
        "base": base,
        "row": name,
        "requests_per_s": round(statistics.median(one.per_second for one in measured)),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "cpu_us": round(statistics.median(cpu), 2) if cpu else None,
        "cpu_ratio": round(statistics.median(cpu_ratios), 3) if cpu_ratios else None,
        "p50_ms": round(statistics.median(one.p50_ms for one in measured), 3),
        "p99_ms": round(statistics.median(one.p99_ms for one in measured), 3),
        "non_2xx": sum(one.non_2xx for one in measured),
        "errors": sum(one.errors for one in measured),
        "foreign_cpu": round(max(foreign), 3) if foreign else None,
        "rounds": len(measured),
        "is_pinned": cores() is not None,
    }


def choose(pattern: str) -> Sequence[tuple[str, ThroughputRow]]:
    """Return the rows that match by base and name, and the bare ones that they are compared with."""
    rows = [(base, row) for base in BASES for row in ROWS]
    bases = {base for base, row in rows if re.search(pattern, f"{base} {row.name}")}
    return [
        (base, row)
        for base, row in rows
        if re.search(pattern, f"{base} {row.name}") or (base in bases and row.name == "bare")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description="Requests a second.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=int, default=5, help="of one run")
    parser.add_argument("--warm-up", type=int, default=1, help="seconds that aren't counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose base and name match, say 'raw ours'")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk makes the load, and it isn't installed. Install it (apt-get install wrk, brew install wrk)")
    chosen = choose(options.only)
    if options.rounds < 1 or options.seconds < 1 or options.warm_up < 0 or not chosen:
        parser.error("--rounds and --seconds must be at least 1, --warm-up at least 0, and --only must match a row")
    if cores() is None:
        print("One core only, or no way to choose one: server and wrk share what there is", file=sys.stderr)
    rows = list(measure(chosen, options.rounds, options.seconds, options.warm_up))
    if options.json:
        print_json(rows)
    else:
        print_table(tuple(rows[0]), (["-" if value is None else value for value in row.values()] for row in rows))
    if any(row["non_2xx"] or row["errors"] for row in rows):
        sys.exit("Some requests were not answered with 2xx: the figures of those rows say nothing")


if __name__ == "__main__":
    main()
