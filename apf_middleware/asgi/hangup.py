"""Listening to a client while its request is queued.

Nobody tells an app that its client has hung up, unless the app asks for the next message. So somebody must ask while
the request waits, and must keep what is heard, for the app is to hear it too, in order and complete. At most one
message is kept: when a body comes in parts, the first part is, and nothing more is asked for, so that an upload stays
where it is, with the client.
"""

import asyncio

from starlette.types import Message, Receive

__all__ = ["Hearing"]

_GONE = frozenset({"http.disconnect", "websocket.disconnect"})


class Hearing:
    """Listens in the app's place, and hands over what was heard; `receive` is then the app's."""

    __slots__ = ("_heard", "_receive", "_stopped", "listening")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._heard: list[Message] = []
        self._stopped = False
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
