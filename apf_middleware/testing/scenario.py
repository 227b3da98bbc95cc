"""Closed-loop clients in front of one queue set, and the seats that each of them got.

A client has some threads. Each makes its calls one after the other: the next one comes ``think_ns`` after the end of
the one before (or before its end, if ``think_ns`` is negative), and a thread whose call is rejected gives up. Threads
start a few nanoseconds apart so that no two arrive at the same instant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Discipline, EqualSerial, QueueSet, QueueSetSettings, Work
from apf_middleware.fairqueuing.demand import Demand, DemandStatistics
from apf_middleware.simulation.fairness import max_min_fair
from apf_middleware.testing.service_gap import ServiceGap
from apf_middleware.testing.shortfall import Shortfall
from apf_middleware.testing.virtual_time import Call, Rank, World

__all__ = ["Client", "FairnessScenario", "Outcome", "play"]

_THREADS_APART_NS = 90
_CLIENTS_APART_NS = 20
_COMPARED = 4  # about this many of the first and of the last clients are compared, pair by pair


@dataclass(frozen=True, slots=True)
class Client:
    """Threads of one flow. If ``late_half``, the second half of them begins at half-time, with half the calls."""

    entropy: int
    threads: int
    calls: int
    serve_ns: int
    think_ns: int = 0
    work: Work = field(default_factory=Work)
    late_half: bool = False

    def __post_init__(self) -> None:
        require_integer("threads", self.threads, least=1)
        require_integer("calls", self.calls, least=1)
        require_integer("serve_ns", self.serve_ns, least=1)
        require_integer("think_ns", self.think_ns, least=1 - self.serve_ns)

    def demand(self, *, second_half: bool = True) -> float:
        """Return the seats that the client would occupy on average if it never waited."""
        threads = self.threads // 2 if self.late_half and not second_half else self.threads
        return threads * self.work.seats * self.serve_ns / (self.serve_ns + self.think_ns)


@dataclass(frozen=True, slots=True)
class FairnessScenario:
    """Clients in front of a queue set, measured for ``duration_ns`` in equal ``windows``."""

    settings: QueueSetSettings
    clients: Sequence[Client]
    duration_ns: int
    windows: int = 1

    def __post_init__(self) -> None:
        if not self.clients:
            raise InvalidValueError("clients", self.clients, "there must be at least one")
        require_integer("duration_ns", self.duration_ns, least=1)
        require_integer("windows", self.windows, least=1, most=self.duration_ns)

    def fair_shares(self, window: int) -> list[float]:
        """Return the max-min fair seats of each client in a window."""
        second_half = 2 * window + 1 >= self.windows
        demands = [client.demand(second_half=second_half) for client in self.clients]
        return max_min_fair(self.settings.concurrency, demands)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result: ``averages[window][client]`` seats in use on average, by the initial width.

    ``gap`` is the largest service gap between two clients, in seat-seconds (see `ServiceGap`), and ``shortfall``
    how far a client fell behind its fair share; of many clients, only the first and the last ones are compared.
    """

    averages: Sequence[Sequence[float]]
    executed: Sequence[int]
    rejected: Sequence[int]
    demand: DemandStatistics
    demand_kept: DemandStatistics
    queueset: QueueSet
    gap: float
    shortfall: Shortfall


def play(
    scenario: FairnessScenario,
    *,
    discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
    strict_upstream: bool = False,
) -> Outcome:
    """Play a scenario to the end of its calls, and return what was measured."""
    queueset = QueueSet(scenario.settings, discipline=discipline, strict_upstream=strict_upstream)
    play = _Play(scenario, World(queueset))
    ends = [(window + 1) * scenario.duration_ns // scenario.windows for window in range(scenario.windows)]
    averages = [play.watch(end) for end in ends]
    demand, kept = play.demand.results(play.world.now), queueset.demand.results(play.world.now)
    gap = play.gap.seat_seconds
    play.world.run()
    return Outcome(averages, play.executed, play.rejected, demand, kept, queueset, gap, play.shortfall)


class _Play:
    """One run: threads that make calls, and integrators that measure them."""

    def __init__(self, scenario: FairnessScenario, world: World) -> None:
        self.world = world
        self.demand = Demand(0)  # measured independently of the queue set's own, to be compared with it
        self._demanded = 0
        clients = scenario.clients
        self._seats = [0] * len(clients)
        compared = [place for place in range(len(clients)) if min(place, len(clients) - place) <= _COMPARED]
        self.gap = ServiceGap(compared)
        self.shortfall = Shortfall(world.queueset.concurrency, frozenset(compared))
        self._waiting: set[Call] = set()
        self._watches = [Demand(0) for _ in clients]
        self.executed = [0] * len(clients)
        self.rejected = [0] * len(clients)
        for place, client in enumerate(clients):
            for thread in range(client.threads):
                late = client.late_half and thread >= client.threads // 2
                begin = thread * _THREADS_APART_NS + place * _CLIENTS_APART_NS
                if late:
                    begin += scenario.duration_ns // 2
                calls = client.calls // 2 if late else client.calls
                if calls:
                    world.at(begin, partial(self._call, place, client, calls), Rank.ARRIVE)

    def watch(self, until: int) -> list[float]:
        """Continue ``until`` a time, and return the average seats of each client since the last call."""
        self.world.run(until)
        return [watch.reset(until).average for watch in self._watches]

    def _call(self, place: int, client: Client, left: int) -> None:
        call = Call(
            f"client {place}",
            client.entropy,
            client.work,
            client.serve_ns,
            on_seated=partial(self._seated, place, client, left - 1),
            on_finish=partial(self._finished, place),
            on_vacated=partial(self._vacated, place, client),
        )
        self._want(client.work.width)
        self.shortfall.wait(self.world.now, place, client.work.width)
        self.world.arrive(call)
        if call.is_waiting:
            self._waiting.add(call)
            self.gap.wait(self.world.now, place, 1)
        if call.is_rejected:
            self.rejected[place] += 1
            self._want(-client.work.width)
            self.shortfall.wait(self.world.now, place, client.work.width, -1)

    def _want(self, seats: int) -> None:
        self._demanded += seats
        self.demand.set(self.world.now, self._demanded)

    def _seated(self, place: int, client: Client, left: int, call: Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            self.gap.wait(self.world.now, place, -1)
        self.shortfall.wait(self.world.now, place, client.work.width, -1)
        self.shortfall.occupy(self.world.now, place, call.width)
        self.shortfall.serve(call.width, call.duration_ns + call.work.linger_ns)
        self.executed[place] += 1
        self._occupy(place, client.work.seats)
        if left:
            again = self.world.now + client.serve_ns + client.think_ns
            self.world.at(again, partial(self._call, place, client, left), Rank.ARRIVE)

    def _finished(self, place: int, call: Call) -> None:
        self._occupy(place, -call.work.seats)

    def _vacated(self, place: int, client: Client, call: Call) -> None:
        self._want(-client.work.width)
        self.shortfall.occupy(self.world.now, place, -call.width)

    def _occupy(self, place: int, seats: int) -> None:
        self.gap.occupy(self.world.now, place, seats)
        self._seats[place] += seats
        self._watches[place].set(self.world.now, self._seats[place])
