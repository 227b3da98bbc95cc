"""What a fleet of four workers does when one fails: ``python -m benchmarks.fleet_faults [--store redis] [--json]``.

The load of `benchmarks.fleet`, with one elephant at all workers. Five seconds after its begin one worker is killed, or
stopped for eight seconds, which is longer than a lease.

``goodput_before`` is the calls per second that the backend finished in the two seconds before; ``back_after_ms`` the
time until the rate of a quarter of a second is 95 % of that, and ``least_goodput`` the least rate until then, or of all
time after it. ``most_in_flight`` counts the calls whose callers are alive; ``with_abandoned`` also those that a killed
worker has left behind. ``over_seat_ms`` is the excess over the seats, in seats times milliseconds. For a stop,
``after_continue`` is the largest number of calls in flight after the worker goes on. ``lost`` and ``timed_out`` are the
requests that failed for the client, including those to the worker that is gone. ``epochs`` counts how often a member
that is alive at the end became the allocator.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Final

from benchmarks.fleet import ROWS, fleet_status, workers
from benchmarks.fleet_backend import BackendProcess
from benchmarks.measure import print_json, print_table
from benchmarks.wire_backend import PLACES
from tests.support.servers import ROOT, Server, cores, pinned

__all__ = ["FAULTS", "Fault", "FaultReport", "Observation", "Peaks", "measure_fault", "report_of"]

_BEFORE_S: Final = 5.0
_STOPPED_S: Final = 8.0
_AFTER_S: Final = 4.0
_WARM_UP_S: Final = 1.0
_TICK_S: Final = 0.002
_WINDOW_S: Final = 0.25
_ENOUGH: Final = 0.95


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to which worker."""

    name: str
    stops: bool
    of_allocator: bool


FAULTS: Final = (
    Fault("kill a worker", stops=False, of_allocator=False),
    Fault("kill the allocator", stops=False, of_allocator=True),
    Fault("stop a worker", stops=True, of_allocator=False),
    Fault("stop the allocator", stops=True, of_allocator=True),
)


@dataclass(frozen=True, slots=True)
class Observation:
    """The backend at one moment."""

    at: float
    finished: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most calls in flight: with callers, of all, and with callers since the worker goes on."""

    attended: int
    every: int
    continued: int | None = None


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What became of one fault; times are in milliseconds, rates per second."""

    fault: str
    goodput_before: float
    least_goodput: float
    back_after_ms: float | None
    most_in_flight: int
    with_abandoned: int
    after_continue: int | None
    over_seat_ms: float
    lost: int = 0
    timed_out: int = 0
    epochs: int = 0


def measure_fault(fault: Fault, store: str = "host") -> FaultReport:
    """Measure one fault of a fleet that meets at ``store``, host or redis."""
    _, load_core = cores() or (None, None)
    [row] = [one for one in ROWS if one.name == f"fleet-{store}"]
    with workers(row) as (backend, servers):
        victim = next(one for one in servers if fleet_status(one)["is_allocator"] == fault.of_allocator)
        seconds = _BEFORE_S + (_STOPPED_S if fault.stops else 0) + _AFTER_S
        with pinned(load_core):
            load = _start_load(servers, seconds)
        while not backend.every.finished and load.poll() is None:  # on a busy machine, its start takes seconds
            time.sleep(_TICK_S)
        seen: list[Observation] = []
        _observe(backend, seen, _WARM_UP_S + _BEFORE_S)
        began = time.monotonic()
        peaks = _fail(fault, victim, backend, seen)
        answered = json.loads(load.communicate(timeout=60)[0])[0]
        epochs = sum(fleet_status(one)["epochs"] for one in servers if one.process.poll() is None)
    report = report_of(fault.name, began, seen, peaks)
    return replace(
        report,
        lost=round(answered["lost"] * seconds),
        timed_out=round(answered["timed_out"] * seconds),
        epochs=epochs,
    )


def _fail(fault: Fault, victim: Server, backend: BackendProcess, seen: list[Observation]) -> Peaks:
    """Let the ``victim`` fail, and observe the backend."""
    for scoreboard in (backend.every, backend.attended):
        scoreboard.forget_peak()
    if not fault.stops:
        os.kill(victim.pid, signal.SIGKILL)
        _observe(backend, seen, _AFTER_S)
        return Peaks(backend.attended.peak, backend.every.peak)
    os.kill(victim.pid, signal.SIGSTOP)
    _observe(backend, seen, _STOPPED_S)
    stopped = backend.attended.peak
    backend.attended.forget_peak()
    os.kill(victim.pid, signal.SIGCONT)
    _observe(backend, seen, _AFTER_S - _TICK_S)
    continued = backend.attended.peak
    return Peaks(max(stopped, continued), backend.every.peak, continued)


def _start_load(servers: Sequence[Server], seconds: float) -> "subprocess.Popen[str]":
    ports = [str(server.port) for server in servers]
    command = [sys.executable, "-m", "benchmarks.load", "--json", "--port", ports[0], "--ports", *ports]
    command += [f"--seconds={seconds}", f"--warm-up={_WARM_UP_S}"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own program


def _observe(backend: BackendProcess, seen: list[Observation], seconds: float) -> None:
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        seen.append(Observation(now, backend.every.finished, backend.attended.in_flight))
        time.sleep(_TICK_S)


def report_of(name: str, began: float, seen: Sequence[Observation], peaks: Peaks) -> FaultReport:
    before = [one for one in seen if began - 2 < one.at < began]
    goodput = _rate(before[0], before[-1])
    after = [one for one in seen if one.at >= began]
    rates = list(_rates(after))
    back = next((at for at, rate in rates if rate >= _ENOUGH * goodput), None)
    until = [rate for at, rate in rates if back is None or at <= back]
    over = sum(max(0, one.in_flight - PLACES) * (two.at - one.at) for one, two in pairwise(after))
    return FaultReport(
        fault=name,
        goodput_before=round(goodput, 1),
        least_goodput=round(min(until), 1),
        back_after_ms=None if back is None else round((back - began) * 1000),
        most_in_flight=peaks.attended,
        with_abandoned=peaks.every,
        after_continue=peaks.continued,
        over_seat_ms=round(over * 1000, 1),
    )


def _rate(one: Observation, other: Observation) -> float:
    return (other.finished - one.finished) / (other.at - one.at)


def _rates(seen: Sequence[Observation]) -> Iterator[tuple[float, float]]:
    """Return the rate of each window, with the time at which the window begins."""
    end = 0
    for one in seen:
        while end < len(seen) and seen[end].at < one.at + _WINDOW_S:
            end += 1
        if end == len(seen):
            return
        yield one.at, _rate(one, seen[end])


def main(measure: Callable[[Fault, str], FaultReport] = measure_fault) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_faults", description="Workers that fail.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--store", choices=["host", "redis"], default="host", help="where the workers meet")
    parser.add_argument("--only", metavar="REGEX", default="", help="faults whose names match")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if re.search(options.only, fault.name)]
    if not chosen:
        parser.error(f"--only must match one of {[fault.name for fault in FAULTS]}")
    rows = [asdict(measure(fault, options.store)) for fault in chosen]
    if options.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [["-" if value is None else value for value in row.values()] for row in rows])


if __name__ == "__main__":
    main()
