"""The fairness scenarios that Kubernetes tests its queue sets with, as data (39 of them).

Each tells the seats that the clients should get, and how far they may be off. Two are controls that must be unfair:
without restraint and without queues, nothing protects a client from the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apf_middleware.fairqueuing import QueueSetSettings, Work
from apf_middleware.testing.scenario import Client, FairnessScenario, Outcome

__all__ = ["SCENARIOS", "Expectation", "FairnessCase", "worst_deviation"]

SECOND = 10**9
QUARTER = 91 * 24 * 3600 * SECOND  # of a year: long enough for 64-bit meters to come to their end

ELEPHANT, MOUSE = 1001001001, 2002002002


@dataclass(frozen=True, slots=True)
class Expectation:
    """In one window: seats within ``margin`` of the fair ones, or, for a control, not within it.

    A scenario may be there to show a defect of one discipline of Kubernetes: then it must be unfair for ``defect_of``
    in strict mode, and fair otherwise. ``margin`` is Kubernetes'; outside strict mode ``corrected_margin`` counts, if
    there is one.
    """

    margin: float
    is_fair: bool = True
    defect_of: str | None = None
    averages: Sequence[float] | None = None  # None: the max-min fair shares
    corrected_margin: float | None = None

    def must_be_fair(self, discipline: str, *, strict: bool) -> bool:
        return not strict or self.defect_of != discipline if self.defect_of else self.is_fair

    def margin_of(self, *, strict: bool) -> float:
        return self.margin if strict or self.corrected_margin is None else self.corrected_margin


@dataclass(frozen=True, slots=True)
class FairnessCase:
    """A scenario, and what must come of it."""

    name: str
    scenario: FairnessScenario
    expectations: Sequence[Expectation]
    may_reject: bool = False
    epochs: int | None = None

    def expected(self, window: int) -> Sequence[float]:
        averages = self.expectations[window].averages
        return self.scenario.fair_shares(window) if averages is None else averages


def worst_deviation(expected: Sequence[float], outcome: Outcome, window: int) -> float:
    """Return the largest relative distance of a client's seats from those expected."""
    return max(abs(got - fair) / fair for got, fair in zip(outcome.averages[window], expected, strict=True))


def _sharded(concurrency: int, queues: int, limit: int, hand: int) -> QueueSetSettings:
    return QueueSetSettings(concurrency, queues=queues, hand_size=hand, queue_length_limit=limit)


