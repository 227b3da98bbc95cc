"""The one place where a request waits: for seats, until its wait limit is over, or until its client hangs up.

Whatever ends a wait happens in one step: a release seats the request, a timer or a hang-up takes it out of its queue,
before its task runs again. So the task finds the outcome in the admission, and no two outcomes can race. Only one thing
can come between: the task itself is cancelled, perhaps in the very step in which its request is seated. Then the seats
are passed on, or the place in the queue is given up, and the cancellation continues.

On asyncio a waiting request costs a future. Most waits are short, so at first a `WaitMonitor` only notes them. A wait
that lasts longer than `WATCH_AFTER_NS`, at most twice that, becomes a long one: a task watches the client, and the
deadline counts. A timer takes hundreds of bytes, and requests of one level have the same wait limit, so their deadlines
come in the order of their arrival and one timer serves them all (`Deadlines`).

On trio the request's task sleeps in a cancel scope, beside a system task that watches the client.

The end of the wait doesn't cancel the watching task, because a server's ``receive`` that is cancelled may lose what it
was about to return.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import anyio

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.admission import Admission, Wakeable

if TYPE_CHECKING:
    from trio import CancelScope

__all__ = [
    "WAIT_MONITORS",
    "WATCHING",
    "WATCH_AFTER_NS",
    "Cancellable",
    "ClientWatch",
    "Deadlines",
    "Start",
    "WaitMonitor",
    "WaitMonitors",
    "Waiter",
    "WaitingTask",
    "wait_for_seat",
    "wait_in_scope",
]

WATCH_AFTER_NS: Final = 3_000_000
"""A client that has hung up is noticed when its request has waited for so long, at most twice that."""

_SECOND: Final = 10**9
_WATCH_AFTER: Final = WATCH_AFTER_NS / _SECOND
WATCHING: Final = "apf: watch the client of a waiting request"
_GRAIN_NS: Final = 1_000_000  # the resolution of an event loop's timers: less than that isn't waited for


class Waiter(Wakeable, Protocol):
    """The waiting task of one request."""

    def hang_up(self) -> None:
        """Take the request out of its queue, because its client has hung up."""
        ...


class Cancellable(Protocol):
    """A task or cancel scope that can be cancelled."""

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


async def wait_for_seat(admission: Admission, limit_ns: int, begin_to_watch: Callable[[C], L], client: C) -> L | None:
    """Wait until ``admission``, which is queued, is seated or rejected, at most ``limit_ns``.

    Return what watched its ``client``, if it was watched.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await wait_in_scope(admission, limit_ns, begin_to_watch, client)
    admission.waiter = waiting = WaitingTask(admission, limit_ns, begin_to_watch, client, loop)
    monitor = WAIT_MONITORS[loop]
    if limit_ns > 2 * WATCH_AFTER_NS:
        monitor.watch(waiting)
    else:
        monitor.deadlines(limit_ns).enter(waiting)
    try:
        await waiting.woken
    except BaseException:
        admission.destination.controller.leave(admission)
        if waiting.client_watch is not None:
            waiting.client_watch.close()
        raise
    finally:
        admission.waiter = None
        if waiting.deadlines is not None:
            waiting.deadlines.leave(waiting)
    return waiting.client_watch


async def wait_in_scope(admission: Admission, limit_ns: int, begin_to_watch: Callable[[C], L], client: C) -> L:
    """Wait as `wait_for_seat` does, on any backend of anyio: the task sleeps in a scope, which waking it cancels."""
    controller = admission.destination.controller
    scope = anyio.CancelScope(deadline=anyio.current_time() + limit_ns / _SECOND)
    admission.waiter = waiter = _ScopeWaiter(admission, scope)
    client_watch = begin_to_watch(client)
    try:
        client_watch.watch(waiter, _start)
        with scope:
            await anyio.sleep_forever()
        controller.abandon(admission, Reason.TIME_OUT)  # unless it was woken
    except BaseException:
        controller.leave(admission)
        client_watch.close()
        raise
    finally:
        admission.waiter = None
    return client_watch


