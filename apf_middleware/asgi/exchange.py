"""What an app is called with when a part of its request was received before it was called.

The ASGI specification has ``receive`` return ``http.disconnect`` when it is called after the response, and servers drop
then what the app hasn't received of a body. An `Exchange` does the same with what was received in the app's place.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive, Send

__all__ = ["Exchange"]

_CONTENT: Final = frozenset({"http.response.body", "http.response.zerocopysend", "http.response.pathsend"})


class Exchange:
    """The ``receive`` and ``send`` of one app. ``end`` is called when its response is complete."""

    __slots__ = ("_end", "_is_answered", "_receive", "_send", "_trailers")

    def __init__(self, receive: Receive, send: Send, end: Callable[[], None]) -> None:
        self._receive = receive
        self._send = send
        self._end = end
        self._is_answered = self._trailers = False

    async def receive(self) -> Message:
        """Return the next message."""
        return {"type": "http.disconnect"} if self._is_answered else await self._receive()

    async def send(self, message: Message) -> None:
        """Send, and note whether the response is complete."""
        await self._send(message)
        kind = message["type"]
        if kind == "http.response.start":
            self._trailers = message.get("trailers", False)
        elif kind == "http.response.trailers":
            self._is_answered = not message.get("more_trailers", False)
        elif kind in _CONTENT:
            self._is_answered = not (message.get("more_body", False) or self._trailers)
        if self._is_answered:
            self._end()

    def __repr__(self) -> str:
        return f"<Exchange: {'answered' if self._is_answered else 'open'}>"
