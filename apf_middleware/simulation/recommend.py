"""Seats, shares and queue settings for recorded traffic and a latency objective, found by simulation.

The procedure:

1. Simulate without any limit. The seats that levels use then are their demand, and the latencies are the best that any
   number of seats can give.
2. Divide shares in proportion to the levels' largest demand; that of a parent is the sum of its children's.
3. Find by bisection the fewest seats with which every level meets the objective and almost no request is rejected.
4. Size queues so that a full queue can still be served in time. Exact queues stay exact; where queues are shared, size
   decks so that heavy flows don't cover a light one.

The proposed seats (with the shares of step 2) and queues are tried out on the trace, and every trial is part of the
result.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from apf_middleware.config import Configuration, Level
from apf_middleware.config.lint import rounds_beyond
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import LevelShares, collision_probabilities
from apf_middleware.fairqueuing.sharing.proportion import divide
from apf_middleware.simulation.results import QUANTILES, LevelResult, Result
from apf_middleware.wording import figure, plural

__all__ = ["Objective", "Recommendation", "Run", "Trial", "recommend"]

Run = Callable[[Configuration, str], Result]
"""Simulate the traffic on servers with this configuration, under this name."""

_MOST_SEATS: Final = 100_000
_DECKS: Final = ((16, 4), (32, 4), (64, 6), (128, 6), (256, 6), (512, 6), (1024, 6))
_COVERED: Final = 0.01
_MS: Final = 10**6
_LONGEST_MS: Final = 86_400_000  # a day
_SHARES: Final = 100
"""The shares that are divided among the levels, before each level's part is rounded up."""


@dataclass(frozen=True, slots=True)
class Objective(Value):
    """The objective for each level: limits for its latencies and its rejections.

    A ``quantile`` of its latencies (like ``p99``) is at most ``limit_ms``, and at most the part ``rejected`` of its
    requests is rejected.
    """

    quantile: str
    limit_ms: float
    rejected: float = 0.001

    def __post_init__(self) -> None:
        if self.quantile not in QUANTILES:
            raise InvalidValueError("objective", self.quantile, f"it must be one of {', '.join(QUANTILES)}")
        if not 0 < self.limit_ms <= _LONGEST_MS:
            raise InvalidValueError("objective", self.limit_ms, f"it must be more than 0 ms, and at most {_LONGEST_MS}")

    def __str__(self) -> str:
        return f"{self.quantile} within {figure(self.limit_ms, 6)} ms, at most {100 * self.rejected:g} % rejected"


@dataclass(frozen=True, slots=True)
class Trial(Value):
    """One simulation: what was tried, and the quantile of the level with the worst result.

    ``seats`` are those of each server. ``used`` is the part of all seats that was in use on average. ``meets`` says
    whether all levels meet the objective. ``comes_close`` is also true if levels miss it only because their requests
    take too long even without waiting.
    """

    tried: str
    seats: int
    worst_level: str
    worst_ms: float | None
    rejected: float
    used: float
    meets: bool
    comes_close: bool


@dataclass(frozen=True, slots=True)
class Recommendation(Value):
    """The proposed configuration, the reasons for it, and the results before and after.

    If it doesn't meet the objective, ``comes_close`` says whether only the durations of requests prevent this. Each of
    the ``servers`` (a number) has the proposed seats.
    """

    configuration: Configuration
    meets: bool
    comes_close: bool
    reasons: tuple[str, ...]
    trials: tuple[Trial, ...]
    before: Result
    after: Result
    servers: int = 1


def recommend(
    configuration: Configuration,
    objective: Objective,
    run: Run,
    *,
    run_free: Run | None = None,
    heavy: int = 1,
    most_seats: int | None = None,
    processes: int = 1,
) -> Recommendation:
    """Return a recommendation for ``configuration``, with at most ``most_seats``.

    ``run`` simulates a number of ``processes``. Each of them has the seats of the configuration, unless it has a fleet,
    whose members share them.

    ``heavy`` is the number of heavy flows that may be active at once. ``run_free`` simulates the same traffic with a
    backend that never becomes slower.
    """
    return _Search(configuration, objective, run, run_free or run, heavy, most_seats, processes).found()


