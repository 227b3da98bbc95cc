"""Listening to a client while its request is queued.

Nobody tells an app that its client has hung up, unless the app asks for the next message. So somebody must ask while
the request waits, and must keep what is heard, for the app is to hear it too, in order and complete. At most one
message is kept: when a body comes in parts, the first part is, and nothing more is asked for, so that an upload stays
where it is, with the client.

A client that expects ``100 Continue`` holds its body back until it is asked for, and servers (uvicorn) take the app's
first question for that. Nobody asks in the app's place then: a body that is called for before there is a seat would
come for nothing when the request is rejected.
"""

import asyncio
from typing import TYPE_CHECKING

from starlette.types import Message, Receive, Scope

if TYPE_CHECKING:
    from apf_middleware.runtime.vigil import Waiter

__all__ = ["Client", "Hearing", "begin_to_listen", "expects_continue"]

Client = tuple[Scope, Receive]
"""Where a client is listened to, and what it has said."""

_GONE = frozenset({"http.disconnect", "websocket.disconnect"})


class Hearing:
    """Listens in the app's place, and hands over what was heard; `receive` is then the app's.

    One that ``is_silent`` asks for nothing, so it hears nothing either.
    """

    __slots__ = ("_heard", "_receive", "_stopped", "listening")

    def __init__(self, receive: Receive, *, is_silent: bool = False) -> None:
        self._receive = receive
        self._heard: tuple[Message, ...] = ()  # no list, which would take more memory where many wait
        self._stopped = is_silent
        self.listening: asyncio.Task[None] | None = None

    async def listen(self, waiter: "Waiter") -> None:
        """Listen until the client has gone, which ``waiter`` is told, or there is more to hear than should be kept."""
        while not self._stopped:
            message = await self._receive()
            self._heard += (message,)
            kind = message.get("type")
            if kind in _GONE:
                waiter.hang_up()
                return
            whole_request = kind == "http.request" and not message.get("more_body", False)
            if not (whole_request or kind == "websocket.connect") or len(self._heard) > 1:
                return

    async def receive(self) -> Message:
        """The next message, for the app."""
        self._stopped = True
        while not self._heard:
            listening = self.listening
            if listening is None:
                return await self._receive()
            if listening.done():
                self.listening = None
                listening.result()  # an error of the server's is the app's to see, as it would be without us
            else:
                await asyncio.wait([listening])  # which isn't cancelled when this call is
        message, *later = self._heard
        self._heard = tuple(later)
        return message

    def stop(self) -> None:
        """The request is over: nobody is interested any more."""
        self._stopped = True
        listening, self.listening = self.listening, None  # or the two would hold each other, for the collector to find
        if listening is None:
            return
        if listening.done():
            listening.cancelled() or listening.exception()  # or the loop would complain that nobody has looked
        else:
            listening.cancel()

    @property
    def has_heard(self) -> bool:
        """Whether the app must hear through `receive`, because something was asked for in its place."""
        return bool(self._heard) or self.listening is not None

    def __repr__(self) -> str:
        return f"<Hearing: {len(self._heard)} messages kept>"


def begin_to_listen(client: Client) -> Hearing:
    """Who listens to the client of a request."""
    scope, receive = client
    return Hearing(receive, is_silent=expects_continue(scope))


def expects_continue(scope: Scope) -> bool:
    """Whether the client waits to be asked for its body; of expectations HTTP knows no other."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope.get("headers") or ())
