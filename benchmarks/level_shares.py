"""How busy levels share seats, with requests of all widths: ``python -m benchmarks.level_shares [--json]``.

Random worlds of two to four levels, with weights, mins, and requests of 1 to 10 seats that take up to 5 to 300 ms; each
level always has forty requests there. What a level gets is compared with its part of the seats that are used at all,
because some are empty while they are saved up for wide requests. Then the first level of each world becomes a light
one, with short requests of one seat that come in small bursts and use a third of its part: how long do they wait?
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from statistics import mean, median
from typing import Any, Final

from apf_middleware.fairqueuing import DISCIPLINES, Lending, LevelLimits, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy
from benchmarks.measure import print_rows

__all__ = ["BusyLevels", "LevelMix"]

_MS: Final = 10**6
_REQUESTS: Final = 40
_LIGHT: Final = "level-0"
_BURSTS: Final = (1, 1, 4)
_FIRST_SEED: Final = 100


@dataclass
class LevelMix:
    """The seats of a server, and what each of its levels has: by name, its limits and what its requests are like."""

    seats: int
    limits: dict[str, LevelLimits]
    widths: dict[str, list[int]]
    longest_ms: dict[str, int]
    requests: dict[str, int]
    """That are there at any time."""
    hierarchy: Hierarchy = NO_HIERARCHY

    @property
    def parts(self) -> dict[str, float]:
        """The part of the seats that each level should get."""
        total = sum(one.nominal for one in self.limits.values())
        return {name: one.nominal / total for name, one in self.limits.items()}


def random_mix(draw: random.Random) -> LevelMix:
    """Return a mix of levels that are all busy."""
    seats = draw.randint(6, 20)
    weights = [draw.choice((1, 1, 2, 3, 5)) for _ in range(draw.randint(2, 4))]
    nominal = {f"level-{place}": max(1, seats * weight // sum(weights)) for place, weight in enumerate(weights)}
    widths = {name: [draw.randint(1, draw.choice((1, 2, 4, seats // 2))) for _ in range(3)] for name in nominal}
    longest_ms = {name: draw.choice((5, 20, 100, 300)) for name in nominal}
    limits = {name: LevelLimits(one, draw.choice((0, 0, 1, one // 2)), seats) for name, one in nominal.items()}
    return LevelMix(seats, limits, widths, longest_ms, dict.fromkeys(nominal, _REQUESTS))


class BusyLevels:
    """Levels whose requests that end are followed by others at once; the first level may be a *light* one instead."""

    def __init__(
        self, seed: int, discipline: str, rounds: int, *, mix: LevelMix | None = None, is_light: bool = False
    ) -> None:
        self._draw = random.Random(seed)
        self.mix = mix or random_mix(self._draw)
        settings = QueueSetSettings(self.mix.seats, 4, 1, 10**5, backfill=rounds)
        levels = {name: (settings, limits) for name, limits in self.mix.limits.items()}
        self.sharing = Lending(self.mix.seats, levels, discipline=DISCIPLINES[discipline], hierarchy=self.mix.hierarchy)
        self.served = dict.fromkeys(levels, 0)
        self.waits_ms: list[float] = []  # of the light level
        self._is_light = is_light
        self._events: list[tuple[int, int, Ticket | None]] = []  # ends of requests, and bursts
        self._number = count()

    def play(self, seconds: int) -> None:
        """Let this time pass."""
        mix = self.mix
        if self._is_light:
            mix.widths[_LIGHT], mix.longest_ms[_LIGHT] = [1], min(mix.longest_ms[_LIGHT], 20)
            mix.requests[_LIGHT] = 0
            heappush(self._events, (0, next(self._number), None))
        for name, number in mix.requests.items():
            for _ in range(number):
                self._send(0, name)
        now = 0
        while now < seconds * 1000 * _MS:
            now, _, ticket = heappop(self._events)
            if ticket is None:
                self._burst(now)
                continue
            self.served[ticket.flow] += ticket.work.seats * (now - ticket.seated_at)
            self._run(now, self.sharing.release(now, self.sharing.levels[ticket.flow], ticket))
            if mix.requests[ticket.flow]:
                self._send(now, ticket.flow)

    def _burst(self, now: int) -> None:
        for _ in range(self._draw.choice(_BURSTS)):
            self._send(now, _LIGHT)
        third = self.mix.parts[_LIGHT] * self.mix.seats / 3
        pause_ms = mean(_BURSTS) * (self.mix.longest_ms[_LIGHT] + 1) / 2 / third
        heappush(self._events, (now + round(self._draw.expovariate(1 / pause_ms) * _MS), next(self._number), None))

    def _send(self, now: int, name: str) -> None:
        ticket = Ticket(name, self._draw.randint(0, 3), Work(self._draw.choice(self.mix.widths[name])))
        self._run(now, self.sharing.arrive(now, self.sharing.levels[name], ticket))

    def _run(self, now: int, seated: Sequence[Ticket]) -> None:
        for ticket in seated:
            duration = self._draw.randint(1, self.mix.longest_ms[ticket.flow]) * _MS
            heappush(self._events, (now + duration, next(self._number), ticket))
            if self._is_light and ticket.flow == _LIGHT:
                self.waits_ms.append((now - ticket.arrived_at) / _MS)

    def least_part(self) -> float:
        """Return the part of the level that has got least, relative to its fair one."""
        total = sum(self.served.values())
        return min(self.served[name] / total / part for name, part in self.mix.parts.items())


def measure(worlds: int, seconds: int) -> Iterator[dict[str, Any]]:
    seeds = range(_FIRST_SEED, _FIRST_SEED + worlds)
    for rounds in (0, 2):
        parts, used, waits, tails = [], [], [], []
        for seed in seeds:
            busy, light = (
                BusyLevels(seed, list(DISCIPLINES)[seed % len(DISCIPLINES)], rounds, is_light=is_light)
                for is_light in (False, True)
            )
            busy.play(seconds)
            parts.append(busy.least_part())
            used.append(sum(busy.served.values()) / busy.mix.seats / seconds / 1000 / _MS)
            light.play(seconds)
            waits.append(mean(light.waits_ms))
            tails.append(sorted(light.waits_ms)[len(light.waits_ms) * 99 // 100])
        yield {
            "rounds": rounds,
            "least_part": round(min(parts), 2),
            "median_part": round(median(parts), 2),
            "utilisation": round(mean(used), 3),
            "light_wait_ms": round(mean(waits), 1),
            "light_p99_ms": round(mean(tails), 1),
            "light_worst_p99_ms": round(max(tails), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.level_shares", description="How busy levels share.")
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=5, help="how long each world lasts")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    rows = list(measure(options.worlds, options.seconds))
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
