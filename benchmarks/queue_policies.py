"""Queues that bound delay, as others do it: ``python -m benchmarks.queue_policies [--json] [--seconds 20]``.

The loads are those of `benchmarks.deadlines`: 2 to 10 times what 20 seats can serve, clients that give up after a
second, four fifths of the requests from one of them. Waiting requests whose clients have given up leave every queue.

one queue        first come, first served
codel            the control law of RFC 8289: while the wait has been above 5 ms for 100 ms, drop the first one, after
                 100 ms, 100 ms / sqrt(2), 100 ms / sqrt(3) …
controlled       as Facebook describes it ("Fail at Scale", ACM Queue 13/8): a request may wait for 5 ms if the queue
                 hasn't been empty for 100 ms, and otherwise for 100 ms
slough           as folly has it: if no wait of the last 100 ms was below 5 ms, drop who has waited for 10 ms
adaptive lifo    the latest first while the queue hasn't been empty for 100 ms
lifo controlled  both, as Facebook uses them together
fair, deadlines  this package: a queue for each flow, and requests with deadlines

``goodput`` is the part of the seats' time that went into answers in time, ``wasted`` that of answers that came too
late. ``p99_ms`` is the wait of those that were answered in time. ``light_served`` is the part of the requests of the
ten light clients that were answered in time, ``heavy_served`` that of the others.
"""

import argparse
import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from random import Random
from typing import Any, Final

from apf_middleware.config.scenario import read_scenario_text
from apf_middleware.simulation.run import Simulation
from benchmarks.deadlines import OVERLOADS, SEATS, scenario_text
from benchmarks.measure import print_rows

__all__ = ["POLICIES", "AdaptiveLifo", "CoDel", "Controlled", "Fifo", "Job", "Slough", "measure", "play"]

TARGET_S: Final = 0.005
INTERVAL_S: Final = 0.1
_PATIENCE_S: Final = 1.0
_WARM_UP_S: Final = 3.0
_MEAN_S: Final = 0.04


class Job:
    """A request that arrived at a time, with the seconds of its work; it leaves the queue when it ``expires``."""

    __slots__ = ("arrived", "expires", "is_light", "waits", "work")

    def __init__(self, arrived: float, work: float, *, is_light: bool) -> None:
        self.arrived = arrived
        self.work = work
        self.is_light = is_light
        self.expires = arrived + _PATIENCE_S
        self.waits = True


class Fifo:
    """First come, first served; ``length`` is the number of requests that wait."""

    def __init__(self) -> None:
        self.length: int = 0
        self._jobs: deque[Job] = deque()
        self._ends: list[tuple[float, int, Job]] = []
        self._number = 0
        self._empty_at = 0.0

    def push(self, now: float, job: Job) -> None:
        """Add a request that arrives."""
        self._forget(now)
        self.length += 1
        self._number += 1
        self._jobs.append(job)
        heapq.heappush(self._ends, (job.expires, self._number, job))

    def pop(self, now: float) -> Job | None:
        """Return the next request to be served."""
        self._forget(now)
        while self._jobs:
            job = self._take(now)
            if job.waits:
                self._leave(now, job)
                return job
        return None

    def stands(self, now: float) -> bool:
        """Return whether the queue hasn't been empty for an interval."""
        return now - self._empty_at > INTERVAL_S

    def _take(self, now: float) -> Job:  # noqa: ARG002 - others need the time
        return self._jobs.popleft()

    def _leave(self, now: float, job: Job) -> None:
        job.waits = False
        self.length -= 1
        if not self.length:
            self._empty_at = now

    def _forget(self, now: float) -> None:
        """Let the requests go that have expired."""
        while self._ends and self._ends[0][0] <= now:
            end, _, job = heapq.heappop(self._ends)
            if job.waits:
                self._leave(end, job)
        if not self.length:
            self._empty_at = now


