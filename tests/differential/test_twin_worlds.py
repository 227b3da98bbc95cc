"""Long random worlds, drawn like the golden traces, in which our queue set and its twin get the same calls.

A world has its own heap of future events. The end of a linger is noticed by a tick or by the next call: then the call
is late, and the seats have been free since a time in the past.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush

import pytest

from apf_middleware.fairqueuing import QueueSetSettings, Reason, TicketState, Work
from tests.support.examples import seeds
from tests.support.queueset_twin import HIGH_R, Twins

STEPS = 1500
THOROUGH = 10  # the steps between full comparisons; meters are compared at each step


@dataclass(frozen=True)
class Climate:
    """The parameters of a world; times in nanoseconds."""

    settings: QueueSetSettings
    guess_ns: int
    initial_r: int
    flows: list[int]  # by entropy; an elephant occurs many times
    widths: list[int]
    final_seats: list[int]
    lingers: list[int]
    pause: int  # between arrivals, on average
    service: int  # on average
    grain: int  # times are multiples of this: a coarse grain makes ties and instants where much happens
    patience: int  # how long a request waits before it is abandoned, on average; 0 is forever
    reconfigurations: float  # the probability of one instead of an arrival
    promptness: float  # the probability that a linger's end is noticed in time


def drawn_settings(rng: random.Random, concurrency: int) -> QueueSetSettings:
    queues = rng.choice((1, 4, 8, 8, 16, 32))
    hand_size = rng.randint(1, min(queues, 6))
    return QueueSetSettings(concurrency, queues, hand_size, queue_length_limit=rng.choice((1, 3, 10, 30)))


def drawn_climate(rng: random.Random) -> Climate:
    concurrency = rng.choice((1, 3, 5, 7, 10, 20))
    widest = rng.choice((1, 1, max(1, concurrency // 2), concurrency, concurrency + 3))
    widths = [1, *(rng.randint(1, widest) for _ in range(rng.choice((0, 1, 5))))]
    service = rng.choice((10**6, 10**7, 10**8))
    mice = [rng.randrange(2**64) for _ in range(rng.choice((1, 5, 15)))]
    elephants = [rng.randrange(2**64) for _ in range(rng.choice((0, 1, 3)))]
    load = rng.choice((0.5, 1.1, 1.5, 3))
    mean_width = sum(widths) / len(widths)
    has_lingers = rng.random() < 0.5
    return Climate(
        settings=drawn_settings(rng, concurrency),
        guess_ns=rng.choice((3_000_000, 3_000_000, 1, 60 * 10**9)),
        initial_r=rng.choice((0, 0, HIGH_R - 10**8)),
        flows=mice + elephants * len(mice) * 2,
        widths=widths,
        final_seats=[0, 0, rng.randint(0, concurrency), rng.randint(0, concurrency + 4)] if has_lingers else [0],
        lingers=[0, service // 2, rng.randrange(service)] if has_lingers else [0],
        pause=int(service * mean_width / concurrency / load),
        service=service,
        grain=rng.choice((1, 1, service // 4)),
        patience=rng.choice((0, 0, 5 * service, 50 * service)),
        reconfigurations=rng.choice((0, 0, 0.02)),
        promptness=rng.choice((1, 1, 0.5)),
    )


class World:
    """A world with one set of parameters, and its events."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.climate = climate = drawn_climate(self.rng)
        self.twins = Twins(climate.settings, guess_ns=climate.guess_ns, initial_r=climate.initial_r, thorough=THOROUGH)
        self._agenda: list[tuple[int, int, Callable[[], list[int]]]] = []
        self._scheduled = 0

    def run(self, steps: int) -> None:
        self._after(0, self._arrive)
        while self.twins.steps < steps:
            self.twins.now, _, step = heappop(self._agenda)
            for number in step():
                self._after(self._about(self.climate.service), partial(self._release, number))
        self.twins.compare()

    def _about(self, mean: int) -> int:
        """Return an exponentially distributed time, in grains."""
        return round(self.rng.expovariate(1 / mean) / self.climate.grain) * self.climate.grain

    def _after(self, delay: int, step: Callable[[], list[int]]) -> None:
        self._scheduled += 1
        heappush(self._agenda, (self.twins.now + delay, self._scheduled, step))

    def _arrive(self) -> list[int]:
        rng, climate, twins = self.rng, self.climate, self.twins
        self._after(self._about(climate.pause), self._arrive)
        if rng.random() < climate.reconfigurations:
            return twins.reconfigure(self._other_settings())
        if climate.patience:
            self._after(self._about(climate.patience), partial(self._give_up, twins.arrived))
        work = Work(rng.choice(climate.widths), rng.choice(climate.final_seats), rng.choice(climate.lingers))
        return twins.arrive(rng.choice(climate.flows), work)

    def _other_settings(self) -> QueueSetSettings:
        rng, usual = self.rng, self.climate.settings
        concurrency = rng.choice((0, 1, usual.concurrency, usual.concurrency, 2 * usual.concurrency))
        without = QueueSetSettings.without_queues(concurrency)
        return rng.choice((without, drawn_settings(rng, concurrency), drawn_settings(rng, concurrency)))

    def _give_up(self, number: int) -> list[int]:
        if number not in self.twins.numbers(TicketState.WAITING):
            return []
        return self.twins.abandon(number, self.rng.choice((Reason.TIME_OUT, Reason.CANCELLED)))

    def _release(self, number: int) -> list[int]:
        ticket, _ = self.twins.tickets[number]
        if ticket.work.linger_ns and self.rng.random() < self.climate.promptness:
            self._after(ticket.work.linger_ns, self.twins.tick)
        return self.twins.release(number)


@pytest.mark.parametrize("seed", seeds(12))
def test_a_random_world_goes_on_alike_in_ours_and_in_the_twin(seed: int) -> None:
    World(seed).run(STEPS)
