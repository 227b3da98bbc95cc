"""A model of an event loop in virtual time, in which rules for elastic levels are compared.

    python -m benchmarks.event_loop_model

The loop works as asyncio's does: it collects what has become ready, and runs that to the end before it looks again. All
else is the code that runs in production: the sharing of seats, the window of probes, the controller. Requests consist
of phases, which compute on the loop or wait for something else.

The rules beside ours: no caps at all; a cut by half and growth that never slows down; and a PI controller with the best
gains that were found by hand.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from apf_middleware.adaptive import ElasticControl, LagWindow
from apf_middleware.fairqueuing import Lending, LevelLimits, QueueSetSettings, Ticket, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CASES", "RULES", "LoopCase", "LoopOutcome", "LoopWorld", "Rule"]

MS: Final = 10**6
SECOND: Final = 10**9
TARGET_NS: Final = 2 * MS
WARM_UP_NS: Final = 10 * SECOND
_RECEIVING: Final = 50_000  # what the server computes to read a request
_SEATS: Final = 100
_NOMINAL: Final = 40
_ONE: Final = Work()


class Rule(Protocol):
    """What decides the cap of the elastic level."""

    def note(self, used: int, waiting: int, dispatched: int) -> None:
        """Note the state of the level."""

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:
        """Decide after a probe; return whether there is another cap."""

    @property
    def cap(self) -> int | None:
        """The cap now."""


class NoRule:
    """There is never a cap."""

    cap = None

    def note(self, used: int, waiting: int, dispatched: int) -> None:
        """Do nothing."""

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:  # noqa: ARG002
        """Do nothing."""
        return False


class OwnRule:
    """The controller of the package."""

    def __init__(self) -> None:
        self._control = ElasticControl(TARGET_NS)
        self._control.adopt({"batch": (0, _NOMINAL, _SEATS)})

    def note(self, used: int, waiting: int, dispatched: int) -> None:
        """Note the state of the level."""
        self._control.levels["batch"].note(used, waiting, dispatched)

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:
        """Decide after a probe."""
        return self._control.decide(now, gap_ns, lag_ns)

    @property
    def cap(self) -> int | None:
        """The cap now."""
        return self._control.levels["batch"].cap


class HalvingRule:
    """Half of the seats as soon as a probe is late, and four more after each second in time."""

    def __init__(self) -> None:
        self.cap: int | None = None
        self._used = 0
        self._changed_at = 0
        self._window = LagWindow()

    def note(self, used: int, waiting: int, dispatched: int) -> None:  # noqa: ARG002
        """Note the state of the level."""
        self._used = max(self._used, used)

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:
        """Decide after a probe."""
        self._window.observe(now, gap_ns, lag_ns)
        elapsed, before = now - self._changed_at, self.cap
        if self._window.quantile(0.99) > TARGET_NS:
            if elapsed < SECOND // 2:
                return False
            self.cap = max(1, min(_SEATS if before is None else before, max(1, self._used)) // 2)
        elif elapsed >= SECOND and before is not None:
            self.cap = before + 4 if before + 4 < _SEATS else None
        if self.cap != before:
            self._changed_at, self._used = now, 0
            self._window.restart()
        return self.cap != before


class ProportionalIntegralRule:
    """The cap follows the relative error of the 99th percentile, and its sum; an error counts as at most 1."""

    def __init__(self, proportional: float = 4.0, integral: float = 2.0) -> None:
        self.cap: int | None = None
        self._gains = proportional, integral
        self._value = float(_SEATS)
        self._error = 0.0
        self._at = 0
        self._window = LagWindow()

    def note(self, used: int, waiting: int, dispatched: int) -> None:
        """Do nothing."""

    def decide(self, now: int, gap_ns: int, lag_ns: int) -> bool:
        """Decide after a probe."""
        self._window.observe(now, gap_ns, lag_ns)
        if now - self._at < SECOND // 2:
            return False
        self._at = now
        error = max(-1.0, min(1.0, 1 - self._window.quantile(0.99) / TARGET_NS))
        proportional, integral = self._gains
        self._value += proportional * (error - self._error) + integral * error
        self._value = max(1.0, min(float(_SEATS), self._value))
        self._error, before = error, self.cap
        self.cap = None if self._value >= _SEATS else int(self._value)
        return self.cap != before


RULES: Final[dict[str, Callable[[], Rule]]] = {
    "no caps": NoRule,
    "ours": OwnRule,
    "halving": HalvingRule,
    "PI": ProportionalIntegralRule,
}

Phases = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LoopCase:
    """Batch requests of ``clients`` that never stop, from ``begin`` to ``end``, beside light requests."""

    about: str
    phases: Phases
    clients: int
    begin_ns: int = 0
    end_ns: int = 60 * SECOND
    light_every_ns: int = 20 * MS
    pause_every_ns: int = 0  # of the whole process, as for a collection of garbage

    seconds: int = 60


CASES: Final[dict[str, LoopCase]] = {
    "blocking": LoopCase("20 ms on the loop, never awaits", (("cpu", 20 * MS),), 16),
    "small": LoopCase("0.3 ms on the loop, never awaits", (("cpu", 300_000),), 60),
    "steps": LoopCase("20 times 0.5 ms on the loop and 20 ms elsewhere", (("cpu", 500_000), ("io", 20 * MS)) * 20, 80),
    "light": LoopCase("0.2 ms on the loop, 50 ms elsewhere: no load", (("cpu", 200_000), ("io", 50 * MS)), 20),
    "pauses": LoopCase(
        "as light, and a pause of 30 ms every 5 s", (("cpu", 200_000), ("io", 50 * MS)), 20, pause_every_ns=5 * SECOND
    ),
    "burst": LoopCase("as blocking, from 20 s to 30 s", (("cpu", 20 * MS),), 16, 20 * SECOND, 30 * SECOND),
}


@dataclass(slots=True)
class LoopOutcome:
    """What came of a run: latencies of light requests, ends of batch requests, and the caps by time."""

    latencies: list[int] = field(default_factory=list)
    batch: int = 0
    caps: list[tuple[int, int | None]] = field(default_factory=list)

    def light_ms(self, fraction: float) -> float:
        """Return a quantile of the light requests' latencies."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))] / MS


