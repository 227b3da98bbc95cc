"""The load of an overload, from a process of its own.

    python -m benchmarks.load --port 8000 [--elephants 1 --connections 200 --mice 10 --rate 10 --seconds 10] [--json]

A warm-up isn't counted, and elephants go on until the last mouse has been answered. The load's own share of the
processor and how late it sent what was due are reported too: a load that is busy itself measures itself.
"""

import argparse
import asyncio
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from apf_middleware.testing import jain_index, max_min_fair
from benchmarks.measure import print_json, print_table
from benchmarks.wire_backend import CAPACITY, Scoreboard
from benchmarks.wire_callers import ElephantLoop, Field, LoadPlan, Mouse, MouseSample, Tally
from tests.support.servers import cpu_seconds

__all__ = ["LoadReport", "add_plan_arguments", "event_loop_factory", "percentile", "plan_arguments", "run_load"]

_TICK: Final = 0.1


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of the requests of a window of time; rates are per second, latencies in milliseconds.

    None stands for what isn't known: percentiles of nothing, and what only a scoreboard or a process's number tells.
    In ``mice_p99_all_ms`` a failure counts as the deadline. ``jain`` is over goodput beside the max-min fair one.
    """

    mice_offered: int
    mice_ok_pct: float | None
    mice_p50_ms: float | None
    mice_p99_ms: float | None
    mice_p99_all_ms: float | None
    elephant_goodput: float
    total_goodput: float
    jain: float | None
    refused: float
    timed_out: float
    lost: float
    peak_in_flight: int | None
    wasted_pct: float | None
    server_cpu: float | None
    load_cpu: float
    late_p99_ms: float | None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value of the nearest rank: one that occurred."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


async def run_load(
    plan: LoadPlan,
    scoreboard: Scoreboard | None = None,
    pid: int | Sequence[int] | None = None,
) -> tuple[LoadReport, Sequence[MouseSample]]:
    """Load a server; what became of it, and of each request of a mouse.

    ``scoreboard`` is the server's, and ``pid`` the number of its process, or of each.
    """
    field = Field(plan, asyncio.get_running_loop())
    for number in range(plan.connections):
        ElephantLoop(field, number).begin()
    for number in range(plan.mice):
        Mouse(field, number).begin()
    await asyncio.sleep(field.tally.begin - field.loop.time())
    pids = (pid,) if isinstance(pid, int) else pid or ()
    before = _Standing.now(scoreboard, pids)
    if scoreboard:
        scoreboard.forget_peak()
    field.tally.is_open = True
    await asyncio.sleep(field.tally.end - field.loop.time())
    field.tally.is_open = False
    after = _Standing.now(scoreboard, pids)
    await asyncio.sleep(plan.deadline + _TICK)  # by then each mouse has its answer, or has given up
    await field.finish()
    return _report(plan, field.tally, before, after), field.tally.samples


@dataclass(frozen=True, slots=True)
class _Standing:
    """Meters at one moment."""

    at: float
    load_cpu: float
    server_cpu: float | None
    finished: int | None
    peak: int | None

    @classmethod
    def now(cls, scoreboard: Scoreboard | None, pids: Sequence[int]) -> "_Standing":
        taken = [seconds for seconds in map(cpu_seconds, pids) if seconds is not None]
        return cls(
            at=asyncio.get_running_loop().time(),
            load_cpu=time.process_time(),
            server_cpu=sum(taken) if taken else None,
            finished=scoreboard.finished if scoreboard else None,
            peak=scoreboard.peak if scoreboard else None,
        )


def _report(plan: LoadPlan, tally: Tally, before: _Standing, after: _Standing) -> LoadReport:
    elapsed = after.at - before.at
    latencies = [sample.latency for sample in tally.samples if sample.latency is not None]
    with_failures = [plan.deadline if sample.latency is None else sample.latency for sample in tally.samples]
    offered = len(tally.samples)
    return LoadReport(
        mice_offered=offered,
        mice_ok_pct=round(100 * len(latencies) / offered, 2) if offered else None,
        mice_p50_ms=_ms(percentile(latencies, 50)),
        mice_p99_ms=_ms(percentile(latencies, 99)),
        mice_p99_all_ms=_ms(percentile(with_failures, 99)),
        elephant_goodput=round(sum(tally.served) / elapsed, 1),
        total_goodput=round(tally.useful / elapsed, 1),
        jain=_jain(plan, tally),
        refused=round(tally.refused / elapsed, 1),
        timed_out=round(tally.timed_out / elapsed, 1),
        lost=round(tally.lost / elapsed, 1),
        peak_in_flight=after.peak,
        wasted_pct=_wasted(tally.useful, before.finished, after.finished),
        server_cpu=_share(before.server_cpu, after.server_cpu, elapsed),
        load_cpu=round((after.load_cpu - before.load_cpu) / elapsed, 3),
        late_p99_ms=_ms(percentile(tally.lateness, 99)),
    )


def _jain(plan: LoadPlan, tally: Tally) -> float | None:
    """Jain's index of what everybody got beside what they could claim of the backend's capacity."""
    offered, served = [0] * plan.mice, [0] * plan.mice
    for sample in tally.samples:
        offered[sample.mouse] += 1
        served[sample.mouse] += sample.latency is not None
    demands = [number / plan.seconds for number in offered] + [CAPACITY] * plan.elephants
    goodput = [number / plan.seconds for number in (*served, *tally.served)]
    fair = max_min_fair(CAPACITY, demands)
    index = jain_index([got / share for got, share in zip(goodput, fair, strict=True) if share])
    return None if math.isnan(index) else round(index, 3)


def _wasted(useful: int, before: int | None, after: int | None) -> float | None:
    """Percent of the backend's work whose answer nobody had in time."""
    if before is None or after is None or after == before:
        return None
    return round(100 * max(0.0, 1 - useful / (after - before)), 1)


