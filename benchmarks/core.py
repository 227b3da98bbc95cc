"""The cost of the fair-queuing core: ``python -m benchmarks.core [--json]``.

Microseconds per request, for arrival, dispatch and finish together, in one thread. Time is virtual, so no clock is
read. The median of several repetitions; the garbage collector is on, as in a server. With ``--busy`` processor time
counts, and the best repetition: for a machine that has other work to do meanwhile.

uncontended  nobody else is there: each request is seated at once and finishes
saturated    100 run and so many wait in every queue; batches of 50 arrivals, then 50 times the oldest running request
             finishes, which dispatches another
crowd        so many wait in one queue set; each request arrives, waits and gives up

With ``--sharing``, levels that share their seats through `Lending` instead:

alone        beside two other levels, each request is the only one in its level
lending      likewise, with another request of the level running all the time
reclaiming   likewise, with some 160 waiting in each of the three; a finish seats one of the level whose turn it is

With ``--exact`` there are as many flows as queues, and each has its own; a fresh flow finds an idle queue, or shares.

The flows of the requests were seen lately (there are 4,096), so that their hands are remembered. In the cases with
``-fresh-flows`` each request is of a flow never seen before and deals a new hand. ``bytes_per_ticket`` is the memory
that a waiting ticket takes, remembered hands included. ``unit_us`` is the time to push 1,000 entries onto a heap and to
pop them again, in the same run: divide by it to compare machines.
"""

import argparse
import random
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Dealer,
    Lending,
    LevelLimits,
    QueueSet,
    QueueSetSettings,
    SharedLevel,
    Ticket,
    Work,
)
from benchmarks.measure import best_cpu_us, median_us, print_json, print_table, unit_us

CONCURRENCY = 100
HANDS = {64: 6, 128: 6, 256: 6, 512: 6, 1024: 5, 4096: 5, 16384: 4}
BACKLOGS = (1, 50)
CROWDS = (1_000, 100_000)
CROWD_QUEUES = 64
FLOWS_SEEN = 4096
SHARED = (64, 6)  # queues and hand beside exact ones
BATCH = 50
STEP_NS = 500  # virtual time between two calls

Row = dict[str, Any]


class Load:
    """A queue set, virtual time, and flows to draw from."""

    def __init__(self, queues: int, discipline: str, *, fresh: bool, exact: bool = False) -> None:
        settings = QueueSetSettings(CONCURRENCY, queues, HANDS[queues], queue_length_limit=10**9)
        if exact:
            settings = QueueSetSettings(CONCURRENCY, *SHARED, queue_length_limit=10**9, exact=queues)
        self.queueset = QueueSet(settings, discipline=DISCIPLINES[discipline])
        self.now = 0
        self.running: deque[Ticket] = deque()
        self._random = random.Random(1)
        self._fresh = fresh
        self._seen = [self._random.getrandbits(64) for _ in range(queues if exact else FLOWS_SEEN)]
        self.work = Work(1)

    def entropies(self, number: int) -> Sequence[int]:
        """Flows for so many requests."""
        if self._fresh:
            return [self._random.getrandbits(64) for _ in range(number)]
        return self._random.choices(self._seen, k=number)

    def fill(self, backlog: int) -> None:
        """All seats taken, and exactly so many waiting in every queue."""
        for entropy in self.entropies(CONCURRENCY):
            self.arrive(entropy)
        if self.queueset.settings.exact:
            for entropy in self._seen * backlog:
                self.arrive(entropy)
            return
        queues, hand = self.queueset.deck.queues, self.queueset.settings.hand_size
        dealer = Dealer(len(queues), hand)
        missing = len(queues) * backlog
        while missing:
            entropy = self._random.getrandbits(64)
            if any(queues[card].length < backlog for card in dealer.deal(entropy)):
                self.arrive(entropy)
                missing -= 1

    def arrive(self, entropy: int) -> Ticket:
        self.now += STEP_NS
        ticket = Ticket("flow", entropy, self.work)
        self.running.extend(self.queueset.arrive(self.now, ticket))
        return ticket


def uncontended(load: Load, number: int) -> Callable[[], int]:
    def run() -> int:
        queueset, work, now = load.queueset, load.work, load.now
        for entropy in entropies:
            ticket = Ticket("flow", entropy, work)
            queueset.arrive(now := now + STEP_NS, ticket)
            queueset.release(now := now + STEP_NS, ticket)
        load.now = now
        return number

    entropies = load.entropies(number)
    return run


