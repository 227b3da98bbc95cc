"""The runner of an adaptive total: it tells `AdaptiveTotal` what the server does, and applies what that decides.

It looks 20 times a second while requests run, and not at all while the server is idle.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apf_middleware.adaptive import AdaptiveTotal, SeatUse
from apf_middleware.config.adaptive_seats import SeatBounds
from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics.reading import AdaptiveReading
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import AnyAlarm
from apf_middleware.runtime.level import LevelRuntime

__all__ = ["FOR_LACK_OF_SEATS", "AdaptiveRunner"]

_PERIOD_NS: Final = 50_000_000
FOR_LACK_OF_SEATS: Final = frozenset({Reason.QUEUE_FULL, Reason.CONCURRENCY_LIMIT, Reason.TIME_OUT, Reason.DEADLINE})
"""The reasons of rejections that more seats might have avoided."""


class AdaptiveRunner:
    """Find the total of seats within ``bounds`` for the ``levels``, beginning with ``seats``.

    ``now`` is the clock, ``alarm`` creates the timer, and ``resize`` is called with each new total. ``decisions`` are
    those that have been counted with other bounds.
    """

    __slots__ = (
        "_alarm",
        "_is_over",
        "_levels",
        "_look_at",
        "_now",
        "_rejected",
        "_resize",
        "bounds",
        "decisions",
        "total",
    )

    def __init__(
        self,
        bounds: SeatBounds,
        seats: int,
        *,
        levels: Iterable[LevelRuntime],
        resize: Callable[[int], None],
        now: Callable[[], int],
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm],
        decisions: Mapping[str, int] | None = None,
    ) -> None:
        self.bounds: SeatBounds = bounds
        self.total: AdaptiveTotal = AdaptiveTotal(bounds.settings(seats), now())
        self.decisions: dict[str, int] = dict(decisions or {})
        self._levels = levels
        self._resize = resize
        self._now = now
        self._alarm = alarm(self.look, now)
        self._look_at = 0  # unless it has passed, the alarm is set; it has, too, if the loop of the timer has ended
        self._is_over = False
        self._rejected = 0

    def observe(self, now: int, route: str, duration: int, admission: Admission) -> None:
        """Learn from a request that has ended after ``duration``."""
        self.total.observe(now, route, duration, admission.outcome)
        if now >= self._look_at:
            self._wake(now)

    def note_rejected(self, now: int, reason: Reason) -> None:
        """Count a request that was rejected, perhaps for lack of seats."""
        if reason in FOR_LACK_OF_SEATS:
            self._rejected += 1
            if now >= self._look_at:
                self._wake(now)

    def end(self) -> None:
        """Decide nothing more, because a reload has set other bounds, or a fixed number."""
        self._is_over = True  # the alarm may still be set, and a try may be under way

    def _wake(self, now: int) -> None:
        self._look_at = now + _PERIOD_NS
        self._alarm.ask(self._look_at)

    def look(self) -> None:
        """Tell the controller what the seats are used for, and apply its decision."""
        if self._is_over:
            return
        self._look_at = 0  # if something below raises, the next request sets the alarm again
        now = self._now()
        total = self.total
        use, waiting = self._usage()
        waiting += self._rejected
        self._rejected = 0
        total.note(now, use.occupied, waiting, usable=use.usable)
        before, begin = total.limit, total.window.begin
        seats = total.decide(now)
        if total.window.begin != begin:
            self.decisions[total.reason] = self.decisions.get(total.reason, 0) + 1
        if seats != before:
            self._resize(seats)
        if use.occupied + waiting:  # a rejection, too, counts only until the next look
            self._wake(now)

    def _usage(self) -> tuple[SeatUse, int]:
        """Return what limited levels use the seats for, and the requests that wait for some."""
        levels, waiting = [], 0
        for runtime in self._levels:
            shared = runtime.shared
            if not shared.exempt:
                levels.append((shared.in_use, shared.limits.min))
                if shared.wants_seats:  # a paused level wants none
                    waiting += shared.queueset.waiting
        return SeatUse.of(self.total.limit, levels), waiting

    @property
    def reason(self) -> str:
        """The reason of the last decision."""
        return self.total.reason

    def reading(self) -> AdaptiveReading:
        """Return the numbers that metrics show."""
        total = self.total
        return AdaptiveReading(
            self.bounds.min,
            self.bounds.max,
            total.reason,
            dict(self.decisions),
            total.elasticity,
            total.window.duration_ns,
        )

    def __repr__(self) -> str:
        return f"<AdaptiveRunner: {self.total!r}>"
