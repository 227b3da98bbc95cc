"""Answers in time under overload: ``python -m benchmarks.deadlines [--json] [--seconds N]``.

Simulated with the code that runs in production. Clients ask for 2 to 10 times what 20 seats can serve, and give up
after a second. One of them sends four fifths of the requests, ten others the rest. Each flow has a queue of its own
(``fair``), or all share one. Each row has the goodput, the part of the seats' time that went into answers that were in
time; the part that was wasted on answers that came too late; and the requests of the light clients that were answered.
The rows ``hang-ups`` have no deadlines: requests of clients that have given up leave their queues, but those whose
clients will give up in a moment are still served.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.run import Simulation
from benchmarks.measure import print_rows

__all__ = ["DISCIPLINES", "OVERLOADS", "SEATS", "SERVICES", "measure", "scenario_text"]

DISCIPLINES: Final = ("equal-serial", "max-min-serial", "max-min-concurrent")
OVERLOADS: Final = (2, 5, 10)
SERVICES: Final = {
    "uniform": "{type: uniform, least: 20ms, most: 60ms}",
    "lognormal": "{type: lognormal, median: 35.3ms, sigma: 0.5}",
    "exponential": "{type: exponential, mean: 40ms}",
}
"""Durations of requests by the name of the distribution; all have a mean of 40 ms."""

_QUEUES: Final = {
    "fair": "queues: exact, queueLengthLimit: 10000",
    "one": "queues: 1, handSize: 1, queueLengthLimit: 100000",
}
SEATS: Final = 20
_RATE: Final = SEATS / 0.04
_TEXT: Final = """\
apiVersion: apf/v1
kind: Scenario
metadata: {{name: overload}}
spec:
  duration: {seconds:g}s
  warmUp: {warm_up}s
  backend: {{exponent: 0}}
  tenants:
  - {{name: heavy, arrivals: {{type: poisson, rate: {heavy}}}, service: {service}, timeout: 1s}}
  - {{name: light, count: 10, arrivals: {{type: poisson, rate: {light}}}, service: {service}, timeout: 1s}}
---
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, discipline: {discipline}{deadlines}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 1000, waitLimit: 15s, queuing: {{{queues}}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


def scenario_text(
    discipline: str,
    queues: str,
    service: str,
    overload: float,
    *,
    has_deadlines: bool,
    seconds: float,
    warm_up: int = 3,
) -> str:
    """Return the scenario of one simulation."""
    rate = _RATE * overload
    return _TEXT.format(
        seconds=seconds,
        warm_up=warm_up,
        heavy=rate * 0.8,
        light=rate * 0.02,
        service=SERVICES[service],
        seats=SEATS,
        discipline=discipline,
        deadlines=", deadlines: {}" if has_deadlines else "",
        queues=_QUEUES[queues],
    )


def measure(
    discipline: str,
    queues: str,
    service: str,
    overload: float,
    *,
    has_deadlines: bool,
    seconds: float,
    warm_up: int = 3,
) -> dict[str, Any]:
    """Return the row of one simulation."""
    text = scenario_text(
        discipline, queues, service, overload, has_deadlines=has_deadlines, seconds=seconds, warm_up=warm_up
    )
    result = Simulation(*read_scenario_text(text).unwrap()).run("overload")
    return {
        "discipline": discipline,
        "queues": queues,
        "durations": service,
        "overload": overload,
        "row": "deadlines" if has_deadlines else "hang-ups",
        "goodput": round(result.goodput, 3),
        "wasted": round(result.wasted, 3),
        "light_served": round(result.tenant("light").served, 3),
    }


def _rows(disciplines: Sequence[str], seconds: float, warm_up: int) -> Iterator[dict[str, Any]]:
    for discipline in disciplines:
        for queues in _QUEUES if discipline == DISCIPLINES[0] else ("fair",):
            for service in SERVICES:
                for overload in OVERLOADS:
                    for has_deadlines in (False, True):
                        yield measure(
                            discipline,
                            queues,
                            service,
                            overload,
                            has_deadlines=has_deadlines,
                            seconds=seconds,
                            warm_up=warm_up,
                        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deadlines", description="Answers in time.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--disciplines", nargs="*", choices=DISCIPLINES, default=DISCIPLINES)
    parser.add_argument("--seconds", type=float, default=20, help="simulated time, with the warm-up")
    parser.add_argument("--warm-up", type=int, default=3, help="the part of it that doesn't count, in seconds")
    options = parser.parse_args()
    if options.seconds <= options.warm_up:
        parser.error(f"--seconds must be more than the warm-up, {options.warm_up}")
    rows = list(_rows(options.disciplines, options.seconds, options.warm_up))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
