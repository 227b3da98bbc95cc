"""Virtual time: a queue of future events, and timers built on it.

No clock runs. `EventQueue.run` jumps from one event to the next, so an hour of load takes as long as its events do.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["EventQueue", "FifoTimeouts", "VirtualTimer"]

T = TypeVar("T")


class EventQueue:
    """Future events in order of time; ``now`` is the time of the event that is happening.

    Events at the same instant happen in the order of their rank, and within a rank in the order in which they were
    scheduled.
    """

    __slots__ = ("_is_stopped", "_scheduled", "heap", "now")

    def __init__(self, now: int = 0) -> None:
        # public: on the hot path, callers look whether it is empty, and when its first event is
        self.heap: list[tuple[int, int, int, Callable[[Any], object], object]] = []
        self._scheduled = 0
        self._is_stopped = False
        self.now: int = now

    def read(self) -> int:
        """Return the time, for code that takes a clock."""
        return self.now

    def at(self, time: int, action: Callable[[T], object], subject: T, rank: int = 0) -> None:
        """Call ``action(subject)`` at ``time``, or now if that has passed."""
        # The number keeps the order of scheduling among equal times and ranks, and actions from being compared.
        self._scheduled = number = self._scheduled + 1
        at = time if time > self.now else self.now  # noqa: FURB136 - max() takes three times as long
        heappush(self.heap, (at, rank, number, action, subject))

    def stop(self) -> None:
        """Return from `run` after the event that is happening."""
        self._is_stopped = True

    def run(self, until: int | None = None) -> int:
        """Run all events, or those up to and including ``until``, and return their number."""
        events = self.heap
        before, left = self._scheduled, len(events)
        while events and not self._is_stopped and (until is None or events[0][0] <= until):
            self.now, _, _, action, subject = heappop(events)
            action(subject)
        if until is not None and until > self.now:
            self.now = until
        return self._scheduled - before + left - len(events)

    def next_at(self) -> int | None:
        """Return the time of the next event; None if there is none."""
        return self.heap[0][0] if self.heap else None

    def step(self) -> None:
        """Run the next event."""
        self.now, _, _, action, subject = heappop(self.heap)
        action(subject)

    def __len__(self) -> int:
        return len(self.heap)

    def __repr__(self) -> str:
        return f"<EventQueue: {len(self.heap)} events at {self.now}>"


class FifoTimeouts(Generic[T]):
    """Time-outs of equal length: the first that is added is the first that expires.

    Together they take one place in the event queue, and those that are no longer needed are dropped. Most time-outs
    never expire, so an event for each would fill the queue with events that do nothing.
    """

    __slots__ = ("_events", "_expire", "_is_over", "_is_scheduled", "_pending")

    def __init__(self, events: EventQueue, expire: Callable[[T], None], is_over: Callable[[T], bool]) -> None:
        self._events = events
        self._expire = expire
        self._is_over = is_over
        self._is_scheduled = False
        self._pending: deque[tuple[int, T]] = deque()

    def add(self, at: int, subject: T) -> None:
        """Call ``expire(subject)`` at ``at``, unless ``is_over(subject)`` holds by then."""
        pending = self._pending
        while pending and self._is_over(pending[0][1]):
            pending.popleft()
        # Lengths are equal, so the queue stays in order of expiry.
        pending.append((at, subject))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._events.at(at, self._expire_due, self)

    def __len__(self) -> int:
        return len(self._pending)

    def _expire_due(self, _: object) -> None:
        pending = self._pending
        while pending:
            at, subject = pending[0]
            is_over = self._is_over(subject)
            if at > self._events.now and not is_over:
                self._events.at(at, self._expire_due, self)
                return
            pending.popleft()  # before `expire`, which may add
            if not is_over:
                self._expire(subject)
        self._is_scheduled = False


class VirtualTimer:
    """A timer that calls ``fire`` once, at the earliest of the times that were asked for."""

    __slots__ = ("_at", "_events", "_fire")

    def __init__(self, events: EventQueue, fire: Callable[[], None]) -> None:
        self._events = events
        self._fire = fire
        self._at: int | None = None

    def ask(self, at: int) -> None:
        """Fire at ``at``, unless the timer fires sooner anyway."""
        if self._at is None or at < self._at:
            self._at = at
            self._events.at(at, self._fire_due, at)

    def _fire_due(self, at: int) -> None:
        if self._at == at:  # otherwise an earlier request superseded this event
            self._at = None
            self._fire()
