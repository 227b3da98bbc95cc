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

from starlette.types import Message, Receive, Scope

__all__ = ["Hearing", "begin_to_listen", "expects_continue"]

_GONE = frozenset({"http.disconnect", "websocket.disconnect"})


class Hearing:
    """Listens in the app's place, and hands over what was heard; `receive` is then the app's.

    One that ``is_silent`` asks for nothing, so it hears nothing either.
    """

    __slots__ = ("_heard", "_receive", "_stopped", "listening")

    def __init__(self, receive: Receive, *, is_silent: bool = False) -> None:
        self._receive = receive
        self._heard: list[Message] = []
        self._stopped = is_silent
        self.listening: asyncio.Task[bool] | None = None

    async def listen(self) -> bool:
        """Listen until the client has gone (True), or until there is more to hear than should be kept (False)."""
        while not self._stopped:
            message = await self._receive()
            self._heard.append(message)
            kind = message.get("type")
            if kind in _GONE:
                return True
            whole_request = kind == "http.request" and not message.get("more_body", False)
            if not (whole_request or kind == "websocket.connect") or len(self._heard) > 1:
                return False
        return False

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
        return self._heard.pop(0)

    def stop(self) -> None:
        """The request is over: nobody is interested any more."""
        self._stopped = True
        if self.listening is not None and not self.listening.done():
            self.listening.cancel()

    @property
    def has_heard(self) -> bool:
        """Whether the app must hear through `receive`, because something was asked for in its place."""
        return bool(self._heard) or self.listening is not None

    def __repr__(self) -> str:
        return f"<Hearing: {len(self._heard)} messages kept>"


def begin_to_listen(scope: Scope, receive: Receive) -> Hearing:
    """Who listens to the client of this request."""
    return Hearing(receive, is_silent=expects_continue(scope))


def expects_continue(scope: Scope) -> bool:
    """Whether the client waits to be asked for its body; of expectations HTTP knows no other."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope.get("headers") or ())
