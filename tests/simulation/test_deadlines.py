"""Under overload the seats' time goes into answers that are in time, because waits end early enough."""

from typing import Final

import pytest

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.run import Simulation
from benchmarks.deadlines import DISCIPLINES, measure

SHORT: Final = {"seconds": 4, "warm_up": 2}
"""The first clients give up after one second."""


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("service", ["uniform", "exponential"])
def test_most_answers_are_in_time(discipline: str, service: str) -> None:
    row = measure(discipline, "fair", service, 10, has_deadlines=True, **SHORT)

    assert row["goodput"] > 0.95
    assert row["wasted"] < 0.05


def test_without_deadlines_most_answers_come_too_late() -> None:
    """Otherwise the tests above would show nothing."""
    row = measure("equal-serial", "fair", "uniform", 10, has_deadlines=False, **SHORT)

    assert row["goodput"] < 0.3


def test_one_queue_too() -> None:
    row = measure("equal-serial", "one", "lognormal", 2, has_deadlines=True, **SHORT)

    assert row["goodput"] > 0.95


LEVEL = """\
apiVersion: apf/v1
kind: Scenario
metadata: {name: level}
spec:
  duration: 6s
  backend: {exponent: 0}
  tenants:
  - {name: all, arrivals: {type: poisson, rate: 200}, service: 50ms}
---
apiVersion: apf/v1
kind: Server
spec: {seats: 5, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: all}
spec: {shares: 1000, waitLimit: 15s, deadline: 400ms, queuing: {queues: 1, handSize: 1, queueLengthLimit: 10000}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: all, rules: [{httpRules: [{}]}]}
"""


def test_the_deadline_of_a_level_ends_waits() -> None:
    result = Simulation(*read_scenario_text(LEVEL).unwrap()).run("level")

    p99_ms = result.tenant("all").p99_ms
    assert p99_ms is not None
    assert 350 < p99_ms < 401
    assert sum(result.tenant("all").rejected.values()) > 300
