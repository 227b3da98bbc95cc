"""The cost of gates: ``python -m benchmarks.gates [--json]``.

Microseconds and evaluations of the gate in the core, in one thread and under virtual time; the median of several
repetitions.

release   so many wait for one key of a capacity of 1; its holder ends, and the next one is admitted
event     so many wait for a condition of 1,000 keys that stays shut; an event comes for one of them
nobody    an event without listeners, while so many wait
park      a request arrives at a slot where so many wait already, and is abandoned
pass      a request passes a gate at once, is seated and ends
plain     the same without a gate, on a server with gates
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Reason, Ticket, Work, flow_hash
from apf_middleware.gates import (
    Capacity,
    Condition,
    GatedSharing,
    GateHooks,
    GateRequest,
    GateRequirements,
    GateScheduler,
    Terms,
)
from benchmarks.measure import median_us, print_json, print_table

CROWDS = (100, 10_000)
KEYS = 1_000
FLOWS = 100
BATCH = 200
MINUTE = 60 * 10**9

Row = dict[str, Any]


class _Asker(Ticket):
    """A request with a number, which determines its key."""

    __slots__ = ("gates", "number")

    gates: tuple[str, ...]
    number: int


class _World:
    """One level with 10 seats, a capacity of 1, and a condition of many keys that blocks."""

    def __init__(self, waiting: int, gate: str) -> None:
        terms = Terms(max_parked=10**6)
        self.capacity = Capacity("capacity", 1, terms)
        self.condition = Condition(
            "condition", lambda _: False, terms, key=lambda request: request.state["number"] % KEYS
        )
        self.free = Capacity("free", 10, terms)
        wanted = {"level": (QueueSetSettings(10, 64, 1, 10**6), LevelLimits(10, 0, 10))}
        scheduler = GateScheduler((self.capacity, self.condition, self.free))
        plain = Lending(10, wanted)
        self.sharing = GatedSharing(plain, scheduler, self._describe, GateHooks())
        self.level = plain.levels["level"]
        self._numbers = count()
        self.holder: Ticket | None = None
        for _ in range(waiting):
            self.arrive(gate)

    @staticmethod
    def _describe(ticket: Ticket) -> GateRequirements | None:
        if not isinstance(ticket, _Asker) or not ticket.gates:
            return None
        request = GateRequest("level", "schema", ticket.flow, scope={"state": {"number": ticket.number}})
        return GateRequirements(request, ticket.gates, MINUTE)

    def arrive(self, *gates: str) -> Ticket:
        number = next(self._numbers)
        flow = f"flow-{number % FLOWS}"
        ticket = _Asker(flow, flow_hash("schema", flow), Work())
        ticket.gates, ticket.number = gates, number
        self.sharing.arrive(0, self.level, ticket)
        if ticket.is_seated and gates == ("capacity",):
            self.holder = ticket
        return ticket

    def release(self) -> None:
        assert self.holder is not None, "somebody holds the lease"  # noqa: S101
        [self.holder] = self.sharing.release(0, self.level, self.holder)

    def park(self) -> None:
        self.sharing.abandon(0, self.level, self.arrive("capacity"), Reason.CANCELLED)

    def emit(self, event: str, key: int | None = None) -> None:
        self.sharing.scheduler.emit(0, event, key)
        self.sharing.settle(0)

    def serve(self, *gates: str) -> None:
        self.sharing.release(0, self.level, self.arrive(*gates))


def measure(crowds: Sequence[int], repetitions: int) -> Iterator[Row]:
    """Measure all cases."""
    for waiting in crowds:
        world = _World(waiting + BATCH * (repetitions + 1), "capacity")  # as many are admitted
        yield _row("release", waiting, world.capacity, world.release, repetitions)
        world = _World(waiting, "condition")
        keys = count()
        yield _row("event", waiting, world.condition, partial(_emit, world, keys), repetitions)
        yield _row("nobody", waiting, world.condition, partial(world.emit, "nobody"), repetitions)
        world = _World(waiting, "capacity")
        yield _row("park", waiting, world.capacity, world.park, repetitions)
    world = _World(0, "")
    yield _row("pass", 0, world.free, partial(world.serve, "free"), repetitions)
    yield _row("plain", 0, world.free, world.serve, repetitions)


def _emit(world: _World, keys: Iterator[int]) -> None:
    world.emit("condition", next(keys) % KEYS)


def _row(case: str, waiting: int, gate: Capacity | Condition, step: Callable[[], object], repetitions: int) -> Row:
    def batch() -> int:
        for _ in range(BATCH):
            step()
        return BATCH

    before = gate.counters.evaluated
    cost = median_us(batch, repetitions)
    asked = (gate.counters.evaluated - before) / (BATCH * (repetitions + 1))
    return {"case": case, "waiting": waiting, "us": round(cost, 3), "evaluations": round(asked, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gates", description="What gates cost.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--waiting", type=int, nargs="+", default=list(CROWDS), metavar="N")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    if options.repetitions < 1 or min(options.waiting) < 1:
        parser.error("--repetitions and --waiting must be at least 1")
    rows = list(measure(options.waiting, options.repetitions))
    if options.json:
        print_json(rows)
        return
    header = ("case", "waiting", "us", "evaluations")
    print_table(header, ([line[column] for column in header] for line in rows))


if __name__ == "__main__":
    main()
