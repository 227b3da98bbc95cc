"""A balancer that weights its servers by their load reports, as Envoy's and gRPC's do, makes them equally busy."""

import heapq
import random
from collections.abc import Callable
from itertools import count

import pytest

from apf_middleware.asgi.identity import build_chain
from apf_middleware.asgi.load_reports import LoadReports
from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.config.load_reports import LoadReportSettings
from apf_middleware.fairqueuing import Work
from apf_middleware.load_reports.report import LoadReport
from apf_middleware.runtime import Admission, Controller

SECOND = 10**9
PENALTY = 1.0  # for errors, the default of both balancers
CONFIGURATION = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, maxSeats: {seats}, queuing: {{queues: 1, handSize: 1, queueLengthLimit: {length}}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""


class Clock:
    """Virtual time, and what happens in it."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, duration: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + duration, next(self._numbers), event))

    def run(self, until: int) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until


class Busy:
    """A server whose requests take ``service_ns``; its admissions wake themselves."""

    def __init__(self, clock: Clock, seats: int, length: int = 1000, service_ns: int = SECOND // 10) -> None:
        self.clock = clock
        self.service_ns = service_ns
        self.controller = Controller(load_text(CONFIGURATION.format(seats=seats, length=length)), now=lambda: clock.now)
        self.reports = LoadReports(
            LoadReportSettings(),
            self.controller,
            build_chain(self.controller.configuration.server, ()),
            lambda: seats,
            cpu=lambda: 0,
        )
        self.place = Classification("all", "web", "", 0)
        self.sent = self.refused = 0

    def send(self) -> None:
        admission = Admission(self.controller.destination(self.place, Work()))
        self.sent += 1
        self.controller.arrive(self.clock.now, admission)
        if admission.is_seated:
            self.run(admission)
        elif admission.is_waiting:
            admission.waiter = _Seated(self, admission)
        else:
            self.refused += 1

    def run(self, admission: Admission) -> None:
        self.clock.after(self.service_ns, lambda: self.controller.release(admission))

    def report(self) -> LoadReport:
        self.reports.answer(self.clock.now)
        return self.reports._meter.report()


class _Seated:
    def __init__(self, server: Busy, admission: Admission) -> None:
        self.server = server
        self.admission = admission

    def wake(self) -> None:
        self.server.run(self.admission)


class WeightedRoundRobin:
    """The balancer of gRFC A58: weight = rps / (utilization + penalty * eps / rps), recomputed each second."""

    def __init__(self, clock: Clock, servers: list[Busy], rate: float, dice: random.Random) -> None:
        self.clock = clock
        self.servers = servers
        self.rate = rate
        self.dice = dice
        self.weights = [1.0] * len(servers)
        self.due = [0.0] * len(servers)
        self.weigh()
        self.arrive()

    def weigh(self) -> None:
        weights = [self.weight_of(server.report()) for server in self.servers]
        known = [weight for weight in weights if weight]
        if len(known) >= 2:
            self.weights = [weight or sum(known) / len(known) for weight in weights]
        self.clock.after(SECOND, self.weigh)

    @staticmethod
    def weight_of(report: LoadReport) -> float:
        if report.rps_fractional <= 0 or report.application_utilization <= 0:
            return 0.0
        errors = PENALTY * report.eps / report.rps_fractional
        return report.rps_fractional / (report.application_utilization + errors)

    def arrive(self) -> None:
        """Send a request to the server whose turn it is, earliest deadline first."""
        chosen = min(range(len(self.servers)), key=lambda one: self.due[one])
        self.due[chosen] += 1 / self.weights[chosen]
        least = min(self.due)
        self.due = [one - least for one in self.due]
        self.servers[chosen].send()
        self.clock.after(round(self.dice.expovariate(self.rate) * SECOND), self.arrive)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_two_servers_of_unequal_size_become_equally_busy(load: float) -> None:
    clock, dice = Clock(), random.Random(1)
    servers = [Busy(clock, 20), Busy(clock, 60)]
    WeightedRoundRobin(clock, servers, 800 * load, dice)
    clock.run(60 * SECOND)
    utilisations: list[list[float]] = [[], []]
    for second in range(60, 120):
        clock.run(second * SECOND)
        for server, found in zip(servers, utilisations, strict=True):
            found.append(server.report().application_utilization)

    small, large = (sum(found) / len(found) for found in utilisations)
    assert small == pytest.approx(large, rel=0.05)
    assert large == pytest.approx(load, rel=0.1)


def test_a_server_that_becomes_slow_gets_less() -> None:
    clock, dice = Clock(), random.Random(2)
    servers = [Busy(clock, 40), Busy(clock, 40)]
    WeightedRoundRobin(clock, servers, 400, dice)
    clock.run(30 * SECOND)
    servers[0].service_ns = SECOND * 3 // 10
    clock.run(60 * SECOND)
    before = [server.sent for server in servers]
    clock.run(120 * SECOND)
    slow, usual = (server.sent - sent for server, sent in zip(servers, before, strict=True))

    assert slow / usual == pytest.approx(1 / 3, rel=0.15)


def test_a_server_that_rejects_at_once_does_not_get_everything() -> None:
    """Its requests take no time, so without its errors it would seem to be fast and idle."""
    clock, dice = Clock(), random.Random(3)
    full, usual = Busy(clock, 10, length=1), Busy(clock, 60)
    WeightedRoundRobin(clock, [full, usual], 500, dice)
    clock.run(30 * SECOND)
    sent = full.sent, usual.sent, full.refused
    clock.run(90 * SECOND)

    part = (full.sent - sent[0]) / (full.sent - sent[0] + usual.sent - sent[1])
    assert part < 10 / 70 * 1.2
    assert (full.refused - sent[2]) / (full.sent - sent[0]) < 0.15
