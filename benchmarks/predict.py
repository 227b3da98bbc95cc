"""Predicted waits against real ones: ``python -m benchmarks.predict [--json] [--seconds N] [--factors F ...]``.

Simulated with the code that runs in production, in three runs with the same clients: without predictions, with
predictions that are only counted, and with rejection on arrival. Each row has

``error``, ``error_long``  the median relative error of the predicted waits of the requests that got seats in the last
                           run; ``error_long`` only of waits of 50 ms and more, which matter to deadlines
``cost``                   the part of the work in answers in time that is lost by rejecting on arrival
``fewer``                  the same of the number of answers, which also varies with the durations that are drawn
``told``                   of the requests that had no answer in time in the last run, those rejected on arrival
``probes``                 of the requests that should have been rejected but were let through, those seated in time. In
                           a full queue each of these takes the place of another one.
``alone``                  of the requests that were or would have been in time, those that were rejected, if the others
                           are like the probes: each would have been in time if it alone had been let through
``shadow``                 the late requests that were counted in the second run, by those that really missed

With ``factors`` there is a row for each of them. A request is rejected then if it has less than so many times its
predicted wait, instead of the wait and its expected error.
"""

import argparse
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.late_arrivals import OUTCOMES
from apf_middleware.simulation.requests import SimulatedRequest
from apf_middleware.simulation.results import Result
from apf_middleware.simulation.run import Simulation
from benchmarks.measure import print_rows

__all__ = ["DISCIPLINES", "SCENARIOS", "PredictedSimulation", "measure"]

DISCIPLINES: Final = ("equal-serial", "max-min-serial", "max-min-concurrent")
_LONG_NS: Final = 50_000_000
_EXPONENTIAL: Final = "{type: exponential, mean: 40ms}"
_LOGNORMAL: Final = "{type: lognormal, median: 35.3ms, sigma: 0.5}"
_BIMODAL: Final = "{type: mixture, of: [{weight: 9, duration: 10ms}, {weight: 1, duration: 310ms}]}"
_HEAVY: Final = "{{name: heavy, arrivals: {{type: poisson, rate: {rate}}}, service: {service}, timeout: {timeout}}}"
_LIGHT: Final = (
    "{{name: light, count: 10, arrivals: {{type: poisson, rate: {rate}}}, service: {service}, timeout: {timeout}}}"
)
_BURSTS: Final = (
    "{{name: bursts, arrivals: {{type: bursts, rate: {rate}, on: 1s, off: 3s}}, service: {service}, timeout: 1s}}"
)


def _mice_and_elephant(overload: float, service: str, timeout: str = "1s") -> tuple[str, ...]:
    rate = 500 * overload
    heavy = _HEAVY.format(rate=rate - 100, service=service, timeout=timeout)
    return heavy, _LIGHT.format(rate=10, service=service, timeout=timeout)


SCENARIOS: Final = {
    "calm": _mice_and_elephant(0.7, _LOGNORMAL),
    "full": _mice_and_elephant(1, _LOGNORMAL),
    "overload-1.5": _mice_and_elephant(1.5, _LOGNORMAL),
    "overload-2": _mice_and_elephant(2, _LOGNORMAL),
    "overload-5": _mice_and_elephant(5, _LOGNORMAL),
    "overload-10": _mice_and_elephant(10, _LOGNORMAL),
    "exponential": _mice_and_elephant(2, _EXPONENTIAL),
    "bimodal": _mice_and_elephant(2, _BIMODAL, "3s"),
    "patience": (
        *_mice_and_elephant(1.5, _LOGNORMAL, "3s"),
        "{name: hasty, arrivals: {type: poisson, rate: 300}, service: " + _LOGNORMAL + ", timeout: 400ms}",
    ),
    "bursts": (
        _BURSTS.format(rate=2000, service=_LOGNORMAL),
        _LIGHT.format(rate=10, service=_LOGNORMAL, timeout="1s"),
    ),
    "leaving": (
        _HEAVY.format(rate=500, service=_LOGNORMAL, timeout="1s"),
        _BURSTS.format(rate=500, service=_LOGNORMAL),
    ),
    "levels": (
        *_mice_and_elephant(2, _LOGNORMAL),
        "{name: other, arrivals: {type: poisson, rate: 150}, service: " + _LOGNORMAL + ", timeout: 1s}",
    ),
}
"""Tenants by the name of the scenario; 20 seats can serve 500 requests a second."""

