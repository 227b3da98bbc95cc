"""Timers for the requests that wait on an asyncio event loop.

Most waits are short, so at first a `WaitMonitor` only lists them. Between once and twice `WATCH_AFTER_NS` after its
start, a wait becomes a *long* one: its end is scheduled, and its connection is looked at or its client is watched.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Protocol

from apf_middleware.runtime.connection_polls import ConnectionPolls
from apf_middleware.runtime.timeouts import Timeouts

__all__ = ["WATCH_AFTER_NS", "Wait", "WaitMonitor", "WaitMonitors"]

WATCH_AFTER_NS: Final = 3_000_000
"""The least time after which a wait becomes a long one, and a hang-up of its client is noticed."""

_WATCH_AFTER: Final = WATCH_AFTER_NS / 10**9
_this_thread: Final = threading.get_ident


class Wait(Protocol):
    """The wait of one request."""

    def become_long(self) -> None:
        """Schedule the end and watch the client, unless the wait is over."""
        ...

    def time_out(self) -> None:
        """Reject the request, because its wait limit is over."""
        ...


def _time_out(wait: Wait) -> None:
    wait.time_out()


class WaitMonitor:
    """The waits on one ``loop``; one timer serves all waits that have just begun. ``now`` is the clock of time-outs."""

    __slots__ = (
        "_first_new",
        "_first_young",
        "_is_set",
        "_new",
        "_now",
        "_thread_id",
        "_timeouts",
        "_young",
        "loop",
        "polls",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.polls: ConnectionPolls = ConnectionPolls(loop)
        self._thread_id = 0
        self._now = now
        # Those begun since the last call of `_look`, and those begun before it; None in place of those that are over.
        self._new: list[Wait | None] = []
        self._young: list[Wait | None] = []
        self._first_new = self._first_young = 0  # the numbers of the first ones
        self._is_set = False
        self._timeouts: dict[int, Timeouts[Wait]] = {}  # by wait limit, of which there are a few

    @property
    def is_here(self) -> bool:
        """True if the loop runs in the calling thread, as it did when `stay` was called."""
        # Up to Python 3.11, the look-up of asyncio makes a system call: 3 % of the time of a request that waits.
        return self._thread_id == _this_thread() and self.loop.is_running()

    def stay(self) -> None:
        """Note that the loop runs in the calling thread."""
        self._thread_id = _this_thread()

    def watch(self, wait: Wait) -> int:
        """Make ``wait`` a long one, unless it ends soon; return its number."""
        self._new.append(wait)
        if not self._is_set:
            self._is_set = True
            self.loop.call_later(_WATCH_AFTER, self._look)
        return self._first_new + len(self._new) - 1

    def forget(self, number: int) -> None:
        """Forget the wait with this number, which is over, so that its memory can be used for the next one."""
        if number >= self._first_new:
            self._new[number - self._first_new] = None
        elif number >= self._first_young:
            self._young[number - self._first_young] = None

    def timeouts(self, limit_ns: int) -> Timeouts[Wait]:
        """Return the time-outs of waits with this limit."""
        found = self._timeouts.get(limit_ns)
        if found is None:
            found = self._timeouts[limit_ns] = Timeouts(limit_ns, self._now, _time_out)
        return found

    def _look(self) -> None:
        """Make the waits long that had begun before the last call."""
        old, self._young, self._new = self._young, self._new, []
        self._first_young, self._first_new = self._first_new, self._first_new + len(self._young)
        self._is_set = any(self._young)
        if self._is_set:
            self.loop.call_later(_WATCH_AFTER, self._look)
        for wait in old:
            try:
                if wait is not None:
                    wait.become_long()
            except Exception as error:  # noqa: BLE001 - an error of one doesn't affect the others
                self.loop.call_exception_handler({"message": "A client can't be watched", "exception": error})

    def __repr__(self) -> str:
        new = sum(wait is not None for wait in (*self._young, *self._new))
        return f"<WaitMonitor: {new} new, {self._timeouts!r}>"


class WaitMonitors:
    """The monitor of each event loop on which requests of one server wait: a server has one loop, tests have many."""

    __slots__ = ("_by_loop", "_latest", "_now")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._by_loop: dict[asyncio.AbstractEventLoop, WaitMonitor] = {}
        self._latest: WaitMonitor | None = None

    def here(self) -> WaitMonitor | None:
        """Return the monitor of the loop that runs in the calling thread; None if none of asyncio does."""
        latest = self._latest
        if latest is None or not latest.is_here:
            loop = asyncio._get_running_loop()  # noqa: SLF001 - the public function raises if no loop runs
            if loop is None:
                return None
            self._latest = latest = self.of(loop)
            latest.stay()
        return latest

    def of(self, loop: asyncio.AbstractEventLoop) -> WaitMonitor:
        """Return the monitor of ``loop``; create it on the first call."""
        monitor = self._by_loop.get(loop)
        if monitor is None:
            for other in [other for other in self._by_loop if other.is_closed()]:  # all of its waits have ended
                del self._by_loop[other]
            monitor = self._by_loop[loop] = WaitMonitor(loop, self._now)
        return monitor

    def __repr__(self) -> str:
        return f"<WaitMonitors of {len(self._by_loop)} loops>"
