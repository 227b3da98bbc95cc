"""The rest of a long body, which an app receives itself, and what becomes of its seats while nothing comes.

A client that sends the beginning at once and the rest drop by drop would hold the seats of its request all the time. So
when the app has waited a while for more (`HELD_NS`), its seats are given back, and the request is received again like
one that hasn't any: as much as the buffer holds, within the bounds of `IncomingBodies`. Then it asks for seats once
more, in its flow's queue, and the app goes on where it was.

A request that gets none any more, or whose body is too slow, is ended: the client is told why unless a response has
begun, and the app hears that its client has gone.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.body import Body
from apf_middleware.asgi.exchange import Exchange
from apf_middleware.asgi.hangup import Client, Hearing
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime import Admission

__all__ = ["Upload"]

_SEATED: Final = TicketState.SEATED
_WAITING: Final = TicketState.WAITING

Wait = Callable[[Admission, Client], Awaitable[Hearing | None]]
"""Waits for seats, and listens to the client meanwhile."""

Tell = Callable[[Admission, Scope, Send], Awaitable[None]]
"""Tells a client why its request isn't served."""


class Upload:
    """Receives the rest of ``body`` for the app of ``admission``.

    ``wait`` waits for seats, ``tell`` answers a request that gets none.
    """

    __slots__ = (
        "_admission",
        "_body",
        "_exchange",
        "_has_begun",
        "_is_cut",
        "_is_suspended",
        "_tell",
        "_wait",
    )

    def __init__(
        self, body: Body, admission: Admission, exchange: tuple[Scope, Receive, Send], *, wait: Wait, tell: Tell
    ) -> None:
        self._body = body
        self._admission = admission
        self._exchange = exchange
        self._wait = wait
        self._tell = tell
        self._has_begun = self._is_cut = self._is_suspended = False
        body.go_on(exchange[1])

    def hand_over(self) -> tuple[Receive, Send]:
        """Return the app's ``receive`` and ``send``."""
        exchange = Exchange(self.receive, self.send, self._body.close)
        return exchange.receive, exchange.send

    async def receive(self) -> Message:
        """The next message, for the app."""
        body = self._body
        if self._is_cut:
            return {"type": "http.disconnect"}
        if body.is_empty and not body.is_whole and self._may_be_suspended():
            bodies = self._admission.destination.controller.bodies
            try:
                await body.gather(bodies.settings.buffer, self._begin_to_wait)
            finally:
                bodies.held.end(self)
            if self._is_suspended:
                self._is_suspended = False
                if body.reason is not Reason.CANCELLED and not await self._resume():
                    return await self._cut()
        return await body.receive()

    def _may_be_suspended(self) -> bool:
        """Whether its seats can be given back and asked for again: it has some, and nothing else depends on them."""
        admission = self._admission
        destination = admission.destination
        if self._has_begun or admission.state is not _SEATED or destination.gates:
            return False
        return not (admission.work.linger_ns or destination.runtime.shared.exempt)

    def _begin_to_wait(self) -> None:
        self._body.note_task()
        self._admission.destination.controller.bodies.held.begin(self)

    def suspend(self) -> None:
        """Give the seats back, for nothing can be done until more of the body has come."""
        if self._may_be_suspended():
            self._is_suspended = True
            self._admission.destination.controller.release(self._admission)
            self._body.incoming.is_running = True
            self._body.count()

    async def _resume(self) -> bool:
        """Ask for seats again; False if there are none for it."""
        admission, body = self._admission, self._body
        destination = admission.destination
        controller = destination.controller
        if body.reason is not None:
            admission.renew()
            controller.refuse(controller.now(), admission, body.reason)
            return False
        if controller.is_closing or controller.levels.get(admission.level) is not destination.runtime:
            return True  # nobody can come there any more: it finishes like others that run
        admission.renew()
        controller.arrive(controller.now(), admission)
        if admission.state is _WAITING:
            scope, receive, send = self._exchange
            if body.hearing is not None and not body.hearing.is_drained:
                receive = body.hearing.receive
            hearing = await self._wait(admission, (scope, receive))
            if hearing is not None:
                body.hearing = hearing
                body.go_on(hearing.hand_over(send)[0])
        return admission.state is _SEATED

    async def _cut(self) -> Message:
        """End the request, though its app runs."""
        self._is_cut = True
        scope, _, send = self._exchange
        if not self._has_begun:
            self._has_begun = True
            await self._tell(self._admission, scope, send)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send what an app sends, unless its client has been told already that its request is over."""
        if not self._is_cut:
            self._has_begun = True
            await self._exchange[2](message)

    def __repr__(self) -> str:
        return f"<Upload of {self._body!r}>"
