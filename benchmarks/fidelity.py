"""The simulator's results compared with a real server's: ``python -m benchmarks.fidelity [--json]``.

The load of `benchmarks.overload` (elephants without pauses, mice at random times) on uvicorn with our middleware, and
the same as a scenario. Rows differ in the load and in the configuration. The machine's own cost is measured on the real
server first and passed to the simulator: ``service``, the latency of a single caller, which includes timers and
sockets; and ``overhead``, the server's processor time for a request.

Of several rounds the one counts in which other processes used the least processor time: a server that has to share its
core has tail latencies that the model doesn't include. ``others_cpu`` is how many cores the others used in that round.

The rows ``recorded-…`` simulate what ``apf record`` has recorded (see `benchmarks.recorded`), so nothing is measured
first; ``heavy`` are elephants, and waits and latencies are those of requests that were served.

``error_pct`` is how far the simulation is off: of the mice's p50 and p99, of the goodput, and of rejections a second.
Fewer rejections than one in a hundred responses count as none.
"""

import argparse
import re
import resource
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation import Result, simulate
from benchmarks.measure import print_json, print_table
from benchmarks.overload import OverloadRow
from benchmarks.overload import measure as measure_real
from benchmarks.recorded import LOADS
from benchmarks.recorded import compare as compare_recorded
from benchmarks.wire_backend import PLACES, SERVICE_S
from benchmarks.wire_configs import CONFIGS
from tests.support.servers import busy_seconds, cores

__all__ = ["ROWS", "FidelityRow", "compare", "scenario_of"]

_FIGURES: Final = ("mice_p50_ms", "mice_p99_ms", "total_goodput", "refused")
_FEW: Final = 0.01


@dataclass(frozen=True, slots=True)
class FidelityRow:
    """A load and a configuration."""

    name: str
    config: str = "overload"
    elephants: int = 1
    connections: int = 200
    mice: int = 10
    rate: float = 10.0
    is_varied: bool = True

    @property
    def app(self) -> str:
        return "varied-backend" if self.is_varied else "backend"


ROWS: Final = (
    FidelityRow("calm", connections=1, rate=30.0),
    FidelityRow("elephant", connections=200),
    FidelityRow("small-hand", "overload-small-hand", connections=200),
    FidelityRow("elephants", elephants=3, connections=210),
    FidelityRow("crowd", connections=600),
)
"""Mice with next to nobody else; beside an elephant; with hands of two; three of them; one that is often rejected."""

_ALONE: Final = FidelityRow("alone", connections=1, mice=1, rate=5.0, is_varied=False)

_SCENARIO: Final = """
apiVersion: apf/v1
kind: Scenario
metadata: {{name: fidelity}}
spec:
  duration: {duration}ms
  warmUp: {warm_up}ms
  seed: {seed}
  backend: {{places: {places}, exponent: 1.5, overhead: {overhead}us}}
  tenants:
  - name: mice
    count: {mice}
    request: {{headers: {{X-Tenant: "mouse-{{n}}"}}}}
    arrivals: {{type: poisson, rate: {rate}}}
    service: {service}
    timeout: 1s
  - name: elephants
    count: {elephants}
    request: {{headers: {{X-Tenant: "elephant-{{n}}"}}}}
    arrivals: {{type: closed, connections: {connections}, pause: {{type: uniform, least: 50ms, most: 150ms}}}}
    service: {service}
    timeout: 1s
---
{config}
"""


def scenario_of(row: FidelityRow, plan: Mapping[str, Any], service_us: int, overhead_us: int) -> str:
    """Return a row as a scenario."""
    return _SCENARIO.format(
        duration=round((plan["warm_up"] + plan["seconds"]) * 1000),
        warm_up=round(plan["warm_up"] * 1000),
        seed=plan["seed"],
        places=PLACES,
        overhead=overhead_us,
        mice=row.mice,
        rate=row.rate,
        elephants=row.elephants,
        connections=row.connections // row.elephants,
        service=_service(service_us, half_us=round(SERVICE_S * 5e5) if row.is_varied else 0),
        config=CONFIGS[row.config],
    )


