"""The event loop of the benchmark: one case with one limiter, in virtual time."""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from random import Random

from apf_middleware.adaptive import RequestOutcome
from benchmarks.adaptive.case import Arrival, Case
from benchmarks.adaptive.limiter import Limiter

__all__ = ["Measured", "World"]

_TICK = 0.05
_RETRIES = 0.7  # the part of rejected callers who come again
_LOOKUP = 0.001  # of what is cached
_PAUSE = 0.002  # of a connection, between two requests
_END: Arrival = (inf, "", 0.0)


@dataclass(slots=True)
class Measured:
    """What happened; ``busy`` and ``needed`` are the durations and the sizes of what completed in each second."""

    seconds: int
    completed: int = 0
    rejected: int = 0
    failed: int = 0
    durations: list[float] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)  # at each tick
    busy: list[float] = field(init=False)
    needed: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.busy = [0.0] * (self.seconds + 1)
        self.needed = [0.0] * (self.seconds + 1)


@dataclass(slots=True)
class _Running:
    started: float
    route: str
    size: float


class World:
    """Requests arrive, wait in a bounded room while the limit is reached, run, and are observed."""

    def __init__(self, case: Case, limiter: Limiter) -> None:
        self._case = case
        self._limiter = limiter
        self._backend = case.backend()
        self._waiting: deque[Arrival] = deque()
        self._running: dict[int, _Running] = {}
        self._time_limits: deque[tuple[float, int]] = deque()
        self._other_ends: deque[tuple[float, int, RequestOutcome]] = deque()  # of requests without the backend
        self._retries: deque[Arrival] = deque()
        self._changes = deque(case.capacities)
        self._random = Random(case.seed)
        self._number = 0
        self.measured = Measured(int(case.seconds))

    def run(self) -> Measured:
        arrivals = self._case.arrivals()
        arrival = next(arrivals, _END)
        tick = _TICK
        while True:
            done = self._backend.next_completion
            other = self._next_other()
            now = min(arrival[0], done, tick, other)
            if now >= self._case.seconds:
                return self.measured
            if now == done:
                self._end(now, self._backend.complete(now), RequestOutcome.SUCCESS)
            elif now == arrival[0]:
                self._arrive(now, arrival)
                arrival = next(arrivals, _END)
            elif now == tick:
                self._tick(now)
                tick += _TICK
            else:
                self._happen(now)
            self._dispatch(now)

    def _next_other(self) -> float:
        """Return when a time limit, a request without the backend, a retry or a change of capacity is due."""
        running = self._running
        while self._time_limits and self._time_limits[0][1] not in running:
            self._time_limits.popleft()
        due = self._time_limits[0][0] if self._time_limits else inf
        for queue in (self._other_ends, self._retries, self._changes):
            if queue and queue[0][0] < due:
                due = queue[0][0]
        return due

    def _happen(self, now: float) -> None:
        if self._changes and self._changes[0][0] <= now:
            self._backend.change_capacity(now, self._changes.popleft()[1])
        elif self._retries and self._retries[0][0] <= now:
            self._arrive(now, self._retries.popleft())
        elif self._other_ends and self._other_ends[0][0] <= now:
            self._end(*self._other_ends.popleft())
        else:
            number = self._time_limits.popleft()[1]
            self._backend.abort(now, number)
            self._end(now, number, RequestOutcome.TIMED_OUT)

    def _tick(self, now: float) -> None:
        self._expire(now)
        self.measured.limits.append(self._limiter.limit)
        self._limiter.tick(now, len(self._running), len(self._waiting), self._backend.utilisation)

    def _arrive(self, now: float, arrival: Arrival) -> None:
        self._expire(now)
        if len(self._waiting) + len(self._running) < self._case.room:
            self._waiting.append(arrival if arrival[0] == now else (now, *arrival[1:]))
        else:
            self._reject(now, arrival)

    def _expire(self, now: float) -> None:
        waiting = self._waiting
        oldest = now - self._case.wait_limit
        while waiting and waiting[0][0] < oldest:
            self._reject(now, waiting.popleft())

    def _reject(self, now: float, arrival: Arrival) -> None:
        self.measured.rejected += 1
        self._ask_again(now)
        if self._case.retry_after and self._random.random() < _RETRIES:
            self._retries.append((now + self._case.retry_after, *arrival[1:]))

    def _ask_again(self, now: float) -> None:
        """Let the connection whose request ended send the next one, if there are connections."""
        if self._case.connections:
            self._retries.append(self._case.arrival(now + _PAUSE, self._random))

    def _dispatch(self, now: float) -> None:
        waiting, running = self._waiting, self._running
        while waiting and len(running) < max(1, self._limiter.limit):
            arrived, route, size = waiting.popleft()
            if arrived < now - self._case.wait_limit:
                self._reject(now, (arrived, route, size))
                continue
            self._number += 1
            running[self._number] = _Running(now, route, size)
            self._start(now, size)

    def _start(self, now: float, size: float) -> None:
        for outage in self._case.outages:
            if outage.begin <= now < outage.end:
                if outage.seconds is not None:
                    self._other_ends.append((now + outage.seconds, self._number, RequestOutcome.ERROR))
                    return
                size = inf
        if not size:
            self._other_ends.append((now + _LOOKUP, self._number, RequestOutcome.SUCCESS))
            return
        self._backend.start(now, self._number, size)
        self._time_limits.append((now + self._case.time_limit, self._number))

    def _end(self, now: float, number: int, outcome: RequestOutcome) -> None:
        in_flight = len(self._running)
        ended = self._running.pop(number)
        duration = now - ended.started
        self._limiter.observe(now, ended.route, in_flight, duration, outcome)
        self._ask_again(now)
        measured = self.measured
        if outcome is not RequestOutcome.SUCCESS:
            measured.failed += 1
            return
        second = int(now)
        measured.completed += 1
        measured.busy[second] += duration
        measured.needed[second] += ended.size
        measured.durations.append(duration)
