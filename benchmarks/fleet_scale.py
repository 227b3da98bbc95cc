"""How well and at what cost a fleet of 1 to 10,000 members shares one budget: ``python -m benchmarks.fleet_scale``.

Simulated with the code that runs in production. For each size the fleet has two seats for each member, 20 to 10,000,
and more demand than that, by three heavy flows and ten light ones, whose requests any member may get unless balancing
is sticky. Each row compares the fleet with one big server that gets the same requests. The interval and the lease are
those that the documentation recommends for the size. The time of the allocator is the processor time that one division
takes in this process, and its part of one core is that of all divisions in the simulated time.
"""

import argparse
import gc
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, get_args

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, read_scenario_text
from apf_middleware.fleet.messages import Grant
from apf_middleware.simulation import Result
from apf_middleware.simulation.fleet import layout
from apf_middleware.simulation.fleet.comparison import largest_deviation
from apf_middleware.simulation.run import Simulation
from benchmarks.measure import print_rows

__all__ = ["RECOMMENDED", "SIZES", "DivisionTimes", "fleet_world", "measure"]

Balancing = Literal["random", "round-robin", "least-requests", "sticky"]
SIZES: Final = (1, 10, 100, 1_000, 10_000)

RECOMMENDED: Final[Mapping[int, tuple[int, int, int, int]]] = {
    1: (250, 5_000, 1, 40),
    10: (250, 5_000, 1, 40),
    100: (250, 5_000, 5, 40),
    1_000: (1_000, 15_000, 100, 400),
    10_000: (10_000, 60_000, 3_000, 16_000),
}
"""By the number of members: the interval, the lease, the time of a division, and the mean time of a request that this
suits, all in milliseconds.
"""

_MOST_SEATS: Final = 10_000
_MOST_HEAVY: Final = 19_000  # connections; a scenario may have 20,000 callers

_TEXT: Final = """\
apiVersion: apf/v1
kind: Scenario
metadata: {{name: scale}}
spec:
  duration: {duration}ms
  warmUp: {warm_up}ms
  members: {{count: {members}, division: {division}ms}}
  backend: {{exponent: 0}}
  tenants:
  - {{name: everywhere, arrivals: {{type: closed, connections: {heavy}}}, service: {service}}}
  - {{name: half, arrivals: {{type: closed, connections: {half}}}, service: {service}}}
  - {{name: third, arrivals: {{type: closed, connections: {third}}}, service: {service}}}
  - {{name: light, count: 10, arrivals: {{type: poisson, rate: {rate}}}, service: {service}}}
---
apiVersion: apf/v1
kind: Server
spec:
  seats: {seats}
  defaults: none
  requestTimeout: 1h
  fleet: {{name: scale, interval: {interval}ms, lease: {lease}ms}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 100, waitLimit: 1h, queuing: {{queues: exact, queueLengthLimit: 1000000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


class DivisionTimes:
    """Measures the processor time of each division of the seats; it calls ``divide``."""

    def __init__(self, divide: Callable[[int, Collection[str]], dict[str, Grant]]) -> None:
        self.seconds: list[float] = []
        self._divide = divide

    def __call__(self, now: int, asking: Collection[str]) -> dict[str, Grant]:
        began = time.process_time()
        grants = self._divide(now, asking)
        self.seconds.append(time.process_time() - began)
        return grants


def fleet_world(members: int, seconds: float = 0.0) -> tuple[Scenario, Configuration]:
    """Return a scenario with so many members and the recommended times, of four intervals or more if not told."""
    interval, lease, division, service_ms = RECOMMENDED[members]
    seats = min(max(20, 2 * members), _MOST_SEATS)
    first, third = min(2 * seats, _MOST_HEAVY // 3), min(seats, _MOST_HEAVY // 3)
    warm_up = max(2_000, 4 * interval, 10 * service_ms)
    text = _TEXT.format(
        duration=warm_up + (round(seconds * 1000) or max(4_000, 4 * interval, 10 * service_ms)),
        warm_up=warm_up,
        members=members,
        division=division,
        interval=interval,
        lease=lease,
        seats=seats,
        heavy=first,
        half=first,
        third=third,
        service=f"{{type: uniform, least: {service_ms // 2}ms, most: {service_ms * 3 // 2}ms}}",
        rate=seats / 100 / (service_ms / 1000),
    )
    return read_scenario_text(text).unwrap()


def measure(members: int, balancing: Balancing = "random", seconds: float = 0.0) -> dict[str, Any]:
    """Return the row of a fleet of this size."""
    given, configuration = fleet_world(members, seconds)
    scenario = replace(given, balancing=balancing)
    alone = Simulation(*layout("one-server", scenario, configuration)).run("one-server")
    gc.disable()
    simulation = Simulation(scenario, configuration)
    is_frozen = gc.get_freeze_count() > 0  # by a test run, whose own objects must stay so
    if not is_frozen:
        gc.freeze()  # otherwise each full collection, also in the middle of a division, visits all members' objects
    gc.enable()
    if simulation.fleet is None:
        raise RuntimeError("the scenario of this benchmark has a fleet")
    allocation = simulation.fleet.allocation
    allocation.divide = times = DivisionTimes(allocation.divide)
    began = time.process_time()
    result = simulation.run("fleet")
    if not is_frozen:
        gc.unfreeze()
    row = _row(members, balancing, result, alone)
    spent = sum(times.seconds)
    simulated_s = simulation.now / 10**9
    return {
        **row,
        "division_ms": round(1000 * spent / max(1, len(times.seconds)), 3),
        "allocator_ms_per_interval": round(1000 * spent * row["interval_s"] / simulated_s, 2),
        "allocator_cores": round(spent / simulated_s, 4),
        "messages_per_s": round(simulation.fleet.network.sent / simulated_s),
        "simulator_s": round(time.process_time() - began, 1),
    }


def _row(members: int, balancing: str, result: Result, alone: Result) -> dict[str, Any]:
    if result.fleet is None:
        raise RuntimeError("the scenario of this benchmark has a fleet")
    interval, lease, _, service_ms = RECOMMENDED[members]
    tenant, deviation = largest_deviation(result, alone)
    level, before = result.level("all"), alone.level("all")
    return {
        "members": members,
        "balancing": balancing,
        "interval_s": interval / 1000,
        "lease_s": lease / 1000,
        "request_s": service_ms / 1000,
        "seats": result.fleet.budget,
        "most_in_use": result.fleet.most_in_use,
        "utilisation": round(level.seats / result.fleet.budget, 4),
        "utilisation_alone": round(before.seats / result.fleet.budget, 4),
        "deviation": deviation,
        "deviating": tenant,
        "light_p99_ms": result.tenant("light").p99_ms,
        "light_p99_ms_alone": alone.tenant("light").p99_ms,
    }


def main() -> None:
    description = "How well and at what cost fleets share a budget."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_scale", description=description)
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--members", type=int, nargs="*", choices=SIZES, default=SIZES)
    parser.add_argument("--balancing", nargs="*", choices=get_args(Balancing), default=["random"])
    parser.add_argument("--seconds", type=float, default=0.0, help="the least measured time")
    options = parser.parse_args()
    rows = [measure(members, name, options.seconds) for members in options.members for name in options.balancing]
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
