"""The one place where a request waits for seats.

A wait ends when seats come free, when the wait limit is over, when the client hangs up, or when the request is rejected
(by a gate, or because its level closes). Each of these events changes the state of the admission in one synchronous
step, before the waiting task resumes. So the task reads the outcome from the admission, and two outcomes can't race.
The only race is with a cancellation of the task, which may come after the request was seated and before the task
resumes. If the request has been seated, its seats are released again; if it still waits, it leaves its queue. In both
cases the cancellation continues.

On asyncio a waiting request costs a future. When it has waited for some milliseconds (`WATCH_AFTER_NS`), the wait is
*long*: its end is scheduled for the wait limit, and the client is watched from then on, or its connection is looked at
for some time (see `connection_polls`). (If the limit itself is only some milliseconds, that is done at once, and the
client isn't watched.) Requests with the same wait limit share one timer (see `wait_monitor`).

On trio the request's task sleeps in a cancel scope, and a system task watches the client.

A watch that is a task isn't cancelled when the wait ends: cancelling the server's ``receive`` could lose the message
that it was about to return.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.admission import Admission, Wakeable
from apf_middleware.runtime.connection_polls import Connection
from apf_middleware.runtime.event_loop import EventLoop
from apf_middleware.runtime.wait_monitor import WATCH_AFTER_NS, WaitMonitor

if TYPE_CHECKING:
    from trio import CancelScope

    from apf_middleware.runtime.connection_polls import PolledConnection
    from apf_middleware.runtime.timeouts import Timeouts
    from apf_middleware.runtime.wait_monitor import Wait

__all__ = [
    "WATCHING",
    "Cancellable",
    "ClientWatch",
    "Start",
    "Waiter",
    "WaitingTask",
    "wait_for_seat",
    "wait_in_scope",
]

WATCHING: Final = "apf: watch the client of a waiting request"
"""The name of the tasks that watch clients."""

_SECOND: Final = 10**9


class Waiter(Wakeable, Protocol):
    """The waiting task of one request."""

    def hang_up(self) -> None:
        """Take the request out of its queue, because its client has hung up."""
        ...


class Cancellable(Protocol):
    """A task or cancel scope that can be cancelled."""

    def cancel(self) -> object: ...


Start = Callable[[Callable[[], Coroutine[Any, Any, None]]], Cancellable]
"""Run a coroutine function in a new task, which may outlive the wait."""


class ClientWatch(Protocol):
    """The client of a waiting request, and how to notice that it hangs up: see `asgi.waiting_client.WaitingClient`."""

    def connection(self) -> Connection | None:
        """Return the connection, if a look at it shows whether the client has hung up."""
        ...

    def watch(self, waiter: Waiter, start: Start) -> None:
        """Call ``waiter.hang_up`` if the client hangs up; use ``start`` to start a task that watches."""
        ...

    def end_watch(self) -> None:
        """End the watch, because the waiting task has been cancelled."""
        ...


async def wait_for_seat(admission: Admission, limit_ns: int, client: ClientWatch) -> None:
    """Wait until ``admission``, which is queued, is seated or rejected; after ``limit_ns``, reject it."""
    controller = admission.destination.controller
    monitor = controller.wait_monitors.here()
    if monitor is None:
        await wait_in_scope(admission, limit_ns, client)
        return
    # Nothing has been awaited since `Controller.arrive`, so no wake was missed.
    admission.waiter = waiting = WaitingTask(admission, limit_ns, client, monitor)
    limit_ns = waiting.limit_ns
    # The monitor schedules the end when the wait becomes long. This can be as late as 2 * WATCH_AFTER_NS after the
    # start of the wait: too late for a limit that isn't longer. So the end of such a wait is scheduled at once, and its
    # client isn't watched.
    if limit_ns > 2 * WATCH_AFTER_NS:
        waiting.number = monitor.watch(waiting)
    else:
        waiting.schedule_end()
    try:
        await waiting.woken
    except BaseException:
        # The task is cancelled. Its request may still wait, or have been seated just before; `leave` handles both.
        controller.leave(admission)
        client.end_watch()
        raise
    finally:
        admission.waiter = None
        waiting.end()


async def wait_in_scope(admission: Admission, limit_ns: int, client: ClientWatch) -> None:
    """Wait as `wait_for_seat` does, on any backend of anyio: the task sleeps in a scope that `wake` cancels."""
    controller = admission.destination.controller
    limit_ns, reason = _earlier(admission, limit_ns)
    scope = anyio.CancelScope(deadline=anyio.current_time() + limit_ns / _SECOND)
    # The waiter is set before the watch begins, because the client may have hung up already. In this case `wake`
    # cancels the scope before the task enters it, and the sleep in the scope ends at once.
    admission.waiter = waiter = _ScopeWaiter(admission, scope)
    try:
        client.watch(waiter, _start)
        # The scope absorbs only its own cancellation. A cancellation of the task reaches the handler below.
        with scope:
            await anyio.sleep_forever()
        controller.abandon(admission, reason)  # does nothing if the request has been seated or rejected
    except BaseException:
        controller.leave(admission)
        client.end_watch()
        raise
    finally:
        admission.waiter = None


def _earlier(admission: Admission, limit_ns: int) -> tuple[int, Reason]:
    """Return the time until the wait ends, and why: because of its limit, or of the request's deadline before it."""
    latest = admission.latest_start_ns
    if latest is None or latest - admission.arrived_at >= limit_ns:
        return limit_ns, Reason.TIME_OUT
    return latest - admission.arrived_at, Reason.DEADLINE


