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
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.vigil import LISTEN_AFTER_NS, LISTENING, Listener, Sleeper, Waiter

if TYPE_CHECKING:
    from trio import CancelScope

    from apf_middleware.runtime.admission import Admission

__all__ = ["wait_for_seat", "wait_in_scope"]

_SECOND: Final = 10**9

L = TypeVar("L", bound=Listener)
C = TypeVar("C")


async def wait_for_seat(
    admission: "Admission", limit_ns: int, begin_to_listen: Callable[[C], L], client: C
) -> L | None:
    """Wait until ``admission``, which is queued, is seated or rejected, at most ``limit_ns``.

    Returns who listened to its ``client``, if anybody did.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await wait_in_scope(admission, limit_ns, begin_to_listen, client)
    admission.waiter = sleeper = Sleeper(admission, limit_ns, begin_to_listen, client, loop)
    vigil = admission.destination.controller.vigils[loop]
    if limit_ns > 2 * LISTEN_AFTER_NS:
        vigil.watch(sleeper)
    else:
        vigil.deadlines(limit_ns).enter(sleeper)
    try:
        await sleeper.woken
    except BaseException:
        admission.destination.controller.leave(admission)
        if sleeper.listener is not None:
            sleeper.listener.stop()
        raise
    finally:
        admission.waiter = None
        if sleeper.deadlines is not None:
            sleeper.deadlines.leave(sleeper)
    return sleeper.listener


async def wait_in_scope(admission: "Admission", limit_ns: int, begin_to_listen: Callable[[C], L], client: C) -> L:
    """The same on whatever anyio knows, trio above all: the task sleeps, and waking it ends its scope."""
    controller = admission.destination.controller
    scope = anyio.CancelScope(deadline=anyio.current_time() + limit_ns / _SECOND)
    admission.waiter = waiter = _ScopeWaiter(admission, scope)
    listener = begin_to_listen(client)
    try:
        _start(listener, waiter)
        with scope:
            await anyio.sleep_forever()
        controller.abandon(admission, Reason.TIME_OUT)  # unless it was woken
    except BaseException:
        controller.leave(admission)
        listener.stop()
        raise
    finally:
        admission.waiter = None
    return listener


def _start(listener: Listener, waiter: Waiter) -> None:
    """Have ``listener`` listen in a task that no cancel scope of the request's ends."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from trio import CancelScope  # noqa: PLC0415 - apps that run on trio have it, others needn't
        from trio.lowlevel import spawn_system_task  # noqa: PLC0415

        scope = CancelScope()
        spawn_system_task(_listen_in, scope, listener, waiter, name=LISTENING, context=copy_context())
        listener.begin(scope)
    else:
        listener.begin(loop.create_task(listener.listen(waiter), name=LISTENING))


async def _listen_in(scope: "CancelScope", listener: Listener, waiter: Waiter) -> None:
    with scope:
        await listener.listen(waiter)


class _ScopeWaiter:
    __slots__ = ("_admission", "_scope")

    def __init__(self, admission: "Admission", scope: anyio.CancelScope) -> None:
        self._admission = admission
        self._scope = scope

    def wake(self) -> None:
        self._scope.cancel()

    def hang_up(self) -> None:
        self._admission.destination.controller.hang_up(self._admission)
