"""``Server-Timing`` (W3C): tells the client's own tools how long its request waited for its seats.

One metric, ``apf``: its duration in milliseconds, and a word for what became of the request. The header is a list, so
ours stands as a line of its own behind whatever the app says in it.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.runtime import Admission

__all__ = ["timed", "timing_header"]

_STARTS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
_MS: Final = 1_000


def timing_header(admission: Admission) -> tuple[bytes, bytes]:
    """The header of a response to this request."""
    waited = admission.waited
    became = admission.reason or ("queued" if waited else "seated")
    return b"server-timing", f'apf;dur={waited * _MS:.1f};desc="{became}"'.encode()


def timed(app: ASGIApp) -> ASGIApp:
    """``app``, with the header in the start of each of its responses."""

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return app(scope, receive, partial(_send_timed, send, scope["apf"]))

    return run


async def _send_timed(send: Send, admission: Admission, message: Message) -> None:
    if message["type"] in _STARTS:
        message = {**message, "headers": [*message.get("headers", ()), timing_header(admission)]}
    await send(message)