def _start(run: Callable[[], Coroutine[Any, Any, None]]) -> Cancellable:
    """Run ``run`` in a task that is independent of the cancel scopes of the request."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from trio import CancelScope  # noqa: PLC0415 - trio is installed only where apps run on it
        from trio.lowlevel import spawn_system_task  # noqa: PLC0415

        scope = CancelScope()
        spawn_system_task(_run_in, scope, run, name=WATCHING, context=copy_context())
        return scope
    # the caller keeps a reference to the task, because the loop has only a weak one
    return loop.create_task(run(), name=WATCHING)


async def _run_in(scope: "CancelScope", run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with scope:
        await run()


def _leave_later(admission: Admission) -> None:
    """Release the seats of a request whose event loop has ended.

    The task that would release them has ended with that loop. Other requests of that loop have lost their tasks, too,
    and each of them may be the next to get the seats. If a loop runs in the calling thread, each release is posted to
    that loop, so the releases aren't nested. If no loop runs there, the seats are released at once.
    """
    leave = partial(admission.destination.controller.leave, admission)
    loop = EventLoop.running()
    if loop is None or not loop.post(leave):
        leave()


class _ScopeWaiter:
    __slots__ = ("_admission", "_loop", "_scope")

    def __init__(self, admission: Admission, scope: anyio.CancelScope) -> None:
        self._admission = admission
        self._scope = scope
        self._loop = EventLoop()

    def wake(self) -> None:
        # Seats may also be freed on another loop or in another thread, which must not touch this loop's scope.
        if self._loop.is_here:
            self._scope.cancel()
        elif not self._loop.post(self._scope.cancel):
            _leave_later(self._admission)

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)


class WaitingTask:
    """A wait on asyncio: the future that ends the wait, its time-out, and the ``client``, which a long wait watches."""

    __slots__ = (
        "_admission",
        "_client",
        "_context",
        "_monitor",
        "_polled",
        "_reason",
        "_timer",
        "limit_ns",
        "number",
        "timeouts",
        "woken",
    )

    def __init__(
        self,
        admission: Admission,
        limit_ns: int,
        client: ClientWatch,
        monitor: WaitMonitor,
    ) -> None:
        self._admission = admission
        self.limit_ns: int
        self.limit_ns, self._reason = _earlier(admission, limit_ns)
        self._timer: asyncio.TimerHandle | None = None  # of a deadline
        self._client: ClientWatch | None = client
        self._polled: PolledConnection | None = None
        self._monitor = monitor
        self._context = copy_context()  # the context of the request, for the task that watches its client
        self.timeouts: Timeouts[Wait] | None = None
        self.number: int = -1  # at the monitor; not there if the end is scheduled at once
        self.woken: asyncio.Future[None] = monitor.loop.create_future()

    def wake(self) -> None:
        # Seats may also be freed on another loop or in another thread, which must not touch this loop's future.
        if not self._monitor.is_here:
            try:
                self._monitor.loop.call_soon_threadsafe(self.wake)
            except RuntimeError:
                _leave_later(self._admission)
            return
        try:  # noqa: SIM105 - `suppress` would create an object for each wait
            self.woken.set_result(None)
        except asyncio.InvalidStateError:
            pass  # the task has been cancelled

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)

    def schedule_end(self) -> None:
        """Schedule the rejection of the request for the end of its wait limit, or for its deadline."""
        admission = self._admission
        if self._reason is Reason.DEADLINE:  # waits with different limits can't share a timer
            rest = admission.arrived_at + self.limit_ns - admission.destination.controller.now()
            self._timer = self._monitor.loop.call_later(max(0, rest) / _SECOND, self.time_out)
        else:
            self.timeouts = self._monitor.timeouts(self.limit_ns)
            self.timeouts.begin(self, admission.arrived_at)

    def end(self) -> None:
        """Forget the client and the scheduled rejection, and let the monitor forget this wait."""
        self._monitor.forget(self.number)
        self._client = None
        if self._polled is not None:
            self._polled.end()
            self._polled = None  # breaks a reference cycle
        if self.timeouts is not None:
            self.timeouts.end(self)
        elif self._timer is not None:
            self._timer.cancel()

    def time_out(self) -> None:
        """Reject the request, because its wait limit is over or its deadline has come."""
        self._admission.destination.controller.abandon(self._admission, self._reason)

    def become_long(self) -> None:
        """Schedule the end, and look at the connection or watch the client, unless the wait is over."""
        client = self._client
        if client is None or self.woken.done():
            return
        self.schedule_end()
        connection = client.connection()
        if connection is None:
            client.watch(self, self._start)
        else:
            self._polled = self._monitor.polls.begin(connection, self)

    def watch_client(self) -> None:
        """Watch the client, unless the wait is over."""
        client = self._client
        if client is not None and not self.woken.done():
            client.watch(self, self._start)

    def _start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Cancellable:
        return self._monitor.loop.create_task(run(), name=WATCHING, context=self._context)