_TEXT: Final = """\
apiVersion: apf/v1
kind: Scenario
metadata: {{name: waits}}
spec:
  duration: {seconds}s
  seed: {seed}
  warmUp: 3s
  backend: {{exponent: 0}}
  tenants:
{tenants}
---
apiVersion: apf/v1
kind: Server
spec: {{seats: 20, defaults: none, discipline: {discipline}, deadlines: {{prediction: "{mode}"}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: all}}
spec: {{shares: 100, lendablePercent: 50, waitLimit: 15s, queuing: {{queues: exact, queueLengthLimit: 10000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: all, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
{more}"""
_OTHER: Final = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: other}
spec: {shares: 100, lendablePercent: 50, waitLimit: 15s, queuing: {queues: exact, queueLengthLimit: 10000}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: other}
spec:
  level: other
  precedence: 10
  distinguisher: {source: user}
  rules: [{subjects: [{user: other}], httpRules: [{}]}]
"""


class PredictedSimulation(Simulation):
    """A simulation that keeps the predicted and the real waits of requests, and the time at which others were told."""

    waits: list[tuple[int, int]]
    told: int

    def seated(self, request: SimulatedRequest) -> None:
        super().seated(request)
        predicted = request.admission.predicted_wait_ns
        if predicted is not None and self._counts(request):
            self.waits.append((predicted, self.now - request.admission.arrived_at))

    def rejected(self, request: SimulatedRequest) -> None:
        super().rejected(request)
        admission = request.admission
        is_told = admission.reason is Reason.DEADLINE and admission.rejected_at == admission.arrived_at
        self.told += is_told and self._counts(request)


def _run(
    scenario: str, discipline: str, mode: str, seconds: int, seed: int, *, factor: float | None = None
) -> tuple[PredictedSimulation, Result]:
    """Return a finished simulation, and its result."""
    text = _TEXT.format(
        seconds=seconds,
        seed=seed,
        tenants="\n".join(f"  - {tenant}" for tenant in SCENARIOS[scenario]),
        discipline=discipline,
        mode=mode,
        more=_OTHER if scenario == "levels" else "",
    )
    simulation = PredictedSimulation(*read_scenario_text(text).unwrap())
    simulation.waits, simulation.told = [], 0
    late = simulation.servers[0].controller.late_arrivals
    if late is not None:
        late.factor = factor
    return simulation, simulation.run(scenario)


def _served(result: Result) -> int:
    return sum(tenant.served for tenant in result.tenants)


def _error(waits: Sequence[tuple[int, int]]) -> float | None:
    """Return the median of the relative errors."""
    errors = [abs(predicted - real) / real for predicted, real in waits if real]
    return round(median(errors), 3) if errors else None


def measure(scenario: str, discipline: str, seconds: int, seed: int = 2, factor: float | None = None) -> dict[str, Any]:
    """Return the row of one scenario."""
    _, before = _run(scenario, discipline, "off", seconds, seed)
    shadow, _ = _run(scenario, discipline, "shadow", seconds, seed, factor=factor)
    done, result = _run(scenario, discipline, "on", seconds, seed, factor=factor)
    lost = sum(tenant.requests - tenant.served for tenant in result.tenants)
    counted, rejecting = _outcomes(shadow), _outcomes(done)
    probes = rejecting["late"] - rejecting["rejected"]
    in_time = rejecting["in-time"] / probes if probes else 0.0
    alone = in_time * done.told
    return {
        "scenario": scenario,
        "discipline": discipline,
        **({} if factor is None else {"factor": factor}),
        "waited": len(done.waits),
        "error": _error(done.waits),
        "error_long": _error([one for one in done.waits if one[1] >= _LONG_NS]),
        "cost": round(1 - result.goodput / before.goodput, 4),
        "fewer": round(1 - _served(result) / _served(before), 4),
        "lost": lost,
        "told": round(done.told / lost, 3) if lost else None,
        "probes": round(in_time, 3) if probes else None,
        "alone": round(alone / (alone + _served(result)), 3),
        "shadow": round(counted["late"] / counted["missed"], 3) if counted["missed"] else None,
    }


def _outcomes(simulation: Simulation) -> dict[str, int]:
    """Return the outcomes of predictions at all levels."""
    late = simulation.servers[0].controller.late_arrivals
    found = dict.fromkeys(OUTCOMES, 0)
    for (_, outcome), number in () if late is None else late.outcomes.items():
        found[outcome] += number
    return found


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for discipline in options.disciplines:
        for scenario in options.scenarios:
            for factor in options.factors:
                yield measure(scenario, discipline, options.seconds, options.seed, factor)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predict", description="Predicted and real waits.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=tuple(SCENARIOS))
    parser.add_argument("--disciplines", nargs="*", choices=DISCIPLINES, default=DISCIPLINES)
    parser.add_argument("--seconds", type=int, default=20, help="simulated time, of which 3 s are the warm-up")
    parser.add_argument("--seed", type=int, default=2, help="of the clients; the rule was tuned with 1 and 3")
    parser.add_argument("--factors", nargs="*", type=float, default=(None,), help="of the predicted waits")
    options = parser.parse_args()
    if options.seconds <= 3:
        parser.error("--seconds must be more than 3")
    rows = list(_rows(options))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