def _service(mean_us: int, *, half_us: int) -> str:
    """Return this duration, varied by up to so much."""
    return (
        f"{{type: uniform, least: {mean_us - half_us}us, most: {mean_us + half_us}us}}" if half_us else f"{mean_us}us"
    )


def _real(row: FidelityRow, plan: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Return the round with the least noise."""
    load = {"elephants": row.elephants, "connections": row.connections, "mice": row.mice, "rate": row.rate}
    measured = []
    for number in range(rounds):
        began, busy, own = time.monotonic(), busy_seconds(), _own_seconds()
        [one] = measure_real(
            [OverloadRow(row.name, "ours", row.config, app=row.app)], 1, {**plan, **load, "seed": plan["seed"] + number}
        )
        others = (busy_seconds() or 0.0) - (busy or 0.0) - (_own_seconds() - own)
        one["others_cpu"] = round(max(0.0, others / (time.monotonic() - began)), 2)
        measured.append(one)
    return min(measured, key=lambda one: float(one["others_cpu"]))


def _own_seconds() -> float:
    """Return the processor time of this process and its children, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _simulated(row: FidelityRow, plan: Mapping[str, Any], service_us: int, overhead_us: int) -> Result:
    """Simulate ten times as long: there is no noise, and a p99 of few requests would be random."""
    text = scenario_of(row, {**plan, "seconds": 10 * plan["seconds"]}, service_us, overhead_us)
    return simulate(*read_scenario_text(text).unwrap())


def compare(rows: Sequence[FidelityRow], rounds: int, plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a comparison for each row."""
    alone = _real(_ALONE, plan, rounds)
    service_us = round(1000 * (alone["mice_p50_ms"] or 20.0))
    for row in rows:
        real = _real(row, plan, rounds)
        answers = real["total_goodput"] + real["refused"]
        overhead_us = round((real["server_cpu"] or 0.0) / answers * 1e6)
        result = _simulated(row, plan, service_us - overhead_us, overhead_us)
        machine = {"service_us": service_us, "overhead_us": overhead_us, "others_cpu": real["others_cpu"]}
        yield {"row": row.name, **machine, **_beside(real, result)}


def _beside(real: Mapping[str, Any], result: Result) -> dict[str, Any]:
    mice = result.tenant("mice")
    simulated = {
        "mice_p50_ms": mice.p50_ms,
        "mice_p99_ms": mice.p99_ms,
        "total_goodput": sum(tenant.rate for tenant in result.tenants),
        "refused": sum(tenant.rejections for tenant in result.tenants) / result.seconds,
    }
    line: dict[str, Any] = {}
    for name in _FIGURES:
        measured, said = real[name] or 0.0, simulated[name] or 0.0
        line[name], line[f"simulated_{name}"] = round(measured, 1), round(said, 1)
        few = name == "refused" and max(measured, said) < _FEW * real["total_goodput"]
        error = 0.0 if few or measured == said else 100 * (said / measured - 1) if measured else 100.0
        line[f"error_pct_{name}"] = round(error, 1)
    line["worst_error_pct"] = max((abs(line[f"error_pct_{name}"]) for name in _FIGURES), default=0.0)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity", description="Simulated beside real.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a round; a p99 wants thousands of mice")
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose names match")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = [row for row in ROWS if re.search(options.only, row.name)]
    loads = [load for load in LOADS if re.search(options.only, load.name)]
    if options.rounds < 1 or options.seconds <= 0 or not (chosen or loads):
        names = [one.name for one in (*ROWS, *LOADS)]
        parser.error(f"--rounds and --seconds must be more than 0, --only match one of {names}")
    plan = {"seconds": options.seconds, "warm_up": 2.0, "seed": options.seed}
    compared = list(compare(chosen, options.rounds, plan)) if chosen else []
    recorded = list(compare_recorded(loads, plan))
    rows = [*compared, *recorded]
    if options.json:
        print_json(rows)
        return
    if cores() is None:
        print("One core only: server and load take it from each other, and latencies are worth little.")
    for table in filter(None, (compared, recorded)):
        print_table(tuple(table[0]), (tuple(row.values()) for row in table))
    worst = statistics.mean(row["worst_error_pct"] for row in rows)
    print(f"on average the worst figure of a row is off by {worst:.1f} %")


if __name__ == "__main__":
    main()
