"""How late the event loop runs what is ready, measured by timers; for asyncio, uvloop and trio.

A busy timer would cost more than it tells, because waking an idle loop takes much longer than a callback in a busy one.
So the probes are sparse as long as none is late, and dense for a while after one that is: then the loop is busy anyway.
They are made at random times, or work that is as regular as the probes would always or never be seen. Without requests
there are no probes at all.

The loops' timers are exact to a millisecond, so a lag shorter than `TIMER_RESOLUTION_NS` can't be seen and counts as 0.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from apf_middleware.adaptive import LagWindow
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.event_loop import EventLoop

__all__ = ["TIMER_RESOLUTION_NS", "EventLoopLag"]

TIMER_RESOLUTION_NS: Final = 1_100_000
"""The lateness of timers of an idle loop: epoll and libuv count milliseconds."""

_MS: Final = 10**6
_SECOND: Final = 10**9
_SPARSE_MS: Final = 400
_SPARSE_ON_TRIO_MS: Final = 600  # which takes more than twice as long to wake up
_DENSE_MS: Final = 50
_DENSE_FOR_NS: Final = 2 * _SECOND


def _ignore(now: int, gap_ns: int, lag_ns: int) -> None:
    pass


class EventLoopLag:
    """Measure the lag of the running event loop from `begin` until ``is_busy`` is False for a second.

    Then ``on_rest`` is called, and `begin` has to be called again when the next request arrives. ``on_probe`` is called
    with the time, the gap and the lag of each probe. ``now`` is the clock, and ``suspicious_ns`` the lag after which
    the probes are dense for a while.
    """

    __slots__ = (
        "_alarm",
        "_chance",
        "_dense_until",
        "_due",
        "_gap",
        "_is_busy",
        "_is_resting",
        "_looks_at",
        "_loop",
        "_now",
        "_on_probe",
        "_on_rest",
        "_sparse_ms",
        "probes",
        "suspicious_ns",
        "window",
    )

    def __init__(
        self,
        now: Callable[[], int],
        *,
        is_busy: Callable[[], bool],
        on_rest: Callable[[], None],
        on_probe: Callable[[int, int, int], None] = _ignore,
        suspicious_ns: int = 2 * _MS,
        chance: Random | None = None,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self._now = now
        self._is_busy = is_busy
        self._on_rest = on_rest
        self._on_probe = on_probe
        self.suspicious_ns: int = suspicious_ns
        self._chance = Random() if chance is None else chance  # noqa: S311 - not for security
        self._alarm = alarm(self._probe, now)
        self.window: LagWindow = LagWindow()
        self.probes: int = 0
        self._loop: EventLoop | None = None
        self._sparse_ms = _SPARSE_MS
        self._is_resting = True
        self._due = self._gap = self._dense_until = self._looks_at = 0

    def quantile(self, fraction: float) -> int:
        """Return the lag of the last seconds in nanoseconds: of this fraction of all moments it was no longer."""
        self.window.forget(self._now())
        return self.window.quantile(fraction)

    def begin(self) -> None:
        """Begin to measure; further calls do nothing, unless the event loop is another one."""
        if not self._is_resting and self._loop is not None and self._loop.is_here:
            return
        self._loop = loop = EventLoop.running()
        self._sparse_ms = _SPARSE_ON_TRIO_MS if loop is not None and loop.is_trio else _SPARSE_MS
        self._is_resting = False
        now = self._now()
        self._looks_at = now + _SECOND
        self._schedule(now)

    def _schedule(self, now: int) -> None:
        mean = _DENSE_MS if now < self._dense_until else self._sparse_ms
        # in whole milliseconds, because libuv would round them, perhaps down
        self._gap = max(1, round(mean * (0.5 + self._chance.random()))) * _MS
        self._due = now + self._gap
        self._alarm.ask(self._due)

    def _probe(self) -> None:
        if self._is_resting:
            return
        now = self._now()
        lag = now - self._due
        if lag <= -_MS:  # the timer of an earlier `begin`
            self._alarm.ask(self._due)
            return
        if lag < TIMER_RESOLUTION_NS:
            lag = 0
        self.probes += 1
        self.window.observe(now, self._gap, lag)
        if lag > self.suspicious_ns:
            self._dense_until = now + _DENSE_FOR_NS
        self._on_probe(now, self._gap, lag)
        if now >= self._looks_at:
            if not self._is_busy():
                self._is_resting = True
                self._on_rest()
                return
            self._looks_at = now + _SECOND
        self._schedule(now)

    def end(self) -> None:
        """Stop measuring."""
        self._is_resting = True

    def __repr__(self) -> str:
        return f"<EventLoopLag: {self.window!r}{', resting' if self._is_resting else ''}>"
