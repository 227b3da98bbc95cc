"""The client of a waiting request: its connection is looked at, or its messages are received, to notice a hang-up."""

from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope

from apf_middleware.asgi.body import RequestBody, announcement, is_for_app, receiver_of
from apf_middleware.runtime import Admission, Connection

if TYPE_CHECKING:
    from apf_middleware.runtime.waiting import Start, Waiter

__all__ = ["WaitingClient"]

_POLLED: Final = "uvicorn.protocols.http."
"""The modules of the objects that show by ``disconnected`` whether their connection has ended: uvicorn's requests."""

_BODILESS: Final = frozenset({"GET", "HEAD"})


class WaitingClient:
    """The client of a request that waits; ``body`` is what has been received from it, if anything has to be."""

    __slots__ = ("_admission", "_receive", "body", "scope")

    def __init__(self, admission: Admission, scope: Scope, receive: Receive, body: RequestBody | None) -> None:
        self._admission = admission
        self.scope: Scope = scope
        self._receive = receive
        self.body: RequestBody | None = body

    def connection(self) -> Connection | None:
        """Return the connection, if a look at it shows whether the client has hung up.

        While the client of a long body has to wait, the server doesn't read from the connection, and can't notice that
        it has ended.
        """
        scope = self.scope
        if self.body is not None or scope["type"] != "http":
            return None
        found: Connection | None = receiver_of(self._receive)
        if not type(found).__module__.startswith(_POLLED):
            return None
        # A search in the headers takes as long as all the rest here, and a GET hardly ever has a long body.
        if scope["method"] not in _BODILESS and announcement(scope):
            return None
        # A client that has gone already is noticed by a watch at once; and a later uvicorn may lack the attribute.
        return found if getattr(found, "disconnected", None) is False else None

    def watch(self, waiter: "Waiter", start: "Start") -> None:
        """Watch whether the client hangs up; from now on, the app receives from ``body``."""
        if self.body is None:
            destination = self._admission.destination
            self.body = RequestBody(
                destination.controller.bodies,
                destination.classification,
                self._receive,
                is_silent=is_for_app(self.scope),
                is_ahead=False,
            )
        self.body.watch(waiter, start)

    def end_watch(self) -> None:
        """End the watch, because the waiting task has been cancelled."""
        if self.body is not None:
            self.body.end_watch()
