"""Answers of the admin that go on for a time: recordings, and events for the console."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import anyio
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi.scope import Headers

__all__ = ["StreamedAnswer", "send_streamed"]


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """A response whose body is made while it is sent; ``parts`` must end by itself when the server shuts down.

    A client may take ``patience_s`` seconds to read each part; then the response is broken off.
    """

    status: int
    headers: Headers
    parts: AsyncGenerator[bytes, None]
    patience_s: float


async def send_streamed(answer: StreamedAnswer, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer part by part, until it ends or the client disconnects; ``parts`` is closed in any case."""
    async with aclosing(answer.parts) as parts, anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_after_disconnect, receive, tasks.cancel_scope)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers.copy()})
        if scope["method"] != "HEAD":
            async for part in parts:
                with anyio.move_on_after(answer.patience_s) as limit:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                if limit.cancelled_caught:  # the end of the response would wait for the client, too
                    tasks.cancel_scope.cancel()
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        tasks.cancel_scope.cancel()


async def _cancel_after_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the rest of a body that the page hasn't read
    scope.cancel()
