"""Scenarios for the simulator, with one level unless a test says otherwise."""

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Scenario, read_scenario_text
from apf_middleware.simulation import Result, simulate

__all__ = ["LEVEL", "POISSON", "SCENARIO", "SERVER", "one_level", "p99", "play", "seats_over_time", "world"]

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}{more}}}\n"

LEVEL = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 1000, minSeats: {seats}, maxSeats: {seats}, waitLimit: {wait}, queuing: {queuing}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


def world(spec: str, *tenants: str, server: str = "", seats: int = 4) -> tuple[Scenario, Configuration]:
    listed = "".join(f"  - {{{tenant}}}\n" for tenant in tenants)
    text = f"apiVersion: apf/v1\nkind: Scenario\nspec:\n  backend: {{exponent: 0}}\n{spec}  tenants:\n{listed}---\n"
    return read_scenario_text(text + (server or one_level(seats))).unwrap()


def one_level(seats: int, wait: str = "1h", queuing: str = "{queues: 1, handSize: 1, queueLengthLimit: 100000}") -> str:
    more = ", defaults: none, requestTimeout: 1h"
    return SERVER.format(seats=seats, more=more) + LEVEL.format(seats=seats, wait=wait, queuing=queuing)


def play(spec: str, *tenants: str, server: str = "", seats: int = 4) -> Result:
    return simulate(*world(spec, *tenants, server=server, seats=seats))


def p99(result: Result, tenant: str) -> float:
    found = result.tenant(tenant).p99_ms
    assert found is not None
    return found


def seats_over_time(result: Result, level: str = "all") -> list[float]:
    place = [one.name for one in result.levels].index(level)
    return [window.seats[place] for window in result.windows]


POISSON = "name: t, arrivals: {type: poisson, rate: 60}, service: {type: exponential, mean: 50ms}"

SCENARIO = """\
apiVersion: apf/v1
kind: Scenario
metadata: {name: small}
spec:
  about: An elephant and ten mice.
  duration: 3s
  tenants:
  - {name: mice, count: 10, arrivals: {type: poisson, rate: 10}, service: 20ms, timeout: 1s}
  - {name: elephant, arrivals: {type: closed, connections: 200}, service: 20ms, timeout: 1s}
---
apiVersion: apf/v1
kind: Server
spec: {seats: 10}
"""
