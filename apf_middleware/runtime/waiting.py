"""The one place where a request waits: for a seat, until its time is up, or until its client has gone.

What happens to a waiting request happens at once, in the step that brings it about: whoever releases a seat has seated
it, a timer or a hang-up has taken it out of its queue, before its task runs again. So the task finds the outcome in the
admission, and no two outcomes can race. One thing can come between: the task itself is cancelled, perhaps in the very
instant in which it is given a seat. Then the seat is passed on, or the place in the queue given up, and the
cancellation goes its way.

On asyncio a waiting request costs a future, and if the wait is a longer one, a task that listens to its client (see
`vigil`). On trio the request's task sleeps in a cancel scope, beside a system task that listens. The end of the wait
doesn't cancel the listening task: a server's ``receive`` that is cancelled may lose what it was about to return.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.vigil import VIGILS, WATCH_AFTER_NS, WATCHING, Cancellable, ClientWatch, Sleeper

if TYPE_CHECKING:
    from trio import CancelScope

    from apf_middleware.runtime.admission import Admission

__all__ = ["wait_for_seat", "wait_in_scope"]

_SECOND: Final = 10**9

L = TypeVar("L", bound=ClientWatch)
C = TypeVar("C")


async def wait_for_seat(admission: "Admission", limit_ns: int, begin_to_watch: Callable[[C], L], client: C) -> L | None:
    """Wait until ``admission``, which is queued, is seated or rejected, at most ``limit_ns``.

    Return what watched its ``client``, if it was watched.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await wait_in_scope(admission, limit_ns, begin_to_watch, client)
    admission.waiter = sleeper = Sleeper(admission, limit_ns, begin_to_watch, client, loop)
    vigil = VIGILS[loop]
    if limit_ns > 2 * WATCH_AFTER_NS:
        vigil.watch(sleeper)
    else:
        vigil.deadlines(limit_ns).enter(sleeper)
    try:
        await sleeper.woken
    except BaseException:
        admission.destination.controller.leave(admission)
        if sleeper.client_watch is not None:
            sleeper.client_watch.close()
        raise
    finally:
        admission.waiter = None
        if sleeper.deadlines is not None:
            sleeper.deadlines.leave(sleeper)
    return sleeper.client_watch


async def wait_in_scope(admission: "Admission", limit_ns: int, begin_to_watch: Callable[[C], L], client: C) -> L:
    """The same on whatever anyio knows, trio above all: the task sleeps, and waking it ends its scope."""
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

    def __init__(self, admission: "Admission", scope: anyio.CancelScope) -> None:
        self._admission = admission
        self._scope = scope

    def wake(self) -> None:
        self._scope.cancel()

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)