@dataclass(slots=True, eq=False)
class _Search:
    """One search; ``floors`` are the limits, in ms, for levels whose best latency is above the objective.

    ``refused`` are the requests of each level that no number of seats serves: those that never asked for any, because
    their clients left, their deadlines were over, or because of their bodies or streams.
    """

    given: Configuration
    objective: Objective
    run: Run
    run_free: Run
    heavy: int
    most_seats: int | None
    processes: int
    trials: list[Trial] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    floors: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def servers(self) -> int:
        """The number of times that there are the seats of a configuration: results are sums over all processes."""
        return 1 if self.given.server.fleet is not None else self.processes

    def seats(self, number: float) -> str:
        """Return a number of seats with its noun."""
        return f"{plural(number, 'seat')}{'' if self.servers == 1 else ' per process'}"

    def found(self) -> Recommendation:
        before = self.run(self.given, "as it is")
        free = self.run_free(_open(self.given), "without a limit")
        self.refused = {level.name: level.rejected for level in free.levels if level.rejected}
        self._note("as it is", self.given.server.total, before)
        if self.given.server.seat_bounds is not None:
            self.reasons.append("The seats were adaptive; the number that is proposed is fixed.")
        self._note("without a limit", 0, free)
        self._look_at_demand(free)
        shared = self._with_shares(self.given, free)
        seats = self._fewest_seats(shared, free)
        with_seats = _with_seats(shared, seats)
        proposed = self._with_queues(with_seats, free)
        after = self.run(proposed, "recommended")
        if not self._note("with its queues", seats, after) and self._meets_at(seats):
            self.reasons.append("With those queues the objective is missed, so the queues stay as they are.")
            proposed = with_seats
            after = self.run(proposed, "recommended")
            self._note("queues as before", seats, after)
        return Recommendation(
            proposed,
            self.trials[-1].meets,
            self.trials[-1].comes_close,
            tuple(self.reasons),
            tuple(self.trials),
            before,
            after,
            self.servers,
        )

    # Trials

    def _note(self, tried: str, seats: int, result: Result) -> bool:
        levels = self._busy(result)
        if not levels:
            raise InvalidValueError(
                "trace", "no request", "it must have requests for seats of levels that aren't exempt"
            )
        worst = max(levels, key=lambda level: (self._excess(level), self._rejected(level)))
        comes_close = all(self._meets(level) for level in levels)
        slowest = max(level.quantiles_ms[self.objective.quantile] or 0.0 for level in levels)
        meets = comes_close and slowest <= self.objective.limit_ms
        value = worst.quantiles_ms[self.objective.quantile]
        used = sum(level.seats for level in levels)
        part = round(used / (seats * self.servers), 4) if seats else 1.0
        self.trials.append(Trial(tried, seats, worst.name, value, self._rejected(worst), part, meets, comes_close))
        return comes_close

    def _excess(self, level: LevelResult) -> float:
        value = level.quantiles_ms[self.objective.quantile]
        return math.inf if value is None else value / self._limit(level.name)

    def _limit(self, name: str) -> float:
        return max(self.objective.limit_ms, self.floors.get(name, 0.0))

    def _meets(self, level: LevelResult) -> bool:
        return self._excess(level) <= 1 and self._rejected(level) <= self.objective.rejected

    def _meets_at(self, seats: int) -> bool:
        return any(trial.comes_close for trial in self.trials if trial.seats == seats and trial.tried == "bisection")

    def _busy(self, result: Result) -> list[LevelResult]:
        """Return the levels with any requests for seats, except those that are always exempt."""
        return [
            level
            for level in result.levels
            if (level.dispatched or level.rejected > self.refused.get(level.name, 0))
            and level.name not in ("exempt", "system-top")
        ]

    def _rejected(self, level: LevelResult) -> float:
        """Return the part of the requests for seats that is rejected."""
        rejected = max(0, level.rejected - self.refused.get(level.name, 0))
        return rejected / (level.dispatched + rejected)

    # Steps

    def _look_at_demand(self, free: Result) -> None:
        if self.refused:
            listed = ", ".join(f"{name} {number:,}" for name, number in self.refused.items())
            self.reasons.append(
                f"Requests that are refused with any number of seats count neither as served nor as rejected: {listed}."
            )
        for level in self._busy(free):
            best = level.quantiles_ms[self.objective.quantile]
            if best is not None and best > self.objective.limit_ms:
                self.floors[level.name] = best * 1.05
                limit, aim = figure(self.objective.limit_ms, 6), figure(self.floors[level.name], 4)
                self.reasons.append(
                    f"At the level {level.name}, {self.objective.quantile} is {figure(best, 4)} ms without any wait."
                    f" No number of seats makes it {limit} ms, so the aim is {aim} ms."
                )
        total = sum(level.seats for level in self._busy(free)) / self.servers
        busiest = sum(level.most_seats for level in self._busy(free)) / self.servers
        self.reasons.append(
            f"When no request waits, requests use {self.seats(total)} on average, and {figure(busiest)} if all"
            " levels are at their busiest at once."
        )
        if self.most_seats is not None and total > self.most_seats:
            backend = "The backend" if self.servers == 1 else "The backend of each process"
            self.reasons.append(
                f"{backend} serves {self.most_seats} at once, which is too few: no configuration serves all requests."
            )

    def _with_shares(self, configuration: Configuration, free: Result) -> Configuration:
        busiest = {level.name: level.most_seats for level in self._busy(free)}
        if not any(busiest.values()):
            hint = "Record durations, or log them as docs/simulator.md shows"
            raise InvalidValueError("trace", "requests that take no time", "its rows must have durations", hint)
        limited = {name: level for name, level in configuration.levels.items() if not level.exempt}
        if len(busiest) < 2:
            self.reasons.append("One level has all the traffic, so each of the others gets only one share.")
        demand = dict(busiest)
        for name, level in limited.items():
            if level.parent is not None:
                demand[level.parent] = demand.get(level.parent, 0.0) + busiest.get(name, 0.0)
        wanted = {name: max(1, math.ceil(_SHARES * demand.get(name, 0.0) / sum(busiest.values()))) for name in limited}
        listed = ", ".join(f"{name} {share}" for name, share in wanted.items())
        self.reasons.append(f"Shares in proportion to what levels use at their busiest: {listed}.")
        return _with_shares(configuration, wanted)

    def _fewest_seats(self, configuration: Configuration, free: Result) -> int:
        total = sum(level.seats for level in self._busy(free))
        busiest = sum(level.most_seats for level in self._busy(free))
        promised = sum(level.min_seats or 0 for level in configuration.levels.values() if level.parent is None)
        low = max(1, math.ceil(total / self.servers), promised + 1 if promised else 0)
        # One of several servers may have almost all of the requests, so only the lower bound is an average.
        high = min(self.most_seats or _MOST_SEATS, max(low, math.ceil(2 * busiest) + len(configuration.levels)))
        low = min(low, high)
        if not self._try_seats(configuration, high):
            self.reasons.append(f"Even with {self.seats(high)} the objective is missed.")
            self.reasons.extend(self._kept_maxes(configuration, free))
            return high
        # Invariant: ``high`` seats meet the objective, and fewer than ``low`` seats don't.
        while low < high:
            middle = (low + high) // 2
            if self._try_seats(configuration, middle):
                high = middle
            else:
                low = middle + 1
        self.reasons.append(f"Each level meets the objective with {self.seats(high)}, but not with fewer.")
        return high

    def _kept_maxes(self, configuration: Configuration, free: Result) -> Iterator[str]:
        for level in self._busy(free):
            most, wanted = configuration.levels[level.name].max_seats, level.most_seats / self.servers
            if most is not None and most < wanted:
                yield f"The level {level.name} keeps its maxSeats of {most}, and could use {figure(wanted)}."

    def _try_seats(self, configuration: Configuration, seats: int) -> bool:
        result = self.run(_with_seats(configuration, seats), f"{seats} seats")
        return self._note("bisection", seats, result)

    def _with_queues(self, configuration: Configuration, free: Result) -> Configuration:
        levels = dict(configuration.levels)
        deck: tuple[int, int] | None = None
        for found in self._busy(free):
            level = levels[found.name]
            queuing = level.queuing
            if level.exempt or queuing is None:
                continue
            length, wait_ns = self._patience(found, configuration)
            if not queuing.exact:
                deck = deck or self._deck()
                queuing = replace(queuing, queues=deck[0], hand_size=deck[1])
            queuing = replace(queuing, queue_length_limit=length)
            levels[found.name] = replace(level, queuing=queuing, wait_limit_ns=wait_ns)
            own = "a queue for each flow as before, " if queuing.exact else ""
            self.reasons.append(
                f"{found.name}: {own}queues of {length}, for the requests that can be served in time (but 5 to 1,000),"
                f" and a wait limit of {wait_ns / _MS:,.0f} ms, because a longer wait misses the objective anyway."
            )
        return replace(configuration, levels=MappingProxyType(levels))

    def _deck(self) -> tuple[int, int]:
        tried = [(deck, collision_probabilities(*deck, self.heavy)[-1]) for deck in _DECKS]
        (queues, hand), covered = next((one for one in tried if one[1] <= _COVERED), tried[-1])
        cover = "1 heavy flow covers" if self.heavy == 1 else f"{self.heavy} heavy flows cover"
        self.reasons.append(f"{queues} queues and hands of {hand}: {cover} a light one with probability {covered:.2g}.")
        return queues, hand

    def _patience(self, level: LevelResult, configuration: Configuration) -> tuple[int, int]:
        """Return the queue length and the wait limit, in nanoseconds."""
        median_ms = level.quantiles_ms["p50"] or 1.0
        patience_ms = max(self._limit(level.name) - median_ms, 0.1 * self._limit(level.name))
        # Each process has queues of its own, and of the seats that members of a fleet share it has its part.
        total = configuration.server.total * self.servers / self.processes
        seats = max(1.0, total * _part(level.name, configuration))
        length = math.ceil(patience_ms / median_ms * seats)
        return max(5, min(1000, length)), round(patience_ms * 2) * _MS


