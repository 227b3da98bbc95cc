"""How soon an owner has its seats back: ``python -m benchmarks.reclaim [--json]``. Time is virtual.

A borrower uses every seat of a server, and more of its requests wait. Then the owner of half of the seats comes, with
more than enough requests for these. ``back_s`` is how long it takes until the owner uses what it deserves, and
``residual_s`` how long those requests that ran then had left on average: no way of sharing that ends nothing can do
better than one after the other. ``ratio`` is the one as part of the other, and ``used`` how many of the server's seats
were in use then; both are means over the seeds. So it is with

immediate  seats are lent and reclaimed at each dispatch
revoked    likewise, and the borrower's handlers opted in: each that is asked ends after 10 ms
periodic   Kubernetes' way: limits are adjusted every ten seconds. From then on the owner uses its seats beside those
           that the borrower still has, more together than there are
"""

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import product
from operator import truediv
from statistics import fmean
from typing import Any, Final
from unittest.mock import patch

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.named_queues import NamedQueues
from benchmarks.measure import print_json, print_table

__all__ = ["MODES", "SERVICES", "main", "measure", "rows"]

MODES: Final = ("immediate", "revoked", "periodic")
SERVICES: Final[dict[str, Callable[[random.Random], float]]] = {
    "constant 1 s": lambda _: 1.0,
    "exponential 1 s": lambda rng: rng.expovariate(1.0),
    "constant 60 s": lambda _: 60.0,
}
SEATS: Final = 100
GIVES_WAY_NS: Final = 10_000_000
SEEDS: Final = 5
_NS: Final = 10**9
_LEVEL: Final = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: %s}
spec: {shares: 1000, lendablePercent: 100, queuing: {queues: 1, handSize: 1, queueLengthLimit: 100000}}
"""

Row = dict[str, Any]


class _World:
    """A controller whose requests end when their time has come."""

    def __init__(self, mode: str, service: Callable[[random.Random], float], seed: int) -> None:
        borrowing = "periodic" if mode == "periodic" else "immediate"
        spec = f"{{seats: {SEATS}, defaults: none, borrowing: {borrowing}}}"
        text = f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n{_LEVEL % 'owner'}{_LEVEL % 'borrower'}"
        self.now = 0
        self.rng = random.Random(seed)
        self._service = service
        self._opts_in = mode == "revoked"
        self._agenda: list[tuple[int, int, Admission]] = []
        self._number = 0
        self._waiting: list[Admission] = []
        self._running: list[Admission] = []
        self.controller = Controller(load_text(text), now=lambda: self.now)

    def arrive(self, level: str, number: int) -> None:
        destination = self.controller.destination(Classification("catch-all", level, "flow", 1), Work())
        for _ in range(number):
            admission = Admission(destination)
            self._waiting.append(admission)
            self.controller.arrive(self.now, admission)
        self._begin()

    def _begin(self) -> None:
        """Those who have been seated run for as long as it takes, and those who are asked give way."""
        for admission in self._waiting:
            if admission.is_seated:
                self._running.append(admission)
                self._end_at(self.now + int(self._service(self.rng) * _NS), admission)
                if self._opts_in and admission.level == "borrower":
                    admission.revocable()
        self._waiting = [one for one in self._waiting if one.is_waiting]
        if self._opts_in:
            for admission in self._running:
                if admission.revoked.is_set():
                    self._end_at(self.now + GIVES_WAY_NS, admission)
            self._running = [one for one in self._running if one.is_seated and not one.revoked.is_set()]

    def _end_at(self, time: int, admission: Admission) -> None:
        self._number += 1
        heappush(self._agenda, (time, self._number, admission))

    def step(self, until: int) -> bool:
        """Run the next event, unless it is later than ``until``: then return False.

        A request that ends at the borrower comes again.
        """
        due = self.controller.sharing.next_event_at()
        at = min(self._agenda[0][0] if self._agenda else until + 1, until + 1 if due is None else due)
        if at > until:
            self.now = until
            return False
        self.now = max(self.now, at)
        self.controller.tick()
        again = 0
        while self._agenda and self._agenda[0][0] <= self.now:
            admission = heappop(self._agenda)[2]
            if admission.is_seated:
                self.controller.release(admission)
                again += admission.level == "borrower"
        self._begin()
        self.arrive("borrower", again)
        return True

    def residual_s(self) -> float:
        """How long those that run have left, on average."""
        return fmean(time - self.now for time, _, one in self._agenda if one.is_seated) / _NS

    def used(self, level: str) -> int:
        return self.controller.levels[level].shared.queueset.seats_in_use


def measure(mode: str, name: str, seed: int) -> tuple[float, float, int]:
    """How long the owner waits for what it deserves, how long those that run have left, and the seats in use then."""
    world = _World(mode, SERVICES[name], seed)
    mean = 60 if "60" in name else 1
    for _ in range(SEATS):  # spread over a service time, so that they don't end together
        world.arrive("borrower", 1)
        until = world.now + mean * _NS // SEATS
        while world.step(until):
            pass
    world.arrive("borrower", SEATS)
    until = world.now + (21 if mode == "periodic" else 3 * mean) * _NS + world.rng.randrange(10 * _NS)
    while world.step(until):
        pass
    began, residual = world.now, world.residual_s()
    world.arrive("owner", 2 * SEATS)
    deserved = int(NamedQueues(world.controller).status("owner").deserved)
    while world.used("owner") < deserved:
        if not world.step(began + 600 * _NS):
            break
    return (world.now - began) / _NS, residual, world.used("owner") + world.used("borrower")


def rows(services: Iterable[str] = SERVICES, seeds: int = SEEDS) -> list[Row]:
    found = []
    with patch.object(Alarm, "ask", lambda *_: None):  # there is no event loop: `_World.step` sees to what is due
        for name, mode in product(services, MODES):
            backs, residuals, used = zip(*(measure(mode, name, seed) for seed in range(seeds)), strict=True)
            row = {"mode": mode, "service": name, "seats": SEATS, "back_s": round(fmean(backs), 3)}
            row["residual_s"] = round(fmean(residuals), 3)
            row["ratio"] = round(fmean(map(truediv, backs, residuals)), 3)
            row["used"] = round(fmean(used), 1)
            found.append(row)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reclaim", description="How soon an owner is back.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args(arguments)
    found = rows()
    if options.json:
        print_json(found)
    else:
        print_table(list(found[0]), [list(row.values()) for row in found])


if __name__ == "__main__":
    main()
