"""Reading a request's body before its app does, for estimates that somebody tells there.

The app reads it again, message for message, and whatever comes after it. Only JSON is read, only so much of it, and
only of callers who are believed. Nobody who waits to be asked for a body (``Expect: 100-continue``) is asked for it.
"""

import json
from collections.abc import Mapping
from typing import Final

from starlette.types import Message, Receive, Scope

from apf_middleware.asgi.hangup import expects_continue
from apf_middleware.classification.digest import NO_VALUES

__all__ = ["LONGEST_BODY", "Body", "is_readable"]

LONGEST_BODY: Final = 64 * 1024
"""So many bytes are read; a longer body tells nothing."""


class Body:
    """What was read of a body; `receive` gives it back to the app."""

    __slots__ = ("_kept", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[Message] = []

    async def read(self) -> Mapping[str, object]:
        """The JSON object that the body is; nothing if it is none, or too long, or the client has gone."""
        parts: list[bytes] = []
        length = 0
        while length <= LONGEST_BODY:
            message = await self._receive()
            self._kept.append(message)
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            if not message.get("more_body", False):
                return _parsed(b"".join(parts)) if length <= LONGEST_BODY else NO_VALUES
        return NO_VALUES

    async def receive(self) -> Message:
        """The next message, for the app."""
        return self._kept.pop(0) if self._kept else await self._receive()

    def __repr__(self) -> str:
        return f"<Body: {len(self._kept)} messages kept>"


def _parsed(raw: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return NO_VALUES
    return found if isinstance(found, dict) else NO_VALUES


def is_readable(scope: Scope) -> bool:
    """Whether this request has a body of JSON that isn't known to be too long, and that may be asked for."""
    if scope["type"] != "http" or expects_continue(scope):
        return False
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    length = headers.get(b"content-length", b"0")
    return (kind == b"application/json" or kind.endswith(b"+json")) and length.isdigit() and int(length) <= LONGEST_BODY