def _part(name: str, configuration: Configuration) -> float:
    """Return the part of all seats that belongs to a level: a child has a part of its parent's."""
    level = configuration.levels[name]
    siblings = (one for one in configuration.levels.values() if one.parent == level.parent and not one.exempt)
    part = level.shares.shares / sum(one.shares.shares for one in siblings)
    return part if level.parent is None else part * _part(level.parent, configuration)


def _with_shares(configuration: Configuration, wanted: Mapping[str, int]) -> Configuration:
    levels = {
        name: replace(level, shares=replace(level.shares, shares=wanted[name])) if name in wanted else level
        for name, level in configuration.levels.items()
    }
    return replace(configuration, levels=MappingProxyType(levels))


def _with_seats(configuration: Configuration, seats: int) -> Configuration:
    """Return the configuration with this number of seats.

    If nominal seats may all be in use at once, the shares are changed so that each level has at least one seat, because
    a level with less than one would be rounded up. This needs as many seats as there are levels.
    """
    resized = replace(configuration, server=replace(configuration.server, seats=seats))
    weights = {name: level.shares.shares for name, level in resized.levels.items() if not level.exempt}
    if not rounds_beyond(resized.server) or seats < len(weights):
        return resized
    parts = divide(Fraction(seats), [(weight, 1, seats) for weight in weights.values()])
    a_seat = -(-_SHARES // seats)  # the shares of one seat
    return _with_shares(resized, {name: int(part * a_seat) for name, part in zip(weights, parts, strict=True)})


def _open(configuration: Configuration) -> Configuration:
    """Return a configuration with the same levels, each with more seats than its requests ever take.

    Levels that aren't exempt stay so, because requests that come after their deadlines are refused there.
    """
    levels = {
        name: Level(name, LevelShares(0, exempt=True) if level.exempt else LevelShares(1))
        for name, level in configuration.levels.items()
    }
    server = replace(configuration.server, seats=_MOST_SEATS * len(levels), fleet=None)
    return replace(configuration, levels=MappingProxyType(levels), server=server)
