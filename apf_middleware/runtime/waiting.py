"""The one place where a request waits: for a seat, until its time is up, or until its client has gone.

What happens to a waiting request happens at once, in the step that brings it about: whoever releases a seat has seated
it, a timer or a hang-up has taken it out of its queue, before its task runs again. So the task finds the outcome in the
admission, and no two outcomes can race. One thing can come between: the task itself is cancelled, perhaps in the very
instant in which it is given a seat. Then the seat is passed on, or the place in the queue given up, and the
cancellation goes its way.

On asyncio a waiting request costs a future. When the wait has lasted for `LISTEN_AFTER_NS`, and most are over by then,
it gets a timer of its own, and a task that listens to its client. Elsewhere (trio) the request's own task listens, and
is called away by its cancel scope.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import anyio

from apf_middleware.fairqueuing import Reason

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Admission

__all__ = ["LISTEN_AFTER_NS", "Listener", "Vigil", "Waiter", "wait_for_seat", "wait_in_scope"]

LISTEN_AFTER_NS: Final = 3_000_000
"""A client that has hung up is noticed when its request has waited for so long, at most twice that."""

_SECOND: Final = 10**9
_LISTENING: Final = "apf: listen to the client of a waiting request"
_LISTEN_AFTER: Final = LISTEN_AFTER_NS / _SECOND


class Listener(Protocol):
    """Who listens to a client while its request waits."""

    listening: "asyncio.Task[bool] | None"
    """The task that listens, on asyncio: it may have to go on when the wait is over, to lose nothing that it hears."""

    async def listen(self) -> bool:
        """Listen until the client has gone (True), or until there is more to hear than can be kept (False)."""
        ...

    def stop(self) -> None:
        """Nobody is interested any more."""
        ...


L = TypeVar("L", bound=Listener)


class Waiter(Protocol):
    """What is woken when a request's wait is over."""

    def wake(self) -> None: ...


async def wait_for_seat(admission: "Admission", limit_ns: int, begin_to_listen: Callable[[], L]) -> L | None:
    """Wait until ``admission``, which is queued, is seated or rejected, at most ``limit_ns``; who listened, if any."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await wait_in_scope(admission, limit_ns, begin_to_listen)
    admission.waiter = sleeper = _Sleeper(admission, limit_ns, begin_to_listen, loop)
    if limit_ns <= 2 * LISTEN_AFTER_NS:
        sleeper.set_timer(limit_ns)
    else:
        admission.destination.controller.vigil.watch(sleeper, loop)
    try:
        await sleeper.woken
    except BaseException:
        admission.destination.controller.leave(admission)
        if sleeper.listener is not None:
            sleeper.listener.stop()
        raise
    finally:
        admission.waiter = None
        if sleeper.timer is not None:
            sleeper.timer.cancel()
    return sleeper.listener


class _Sleeper(Generic[L]):
    """A task's wait on asyncio: the future that wakes it, and a timer and a listener if the wait isn't a short one."""

    __slots__ = ("_admission", "_begin_to_listen", "_limit_ns", "_loop", "listener", "timer", "woken")

    def __init__(
        self,
        admission: "Admission",
        limit_ns: int,
        begin_to_listen: Callable[[], L],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._admission = admission
        self._limit_ns = limit_ns
        self._begin_to_listen = begin_to_listen
        self._loop = loop
        self.listener: L | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if asyncio._get_running_loop() is not self._loop:  # noqa: SLF001 - the public one raises where none runs
            self._loop.call_soon_threadsafe(self._end)
        elif not self.woken.done():  # as it is when its task has been cancelled
            self.woken.set_result(None)

    def _end(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def set_timer(self, limit_ns: int) -> None:
        self.timer = self._loop.call_later(max(0, limit_ns) / _SECOND, self._run_out)

    def _run_out(self) -> None:
        self._admission.destination.controller.abandon(self._admission, Reason.TIME_OUT)

    def settle_down(self) -> None:
        """It has become a longer wait."""
        admission = self._admission
        self.set_timer(self._limit_ns - (admission.destination.controller.now() - admission.arrived_at))
        self.listener = listener = self._begin_to_listen()
        listener.listening = self._loop.create_task(listener.listen(), name=_LISTENING)
        listener.listening.add_done_callback(self._heard)

    def _heard(self, listening: "asyncio.Task[bool]") -> None:
        if not listening.cancelled() and listening.exception() is None and listening.result():
            self._admission.destination.controller.hang_up(self._admission)


class Vigil:
    """Looks after those who have just begun to wait, with one timer for all: most won't need one of their own.

    Whoever is there at one look and still waits at the next one settles down, after `LISTEN_AFTER_NS` to twice that.
    """

    __slots__ = ("_loop", "_newcomers", "_young")

    def __init__(self) -> None:
        self._newcomers: list[_Sleeper[Any]] = []
        self._young: list[_Sleeper[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the timer, while there is one

    def watch(self, sleeper: "_Sleeper[Any]", loop: asyncio.AbstractEventLoop) -> None:
        """Let it settle down if it still waits after a while."""
        if loop is not self._loop:  # no timer is set, or its loop has ended and with it all who waited there
            self._newcomers, self._young = [], []
            self._loop = loop
            loop.call_later(_LISTEN_AFTER, self._look, loop)
        self._newcomers.append(sleeper)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        for sleeper in self._young:
            if not sleeper.woken.done():
                sleeper.settle_down()
        self._young = [sleeper for sleeper in self._newcomers if not sleeper.woken.done()]
        self._newcomers = []
        if self._young:
            loop.call_later(_LISTEN_AFTER, self._look, loop)
        else:
            self._loop = None

    def __repr__(self) -> str:
        return f"<Vigil: {len(self._young) + len(self._newcomers)} have begun to wait>"


async def wait_in_scope(admission: "Admission", limit_ns: int, begin_to_listen: Callable[[], L]) -> L:
    """The same on whatever anyio knows, trio above all: the task listens itself, and waking it ends its scope."""
    controller = admission.destination.controller
    scope = anyio.CancelScope(deadline=anyio.current_time() + limit_ns / _SECOND)
    admission.waiter = _ScopeWaiter(scope)
    listener = begin_to_listen()
    try:
        with scope:
            if await listener.listen():
                controller.hang_up(admission)
                return listener
            await anyio.sleep_forever()
        controller.abandon(admission, Reason.TIME_OUT)
    except BaseException:
        controller.leave(admission)
        raise
    finally:
        admission.waiter = None
    return listener


class _ScopeWaiter:
    __slots__ = ("_scope",)

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def wake(self) -> None:
        self._scope.cancel()
