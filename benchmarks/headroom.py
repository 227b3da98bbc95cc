"""Short requests beside long ones, with and without headroom: ``python -m benchmarks.headroom [--json]``.

The controller that runs in production, in virtual time, has 10 seats. 30 clients ask for long requests (500 ms on
average) and ask again at once; short ones (5 ms) come 200 times a second, which takes one seat. All durations are
exponentially distributed. In the case ``flows`` each client is a flow of its own, and in ``one flow`` the level doesn't
tell them apart. In ``pauses`` the short requests come for two seconds of ten.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from apf_middleware.classification import ANONYMOUS, Classification, RequestDigest
from apf_middleware.config import load_text
from apf_middleware.config.gating import Gating
from apf_middleware.estimation import route_key
from apf_middleware.fairqueuing import Work, flow_hash
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from benchmarks.measure import print_rows

__all__ = ["CASES", "HeadroomCase", "HeadroomOutcome", "HeadroomWorld", "measure"]

MS: Final = 10**6
SECOND: Final = 10**9
_LONG_NS: Final = 500 * MS
_SHORT_NS: Final = 5 * MS
_WARM_UP_NS: Final = 20 * SECOND
_ONE: Final = Work()
_CONFIGURATION: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: 10, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, waitLimit: 60s, headroom: {headroom}%, queuing: {{queueLengthLimit: 1000}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, distinguisher: {{source: user}}, rules: [{{httpRules: [{{}}]}}]}}
"""


@dataclass(frozen=True, slots=True)
class HeadroomCase:
    """What comes to the server; short requests come for ``on_ns`` of each ``period_ns``."""

    has_flows: bool = True
    on_ns: int = 10 * SECOND
    period_ns: int = 10 * SECOND
    long_clients: int = 30
    short_rate: int = 200
    long_ns: int = _LONG_NS
    seconds: int = 120


CASES: Final[dict[str, HeadroomCase]] = {
    "flows": HeadroomCase(),
    "one flow": HeadroomCase(has_flows=False),
    "pauses": HeadroomCase(on_ns=2 * SECOND),
    "equal": HeadroomCase(long_ns=_SHORT_NS),
}


@dataclass(slots=True)
class HeadroomOutcome:
    """The waits of short requests, and the ends and the most seats of long ones, after the warm-up."""

    waits: list[int] = field(default_factory=list)
    long_ends: int = 0
    rejected: int = 0
    most_long: int = 0

    def wait_ms(self, fraction: float) -> float:
        """Return a quantile of the waits."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))] / MS


class _Request:
    """A request that is woken when it gets its seat."""

    def __init__(self, world: "HeadroomWorld", admission: Admission, *, is_long: bool, client: int) -> None:
        self.admission = admission
        self.is_long = is_long
        self.client = client
        self._world = world

    def wake(self) -> None:
        """Begin, or end if the request was rejected."""
        self._world.settle(self)


class HeadroomWorld:
    """A controller in virtual time under one case, with ``headroom`` in percent."""

    def __init__(self, case: HeadroomCase, headroom: int, seed: int = 1) -> None:
        self.case = case
        self.events = EventQueue()
        configuration = load_text(_CONFIGURATION.format(headroom=headroom))

        def alarm(ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
            return VirtualTimer(self.events, ring)

        self.controller = Controller(configuration, now=self.events.read, alarm=alarm)
        self.outcome = HeadroomOutcome()
        self._gating = Gating(configuration)
        self._random = Random(seed)
        self._long = 0

    def run(self) -> HeadroomOutcome:
        """Return what came of the whole run."""
        for client in range(self.case.long_clients):
            self.events.at(client * MS, self._ask_long, client)
        self.events.at(0, self._ask_short, 0)
        self.events.run(self.case.seconds * SECOND)
        return self.outcome

    def _ask_long(self, client: int) -> None:
        self._ask(client, is_long=True)

    def _ask_short(self, number: int) -> None:
        case, now = self.case, self.events.now
        if now % case.period_ns < case.on_ns:
            self._ask(number % 20, is_long=False)
        self.events.at(now + int(self._random.expovariate(case.short_rate) * SECOND), self._ask_short, number + 1)

    def _ask(self, client: int, *, is_long: bool) -> None:
        kind = "long" if is_long else "short"
        flow = f"{kind}-{client}" if self.case.has_flows else ""
        digest = RequestDigest(ANONYMOUS, "get", f"/{kind}", "GET")
        classification = Classification("all", "web", flow, flow_hash("all", flow))
        destination = self.controller.destination(classification, _ONE)
        destination.gates = self._gating.names(digest, classification)
        destination.route = route_key(digest)
        admission = Admission(destination)
        request = _Request(self, admission, is_long=is_long, client=client)
        self.controller.arrive(self.events.now, admission)
        if admission.is_waiting:
            admission.waiter = request
        else:
            self.settle(request)

    def settle(self, request: _Request) -> None:
        """Begin a request that has got its seat, or count one that was rejected."""
        if not request.admission.is_seated:
            self.outcome.rejected += 1
            return
        now = self.events.now
        if request.is_long:
            self._long += 1
        if now >= _WARM_UP_NS:
            if request.is_long:
                self.outcome.most_long = max(self.outcome.most_long, self._long)
            else:
                self.outcome.waits.append(now - request.admission.arrived_at)
        mean = self.case.long_ns if request.is_long else _SHORT_NS
        self.events.at(now + int(self._random.expovariate(1 / mean)), self._end, request)

    def _end(self, request: _Request) -> None:
        if request.is_long:
            self._long -= 1
            self.outcome.long_ends += self.events.now >= _WARM_UP_NS
        self.controller.release_leases(request.admission)
        self.controller.release(request.admission)
        if request.is_long:
            self._ask(request.client, is_long=True)


def measure(name: str, headroom: int) -> dict[str, Any]:
    """Return the row of one case."""
    case = CASES[name]
    found = HeadroomWorld(case, headroom).run()
    return {
        "case": name,
        "headroom": f"{headroom}%",
        "short_wait_p50_ms": round(found.wait_ms(0.5), 1),
        "short_wait_p99_ms": round(found.wait_ms(0.99), 1),
        "long_per_s": round(found.long_ends * SECOND / (case.seconds * SECOND - _WARM_UP_NS), 1),
        "most_long_seats": found.most_long,
        "rejected": found.rejected,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.headroom", description="Short beside long requests.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    rows = [measure(name, headroom) for name in CASES for headroom in (0, 20)]
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