def _start(run: Callable[[], Coroutine[Any, Any, None]]) -> Cancellable:
    """Run ``run`` in a task that no cancel scope of the request's ends."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from trio import CancelScope  # noqa: PLC0415 - apps that run on trio have it, others needn't
        from trio.lowlevel import spawn_system_task  # noqa: PLC0415

        scope = CancelScope()
        spawn_system_task(_run_in, scope, run, name=WATCHING, context=copy_context())
        return scope
    return loop.create_task(run(), name=WATCHING)


async def _run_in(scope: "CancelScope", run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with scope:
        await run()


class _ScopeWaiter:
    __slots__ = ("_admission", "_scope")

    def __init__(self, admission: Admission, scope: anyio.CancelScope) -> None:
        self._admission = admission
        self._scope = scope

    def wake(self) -> None:
        self._scope.cancel()

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)


class WaitingTask(Generic[C, L]):
    """A wait on asyncio: the future that ends it, and if the wait is long a deadline and a watch of the client.

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
        self._context = copy_context()  # the request's own, in which its client is watched
        self.client_watch: L | None = None
        self.deadlines: Deadlines | None = None
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        # Seats may also be freed on another loop or in another thread, which must not touch this loop's future.
        if asyncio._get_running_loop() is not self._loop:  # noqa: SLF001 - the public one raises where none runs
            self._loop.call_soon_threadsafe(self._end)
        elif not self.woken.done():  # it is done if the task has been cancelled
            self.woken.set_result(None)

    def _end(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)

    def left_ns(self) -> int:
        """Return how much longer the request may wait."""
        admission = self._admission
        return admission.arrived_at + self._limit_ns - admission.destination.controller.now()

    def time_out(self) -> None:
        """Reject the request, whose wait limit is over."""
        self._admission.destination.controller.abandon(self._admission, Reason.TIME_OUT)

    def become_long(self, monitor: "WaitMonitor") -> None:
        """Set the deadline and watch the client, unless the wait is over meanwhile."""
        if self.woken.done():
            return
        monitor.deadlines(self._limit_ns).enter(self)
        self.client_watch = client_watch = self._begin_to_watch(self._client)
        client_watch.watch(self, self._start)

    def _start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Cancellable:
        return self._loop.create_task(run(), name=WATCHING, context=self._context)


class Deadlines:
    """The deadlines of waits with the same limit, in the order in which they began, with one timer."""

    __slots__ = ("_is_set", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[WaitingTask[Any, Any], None] = {}
        self._is_set = False

    def enter(self, waiting: WaitingTask[Any, Any]) -> None:
        """Have a wait time out at its deadline, unless it leaves before."""
        self._waiting[waiting] = None
        waiting.deadlines = self
        if not self._is_set:
            self._set(waiting.left_ns())

    def leave(self, waiting: WaitingTask[Any, Any]) -> None:
        """Forget a wait that is over."""
        del self._waiting[waiting]
        waiting.deadlines = None

    def _set(self, left_ns: int) -> None:
        self._is_set = True
        self._loop.call_later(max(left_ns, 0) / _SECOND, self._look)

    def _look(self) -> None:
        self._is_set = False
        due = []
        for waiting in self._waiting:
            left_ns = waiting.left_ns()
            if left_ns >= _GRAIN_NS:
                self._set(left_ns)
                break
            due.append(waiting)
        try:
            for waiting in due:
                self.leave(waiting)
                waiting.time_out()
        finally:  # if one of them raises, the others time out at the next look
            if self._waiting and not self._is_set:
                self._set(0)

    def __repr__(self) -> str:
        return f"<Deadlines of {len(self._waiting)}>"


class WaitMonitor:
    """The waits on one ``loop``, with one timer for all that have just begun."""

    __slots__ = ("_deadlines", "_is_set", "_loop", "_new", "_young")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._new: list[WaitingTask[Any, Any]] = []
        self._young: list[WaitingTask[Any, Any]] = []
        self._is_set = False
        self._deadlines: dict[int, Deadlines] = {}  # by wait limit, of which there are a few

    def watch(self, waiting: WaitingTask[Any, Any]) -> None:
        """Have a wait become a long one unless it ends soon."""
        self._new.append(waiting)
        if not self._is_set:
            self._is_set = True
            self._loop.call_later(_WATCH_AFTER, self._look)

    def deadlines(self, limit_ns: int) -> Deadlines:
        """Return the deadlines of waits with this limit."""
        found = self._deadlines.get(limit_ns)
        if found is None:
            found = self._deadlines[limit_ns] = Deadlines(self._loop)
        return found

    def _look(self) -> None:
        """Make long waits of those that had begun at the last look."""
        for waiting in self._young:
            if not waiting.woken.done():
                self._loop.call_soon(waiting.become_long, self)  # one that fails doesn't affect the others
        self._young = [waiting for waiting in self._new if not waiting.woken.done()]
        self._new = []
        self._is_set = bool(self._young)
        if self._is_set:
            self._loop.call_later(_WATCH_AFTER, self._look)

    def __repr__(self) -> str:
        return f"<WaitMonitor: {len(self._young) + len(self._new)} new, {self._deadlines!r}>"


class WaitMonitors(dict[asyncio.AbstractEventLoop, WaitMonitor]):
    """The monitor of each event loop on which requests wait: a server has one loop, tests have many."""

    __slots__ = ()

    def __missing__(self, loop: asyncio.AbstractEventLoop) -> WaitMonitor:
        for other in [other for other in self if other.is_closed()]:  # and all its waits have ended with it
            del self[other]
        self[loop] = monitor = WaitMonitor(loop)
        return monitor


WAIT_MONITORS: Final = WaitMonitors()
"""The monitors of all event loops. A monitor belongs to a loop, not to one of the middlewares that run on it."""
