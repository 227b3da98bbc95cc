"""Levels that are always busy get seats in proportion to their weights, however wide and long their requests are.

The worlds are random. What a level gets is compared with its part of the seats that are used at all: some stay empty
while they are saved up for wide requests.
"""

import random
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import DISCIPLINES, Lending, LevelLimits, QueueSetSettings, Ticket, Work
from tests.support.examples import examples

MILLISECOND = 10**6
WAITING = 40
"""As many requests of each level are there at any time."""


class Saturated:
    """Several levels that always want more seats than there are; a request that ends is followed by another."""

    def __init__(self, seed: int, discipline: str, backfill: int) -> None:
        self.draw = draw = random.Random(seed)
        self.seats = draw.randint(6, 20)
        weights = [draw.choice((1, 1, 2, 3, 5)) for _ in range(draw.randint(2, 4))]
        nominal = [max(1, self.seats * weight // sum(weights)) for weight in weights]
        self.parts = {f"level-{place}": seats / sum(nominal) for place, seats in enumerate(nominal)}
        self.widths = {name: self._some_widths() for name in self.parts}
        self.longest = {name: draw.choice((5, 20, 100, 300)) for name in self.parts}
        settings = QueueSetSettings(self.seats, 4, 1, 10**5, backfill=backfill)
        limits = [LevelLimits(seats, draw.choice((0, 0, 1, seats // 2)), self.seats) for seats in nominal]
        self.sharing = Lending(
            self.seats,
            {name: (settings, one) for name, one in zip(self.parts, limits, strict=True)},
            discipline=DISCIPLINES[discipline],
        )
        self.served = dict.fromkeys(self.parts, 0)
        self._running: list[tuple[int, int, Ticket]] = []
        self._number = count()

    def _some_widths(self) -> list[int]:
        return [self.draw.randint(1, self.draw.choice((1, 2, 4, self.seats // 2))) for _ in range(3)]

    def play(self, seconds: int) -> None:
        for name in self.parts:
            for _ in range(WAITING):
                self._send(0, name)
        now = 0
        while now < seconds * 1000 * MILLISECOND:
            now, _, ticket = heappop(self._running)
            self.served[ticket.flow] += ticket.work.seats * (now - ticket.seated_at)
            self._run(now, self.sharing.release(now, self.sharing.levels[ticket.flow], ticket))
            self._send(now, ticket.flow)

    def _send(self, now: int, name: str) -> None:
        ticket = Ticket(name, self.draw.randint(0, 3), Work(self.draw.choice(self.widths[name])))
        self._run(now, self.sharing.arrive(now, self.sharing.levels[name], ticket))

    def _run(self, now: int, seated: Sequence[Ticket]) -> None:
        for ticket in seated:
            duration = self.draw.randint(1, self.longest[ticket.flow]) * MILLISECOND
            heappush(self._running, (now + duration, next(self._number), ticket))

    def least_part(self) -> float:
        """Return the part of the level that has got least, relative to its fair one."""
        total = sum(self.served.values())
        return min(self.served[name] / total / part for name, part in self.parts.items())


@pytest.mark.parametrize("backfill", [0, 2])
@pytest.mark.parametrize("discipline", DISCIPLINES)
@examples(2)
@given(seed=st.integers(0, 10**9))
def test_busy_levels_get_their_parts_of_the_seats_that_are_used(discipline: str, backfill: int, seed: int) -> None:
    levels = Saturated(seed, discipline, backfill)
    levels.play(seconds=5)

    assert levels.least_part() > 0.6


@pytest.mark.parametrize(("seed", "backfill"), [(21, 0), (21, 2), (102, 0), (106, 8)])
def test_short_requests_are_not_outdone_by_long_and_wide_ones(seed: int, backfill: int) -> None:
    """By the seats in use alone, a level with short requests had an eighth to a third of its part here."""
    levels = Saturated(seed, "equal-serial", backfill)
    levels.play(seconds=10)

    assert levels.least_part() > 0.85


def test_a_level_far_behind_gets_its_whole_max_for_a_wide_request() -> None:
    """Its own short requests stop the wide one; long requests of another level must not take the seats meanwhile."""
    levels = Saturated(165, "equal-serial", backfill=0)
    levels.play(seconds=10)

    assert levels.least_part() > 0.85
