"""Backends in virtual time: processor sharing, with or without collapse, a pool, and fixed durations."""

import heapq
from collections import deque
from math import inf
from typing import Protocol

__all__ = ["Backend", "FixedAtStart", "Pool", "ProcessorSharing"]


class Backend(Protocol):
    """Runs requests, known by number; a request's size is its duration on a backend that is otherwise idle."""

    @property
    def utilisation(self) -> float:
        """The part of the capacity that is busy."""

    @property
    def next_completion(self) -> float:
        """The time of the next completion, if nothing starts before."""

    def start(self, now: float, number: int, size: float) -> None:
        """Start a request."""

    def complete(self, now: float) -> int:
        """Return the request that completes now."""

    def abort(self, now: float, number: int) -> None:
        """End a request before it is complete."""

    def change_capacity(self, now: float, capacity: float) -> None:
        """Run with another capacity from now on; 0 is a pause."""


class ProcessorSharing:
    """Runs each of n requests at min(1, capacity/n), slowed down by ``contention`` and ``coherence``.

    The last two are the constants s and k of the universal scalability law: each of n requests takes
    1 + s(n - 1) + kn(n - 1) times as long. All requests run at the same speed, so they complete in the order of the
    service that they had to get when they started, plus their size.
    """

    def __init__(self, capacity: float, contention: float = 0.0, coherence: float = 0.0) -> None:
        self._capacity = capacity
        self._contention = contention
        self._coherence = coherence
        self._running: set[int] = set()
        self._order: list[tuple[float, int]] = []
        self._served = 0.0  # what a request that runs all the time has got
        self._speed = 1.0
        self._updated = 0.0
        self.next_completion = inf

    @property
    def utilisation(self) -> float:
        return min(1.0, len(self._running) / self._capacity) if self._capacity else 1.0

    def start(self, now: float, number: int, size: float) -> None:
        self._advance(now)
        self._running.add(number)
        heapq.heappush(self._order, (self._served + size, number))
        self._refresh()

    def complete(self, now: float) -> int:
        self._advance(now)
        _, number = heapq.heappop(self._order)
        self._running.remove(number)
        self._refresh()
        return number

    def abort(self, now: float, number: int) -> None:
        self._advance(now)
        self._running.remove(number)
        self._refresh()

    def change_capacity(self, now: float, capacity: float) -> None:
        self._advance(now)
        self._capacity = capacity
        self._refresh()

    def _advance(self, now: float) -> None:
        self._served += (now - self._updated) * self._speed
        self._updated = now

    def _refresh(self) -> None:
        running = len(self._running)
        others = max(0, running - 1)
        slower = 1 + others * (self._contention + self._coherence * running)
        self._speed = min(1.0, self._capacity / max(1, running)) / slower
        order = self._order
        while order and order[0][1] not in self._running:
            heapq.heappop(order)  # aborted
        if order and self._speed:
            self.next_completion = self._updated + max(0.0, order[0][0] - self._served) / self._speed
        else:
            self.next_completion = inf


class Pool:
    """Runs at most ``capacity`` requests at full speed; the others wait for a connection in order of arrival."""

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._queue: deque[tuple[int, float]] = deque()
        self._ends: dict[int, float] = {}
        self._order: list[tuple[float, int]] = []
        self._gone: set[int] = set()
        self.next_completion = inf

    @property
    def utilisation(self) -> float:
        return min(1.0, len(self._ends) / self._capacity) if self._capacity else 1.0

    def start(self, now: float, number: int, size: float) -> None:
        self._queue.append((number, size))
        self._refresh(now)

    def complete(self, now: float) -> int:
        _, number = heapq.heappop(self._order)
        del self._ends[number]
        self._refresh(now)
        return number

    def abort(self, now: float, number: int) -> None:
        if self._ends.pop(number, None) is None:
            self._gone.add(number)
        self._refresh(now)

    def change_capacity(self, now: float, capacity: float) -> None:
        self._capacity = capacity
        self._refresh(now)

    def _refresh(self, now: float) -> None:
        while self._queue and len(self._ends) < self._capacity:
            number, size = self._queue.popleft()
            if number in self._gone:
                self._gone.remove(number)
                continue
            self._ends[number] = now + size
            heapq.heappush(self._order, (now + size, number))
        while self._order and self._order[0][1] not in self._ends:
            heapq.heappop(self._order)  # aborted
        self.next_completion = self._order[0][0] if self._order else inf


class FixedAtStart:
    """Decides how long a request takes when it starts, by how many run then: those that start later don't change it."""

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._running: set[int] = set()
        self._order: list[tuple[float, int]] = []

    @property
    def utilisation(self) -> float:
        return min(1.0, len(self._running) / self._capacity)

    @property
    def next_completion(self) -> float:
        order = self._order
        while order and order[0][1] not in self._running:
            heapq.heappop(order)  # aborted
        return order[0][0] if order else inf

    def start(self, now: float, number: int, size: float) -> None:
        self._running.add(number)
        slower = max(1.0, len(self._running) / self._capacity)
        heapq.heappush(self._order, (now + size * slower, number))

    def complete(self, now: float) -> int:  # noqa: ARG002
        _, number = heapq.heappop(self._order)
        self._running.remove(number)
        return number

    def abort(self, now: float, number: int) -> None:  # noqa: ARG002
        self._running.remove(number)

    def change_capacity(self, now: float, capacity: float) -> None:  # noqa: ARG002
        self._capacity = capacity
