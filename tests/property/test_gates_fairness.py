"""Nobody is kept at a gate for ever by those who come later, and nobody saves anything up there.

Both in worlds that go on: whoever is served is followed by another one, so that whoever is passed over once can be
passed over always.
"""

from collections import Counter
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending
from apf_middleware.gates import Capacity, Condition, Terms
from tests.support.examples import examples
from tests.support.gate_world import MS, SECOND, GateWorld, level

if TYPE_CHECKING:
    from tests.support.gate_world import GatedTicket

pytestmark = pytest.mark.timeout(600)

_shares = st.sampled_from((Lending, Adjusting))
_disciplines = st.sampled_from(sorted(DISCIPLINES)).map(DISCIPLINES.__getitem__)


class _Crowd:
    """Requests of ``levels`` times ``flows`` that need one gate, of which there is too little."""

    def __init__(  # noqa: PLR0917 - as hypothesis draws them
        self,
        levels: int,
        flows: int,
        most_bypasses: int,
        share: Any,  # noqa: ANN401 - a class
        sizes: list[int],
        needs: tuple[str, ...],
    ) -> None:
        terms = Terms(max_parked=10_000, most_bypasses=most_bypasses)
        memory = Capacity("memory", 4, terms, cost=lambda request: int(request.state["size"]))
        names = [f"level {number}" for number in range(levels)]
        self.world = GateWorld(
            memory,
            Capacity("db", 2, terms),
            levels=dict.fromkeys(names, level(50)),
            share=share,
            careful=False,
            limit_ns=10**6 * SECOND,
        )
        self.needs = needs
        self.places = [(name, f"flow {number}") for name in names for number in range(flows)]
        self.sizes = sizes
        self.number = 0
        self.running: list[str] = []
        self.passed: dict[str, int] = {}  # of all that wait, by how many who came later
        self.ahead: dict[str, int] = {}  # of its own flow and level, when it came

    def come(self, which: int) -> None:
        to, flow = self.places[which % len(self.places)]
        name = f"{self.number:06}"
        self.number += 1
        before = len(self.world.served)
        self.ahead[name] = sum(1 for other in self.passed if self._place(other) == (to, flow))
        ticket = self.world.arrive(name, *self.needs, to=to, flow=flow, size=self.sizes[which % len(self.sizes)])
        if ticket.is_waiting:
            self.passed[name] = 0
        self._note(self.world.served[before:])

    def _place(self, name: str) -> tuple[str, str]:
        ticket: GatedTicket = self.world.tickets[name]
        return ticket.level.name, ticket.flow

    def end_one(self, which: int) -> None:
        if self.running:
            self.world.now += MS
            self._note(self.world.finish(self.running.pop(which % len(self.running))))

    def _note(self, served: list[str]) -> None:
        for name in served:
            self.running.append(name)
            self.passed.pop(name, None)
            for other in self.passed:
                if other < name:
                    self.passed[other] += 1


@given(
    levels=st.integers(1, 3),
    flows=st.integers(1, 3),
    most_bypasses=st.integers(1, 4),
    share=_shares,
    sizes=st.sampled_from(([1], [1], [1, 2, 4], [1, 1, 1, 4], [1, 3, 2], [1] * 9 + [3])),
    needs=st.sampled_from((("memory",), ("memory",), ("memory", "db"), ("db", "memory"))),
    seed=st.integers(0, 10**6),
    crowd=st.integers(2, 30),
)
@example(levels=1, flows=2, most_bypasses=2, share=Lending, sizes=[1, 3, 2], needs=("memory",), seed=2, crowd=8)
@example(
    levels=1, flows=1, most_bypasses=2, share=Lending, sizes=[1] * 9 + [3], needs=("db", "memory"), seed=2, crowd=24
)
@examples(30)
def test_bypasses_by_later_requests_are_bounded(  # noqa: PLR0917 - hypothesis passes them
    levels: int,
    flows: int,
    most_bypasses: int,
    share: Any,  # noqa: ANN401 - a class
    sizes: list[int],
    needs: tuple[str, ...],
    seed: int,
    crowd: int,
) -> None:
    """Each turn of a request's own flow, each other flow of its level has one, and each other level as many as its own.

    And where requests of several sizes wait, or wait for two gates, each may be passed as often as its gate says when
    its turn has come.
    """
    chance = Random(seed)
    world = _Crowd(levels, flows, most_bypasses, share, sizes, needs)
    for _ in range(crowd):
        world.come(chance.randrange(100))
    for _ in range(150):
        for _ in range(chance.randrange(3)):
            world.end_one(chance.randrange(100))
        while len(world.passed) + len(world.running) < crowd:
            world.come(chance.randrange(100))
        for name, count in world.passed.items():
            turns = (world.ahead[name] + 1) * flows * levels + flows + levels
            bound = turns if len(set(sizes)) == len(needs) == 1 else turns * (most_bypasses + 1)
            assert count <= bound, f"{name} has been passed {count} times by those who came later"


@given(
    share=_shares,
    discipline=_disciplines,
    seats=st.integers(1, 4),
    up=st.integers(1, 2),
    down=st.integers(1, 2),
    service=st.sampled_from((1, 10, 100)),
    before=st.integers(0, 20),
    outage=st.integers(0, 80),
    comes_early=st.booleans(),
    exact=st.booleans(),
)
@examples(30)
def test_after_an_outage_each_tenant_has_its_share_and_no_more(  # noqa: PLR0917 - hypothesis passes them
    share: Any,  # noqa: ANN401 - a class
    discipline: Any,  # noqa: ANN401 - a class
    seats: int,
    up: int,
    down: int,
    service: int,
    before: int,
    outage: int,
    comes_early: bool,  # noqa: FBT001
    exact: bool,  # noqa: FBT001
) -> None:
    """Of tenants of whom some have waited for a gate, as if they had all come when it opened."""
    is_well = True
    switch = Condition("switch", lambda _: is_well, Terms(max_parked=10_000))
    shape = {"l": level(seats, queues=64, exact=up + down if exact else 0)}
    world = GateWorld(switch, levels=shape, share=share, discipline=discipline, careful=False, limit_ns=10**6 * SECOND)
    tenants = [f"up {number}" for number in range(up)] + [f"down {number}" for number in range(down)]
    ends: list[tuple[int, str]] = []
    noted = 0

    def queue(tenant: str) -> None:
        for number in range(200):
            world.arrive(f"{tenant} {number}", *(["switch"] if tenant.startswith("down") else []), to="l", flow=tenant)

    def serve(number: int) -> Counter[str]:
        nonlocal noted
        first = len(world.served)
        while len(world.served) < first + number:
            for name in world.served[noted:]:
                heappush(ends, (world.now + service * MS, name))
            noted = len(world.served)
            world.now, name = heappop(ends)
            world.finish(name)
        return Counter(name.rsplit(" ", 1)[0] for name in world.served[first : first + number])

    for tenant in tenants:
        if comes_early or tenant.startswith("up"):
            queue(tenant)
    serve(before)
    is_well = False
    for tenant in tenants:
        if not comes_early and tenant.startswith("down"):
            queue(tenant)
    serve(outage)
    is_well = True
    world.emit("switch")
    after = serve(40)
    fair = 40 / len(tenants)
    lacks = [fair - after[tenant] for tenant in tenants]
    assert max(lacks) <= seats + 1, after
    assert min(lacks) >= -(seats + 1) * (len(tenants) - 1), "what one has beyond its share is what the others lack"
