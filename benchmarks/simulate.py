"""How fast the simulator is: ``python -m benchmarks.simulate [--json]``.

A million requests on one core, in processor time: many flows below capacity, an overload with an elephant and mice as
in `benchmarks.overload`, and a trace of JSON lines that is read, surveyed and replayed. Memory is the growth of the
process's peak: nothing of a single request is kept.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from apf_middleware.config import Configuration, load_text
from apf_middleware.config.scenario import Scenario, read_scenario_text
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.recording import Recording
from apf_middleware.simulation.trace import RequestTrace
from benchmarks.measure import print_rows, unit_us

__all__ = ["CASES", "measure"]

_CALM: Final = """
apiVersion: apf/v1
kind: Scenario
spec:
  duration: {seconds}s
  tenants:
  - name: callers
    count: 500
    arrivals: {{type: poisson, rate: 4}}
    service: {{type: exponential, mean: 20ms}}
---
apiVersion: apf/v1
kind: Server
spec: {{seats: 100}}
"""

_OVERLOAD: Final = """
apiVersion: apf/v1
kind: Scenario
spec:
  duration: {seconds}s
  backend: {{places: 40}}
  tenants:
  - name: mice
    count: 50
    arrivals: {{type: poisson, rate: 10}}
    service: {{type: exponential, mean: 20ms}}
    timeout: 1s
  - name: elephant
    arrivals: {{type: closed, connections: 300}}
    service: {{type: exponential, mean: 20ms}}
    timeout: 1s
---
apiVersion: apf/v1
kind: Server
spec: {{seats: 40}}
"""


def _scenario(text: str, requests: int, rate: int) -> tuple[Scenario, Configuration]:
    reading = read_scenario_text(text.format(seconds=max(1, requests // rate)))
    return reading.unwrap()


def calm(requests: int) -> Result:
    scenario, configuration = _scenario(_CALM, requests, 2_000)
    return simulate(scenario, configuration)


def overload(requests: int) -> Result:
    """Simulate an elephant that is served 1,200 times a second and rejected more often, and mice."""
    scenario, configuration = _scenario(_OVERLOAD, requests, 1_650)
    return simulate(scenario, configuration)


def trace(requests: int) -> Result:
    """2,000 rows a second of 1,000 users."""
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        with path.open("w") as file:
            for number in range(requests):
                user = f"user-{int(dice.paretovariate(1.0)) % 1000}"
                row = {"time": number / 2_000, "duration": dice.expovariate(1.0) / 50, "user": user, "path": "/report"}
                file.write(json.dumps(row) + "\n")
        began = time.process_time()
        result = simulate(Scenario(), load_text("", defaults="web"), recording=_recording(path))
        _spent["trace"] = time.process_time() - began
        return result


def _recording(path: Path) -> Recording:
    found = RequestTrace(path)
    return Recording(found, found.survey())


CASES: Final[Mapping[str, Callable[[int], Result]]] = {"calm": calm, "overload": overload, "trace": trace}
"""By name."""

_spent: dict[str, float] = {}  # where making the input isn't to count


def measure(name: str, requests: int) -> dict[str, Any]:
    """One case."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    result = CASES[name](requests)
    seconds = _spent.pop(name, time.process_time() - began)
    return {
        "case": name,
        "requests": result.requests,
        "events": result.events,
        "seconds": round(seconds, 2),
        "us_per_request": round(seconds / result.requests * 1e6, 2),
        "million_s": round(seconds / result.requests * 1e6, 1),
        "grown_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
        "unit_us": round(unit_us(), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description="How fast the simulator is.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--only", choices=tuple(CASES))
    options = parser.parse_args()
    if options.requests < 1_000:
        parser.error("--requests must be at least 1000")
    rows = [measure(name, options.requests) for name in ([options.only] if options.only else CASES)]
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
