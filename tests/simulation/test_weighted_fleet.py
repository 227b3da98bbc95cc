"""In a fleet, flows get seats in proportion to their weights, however their requests are spread over the members.

The members are controllers in virtual time. They exchange real reports and grants with an allocator, without delays.
"""

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import pytest

from apf_middleware.classification import Identity, RequestDigest
from apf_middleware.config import load_text
from apf_middleware.config.build import derive_classifier
from apf_middleware.fairqueuing import Lending, Work
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.membership import Membership
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.fleet.budget import derive_budget
from apf_middleware.runtime.fleet.member import FleetMember
from tests.support.virtual_alarm import NullAlarm

MS = 10**6
SECOND = 10**9
SEATS = 12
CONFIGURATION = load_text(
    f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {SEATS}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, queuing: {{queues: exact}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: web}}
spec:
  level: web
  distinguisher: {{source: user}}
  weights: {{gold: 4, iron: 0.5}}
  rules: [{{httpRules: [{{}}]}}]
"""
)
Load = Mapping[str, int]
"""The connections of each flow at one member."""


@dataclass(frozen=True)
class Caller:
    """The waiter of a request, which runs for a random time when it is seated."""

    world: "WeightedFleet"
    controller: Controller
    flow: str
    admission: Admission

    def wake(self) -> None:
        self.world.begin(self)


class WeightedFleet:
    """Members whose flows keep a number of connections busy; ``used`` are the seat-nanoseconds of each flow."""

    def __init__(self, *loads: Load) -> None:
        self.now = 0
        self.order = count()
        self.random = random.Random(7)
        self.running: list[tuple[int, int, Caller]] = []
        self.used: dict[str, int] = {}
        self.classify = derive_classifier(CONFIGURATION).classify
        self.allocator = Allocator(
            derive_budget(CONFIGURATION),
            epoch=1,
            now=0,
            lease_ns=SECOND,
            margin_ns=0,
            turn_ns=200 * MS,
            expected=(),
        )
        self.members: dict[str, FleetMember] = {}
        for number, load in enumerate(loads):
            controller = Controller(CONFIGURATION, now=lambda: self.now, alarm=lambda *_: NullAlarm())
            membership = Membership(f"m{number}", lease_ns=SECOND)
            membership.join(1)
            assert isinstance(controller.sharing, Lending)
            self.members[membership.member] = FleetMember(
                membership, controller.sharing, controller, now=lambda: self.now, interval_ns=50 * MS
            )
            for flow, connections in load.items():
                for _ in range(connections):
                    self.arrive(controller, flow)

    def arrive(self, controller: Controller, flow: str) -> None:
        classification = self.classify(RequestDigest(Identity(flow), "get", "/"))
        admission = Admission(controller.destination(classification, Work()))
        controller.arrive(self.now, admission)
        caller = Caller(self, controller, flow, admission)
        if admission.is_seated:
            self.begin(caller)
        else:
            assert admission.is_waiting
            admission.waiter = caller

    def begin(self, caller: Caller) -> None:
        duration = round(self.random.expovariate(1 / (20 * MS)))
        self.used[caller.flow] = self.used.get(caller.flow, 0) + duration
        heapq.heappush(self.running, (self.now + duration, next(self.order), caller))

    def exchange(self) -> None:
        for member in self.members.values():
            self.allocator.receive(self.now, member.report())
        for name, grant in self.allocator.divide(self.now, list(self.members)).items():
            self.members[name].receive(grant)
        assert sum(member.in_use for member in self.members.values()) <= SEATS

    def run(self, duration: int) -> None:
        end = self.now + duration
        exchange = self.now
        while self.now < end:
            if not self.running or exchange <= self.running[0][0]:
                self.now = exchange
                self.exchange()
                exchange += 10 * MS
            else:
                self.now, _, caller = heapq.heappop(self.running)
                caller.controller.release(caller.admission)
                self.arrive(caller.controller, caller.flow)

    def seats(self) -> Mapping[str, float]:
        """Return the seats of each flow on average, after a while."""
        self.run(5 * SECOND)
        self.used.clear()
        self.run(20 * SECOND)
        return {flow: used / (20 * SECOND) for flow, used in self.used.items()}


@pytest.mark.parametrize(
    "loads",
    [
        ({"gold": 30, "iron": 30, "one": 30},),
        ({"gold": 15, "iron": 15, "one": 15}, {"gold": 15, "iron": 15, "one": 15}),
        ({"gold": 30}, {"iron": 30}, {"one": 30}),
        ({"gold": 30, "iron": 5, "one": 30}, {"gold": 10, "iron": 20}, {"gold": 10, "iron": 15}),
        ({"gold": 5, "iron": 30, "one": 10}, {"gold": 20, "one": 10}, {"one": 30}),
    ],
)
def test_the_seats_of_all_members_are_in_proportion_to_the_weights(loads: tuple[Load, ...]) -> None:
    """Each member's part is at least a seat here: the allocator rounds lower parts up."""
    found = WeightedFleet(*loads).seats()

    total = sum(found.values())
    assert total > 0.98 * SEATS
    wanted = {"gold": 4 / 5.5 * total, "iron": 0.5 / 5.5 * total, "one": 1 / 5.5 * total}
    assert found == pytest.approx(wanted, rel=0.03)
