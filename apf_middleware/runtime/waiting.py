"""The one place where a request waits: for a seat, until its time is up, or until its client has gone.

What happens to a waiting request happens at once, in the step that brings it about: whoever releases a seat has seated
it, a timer or a hang-up has taken it out of its queue, before its task runs again. So the task finds the outcome in the
admission, and no two outcomes can race. One thing can come between: the task itself is cancelled, perhaps in the very
instant in which it is given a seat. Then the seat is passed on, or the place in the queue given up, and the
cancellation goes its way.

On asyncio a waiting request costs a future and a timer. Listening to its client needs a task, which starts only when
the wait has lasted for `LISTEN_AFTER_NS`; most waits are over by then. Elsewhere (trio) the request's own task listens,
and is called away by its cancel scope.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from apf_middleware.fairqueuing import Reason

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Admission

__all__ = ["LISTEN_AFTER_NS", "Listener", "Waiter", "wait_for_seat", "wait_in_scope"]

LISTEN_AFTER_NS: Final = 3_000_000
"""A client that has hung up is noticed when its request has waited for so long."""

_SECOND: Final = 10**9


class Listener(Protocol):
    """Who listens to a client while its request waits."""

    listening: "asyncio.Task[bool] | None"
    """The task that listens, on asyncio: it may have to go on when the wait is over, to lose nothing that it hears."""

    async def listen(self) -> bool:
        """Listen until the client has gone (True), or until there is more to hear than can be kept (False)."""
        ...


class Waiter(Protocol):
    """What is woken when a request's wait is over."""

    def wake(self) -> None: ...


async def wait_for_seat(admission: "Admission", limit_ns: int, listener: Listener | None = None) -> None:
    """Wait until ``admission``, which is queued, is seated or rejected, at most ``limit_ns``."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        await wait_in_scope(admission, limit_ns, listener)
        return
    sleeper = _Sleeper(admission, limit_ns, listener, loop)
    admission.waiter = sleeper
    try:
        await sleeper.woken
    except BaseException:
        admission.destination.controller.leave(admission)
        raise
    finally:
        sleeper.timer.cancel()
        admission.waiter = None


class _Sleeper:
    """A task's wait on asyncio: the future that wakes it, and one timer at a time."""

    __slots__ = ("_admission", "_limit_ns", "_listener", "_loop", "timer", "woken")

    def __init__(
        self, admission: "Admission", limit_ns: int, listener: Listener | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._admission = admission
        self._limit_ns = limit_ns
        self._listener = listener
        self._loop = loop
        self.woken = loop.create_future()
        if listener is None or limit_ns <= LISTEN_AFTER_NS:
            self.timer = loop.call_later(limit_ns / _SECOND, self._run_out)
        else:
            self.timer = loop.call_later(LISTEN_AFTER_NS / _SECOND, self._begin_to_listen)

    def wake(self) -> None:
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - the public one raises where none runs
            self._end()
        else:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.woken.done():  # as it is when its task has been cancelled
            self.woken.set_result(None)

    def _run_out(self) -> None:
        self._admission.destination.controller.abandon(self._admission, Reason.TIME_OUT)

    def _begin_to_listen(self) -> None:
        rest = self._limit_ns - LISTEN_AFTER_NS
        self.timer = self._loop.call_later(rest / _SECOND, self._run_out)
        listener = self._listener
        assert listener is not None
        listener.listening = self._loop.create_task(listener.listen())
        listener.listening.add_done_callback(self._heard)

    def _heard(self, listening: "asyncio.Task[bool]") -> None:
        if not listening.cancelled() and listening.exception() is None and listening.result():
            self._admission.destination.controller.abandon(self._admission, Reason.CANCELLED)


async def wait_in_scope(admission: "Admission", limit_ns: int, listener: Listener | None = None) -> None:
    """The same on whatever anyio knows, trio above all: the task listens itself, and waking it ends its scope."""
    controller = admission.destination.controller
    scope = anyio.CancelScope(deadline=anyio.current_time() + limit_ns / _SECOND)
    admission.waiter = _ScopeWaiter(scope)
    try:
        with scope:
            if listener is not None and await listener.listen():
                controller.abandon(admission, Reason.CANCELLED)
                return
            await anyio.sleep_forever()
        controller.abandon(admission, Reason.TIME_OUT)
    except BaseException:
        controller.leave(admission)
        raise
    finally:
        admission.waiter = None


class _ScopeWaiter:
    __slots__ = ("_scope",)

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def wake(self) -> None:
        self._scope.cancel()