class LoopRequest(Ticket):
    """A request with its phases."""

    __slots__ = ("began", "client", "level", "phases")

    def __init__(self, level: str, phases: Phases, began: int, client: int) -> None:
        super().__init__(f"{level}-{client}", client, _ONE)
        self.level = level
        self.phases: Iterator[tuple[str, int]] = iter(phases)
        self.began = began
        self.client = client


class LoopWorld:
    """One server with an event loop, under one case and one rule."""

    def __init__(self, case: LoopCase, rule: Rule, seed: int = 1) -> None:
        self.case, self.rule = case, rule
        self.now = 0
        self.outcome = LoopOutcome()
        self._random = Random(seed)
        limits = LevelLimits(_NOMINAL, 0, _SEATS)
        settings = QueueSetSettings(_NOMINAL, 64, 8, 50)
        self.lending = Lending(_SEATS, {"batch": (settings, limits), "light": (settings, limits)})
        self._ready: deque[tuple[int, Callable[[], None]]] = deque()  # cost and callback
        self._events: list[tuple[int, int, int, Callable[[], None]]] = []  # time, number, cost, callback
        self._number = 0
        self._tick_at: int | None = None
        self._late_until = 0
        self._due = self._gap = 0

    def run(self) -> LoopOutcome:
        """Return what came of the whole run."""
        case = self.case
        for client in range(case.clients):
            self._at(case.begin_ns, _RECEIVING, partial(self._call_batch, client))
        arrives = 0
        while arrives < case.seconds * SECOND:
            arrives += int(self._random.expovariate(1 / case.light_every_ns))
            self._at(arrives, _RECEIVING, partial(self._call_light, arrives))
        if case.pause_every_ns:
            self._at(case.pause_every_ns, 30 * MS, self._pause)
        self._schedule_probe()
        end = case.seconds * SECOND
        while self.now < end:
            self._iterate()
        return self.outcome

    def _at(self, time: int, cost: int, callback: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, cost, callback))

    def _iterate(self) -> None:
        """Run what is ready, as asyncio's loop does."""
        if not self._ready:
            self.now = max(self.now, self._events[0][0])
        while self._events and self._events[0][0] <= self.now:
            _, _, cost, callback = heapq.heappop(self._events)
            self._ready.append((cost, callback))
        for _ in range(len(self._ready)):
            cost, callback = self._ready.popleft()
            self.now += cost
            callback()

    # Requests

    def _call_batch(self, client: int) -> None:
        if self.now < self.case.end_ns:
            request = LoopRequest("batch", self.case.phases, self.now - _RECEIVING, client)
            self._ready.append((0, partial(self._arrive, request)))

    def _call_light(self, arrived: int) -> None:
        request = LoopRequest("light", (("cpu", MS // 2),), arrived, self._random.randrange(50))
        self._ready.append((0, partial(self._arrive, request)))

    def _arrive(self, request: LoopRequest) -> None:
        seated = self.lending.arrive(self.now, self.lending.levels[request.level], request)
        self._start(seated, request)

    def _start(self, seated: Sequence[Ticket], newcomer: LoopRequest | None = None) -> None:
        for ticket in seated:
            if not isinstance(ticket, LoopRequest):
                continue
            if ticket is newcomer:
                self._run(ticket)  # in its own callback, without an iteration between
            else:
                self._ready.append((0, partial(self._run, ticket)))
        at = self.lending.next_event_at()
        if at is not None and (self._tick_at is None or at < self._tick_at):
            self._tick_at = at
            self._at(at, 0, self._tick)

    def _tick(self) -> None:
        self._tick_at = None
        self._start(self.lending.tick(self.now))

    def _run(self, request: LoopRequest) -> None:
        for kind, duration in request.phases:
            if kind == "io":
                self._at(self.now + duration, 0, partial(self._run, request))
                return
            self.now += duration
        self._start(self.lending.release(self.now, self.lending.levels[request.level], request))
        if request.level == "light" and request.began >= WARM_UP_NS:
            self.outcome.latencies.append(self.now - request.began)
        if request.level == "batch":
            self.outcome.batch += 1
            self._at(self.now + MS // 10, _RECEIVING, partial(self._call_batch, request.client))

    def _pause(self) -> None:
        self._at(self.now + self.case.pause_every_ns, 30 * MS, self._pause)

    # Probes

    def _schedule_probe(self) -> None:
        mean = 50 if self.now < self._late_until else 400
        self._gap = int(mean * MS * (0.5 + self._random.random()))
        self._due = self.now + self._gap
        self._at(self._due, 0, self._probe)

    def _probe(self) -> None:
        lag = self.now - self._due
        if lag > TARGET_NS:
            self._late_until = self.now + 2 * SECOND
        level = self.lending.levels["batch"]
        queueset = level.queueset
        dispatched = queueset.dispatched + level.alone_count - level.settled_count
        self.rule.note(queueset.seats_in_use + (level.alone is not None), queueset.waiting, dispatched)
        if self.rule.decide(self.now, self._gap, lag):
            cap = self.rule.cap
            self.outcome.caps.append((self.now, cap))
            self._start(self.lending.cap(self.now, {} if cap is None else {"batch": cap}, TARGET_NS))
        self._schedule_probe()


def main() -> None:
    """Print the table."""
    print(f"{'case':<10}{'rule':<10}{'light p50':>10}{'light p99':>10}{'batch/s':>10}{'caps':>22}")
    for name, case in CASES.items():
        for rule, make in RULES.items():
            found = LoopWorld(case, make()).run()
            last = [cap for at, cap in found.caps if at > 30 * SECOND]
            shown = f"{len(found.caps)}: {min((c for c in last if c), default='-')}..{last[-1] if last else '-'}"
            seconds = min(case.end_ns, case.seconds * SECOND) - case.begin_ns
            print(
                f"{name:<10}{rule:<10}{found.light_ms(0.5):>10.1f}{found.light_ms(0.99):>10.1f}"
                f"{found.batch * SECOND / seconds:>10.1f}{shown:>22}"
            )


if __name__ == "__main__":
    main()
