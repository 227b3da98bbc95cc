"""Requests whose clients don't read their responses, which give their seats back after a time.

Whether a message has to wait depends on what the client has left unread before, perhaps of another response on the same
connection, so all messages are looked at, of any size. Most are sent at once. So none is timed: a look from time to
time finds those that were being sent at the look before, and still are.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from apf_middleware.runtime.alarm import Alarm, AnyAlarm

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["BlockedSends", "Sender"]

_LEAST_PAUSE_NS: Final = 5_000_000
_LONGEST_PAUSE_NS: Final = 250_000_000


class Sender(Protocol):
    """A request that sends its response."""

    def is_blocked(self, now: int, limit_ns: int) -> bool:
        """Return whether one message has been waiting for the client since ``limit_ns`` ago, as far as looks show."""
        ...

    def release(self) -> None:
        """Give the seats back, unless that has been done."""
        ...


class BlockedSends:
    """Release the seats of those ``senders``, by request, of which a message waits longer than ``limit_ns``.

    This is noticed by looks at pauses of a quarter of the limit, and of 5 to 250 ms. ``now`` is the clock, and
    ``alarm`` creates the timer, which is set only while there are senders. With a limit of 0, none is released.
    """

    __slots__ = ("_alarm", "_late_ns", "_now", "_pause", "limit_ns", "look_at", "senders")

    def __init__(
        self,
        limit_ns: int,
        now: Callable[[], int],
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self.set_limit(limit_ns)
        self._now = now
        self.senders: dict[Hashable, Sender] = {}
        self.look_at: int = 0  # unless it has passed, the alarm is set; it has, too, if the loop of the timer has ended
        self._late_ns = 0  # of all looks together
        self._alarm = alarm(self._look, now)

    def set_limit(self, limit_ns: int) -> None:
        """Put another limit in force, also for the present senders."""
        self.limit_ns: int = limit_ns
        pause = min(max(limit_ns // 4, _LEAST_PAUSE_NS), _LONGEST_PAUSE_NS)
        self._pause = pause if limit_ns else _LONGEST_PAUSE_NS  # senders of an earlier limit may be there still

    def plan(self, now: int) -> None:
        """Look soon after ``now``; called when a sender is added and the time of the last planned look has passed."""
        self.look_at = now + self._pause
        self._alarm.ask(self.look_at)

    def _look(self) -> None:
        now = self._now()
        # While the loop stood still, clients may have read, and this could not be noticed.
        self._late_ns += max(0, now - self.look_at - self._pause)
        seen_at, limit = now - self._late_ns, self.limit_ns
        blocked = [one for one in self.senders.values() if limit and one.is_blocked(seen_at, limit)]
        if self.senders:
            self.plan(now)
        else:
            self.look_at = 0
        for one in blocked:
            one.release()

    def __repr__(self) -> str:
        return f"<BlockedSends of {len(self.senders)} senders, {self.limit_ns} ns each>"
