"""Who looks after the requests that wait on an asyncio loop: when to listen to a client, and when a wait is up.

Most waits are over in a moment, so at first nothing is done but to note them. Whoever still waits after
`WATCH_AFTER_NS`, at most twice that, settles down: a task listens to its client, and its deadline counts. Timers take
hundreds of bytes, and those who wait at one level are equally patient: whoever came first is the first whose time is
up, and one timer serves them all.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final, Generic, Protocol, TypeVar

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.admission import Admission, Wakeable

__all__ = [
    "VIGILS",
    "WATCHING",
    "WATCH_AFTER_NS",
    "Cancellable",
    "ClientWatch",
    "Deadlines",
    "Sleeper",
    "Start",
    "Vigil",
    "Vigils",
    "Waiter",
]

WATCH_AFTER_NS: Final = 3_000_000
"""A client that has hung up is noticed when its request has waited for so long, at most twice that."""

_SECOND: Final = 10**9
_WATCH_AFTER: Final = WATCH_AFTER_NS / _SECOND
WATCHING: Final = "apf: watch the client of a waiting request"
_GRAIN_NS: Final = 1_000_000  # loops' timers tell no less apart: whoever has less than that to wait has waited enough


class Waiter(Wakeable, Protocol):
    """Who waits for one request, and is told by its listener."""

    def hang_up(self) -> None:
        """The client has gone."""
        ...


class Cancellable(Protocol):
    """A task, as far as somebody else may end it."""

    def cancel(self) -> object: ...


Start = Callable[[Callable[[], Coroutine[Any, Any, None]]], Cancellable]
"""Run a coroutine function in a task of its own, which doesn't end with the wait."""


class ClientWatch(Protocol):
    """Notices that the client of a waiting request hangs up."""

    def watch(self, waiter: Waiter, start: Start) -> None:
        """Tell ``waiter`` if the client hangs up; the task for that is started with ``start``."""
        ...

    def close(self) -> None:
        """End the task, because the request is over."""
        ...


L = TypeVar("L", bound=ClientWatch)
C = TypeVar("C")


class Sleeper(Generic[C, L]):
    """A task's wait on asyncio: the future that wakes it, and a deadline and a listener if the wait isn't a short one.

    ``begin_to_watch`` returns what watches ``client``.
    """

    __slots__ = (
        "_admission",
        "_begin_to_watch",
        "_client",
        "_context",
        "_limit_ns",
        "_loop",
        "client_watch",
        "deadlines",
        "woken",
    )

    def __init__(
        self,
        admission: Admission,
        limit_ns: int,
        begin_to_watch: Callable[[C], L],
        client: C,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._admission = admission
        self._limit_ns = limit_ns
        self._begin_to_watch = begin_to_watch
        self._client = client
        self._loop = loop
        self._context = copy_context()  # the request's own, in which its listener runs
        self.client_watch: L | None = None
        self.deadlines: Deadlines | None = None
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if asyncio._get_running_loop() is not self._loop:  # noqa: SLF001 - the public one raises where none runs
            self._loop.call_soon_threadsafe(self._end)
        elif not self.woken.done():  # as it is when its task has been cancelled
            self.woken.set_result(None)

    def _end(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)

    def left_ns(self) -> int:
        """For how much longer it may wait."""
        admission = self._admission
        return admission.arrived_at + self._limit_ns - admission.destination.controller.now()

    def run_out(self) -> None:
        """It has waited for as long as it may."""
        self._admission.destination.controller.abandon(self._admission, Reason.TIME_OUT)

    def settle_down(self, vigil: "Vigil") -> None:
        """It has become a longer wait, unless it is over meanwhile."""
        if self.woken.done():
            return
        vigil.deadlines(self._limit_ns).enter(self)
        self.client_watch = client_watch = self._begin_to_watch(self._client)
        client_watch.watch(self, self._start)

    def _start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Cancellable:
        return self._loop.create_task(run(), name=WATCHING, context=self._context)


class Deadlines:
    """The deadlines of those who are equally patient, for ``limit_ns``, in the order in which they came."""

    __slots__ = ("_is_set", "_loop", "_sleepers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sleepers: dict[Sleeper[Any, Any], None] = {}
        self._is_set = False

    def enter(self, sleeper: Sleeper[Any, Any]) -> None:
        """It is to be told when its time is up, unless it leaves before."""
        self._sleepers[sleeper] = None
        sleeper.deadlines = self
        if not self._is_set:
            self._set(sleeper.left_ns())

    def leave(self, sleeper: Sleeper[Any, Any]) -> None:
        """Its wait is over."""
        del self._sleepers[sleeper]
        sleeper.deadlines = None

    def _set(self, left_ns: int) -> None:
        self._is_set = True
        self._loop.call_later(max(left_ns, 0) / _SECOND, self._look)

    def _look(self) -> None:
        self._is_set = False
        due = []
        for sleeper in self._sleepers:
            left_ns = sleeper.left_ns()
            if left_ns >= _GRAIN_NS:
                self._set(left_ns)
                break
            due.append(sleeper)
        try:
            for sleeper in due:
                self.leave(sleeper)
                sleeper.run_out()
        finally:  # should that raise, those behind it have their turn next time
            if self._sleepers and not self._is_set:
                self._set(0)

    def __repr__(self) -> str:
        return f"<Deadlines of {len(self._sleepers)}>"


class Vigil:
    """Looks after those who wait on one ``loop``, with one timer for all who have just begun to."""

    __slots__ = ("_deadlines", "_is_set", "_loop", "_newcomers", "_young")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._newcomers: list[Sleeper[Any, Any]] = []
        self._young: list[Sleeper[Any, Any]] = []
        self._is_set = False
        self._deadlines: dict[int, Deadlines] = {}  # by patience: one or a few

    def watch(self, sleeper: Sleeper[Any, Any]) -> None:
        """Let it settle down if it still waits after a while."""
        self._newcomers.append(sleeper)
        if not self._is_set:
            self._is_set = True
            self._loop.call_later(_WATCH_AFTER, self._look)

    def deadlines(self, limit_ns: int) -> Deadlines:
        """Of those who wait no longer than that."""
        found = self._deadlines.get(limit_ns)
        if found is None:
            found = self._deadlines[limit_ns] = Deadlines(self._loop)
        return found

    def _look(self) -> None:
        """Whoever was there at the last look and still waits settles down."""
        for sleeper in self._young:
            if not sleeper.woken.done():
                self._loop.call_soon(sleeper.settle_down, self)  # each by itself: one that fails keeps no other from it
        self._young = [sleeper for sleeper in self._newcomers if not sleeper.woken.done()]
        self._newcomers = []
        self._is_set = bool(self._young)
        if self._is_set:
            self._loop.call_later(_WATCH_AFTER, self._look)

    def __repr__(self) -> str:
        return f"<Vigil: {len(self._young) + len(self._newcomers)} have begun to wait, {self._deadlines!r}>"


class Vigils(dict[asyncio.AbstractEventLoop, Vigil]):
    """One for each event loop on which requests wait: a server has one loop, tests have many."""

    __slots__ = ()

    def __missing__(self, loop: asyncio.AbstractEventLoop) -> Vigil:
        for other in [other for other in self if other.is_closed()]:  # and with it all who waited there
            del self[other]
        self[loop] = vigil = Vigil(loop)
        return vigil


VIGILS: Final = Vigils()
"""Those of all event loops: what is kept there belongs to a loop, and not to one of the servers on it."""
