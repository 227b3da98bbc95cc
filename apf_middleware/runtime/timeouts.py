"""Time-outs of many objects with the same time limit, kept by one timer.

A timer takes hundreds of bytes. Objects with the same limit expire in the order in which they began, so a dictionary in
that order and one timer for the first of them serve all.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from apf_middleware.runtime.alarm import Alarm, AnyAlarm

__all__ = ["Timeouts"]

_GRAIN_NS: Final = 1_000_000  # the resolution of an event loop's timers, which may fire this much too early

T = TypeVar("T")


class Timeouts(Generic[T]):
    """The time-outs of the objects that have begun; ``expire`` is called for each that hasn't ended after ``limit_ns``.

    ``now`` is the clock, and ``alarm`` creates the timer, which is set only while there are objects.
    """

    __slots__ = ("_alarm", "_earliest", "_ends", "_expire", "_now", "limit_ns")

    def __init__(
        self,
        limit_ns: int,
        now: Callable[[], int],
        expire: Callable[[T], object],
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self.limit_ns: int = limit_ns
        self._now = now
        self._expire = expire
        # The earliest end first. A plain `dict` would find that in O(n), because it passes over deleted keys.
        self._ends: OrderedDict[T, int] = OrderedDict()
        self._earliest = 0  # if there are any: the first end, or that of an earlier object that has ended
        self._alarm = alarm(self._look, now)

    def begin(self, item: T, since: int | None = None) -> None:
        """Let ``item`` expire when the limit has passed, counted from now or from the time ``since``."""
        ends = self._ends
        if item in ends:  # one that begins again must not keep its place in the order
            del ends[item]
        ends_at = (self._now() if since is None else since) + self.limit_ns
        if not ends:
            self._earliest = ends_at
        ends[item] = ends_at
        # Usually the timer is set for the first one already. But if the event loop that had the timer has ended, no
        # object would expire until none were left.
        self._alarm.ask(self._earliest)

    def end(self, item: T) -> None:
        """Forget ``item``, which has ended in time or has expired; further calls do nothing."""
        # The timer stays set: most objects end in time, and setting it for each would cost more than a needless ring.
        self._ends.pop(item, None)

    def _look(self) -> None:
        """Expire the objects that are due, and set the timer for the next one."""
        due_by = self._now() + _GRAIN_NS
        due = []  # collected first, because an object that expires may end others
        for item, ends_at in self._ends.items():
            if ends_at >= due_by:
                break
            due.append(item)
        try:
            for item in due:
                if self._ends.pop(item, None) is not None:
                    self._expire(item)
        finally:  # if one of them raises, the alarm rings again at once for the others
            if self._ends:
                self._earliest = next(iter(self._ends.values()))
                self._alarm.ask(self._earliest)

    def __repr__(self) -> str:
        return f"<Timeouts of {len(self._ends)}, each {self.limit_ns} ns after its beginning>"
