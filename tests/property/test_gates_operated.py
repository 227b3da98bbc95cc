"""Operators at work while requests are parked: nobody is lost or forgotten, and no gate lets in more than it has.

A random simulation with many keys: gates are resized to nothing and back, opened, closed, kicked, added, removed and
changed by reloads of the configuration; levels are reloaded, renamed, paused and closed; clients hang up.
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.config.gates import GateSettings, TokenBucketSettings
from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, Reason, TicketState
from apf_middleware.gates import Capacity, Gates
from apf_middleware.runtime.configured_gates import adopt_gates
from tests.support.examples import examples
from tests.support.gate_world import MS, SECOND, GateWorld, level

pytestmark = pytest.mark.timeout(600)

Result = TypeVar("Result")

_WAYS = (("db",), ("shard",), ("quota",), ("shard", "db"), ("quota", "db", "shard"), ())


class _Server:
    """A server whose operator does what ``chance`` says."""

    def __init__(self, chance: Random, share: Any, discipline: Any, keys: int) -> None:  # noqa: ANN401 - classes
        self.random = chance
        self.keys = keys
        self.gates = Gates()
        self.shard = self.gates.capacity(
            "shard", 2, key=lambda request: request.state["shard"], max_parked=10_000, most_bypasses=2
        )
        self.settings = self._settings()
        adopt_gates(self.gates, (), self.settings)
        self.world = GateWorld(
            levels=self._levels(),
            share=share,
            discipline=discipline,
            careful=False,
            limit_ns=10**5 * SECOND,
            scheduler=self.gates.scheduler,
        )
        self.gates.bind(self)
        self.arrived = self.refused = self.left = self.finished = 0

    # What `Gates` needs

    def now(self) -> int:
        return self.world.now

    def chance(self) -> float:
        return self.random.random()

    def settle(self) -> None:
        self.world.note(self.world.sharing.settle(self.world.now))

    def is_elsewhere(self) -> bool:
        return False

    def call(self, function: Callable[[], Result]) -> Result:
        return function()

    def post(self) -> None:
        """Its inbox is read by ``live``."""

    # Configurations

    def _settings(self) -> tuple[GateSettings, ...]:
        limit = self.random.choice((0, 1, 2, 4))
        cost: Any = self.random.choice((1, 1 if limit == 1 else 2, "seats"))
        found = [GateSettings("db", limit, max_parked=10_000, cost=cost)]
        if self.random.random() < 0.7:
            rate = self.random.choice((20.0, 200.0))
            found.append(GateSettings("quota", tokens=TokenBucketSettings(rate, 3), max_parked=10_000, per="flow"))
        return tuple(found)

    def _levels(self) -> dict[str, Any]:
        names = self.random.choice((("a", "b"), ("a", "b"), ("a", "c")))
        fifo = self.random.random() < 0.2
        return {name: level(self.random.randint(1, 4), queues=8, fifo=fifo, least=1) for name in names}

    # Steps

    def come(self, number: int) -> None:
        known = self.gates.names
        to = self.random.choice(sorted(self.world.plain.levels))
        self.arrived += 1
        self.world.arrive(
            str(number),
            *(gate for gate in self.random.choice(_WAYS) if gate in known),
            to=to,
            flow=self.random.choice("xyz"),
            width=self.random.choice((1, 1, 2)),
            shard=self.random.randrange(self.keys),
        )

    def operate(self) -> None:
        world, gates = self.world, self.gates
        name = self.random.choice(sorted(gates.names))
        match self.random.randrange(10):
            case 0:
                gates.resize("shard", self.random.choice((0, 0, 1, 2, 5)))
            case 1:
                gates.close(name, self.random.choice((None, 0.05)))
            case 2:
                gates.open(name)
            case 3:
                gates.kick(name)
            case 4 if parked := gates.parked(name):
                assert gates.kick(name, self.random.choice(parked).id) == 1
            case 5:
                gates.emit_threadsafe(name, self.random.choice((None, 0, "unknown")))
            case 6:
                settings, self.settings = self.settings, self._settings()
                adopt_gates(gates, settings, self.settings)
                self.settle()
            case 7:
                world.note(world.sharing.reconfigure(world.now, self.random.randint(2, 8), self._levels()))
            case 8:
                world.operate(self.random.choice(sorted(world.plain.levels)), held=self.random.random() < 0.5)
            case _:
                gates.list()

    def live(self, number: int) -> None:
        world = self.world
        before = self._used()
        seated, waiting = self.world.names(TicketState.SEATED), self.world.names(TicketState.WAITING)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.operate()
            case 3 if waiting:
                name = self.random.choice(waiting)
                world.give_up(name, self.random.choice((Reason.CANCELLED, Reason.TIME_OUT)))
                self.left += name not in world.tickets
            case 4:
                world.wait(self.random.choice((MS, 60 * MS, 2 * SECOND)))
            case 5 | 6 | 7 | 8 if seated:
                world.finish(self.random.choice(seated))
                self.finished += 1
            case _:
                self.come(number)
        self.gates.read_inbox()
        self.settle()
        self.check(before)

    def _used(self) -> dict[tuple[str, object], int]:
        found = {}
        for gate in self.gates.scheduler.gates.values():
            if isinstance(gate, Capacity):
                for key in [*range(self.keys), ""]:
                    found[gate.name, key] = gate.used(key)
        return found

    def check(self, before: dict[tuple[str, object], int]) -> None:
        world = self.world
        world.sharing.check()
        for refused in world.names(TicketState.REJECTED):
            del world.tickets[refused]
            self.refused += 1
        assert self.arrived == self.refused + self.left + self.finished + len(world.tickets)
        held: dict[tuple[str, object], int] = {}
        for acquisition in world.scheduler:
            for need in acquisition.needs:
                if isinstance(need.lease, int) and need.gate is world.scheduler.gates.get(need.gate.name):
                    held[need.gate.name, need.key] = held.get((need.gate.name, need.key), 0) + need.lease
        for place, used in self._used().items():
            gate = world.scheduler.gates[place[0]]
            assert used <= max(gate.limit or 0, before.get(place, 0)), f"{gate!r} lets in more than it has"
            assert used == held.get(place, 0), f"{used} are used of {place}, and {held.get(place, 0)} are leased"

    def end(self) -> None:
        """Do what an operator must do for all to be served; little time passes, so that few are rescued."""
        settings, self.settings = self.settings, (GateSettings("db", 4, max_parked=10_000),)
        adopt_gates(self.gates, settings, self.settings)
        self.gates.resize("shard", 2)
        for name in self.gates.names:
            self.gates.open(name)
        for name in sorted(self.world.plain.levels):
            self.world.operate(name)
        for _ in range(len(self.world.tickets) + 1):
            for name in self.world.names(TicketState.SEATED):
                self.world.finish(name)
                self.finished += 1
            self.world.wait(MS)
        self.check({})
        waiting = [self.world.scheduler.acquisition(ticket) for ticket in self.world.tickets.values()]
        assert not waiting, f"{waiting} wait for ever"
        assert not list(self.world.scheduler), "requests are remembered"
        self.world.wait(60 * SECOND)
        assert not any(gate.parked for gate in self.world.scheduler.gates.values())


@given(
    share=st.sampled_from((Lending, Lending, Adjusting)),
    discipline=st.sampled_from(sorted(DISCIPLINES)).map(DISCIPLINES.__getitem__),
    keys=st.sampled_from((1, 3, 40)),
    seed=st.integers(0, 2**32),
)
@examples(25)
def test_no_request_is_lost_by_operations(share: Any, discipline: Any, keys: int, seed: int) -> None:  # noqa: ANN401
    server = _Server(Random(seed), share, discipline, keys)
    for number in range(120):
        server.live(number)
    server.end()