def _share(before: float | None, after: float | None, elapsed: float) -> float | None:
    return None if before is None or after is None else round((after - before) / elapsed, 3)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def event_loop_factory(name: str = "uvloop") -> Callable[[], asyncio.AbstractEventLoop]:
    """How event loops of that name are made; asyncio's own where uvloop isn't installed."""
    if name == "uvloop" and importlib.util.find_spec("uvloop"):
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
        return factory
    return asyncio.new_event_loop


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for who calls how often."""
    plan = LoadPlan(port=0)
    parser.add_argument("--elephants", type=int, default=plan.elephants)
    parser.add_argument("--connections", type=int, default=plan.connections, help="of all elephants together")
    parser.add_argument("--mice", type=int, default=plan.mice)
    parser.add_argument("--rate", type=float, default=plan.rate, help="requests of one mouse, per second")
    parser.add_argument("--seconds", type=float, default=plan.seconds)
    parser.add_argument("--warm-up", type=float, default=plan.warm_up, help="seconds that aren't counted")
    parser.add_argument("--seed", type=int, default=plan.seed)


def plan_arguments(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments as a LoadPlan, or end the program with a message."""
    if not 1 <= options.elephants <= options.connections:
        parser.error(f"--elephants is {options.elephants}: each needs one of the {options.connections} --connections")
    if options.mice < 1 or options.rate <= 0 or options.seconds <= 0 or options.warm_up < 0:
        parser.error("--mice, --rate and --seconds must be more than nothing, and --warm-up not less")
    known = {field.name for field in fields(LoadPlan)}
    return {name: value for name, value in vars(options).items() if name in known}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description="Elephants and mice.")
    parser.add_argument("--json", action="store_true", help="print a JSON list of one row")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/")
    add_plan_arguments(parser)
    parser.add_argument("--scoreboard", type=Path, help="the backend's, if it has one")
    parser.add_argument("--pid", type=int, nargs="+", help="the server's, to see what it takes of the processor")
    parser.add_argument("--ports", type=int, nargs="+", default=(), help="of a server with several processes")
    parser.add_argument("--elephant-ports", type=int, nargs="+", default=(), help="those that elephants connect to")
    options = parser.parse_args()
    plan = LoadPlan(**plan_arguments(parser, options))
    scoreboard = Scoreboard(options.scoreboard) if options.scoreboard else None
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        report, _ = runner.run(run_load(plan, scoreboard, options.pid))
    row = asdict(report)
    if options.json:
        print_json([row])
    else:
        print_table(("what", "came of it"), [(name, "" if value is None else value) for name, value in row.items()])


if __name__ == "__main__":
    main()
