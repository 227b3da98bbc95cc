"""A case of the benchmark: a backend, what is sent to it, and what changes meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from random import Random
from typing import TypeVar

from benchmarks.adaptive.backends import Backend, FixedAtStart, Pool, ProcessorSharing

__all__ = ["Arrival", "Case", "Outage", "Route"]

T = TypeVar("T")

Arrival = tuple[float, str, float]
"""The time, the route and the size of a request."""


@dataclass(frozen=True, slots=True)
class Route:
    """Requests of a path; sizes are log-normal, and one in a hundred may be so many times longer.

    The part of them that is ``cached`` needs nothing of the backend: their size is 0.
    """

    name: str
    mean: float
    sigma: float = 0.5
    straggler: float = 1.0
    cached: float = 0.0

    @property
    def work(self) -> float:
        """The mean of all sizes."""
        return self.mean * (1 - self.cached)

    def size(self, random: Random) -> float:
        if self.cached and random.random() < self.cached:
            return 0.0
        size = self.mean * random.lognormvariate(-self.sigma * self.sigma / 2, self.sigma)
        return size * self.straggler if self.straggler > 1 and random.random() < 0.01 else size


@dataclass(frozen=True, slots=True)
class Outage:
    """From ``begin`` to ``end`` all requests fail after ``seconds``, or time out if None."""

    begin: float
    end: float
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row; ``capacity`` is the concurrency that static limits are chosen by.

    ``capacities``, ``loads`` (parts of the capacity as it was at first), ``mixes`` (weights of the routes) and
    ``stretches`` (of the sizes) are pairs of a time and what holds from then on. ``marks`` are the times of the changes
    to which a limit should adapt. At most ``room`` requests are there at a time, waiting or running: a larger limit is
    not a larger queue. If there are ``connections``, nothing else sends requests, each one after the other.
    """

    name: str
    about: str
    capacity: int = 40
    seconds: float = 120.0
    kind: str = "sharing"
    contention: float = 0.0
    coherence: float = 0.0
    routes: Sequence[Route] = (Route("all", 0.05),)
    capacities: Sequence[tuple[float, float]] = ()
    loads: Sequence[tuple[float, float]] = ((0.0, 1.5),)
    mixes: Sequence[tuple[float, Sequence[float]]] = ()
    stretches: Sequence[tuple[float, float]] = ()
    outages: Sequence[Outage] = ()
    marks: Sequence[float] = (0.0,)
    start: int = 20
    room: int = 200
    wait_limit: float = 1.0
    time_limit: float = 5.0
    retry_after: float = 0.0
    connections: int = 0
    seed: int = 1

    def backend(self) -> Backend:
        if self.kind == "pool":
            return Pool(self.capacity)
        if self.kind == "fixed at start":
            return FixedAtStart(self.capacity)
        if self.coherence:  # its capacity is where the throughput is highest, not a bound
            return ProcessorSharing(inf, self.contention, self.coherence)
        return ProcessorSharing(self.capacity)

    @property
    def mean(self) -> float:
        """The mean size of a request at first."""
        weights = self.mixes[0][1] if self.mixes else [1.0] * len(self.routes)
        return sum(route.work * weight for route, weight in zip(self.routes, weights, strict=True)) / sum(weights)

    @property
    def throughput(self) -> float:
        """The most requests a second at first."""
        others = self.capacity - 1
        return self.capacity / self.mean / (1 + others * (self.contention + self.coherence * self.capacity))

    def arrivals(self) -> Iterator[Arrival]:
        """Yield a Poisson process whose rate is piecewise constant, or the first request of each connection."""
        random = Random(self.seed)
        if self.connections:
            yield from (self.arrival(0.0, random) for _ in range(self.connections))
            return
        ends = (*(at for at, _ in self.loads[1:]), self.seconds)
        for (begin, load), end in zip(self.loads, ends, strict=True):
            rate = load * self.throughput
            now = begin + random.expovariate(rate)
            while now < min(end, self.seconds):
                yield self.arrival(now, random)
                now += random.expovariate(rate)

    def arrival(self, now: float, random: Random) -> Arrival:
        """Return a request that comes now."""
        route = self.routes[0]
        if len(self.routes) > 1:
            [route] = random.choices(self.routes, _at(self.mixes, now, [1.0] * len(self.routes)))
        return now, route.name, route.size(random) * _at(self.stretches, now, 1.0)

    def optimum(self, now: float) -> float:
        """Return the work a second that the backend can complete or that comes, whichever is less."""
        part = _at(self.capacities, now, float(self.capacity)) / self.capacity
        weights = _at(self.mixes, now, [1.0] * len(self.routes))
        mean = sum(one.work * weight for one, weight in zip(self.routes, weights, strict=True)) / sum(weights)
        offered = _at(self.loads, now, 1.0) * self.throughput * mean * _at(self.stretches, now, 1.0)
        if self.connections:
            offered = self.connections
        return min(self.throughput * self.mean * part, offered)

    def shortened(self, seconds: float) -> "Case":
        """Return the first seconds of this case."""
        end = min(seconds, self.seconds)
        loads = [(at, load) for at, load in self.loads if at < end]
        return replace(self, seconds=end, loads=loads, marks=[at for at in self.marks if at < end] or [0.0])

    def phases(self) -> Iterator[tuple[float, float]]:
        """Yield the begin and the end of the times after each change."""
        yield from pairwise((*self.marks, self.seconds))


def _at(steps: Sequence[tuple[float, T]], now: float, otherwise: T) -> T:
    found = otherwise
    for at, value in steps:
        if at > now:
            break
        found = value
    return found