class CoDel(Fifo):
    """The control law of RFC 8289, with requests instead of packets."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[float] = []  # the times
        self._above_at = 0.0  # when the wait will have been above the target for an interval; 0 if it isn't above
        self._is_dropping = False
        self._next_at = 0.0
        self._count = self._last_count = 0

    def pop(self, now: float) -> Job | None:
        job, may_drop = self._head(now)
        if self._is_dropping:
            self._is_dropping = may_drop
            while self._is_dropping and now >= self._next_at:
                self.dropped.append(now)
                self._count += 1
                job, may_drop = self._head(now)
                self._is_dropping = may_drop
                if may_drop:
                    self._next_at = self._after(self._next_at)
        elif may_drop:
            self.dropped.append(now)
            job, _ = self._head(now)
            self._is_dropping = True
            recent = self._count - self._last_count
            # It goes on at the rate that has just controlled the queue, if that was a short time ago.
            self._count = recent if recent > 1 and now - self._next_at < 16 * INTERVAL_S else 1
            self._next_at = self._after(now)
            self._last_count = self._count
        return job

    def _head(self, now: float) -> tuple[Job | None, bool]:
        """Return the first request, and whether it may be dropped."""
        job = super().pop(now)
        if job is None or now - job.arrived < TARGET_S or not self.length:
            self._above_at = 0.0
            return job, False
        if not self._above_at:
            self._above_at = now + INTERVAL_S
            return job, False
        return job, now >= self._above_at

    def _after(self, at: float) -> float:
        return at + INTERVAL_S / sqrt(self._count)


class Controlled(Fifo):
    """A wait of 5 ms at most while the queue stands, and of 100 ms otherwise."""

    def push(self, now: float, job: Job) -> None:
        self._forget(now)
        job.expires = now + (TARGET_S if self.stands(now) else INTERVAL_S)
        super().push(now, job)


class Slough(Fifo):
    """Drop who has waited for twice the target, if all waits of the last interval were above the target."""

    def __init__(self) -> None:
        super().__init__()
        self._least = 0.0
        self._ends_at = 0.0
        self._is_overloaded = False

    def pop(self, now: float) -> Job | None:
        while (job := super().pop(now)) is not None:
            waited = now - job.arrived
            if now >= self._ends_at:
                self._ends_at = now + INTERVAL_S
                self._is_overloaded, self._least = self._least > TARGET_S, waited
            self._least = min(self._least, waited)
            if not (self._is_overloaded and waited > 2 * TARGET_S):
                return job
        return None


class AdaptiveLifo(Fifo):
    """The latest first while the queue stands."""

    def _take(self, now: float) -> Job:
        return self._jobs.pop() if self.stands(now) else self._jobs.popleft()


class ControlledLifo(Controlled, AdaptiveLifo):
    """Both, as they are used together."""


POLICIES: Final[dict[str, Callable[[], Fifo]]] = {
    "one queue": Fifo,
    "codel": CoDel,
    "controlled": Controlled,
    "slough": Slough,
    "adaptive lifo": AdaptiveLifo,
    "lifo controlled": ControlledLifo,
}


def arrivals(rate: float, until: float, seed: int) -> Iterator[Job]:
    """Yield requests of exponentially distributed work, four fifths of which are the heavy client's."""
    dice = Random(seed)
    now = 0.0
    while (now := now + dice.expovariate(rate)) < until:
        yield Job(now, dice.expovariate(1 / _MEAN_S), is_light=dice.random() < 0.2)


def play(queue: Fifo, rate: float, seconds: float, seed: int = 1) -> dict[str, Any]:
    """Return the figures of one queue; those of the first seconds don't count."""
    until = seconds + _WARM_UP_S
    free, ends = SEATS, list[tuple[float, int, Job]]()
    useful = wasted = 0.0
    came, served, waits = {True: 0, False: 0}, {True: 0, False: 0}, list[float]()
    coming, number = arrivals(rate, until, seed), 0
    job = next(coming, None)
    while job is not None or ends:
        if job is not None and (not ends or job.arrived <= ends[0][0]):
            now, counts = job.arrived, job.arrived >= _WARM_UP_S
            came[job.is_light] += counts
            queue.push(now, job)
            job = next(coming, None)
        else:
            now, _, done = heapq.heappop(ends)
            free += 1
            counts, in_time = done.arrived >= _WARM_UP_S, now - done.arrived <= _PATIENCE_S
            if in_time and counts:
                served[done.is_light] += 1
                waits.append(now - done.arrived - done.work)
            if _WARM_UP_S <= now < until:
                useful, wasted = useful + done.work * in_time, wasted + done.work * (not in_time)
        while free and (begun := queue.pop(now)) is not None:
            free, number = free - 1, number + 1
            heapq.heappush(ends, (now + begun.work, number, begun))
    waits.sort()
    return {
        "goodput": round(useful / (SEATS * seconds), 3),
        "wasted": round(wasted / (SEATS * seconds), 3),
        "p99_ms": round(1000 * waits[int(0.99 * len(waits))], 1) if waits else None,
        "light_served": round(served[True] / max(1, came[True]), 3),
        "heavy_served": round(served[False] / max(1, came[False]), 3),
    }


def measure_own(overload: float, seconds: int) -> dict[str, Any]:
    """Return the figures of this package, by the simulator with the code that runs in production."""
    duration = seconds + int(_WARM_UP_S)
    text = scenario_text("equal-serial", "fair", "exponential", overload, has_deadlines=True, seconds=duration)
    result = Simulation(*read_scenario_text(text).unwrap()).run("overload")
    light, heavy = result.tenant("light"), result.tenant("heavy")
    return {
        "goodput": round(result.goodput, 3),
        "wasted": round(result.wasted, 3),
        "p99_ms": max(level.wait_p99_ms or 0.0 for level in result.levels),
        "light_served": round(light.served / light.requests, 3),
        "heavy_served": round(heavy.served / heavy.requests, 3),
    }


def measure(policy: str, overload: float, seconds: int) -> dict[str, Any]:
    """Return one row."""
    if policy in POLICIES:
        found = play(POLICIES[policy](), overload * SEATS / _MEAN_S, seconds)
    else:
        found = measure_own(overload, seconds)
    return {"policy": policy, "overload": overload, **found}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_policies", description="Queues that bound delay.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=int, default=20, help="simulated time after a warm-up of 3 s")
    options = parser.parse_args(arguments)
    names = [*POLICIES, "fair, deadlines"]
    rows = [measure(policy, overload, options.seconds) for overload in OVERLOADS for policy in names]
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