def saturated(load: Load, number: int) -> Callable[[], int]:
    def run() -> int:
        queueset, work, now, running = load.queueset, load.work, load.now, load.running
        for batch in batches:
            for entropy in batch:
                queueset.arrive(now := now + STEP_NS, Ticket("flow", entropy, work))
            for _ in batch:
                running.extend(queueset.release(now := now + STEP_NS, running.popleft()))
        load.now = now
        return len(batches) * BATCH

    batches = [load.entropies(BATCH) for _ in range(number // BATCH)]
    return run


def crowd(load: Load, number: int) -> Callable[[], int]:
    def run() -> int:
        queueset, work, now = load.queueset, load.work, load.now
        for entropy in entropies:
            ticket = Ticket("flow", entropy, work)
            queueset.arrive(now := now + STEP_NS, ticket)
            queueset.abandon(now := now + STEP_NS, ticket)
        load.now = now
        return number

    entropies = load.entropies(number)
    return run


def bytes_per_ticket(discipline: str, waiting: int) -> float:
    """Memory that each of so many waiting tickets takes."""
    load = Load(CROWD_QUEUES, discipline, fresh=False)
    entropies = load.entropies(waiting + CONCURRENCY)
    for entropy in entropies[:CONCURRENCY]:
        load.arrive(entropy)
    tracemalloc.start()
    try:
        for entropy in entropies[CONCURRENCY:]:
            load.arrive(entropy)
        return tracemalloc.get_traced_memory()[0] / waiting
    finally:
        tracemalloc.stop()


class SharedLoad(Load):
    """Three levels that share the seats; flows to draw from, whose hands are remembered."""

    def __init__(self, queues: int, discipline: str) -> None:
        super().__init__(queues, discipline, fresh=False)
        limits = LevelLimits(CONCURRENCY // 3, CONCURRENCY // 6, CONCURRENCY)
        settings = self.queueset.settings
        self.lending = Lending(
            CONCURRENCY, dict.fromkeys("abc", (settings, limits)), discipline=DISCIPLINES[discipline]
        )
        self.levels = list(self.lending.levels.values())
        self.seated: deque[tuple[SharedLevel, Ticket]] = deque()
        for level in self.levels:
            for entropy in self._seen:
                level.queueset.deck.choose(entropy, 0)

    def come(self, level: SharedLevel, entropy: int) -> None:
        self.now += STEP_NS
        ticket = Ticket(level.name, entropy, self.work)
        self.note(self.lending.arrive(self.now, level, ticket))

    def note(self, seated: Sequence[Ticket]) -> None:
        self.seated.extend((self.lending.levels[ticket.flow], ticket) for ticket in seated)


def shared(load: SharedLoad, number: int) -> Callable[[], int]:
    def run() -> int:
        lending, work, now, level = load.lending, load.work, load.now, load.levels[0]
        for entropy in entropies:
            ticket = Ticket("a", entropy, work)
            lending.arrive(now := now + STEP_NS, level, ticket)
            lending.release(now := now + STEP_NS, level, ticket)
        load.now = now
        return number

    entropies = load.entropies(number)
    return run


def reclaiming(load: SharedLoad, number: int) -> Callable[[], int]:
    def run() -> int:
        for place, entropy in enumerate(entropies):
            load.come(load.levels[place % 3], entropy)
            level, ticket = load.seated.popleft()
            load.now += STEP_NS
            load.note(load.lending.release(load.now, level, ticket))
        return number

    entropies = load.entropies(number)
    return run


def measure_sharing(options: argparse.Namespace) -> Iterator[Row]:
    cost_of = best_cpu_us if options.busy else median_us
    about: Row = {"discipline": options.discipline, "unit_us": round(unit_us(), 2)}
    for queues in options.queues:
        load = SharedLoad(queues, options.discipline)
        yield row("alone", queues, 0, cost_of(shared(load, options.requests), options.repetitions)) | about
        load.come(load.levels[0], 1)
        yield row("lending", queues, 0, cost_of(shared(load, options.requests), options.repetitions)) | about
        for level in load.levels:
            for entropy in load.entropies(2 * CONCURRENCY):
                load.come(level, entropy)
        cost = cost_of(reclaiming(load, options.requests), options.repetitions)
        yield row("reclaiming", queues, load.levels[0].queueset.waiting // queues, cost) | about


CASES: dict[str, Callable[[Load, int], Callable[[], int]]] = {"uncontended": uncontended, "saturated": saturated}


def measure(options: argparse.Namespace) -> Iterator[Row]:
    cost_of = best_cpu_us if options.busy else median_us
    about: Row = {"discipline": options.discipline, "exact": options.exact, "unit_us": round(unit_us(), 2)}
    for queues in options.queues:
        for case, backlogs in (("uncontended", (0,)), ("saturated", BACKLOGS)):
            for backlog, fresh in product(backlogs, (False, True)):
                load = Load(queues, options.discipline, fresh=fresh, exact=options.exact)
                if backlog:
                    load.fill(backlog)
                cost = cost_of(CASES[case](load, options.requests), options.repetitions)
                yield row(f"{case}-fresh-flows" if fresh else case, queues, backlog, cost) | about
    for waiting in options.crowds:
        load = Load(CROWD_QUEUES, options.discipline, fresh=False)
        for entropy in load.entropies(waiting + CONCURRENCY):
            load.arrive(entropy)
        cost = cost_of(crowd(load, options.requests), options.repetitions)
        size = round(bytes_per_ticket(options.discipline, waiting))
        more = {"waiting": waiting, "bytes_per_ticket": size}
        yield row("crowd", CROWD_QUEUES, waiting // CROWD_QUEUES, cost) | about | more


def row(case: str, queues: int, backlog: int, cost: float) -> Row:
    return {
        "case": case,
        "queues": queues,
        "hand": HANDS[queues],
        "backlog_per_queue": backlog,
        "us_per_request": round(cost, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description="The cost of the fair-queuing core.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--sharing", action="store_true", help="measure levels that share their seats instead")
    parser.add_argument("--exact", action="store_true", help="a queue for each flow, as many flows as queues")
    parser.add_argument("--discipline", choices=DISCIPLINES, default="equal-serial")
    parser.add_argument("--queues", type=int, nargs="+", choices=HANDS, default=list(HANDS), metavar="N")
    parser.add_argument("--crowds", type=int, nargs="+", default=list(CROWDS), metavar="N", help="requests that wait")
    parser.add_argument("--requests", type=int, default=20_000, help="requests in one repetition")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="processor time of the best repetition")
    options = parser.parse_args()
    if options.requests < BATCH or options.repetitions < 1:
        parser.error(f"--requests must be at least {BATCH} and --repetitions at least 1")
    rows = list(measure_sharing(options) if options.sharing else measure(options))
    if options.json:
        print_json(rows)
        return
    header = ("case", "queues", "backlog_per_queue", "us_per_request", "bytes_per_ticket", "unit_us")
    print_table(header, ([line.get(column, "") for column in header] for line in rows))


if __name__ == "__main__":
    main()
