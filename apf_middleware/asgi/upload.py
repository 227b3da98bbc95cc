"""Give seats back while an app waits for more of a long body, and ask for them again.

If nothing comes for a while (`HELD_NS`), the seats are given back, more of the body is received without them, and the
request asks for seats again in its flow's queue.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.body import RequestBody
from apf_middleware.fairqueuing import Reason, TicketState, Work
from apf_middleware.runtime import Admission
from apf_middleware.runtime.time_limits import limit_time

__all__ = ["Upload"]

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING

_Wait = Callable[[Admission, Scope, Receive, RequestBody], Awaitable[object]]
"""A function that waits for seats and watches the client meanwhile."""

_Reject = Callable[[Admission, Scope, Send], Awaitable[None]]
"""A function that sends the response to a rejected request."""


class Upload:
    """The rest of a long ``body``, which the app of ``admission`` receives itself.

    A client that sends the beginning at once and the rest very slowly would hold the seats of its request all the time.
    The seats are therefore given back while the app waits for more. A request that gets no seats again, or has too slow
    a body, is ended: the client gets an error unless a response has begun, and the app gets ``http.disconnect``.
    """

    __slots__ = (
        "_admission",
        "_body",
        "_exchange",
        "_has_begun",
        "_is_counted",
        "_is_cut",
        "_is_suspended",
        "_reject",
        "_wait",
    )

    def __init__(
        self,
        body: RequestBody,
        admission: Admission,
        exchange: tuple[Scope, Receive, Send],
        *,
        wait: _Wait,
        reject: _Reject,
    ) -> None:
        self._body = body
        self._admission = admission
        self._exchange = exchange
        self._wait = wait
        self._reject = reject
        self._has_begun = self._is_cut = self._is_suspended = self._is_counted = False
        body.hand_over(exchange[1], exchange[2])

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        body = self._body
        if self._is_cut:
            return {"type": "http.disconnect"}
        self._is_suspended = self._is_suspended and not self._has_begun  # after an earlier call that was cancelled
        if body.is_empty and not body.is_whole and (self._is_suspended or self._is_limited):
            await self._gather()
            if body.reason not in {None, Reason.CANCELLED}:
                self._release()  # it may have kept its seats
        if self._is_suspended and body.reason is not Reason.CANCELLED and not await self._resume():
            return await self._cut()
        return await body.receive()

    async def _gather(self) -> None:
        bodies = self._admission.destination.controller.bodies
        try:
            await self._body.gather(bodies.settings.buffer, self._begin_to_wait)
        finally:
            bodies.held.end(self)
            if self._is_counted:
                self._is_counted = False
                self._admission.destination.counters.suspended -= 1

    @property
    def _is_limited(self) -> bool:
        """Whether the rest of the body has to arrive in time, because the request has seats meanwhile."""
        admission = self._admission
        return not self._has_begun and admission.state is _SEATED and not admission.destination.runtime.shared.exempt

    @property
    def _keeps_seats(self) -> bool:
        """Whether the request can't ask for seats again: its gates, or the seats that linger, would count twice."""
        return bool(self._admission.destination.gates or self._admission.work.linger_ns)

    def _begin_to_wait(self) -> None:
        self._body.note_task()
        if self._is_suspended:
            if not self._is_counted:  # an earlier call has been cancelled
                self._count()
        elif not self._body.incoming.is_counted:
            self._admission.destination.controller.bodies.held.begin(self)

    def suspend(self) -> None:
        """Give the seats back, unless they have to be kept, until more of the body has arrived."""
        if not self._is_limited:
            return
        if self._keeps_seats:
            self._limit()
            return
        self._count()
        self._release()

    def _count(self) -> None:
        self._is_counted = True
        self._admission.destination.counters.suspended += 1
        self._limit()

    def _limit(self) -> None:
        """Let the rest of the body arrive in time, or end the request."""
        self._body.incoming.is_running = True
        self._body.count()

    def _release(self) -> None:
        """Give the seats back, and the leases with them, if the request has any."""
        if self._is_limited:
            self._is_suspended = True
            admission, work = self._admission, self._admission.work
            # If seats would linger, the request is about to be rejected (see `_keeps_seats`): it has no work after its
            # reply, and a ticket that lingers can't be rejected.
            admission.work = Work(work.seats, work.final_seats)
            admission.long_term()  # so that other tasks of the app may begin watches meanwhile
            # How long it had them depends on its client, so nothing is learned from that.
            admission.destination.controller.release(admission, has_run=False)

    async def _resume(self) -> bool:
        """Ask for seats again, and return whether the request may continue."""
        admission, body = self._admission, self._body
        destination = admission.destination
        controller = destination.controller
        self._is_suspended = False
        if body.reason is not None:
            admission.renew()
            controller.refuse(controller.now(), admission, body.reason)
            return False
        if controller.is_passing or controller.is_closing:
            return True  # no request waits now; this one finishes like others that run
        runtime = destination.runtime
        if runtime.shared.is_closing or controller.registry.levels.get(admission.level) is not runtime:
            return True
        admission.renew()
        now, deadline = controller.now(), admission.deadline_ns
        if deadline is not None:  # the wait may take half of the time that the body has left
            limit_time(admission, now, deadline - now, controller.costs)
        controller.arrive(now, admission)
        if admission.state is _WAITING:
            try:
                await self._wait(admission, self._exchange[0], self._exchange[1], body)
            except BaseException:  # such as the end of a time limit of the app, which may ask again
                self._is_suspended = True
                raise
            body.stop_watching()
        if admission.state is _SEATED and admission.revoked.is_allowed:
            controller.let_revoke(admission)
        return admission.reason is None  # it has seats, or passes without, because the mode has changed

    async def _cut(self) -> Message:
        """End the request while its app runs."""
        self._is_cut = True
        scope, _, send = self._exchange
        if not self._has_begun:
            await self._reject(self._admission, scope, send)
        return {"type": "http.disconnect"}

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the app, unless the request has already been answered with an error."""
        if self._is_cut:
            return _ignore()
        # Early hints, for example, come before the response.
        self._has_begun = self._has_begun or message["type"] == "http.response.start"
        return self._body.send(message)

    def __repr__(self) -> str:
        return f"<Upload of {self._body!r}>"


async def _ignore() -> None:
    """Do nothing."""
