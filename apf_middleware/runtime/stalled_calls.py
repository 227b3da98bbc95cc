"""Calls that wait for a client, watched by one timer for all of them, and given up when they last too long."""

from collections.abc import Callable
from typing import Generic, TypeVar

from apf_middleware.runtime.alarm import Alarm

__all__ = ["StalledCalls"]

T = TypeVar("T")


class StalledCalls(Generic[T]):
    """Calls in progress, by the object that they are for; ``give_up`` is called for it after ``limit_ns``.

    The timer runs while there are calls, and rings at most once per limit. So a call is given up after the limit, at
    most twice that.
    """

    __slots__ = ("_alarm", "_give_up", "_now", "_since", "limit_ns")

    def __init__(self, limit_ns: int, now: Callable[[], int], give_up: Callable[[T], object]) -> None:
        self.limit_ns: int = limit_ns
        self._now = now
        self._give_up = give_up
        self._since: dict[T, int] = {}  # the longest first
        self._alarm = Alarm(self._look, now)

    def begin(self, one: T) -> None:
        """Note that a call for ``one`` begins."""
        if not self._since:
            self._alarm.ask(self._now() + self.limit_ns)
        self._since[one] = self._now()

    def end(self, one: T) -> None:
        """Note that the call for ``one`` has returned or raised; further calls do nothing."""
        self._since.pop(one, None)

    def _look(self) -> None:
        begun_by = self._now() - self.limit_ns
        slow = []
        for one, since in self._since.items():
            if since > begun_by:
                break
            slow.append(one)
        for one in slow:
            del self._since[one]
            self._give_up(one)
        if self._since:
            self._alarm.ask(self._now() + self.limit_ns)

    def __repr__(self) -> str:
        return f"<StalledCalls: {len(self._since)} in progress, for at most {self.limit_ns} ns>"
