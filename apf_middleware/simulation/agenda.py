"""Virtual time: what happens next, and calls at later times.

No clock runs. The agenda jumps from one event to the next, so an hour of load costs as long as its events do. What is
planned for one instant happens in the order in which it was planned.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["Agenda", "Deadlines", "VirtualAlarm"]

T = TypeVar("T")


class Agenda:
    """Events by time; ``now`` is that of the one that is happening."""

    __slots__ = ("_events", "_planned", "_stopped", "now")

    def __init__(self) -> None:
        self._events: list[tuple[int, int, Callable[[Any], object], object]] = []
        self._planned = 0
        self._stopped = False
        self.now: int = 0

    def read(self) -> int:
        """The time, as whoever needs a clock wants to read it."""
        return self.now

    def at(self, time: int, action: Callable[[T], object], subject: T) -> None:
        """Let ``action(subject)`` happen at ``time``, or now if that is over."""
        self._planned = planned = self._planned + 1
        heappush(self._events, (time if time > self.now else self.now, planned, action, subject))  # noqa: FURB136 - max() takes three times as long

    def stop(self) -> None:
        """Nothing else is to happen."""
        self._stopped = True

    def run(self) -> int:
        """Let everything happen, until somebody stops it or nothing is planned; how many events that were."""
        events = self._events
        before, left = self._planned, len(events)
        while events and not self._stopped:
            self.now, _, action, subject = heappop(events)
            action(subject)
        return self._planned - before + left - len(events)

    def __repr__(self) -> str:
        return f"<Agenda: {len(self._events)} events at {self.now}>"


class Deadlines(Generic[T]):
    """Deadlines of those who all have equal patience, so that the first to come is the first to run out of it.

    They take a place in the agenda together, and those that need theirs no more are let go. A place for each would fill
    it with what nearly never happens.
    """

    __slots__ = ("_agenda", "_is_over", "_is_planned", "_ring", "_waiting")

    def __init__(self, agenda: Agenda, ring: Callable[[T], None], is_over: Callable[[T], bool]) -> None:
        self._agenda = agenda
        self._ring = ring
        self._is_over = is_over
        self._is_planned = False
        self._waiting: deque[tuple[int, T]] = deque()

    def add(self, at: int, one: T) -> None:
        """Ring for it at ``at``, unless it is over by then."""
        waiting = self._waiting
        while waiting and self._is_over(waiting[0][1]):
            waiting.popleft()
        waiting.append((at, one))
        if not self._is_planned:
            self._is_planned = True
            self._agenda.at(at, self._look, self)

    def __len__(self) -> int:
        return len(self._waiting)

    def _look(self, _: object) -> None:
        waiting = self._waiting
        while waiting:
            at, one = waiting[0]
            if self._is_over(one):
                waiting.popleft()
            elif at > self._agenda.now:
                self._agenda.at(at, self._look, self)
                return
            else:
                waiting.popleft()
                self._ring(one)
        self._is_planned = False


class VirtualAlarm:
    """Calls ``ring`` once at the earliest of the times that were asked for."""

    __slots__ = ("_agenda", "_at", "_ring")

    def __init__(self, agenda: Agenda, ring: Callable[[], None]) -> None:
        self._agenda = agenda
        self._ring = ring
        self._at: int | None = None

    def ask(self, at: int) -> None:
        """Ring at ``at``, unless it rings sooner anyway."""
        if self._at is None or at < self._at:
            self._at = at
            self._agenda.at(at, self._fire, at)

    def _fire(self, at: int) -> None:
        if self._at == at:
            self._at = None
            self._ring()
