"""Random worlds of flows before one queue set, by kind: what can make it hard to give every flow its share.

Each kind of world varies one thing, so that a failure says what a discipline can't cope with; "all" varies everything
but back-fill, with which a flow of different widths may fall behind without bound: each of its wide requests may be
passed by others that take long, however short it is itself.

Times are multiples of a base that differs from world to world, from a millisecond to ten seconds, so that no guess of
how long a request takes fits all of them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apf_middleware.fairqueuing import Discipline, QueueSetSettings, Work
from apf_middleware.testing.varying_load import Caller, Observation, observe

__all__ = ["KINDS", "FairWorld", "fair_world"]

_MS: Final = 10**6
_BASES: Final = (_MS, 3 * _MS, 10 * _MS, 50 * _MS, 300 * _MS, 1000 * _MS, 10_000 * _MS)
_EXACT: Final = 64

KINDS: Final = (
    "equal durations",
    "history",
    "a duration for each flow",
    "erratic durations",
    "longer and shorter later",
    "crowds",
    "open arrivals",
    "linger",
    "uneven linger",
    "wide",
    "wide and back-fill",
    "too wide",
    "different widths",
    "resized",
    "all",
)


@dataclass(frozen=True, slots=True)
class FairWorld:
    """A level, who calls, and when its seats change."""

    settings: QueueSetSettings
    callers: Sequence[Caller]
    resizes: Sequence[tuple[int, QueueSetSettings]]
    most_calls: int

    def play(self, discipline: Callable[[int, int], Discipline[Any]]) -> Observation:
        return observe(
            self.settings,
            self.callers,
            discipline=discipline,
            most_calls=self.most_calls,
            resizes=self.resizes,
        )


def fair_world(kind: str, seed: int) -> FairWorld:
    """Return the world of this kind and seed."""
    chance = random.Random(f"{kind} {seed}")
    return _Maker(kind, chance).make(chance.choice((60, 200, 200, 200, 800)))


class _Maker:
    def __init__(self, kind: str, chance: random.Random) -> None:
        self.kind = kind
        self.chance = chance
        self.base = chance.choice(_BASES)
        self.seats = chance.choice((1, 2, 3, 4, 4, 6, 8, 16))
        self.horizon = 0
        self.backfill = 2 if kind == "wide and back-fill" else 0

    def varies(self, kind: str) -> bool:
        return self.kind == kind or (self.kind == "all" and self.chance.random() < 0.5)

    def make(self, most_calls: int) -> FairWorld:
        chance = self.chance
        flows = chance.randint(2, 12)
        self.horizon = self.base * most_calls // self.seats
        settings = QueueSetSettings(self.seats, 1, 1, 10**6, exact=_EXACT, backfill=self.backfill)
        if self.kind == "history":
            callers = self.history(flows)
        elif self.kind == "different widths":
            callers = [self.mixed_caller() for _ in range(flows)]
        else:
            callers = [self.caller() for _ in range(flows)]
        resizes: list[tuple[int, QueueSetSettings]] = []
        if self.varies("resized"):
            for _ in range(chance.randint(1, 6)):
                other = replace(settings, concurrency=chance.choice((1, 2, 3, 4, 8, 16)))
                resizes.append((chance.randint(0, self.horizon), other))
        return FairWorld(settings, callers, sorted(resizes, key=lambda one: one[0]), most_calls)

    def history(self, flows: int) -> Sequence[Caller]:
        """Run an elephant and some mice for most of the time, and then the others one by one."""
        chance, end = self.chance, 10 * self.horizon
        mice = chance.randint(0, flows - 2)
        callers = [Caller(self.seats * 2, (self.base,), ((0, end),))]
        callers += [Caller(1, (self.base,), ((0, end),)) for _ in range(mice)]
        for _ in range(flows - mice - 1):
            begin = chance.randint(self.horizon // 2, self.horizon)
            callers.append(Caller(chance.choice((1, 4, 7, 8, 20)), (self.base,), ((begin, end),)))
        return [replace(caller, think_ns=chance.choice((0, 0, 1, self.base // 7))) for caller in callers]

    def caller(self) -> Caller:
        chance = self.chance
        is_crowd = self.varies("crowds") and chance.random() < 0.7
        later = self.durations() if self.varies("longer and shorter later") else ()
        if self.varies("open arrivals") and chance.random() < 0.7:
            return self.open_caller()
        return Caller(
            connections=chance.choice((1, 1, 1, 2, 4)) if is_crowd else chance.choice((1, 1, 2, 4, 7, 8, 20)),
            durations_ns=self.durations(),
            phases=self.bursts() if is_crowd else self.phases(),
            works=self.works(),
            think_ns=chance.choice((0, 0, 0, 1, self.base // 7, self.base, 5 * self.base)),
            later_ns=later,
            later_from_ns=chance.randint(0, self.horizon),
        )

    def mixed_caller(self) -> Caller:
        """Has requests of other widths and durations than the other flows, and almost always some that wait."""
        chance = self.chance
        works = [
            Work(chance.choice((1, chance.randint(1, 2 * self.seats)))) for _ in range(chance.choice((1, 1, 2, 3, 5)))
        ]
        return Caller(
            connections=chance.choice((1, 4, 30)),
            durations_ns=[self.duration() for _ in range(chance.choice((1, 1, 2, 3)))],
            phases=((0, 1000 * self.horizon),),
            works=works,
            think_ns=max(1, int(self.base * 10 ** chance.uniform(-2, 0))),
            is_open=chance.random() < 0.7,
        )

    def open_caller(self) -> Caller:
        """Asks for a hundredth of the seats up to twice as many as there are, whether or not it is served."""
        chance = self.chance
        connections, load = chance.choice((1, 2, 5)), self.seats * chance.uniform(0.01, 2)
        between = max(1, int(self.base * connections / load))
        return Caller(connections, self.durations(), self.phases(), self.works(), think_ns=between, is_open=True)

    def durations(self) -> Sequence[int]:
        chance = self.chance
        if self.varies("erratic durations"):
            return [self.duration() for _ in range(chance.choice((2, 5, 17)))]
        if self.varies("a duration for each flow") or self.kind == "longer and shorter later":
            return (self.duration(),)
        return (self.base,)

    def duration(self) -> int:
        """From a hundredth of the base to its hundredfold, within 1 ms and 10 s."""
        return min(10**10, max(_MS, int(self.base * 10 ** self.chance.uniform(-2, 2))))

    def phases(self) -> Sequence[tuple[int, int]]:
        """Choose when a flow is active: always, from some time on, until some time, or on and off."""
        chance, horizon = self.chance, self.horizon
        what = chance.random()
        if what < 0.3:
            return ((0, 10 * horizon),)
        if what < 0.6:
            return ((chance.randint(0, horizon), 10 * horizon),)
        times = sorted(chance.sample(range(2 * horizon), 2 * chance.randint(1, 4)))
        return tuple(zip(times[::2], times[1::2], strict=True))

    def bursts(self) -> Sequence[tuple[int, int]]:
        """At some instants; each connection calls once."""
        times = sorted({self.chance.randint(0, 6) * self.horizon // 7 for _ in range(self.chance.randint(1, 5))})
        return tuple((time, time + 1) for time in times)

    def works(self) -> Sequence[Work]:
        chance = self.chance
        most = 2 * self.seats if self.varies("too wide") else self.seats if self.varies("wide") or self.backfill else 1
        if most == 1 or chance.random() < 0.3:
            return (self.work(1),)
        return [self.work(chance.randint(1, most)) for _ in range(chance.choice((1, 1, 3)))]

    def work(self, seats: int) -> Work:
        chance = self.chance
        linger = chance.choice((1, self.base // 3, self.base, 3 * self.base))
        if self.varies("linger"):
            return Work(seats, seats, linger)
        if self.varies("uneven linger"):
            return Work(seats, chance.randint(1, self.seats), linger)
        return Work(seats)