def _controls() -> Iterator[FairnessCase]:
    clients = (Client(ELEPHANT, 5, 15, SECOND, SECOND), Client(MOUSE, 2, 15, SECOND, SECOND // 2))
    # Without restraint everybody runs at once, whatever the seats: the fair shares are those of the seats there were.
    alone = QueueSetSettings.without_limit(10)
    crowded = QueueSetSettings.without_limit(2)
    yield FairnessCase(
        "no restraint, no competition", FairnessScenario(alone, clients, 18 * SECOND), (Expectation(0.001),)
    )
    yield FairnessCase(
        "no restraint, competition",
        FairnessScenario(crowded, clients, 18 * SECOND),
        (Expectation(0.25, is_fair=False),),
    )
    impatient = (Client(ELEPHANT, 6, 10, SECOND, 57 * SECOND // 1000), Client(MOUSE, 4, 15, SECOND, 3 * SECOND // 4))
    yield FairnessCase(
        "different flows without queues",
        FairnessScenario(QueueSetSettings.without_queues(4), impatient, 13 * SECOND),
        (Expectation(0.2, is_fair=False),),
        may_reject=True,
    )


def _basics() -> Iterator[FairnessCase]:
    one = (Client(ELEPHANT, 1, 21, SECOND),)
    yield FairnessCase("baseline", FairnessScenario(_sharded(1, 9, 8, 3), one, 20 * SECOND), (Expectation(0),))
    for seats in (0, 2):
        wide = (Client(ELEPHANT, 5, 20, SECOND, SECOND, Work(3)),)
        scenario = FairnessScenario(QueueSetSettings.without_limit(seats), wide, 40 * SECOND)
        yield FairnessCase(f"exempt, {seats} seats", scenario, (Expectation(1e-8, averages=(7.5,)),))


SEPARATIONS: Sequence[tuple[float, float, int, int, int, float | None]] = (
    # think s, linger s, final seats, seats, clients, seats expected of each (None: fair shares)
    (1, 0, 1, 1, 1, None),
    (1, 0, 1, 2, 1, None),
    (1, 0, 2, 2, 1, None),
    (1, 0, 1, 1, 2, None),
    (1, 0, 1, 2, 2, None),
    (1, 0, 2, 2, 2, None),
    (0, 1, 1, 1, 1, 1 / 2),
    (0, 1, 1, 2, 1, None),
    (0, 1, 2, 2, 1, 1 / 2),
    (0, 1, 1, 1, 2, 1 / 4),
    (0, 1, 1, 2, 2, 1 / 2),
    (0, 1, 2, 2, 2, 1 / 4),
    (1, 0.5, 1, 1, 1, None),
    (1, 0.5, 1, 2, 1, None),
    (1, 0.5, 2, 2, 1, None),
    (1, 0.5, 1, 1, 2, 1 / 3),
    (1, 0.5, 1, 2, 2, None),
    (1, 0.5, 2, 2, 2, 1 / 3),
    (0.5, 1, 1, 1, 1, 1 / 2),
    (0.5, 1, 1, 2, 1, None),
    (0.5, 1, 2, 2, 1, 1 / 2),
    (0.5, 1, 1, 1, 2, 1 / 4),
    (0.5, 1, 1, 2, 2, 1 / 2),
    (0.5, 1, 2, 2, 2, 1 / 4),
)


def _separations() -> Iterator[FairnessCase]:
    for think, linger, final_seats, seats, clients, expected in SEPARATIONS:
        work = Work(1, final_seats, int(linger * SECOND))
        callers = [Client(hash_, 1, 25, SECOND, int(think * SECOND), work) for hash_ in (ELEPHANT, MOUSE)[:clients]]
        name = f"separation: think {think}, linger {linger} on {final_seats}, seats {seats}, clients {clients}"
        averages = None if expected is None else (expected,) * clients
        scenario = FairnessScenario(_sharded(seats, 9, 8, 3), callers, 24 * SECOND)
        yield FairnessCase(name, scenario, (Expectation(0, averages=averages),))


def _shares() -> Iterator[FairnessCase]:
    for hand, hashes, settings, calls, seconds, margin in (
        (1, (ELEPHANT, MOUSE), _sharded(4, 9, 8, 1), 20, 50, 0.01),
        (3, (400900100100, 300900200200), _sharded(4, 8, 16, 3), 30, 60, 0.03),
    ):
        clients = [Client(hash_, 8, calls, SECOND, SECOND - 1) for hash_ in hashes]
        scenario = FairnessScenario(settings, clients, seconds * SECOND)
        yield FairnessCase(f"uniform flows, hand of {hand}", scenario, (Expectation(margin),))
    equal = (Client(ELEPHANT, 8, 20, SECOND, SECOND), Client(MOUSE, 7, 30, SECOND, SECOND // 2))
    scenario = FairnessScenario(_sharded(4, 9, 8, 1), equal, 40 * SECOND)
    yield FairnessCase("different flows, equal shares", scenario, (Expectation(0.01),))
    wide = Work(500)
    ages = (Client(ELEPHANT, 8, 20, QUARTER, QUARTER, wide), Client(MOUSE, 7, 30, QUARTER, QUARTER // 2, wide))
    scenario = FairnessScenario(_sharded(2000, 9, 8, 1), ages, 40 * QUARTER)
    yield FairnessCase("meters roll over", scenario, (Expectation(0.01),), epochs=8)
    unequal = (Client(ELEPHANT, 4, 20, SECOND, SECOND - 1), Client(MOUSE, 2, 20, SECOND, SECOND - 1))
    scenario = FairnessScenario(_sharded(3, 9, 6, 1), unequal, 20 * SECOND)
    yield FairnessCase("different flows, unequal shares", scenario, (Expectation(0.01, averages=(2, 1)),))


def _widths() -> Iterator[FairnessCase]:
    clients = (
        Client(10010010010010, 13, 10, SECOND, SECOND - 1),
        Client(20020020020020, 7, 10, SECOND, SECOND - 1, Work(2)),
    )
    scenario = FairnessScenario(_sharded(6, 64, 13, 7), clients, 20 * SECOND)
    yield FairnessCase("different widths", scenario, (Expectation(0.155, averages=(3, 3)),))
    hashes = (40040040040040, 50050050050050, 60060060060060, 70070070070070, 90090090090090)
    works = (Work(2), Work(2), Work(2), Work(2), Work(7))
    # For 3/17 of the time the widest runs, on seven seats where there are six; the others have six for the rest.
    crowd = [Client(hash_, 15, 21, SECOND, SECOND - 1, work) for hash_, work in zip(hashes, works, strict=True)]
    scenario = FairnessScenario(_sharded(6, 64, 35, 7), crowd, 400 * SECOND)
    # Seats are fair between queues, the guarantee keeps that to within a few requests, and a flow has up to seven
    # queues. With a queue for each flow it is within 2 %.
    expectation = Expectation(0.35, averages=(21 / 17,) * 5, corrected_margin=0.5)
    yield FairnessCase("too wide", scenario, (expectation,))


def _windup() -> Iterator[FairnessCase]:
    clients = (Client(ELEPHANT, 2, 40, SECOND, -1), Client(MOUSE, 2, 40, SECOND, -1, late_half=True))
    scenario = FairnessScenario(_sharded(3, 9, 6, 1), clients, 40 * SECOND, windows=2)
    first = Expectation(0.01, averages=(2, 1))
    yield FairnessCase("windup, upper bound", scenario, (first, Expectation(0.26, averages=(1.5, 1.5))))
    second = Expectation(0.1, defect_of="equal-serial", averages=(1.5, 1.5))
    yield FairnessCase("windup, lower bound", scenario, (first, second))


SCENARIOS: Sequence[FairnessCase] = (
    *_controls(),
    *_basics(),
    *_separations(),
    *_shares(),
    *_widths(),
    *_windup(),
)
"""All of them, the controls first."""
