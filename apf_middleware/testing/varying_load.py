"""Flows with a load that varies in time, in front of one queue set: each connection calls while its flow is active.

A `Caller` is one flow. Each of its connections makes a call, waits until it has been served and makes the next one
after a pause (a closed loop); the calls of an open flow don't wait for one another. Durations and works are taken in
turn from the lists of the caller. `observe` plays callers in virtual time and measures their `Shortfall`.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Discipline, EqualSerial, QueueSet, QueueSetSettings, Work
from apf_middleware.testing.shortfall import Shortfall
from apf_middleware.testing.virtual_time import Call, Rank, World

__all__ = ["Caller", "Observation", "observe"]

_ENTROPY = 0x9E3779B97F4A7C15  # spreads the numbers of flows over 64 bits


@dataclass(frozen=True, slots=True)
class Caller:
    """One flow with some ``connections``, active in ``phases`` (from, until), both in nanoseconds.

    Calls take their duration from ``durations_ns`` and their work from ``works``, one after the other; from
    ``later_from_ns`` on they take the duration from ``later_ns``, if there are any. A connection pauses for
    ``think_ns`` after each call. If the flow ``is_open``, each connection makes a call every ``think_ns`` instead.
    """

    connections: int
    durations_ns: Sequence[int]
    phases: Sequence[tuple[int, int]]
    works: Sequence[Work] = field(default_factory=lambda: (Work(),))
    think_ns: int = 0
    is_open: bool = False
    later_ns: Sequence[int] = ()
    later_from_ns: int = 0

    def __post_init__(self) -> None:
        require_integer("connections", self.connections, least=1)
        require_integer("think_ns", self.think_ns, least=1 if self.is_open else 0)
        for name in ("durations_ns", "phases", "works"):
            if not getattr(self, name):
                raise InvalidValueError(name, getattr(self, name), "there must be at least one")
        for name in ("durations_ns", "later_ns"):
            durations = getattr(self, name)
            if durations and not self.think_ns and not any(durations):
                rule = "one must be more than 0, or the calls never end"
                raise InvalidValueError(name, durations, rule, "Or set think_ns")

    def next_active(self, now: int) -> int | None:
        """Return the first time from ``now`` on at which the flow is active; None if there is none."""
        return min((max(begin, now) for begin, end in self.phases if end > now), default=None)


@dataclass(frozen=True, slots=True)
class Observation:
    """The result, flow by flow and window by window.

    ``served[window][flow]`` is how many requests were seated, ``seats[window][flow]`` the seats in use on average.
    """

    shortfall: Shortfall
    served: Sequence[Sequence[int]]
    seats: Sequence[Sequence[float]]
    queueset: QueueSet
    calls: int


def observe(
    settings: QueueSetSettings,
    callers: Sequence[Caller],
    *,
    discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
    most_calls: int | None = None,
    resizes: Sequence[tuple[int, QueueSetSettings]] = (),
    windows: Sequence[int] = (),
    strict_upstream: bool = False,
) -> Observation:
    """Play until every call has been served; after ``most_calls``, no flow makes any more.

    ``windows`` are the times at which measured windows begin and end, ``resizes`` are times and the settings from then
    on.
    """
    if any(end <= begin for begin, end in pairwise(windows)):
        raise InvalidValueError("windows", windows, "each time must be later than the one before")
    queueset = QueueSet(settings, discipline=discipline, strict_upstream=strict_upstream)
    play = _Play(queueset, callers, most_calls, windows)
    for time, other in resizes:
        play.world.at(time, partial(play.resize, other), Rank.RECONFIGURE)
    play.world.run()
    play.shortfall.advance(play.world.now)
    return Observation(play.shortfall, play.served, play.seats(), queueset, play.calls)


class _Play:
    """One run."""

    def __init__(
        self,
        queueset: QueueSet,
        callers: Sequence[Caller],
        most_calls: int | None,
        windows: Sequence[int],
    ) -> None:
        self.world = World(queueset)
        self.shortfall = Shortfall(queueset.concurrency)
        self.calls = 0
        self._windows = windows
        self.served: list[list[int]] = [[0] * len(callers) for _ in windows[1:]]
        self._occupied: list[list[int]] = [[0] * len(callers) for _ in windows[1:]]
        self._callers = callers
        self._most_calls = most_calls
        self._made = [0] * len(callers)
        for flow, caller in enumerate(callers):
            begin = caller.next_active(0)
            if begin is not None:
                for connection in range(caller.connections):
                    offset = caller.think_ns * connection // caller.connections if caller.is_open else 0
                    self.world.at(begin + offset, partial(self._call, flow), Rank.ARRIVE)

    def resize(self, settings: QueueSetSettings) -> None:
        self.shortfall.resize(self.world.now, settings.concurrency)
        self.world.reconfigure(settings)

    def seats(self) -> list[list[float]]:
        """Return the average seats in use, window by window and flow by flow."""
        lengths = [end - begin for begin, end in pairwise(self._windows)]
        return [[work / length for work in row] for row, length in zip(self._occupied, lengths, strict=True)]

    def _call(self, flow: int) -> None:
        now, caller = self.world.now, self._callers[flow]
        begin = caller.next_active(now)
        if begin is None or (self._most_calls is not None and self.calls >= self._most_calls):
            return
        if begin > now:
            self.world.at(begin, partial(self._call, flow), Rank.ARRIVE)
            return
        if caller.is_open:
            self.world.at(now + caller.think_ns, partial(self._call, flow), Rank.ARRIVE)
        made = self._made[flow]
        self._made[flow] += 1
        self.calls += 1
        durations = caller.later_ns if caller.later_ns and now >= caller.later_from_ns else caller.durations_ns
        work = caller.works[made % len(caller.works)]
        call = Call(
            str(flow),
            (flow + 1) * _ENTROPY % 2**64,
            work,
            durations[made % len(durations)],
            on_seated=partial(self._seated, flow, work.width),
            on_finish=partial(self._finished, flow),
            on_vacated=partial(self._vacated, flow),
        )
        self.shortfall.wait(now, flow, work.width)
        self.world.arrive(call)
        if call.is_rejected:
            raise InvalidValueError("callers", self._callers, f"{call!r} was rejected: let more requests wait")

    def _seated(self, flow: int, width: int, call: Call) -> None:
        now = self.world.now
        self.shortfall.wait(now, flow, width, -1)
        self.shortfall.occupy(now, flow, call.width)
        self.shortfall.serve(call.width, call.duration_ns + call.work.linger_ns)
        window = bisect_right(self._windows, now) - 1
        if 0 <= window < len(self.served):
            self.served[window][flow] += 1

    def _finished(self, flow: int, _call: Call) -> None:
        caller = self._callers[flow]
        if not caller.is_open:
            self.world.at(self.world.now + caller.think_ns, partial(self._call, flow), Rank.ARRIVE)

    def _vacated(self, flow: int, call: Call) -> None:
        now, windows = self.world.now, self._windows
        self.shortfall.occupy(now, flow, -call.width)
        for window in range(max(0, bisect_right(windows, call.seated_at) - 1), len(self._occupied)):
            if windows[window] >= now:
                break
            held = min(now, windows[window + 1]) - max(call.seated_at, windows[window])
            self._occupied[window][flow] += call.width * held
