"""The stream of events for the page: one document a second, which all open pages share.

A document is made when a page asks for it, so without pages nothing is made. Each stream waits for the next full second
of one clock, and the first one to arrive there makes the document of this second for all. A client that reads slowly
misses documents; nothing is kept for it.

A stream ends after a time. The page then asks again, and is authenticated and authorized again: a credential that has
become invalid is of no more use than that.
"""

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio

from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.console.document import observe_console

__all__ = ["LIFETIME_S", "PERIOD_S", "ConsoleFeed"]

PERIOD_S: Final = 1.0
"""The time between two documents."""

LIFETIME_S: Final = 30.0
"""The time after which a stream ends, so that its caller is authenticated again."""

_NOTICE_S: Final = 0.2  # how long a stream may delay the end of the server
_RETRY: Final = b"retry: 500\n\n"  # in milliseconds: how soon a browser asks again


class ConsoleFeed:
    """The documents about ``view``; ``offset()`` is how far the wall clock is ahead of the server's clock.

    ``made`` counts the documents.
    """

    def __init__(self, view: View, offset: Callable[[], int]) -> None:
        self._view = view
        self._offset = offset
        self._tick: int | None = None
        self._event = b""
        self.made: int = 0

    async def events(self, greeting: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the ``greeting``, a document at once, and then one each second."""
        ends_at = anyio.current_time() + LIFETIME_S
        tick = int(anyio.current_time() // PERIOD_S)
        yield _RETRY + _event("hello", greeting) + self._document(tick)
        while True:
            tick = max(tick, int(anyio.current_time() // PERIOD_S)) + 1  # a timer may be a moment early
            if tick * PERIOD_S > ends_at or not await self._wait_until(tick * PERIOD_S):
                break
            yield self._document(tick)

    async def _wait_until(self, at: float) -> bool:
        """Wait until this time; return False soon after the server has begun to end."""
        controller = self._view.controller
        while not controller.is_closing:
            now = anyio.current_time()
            if now >= at:
                return True
            await anyio.sleep_until(min(at, now + _NOTICE_S))
        return False

    def _document(self, tick: int) -> bytes:
        """Return the document of a second, as an event."""
        if tick != self._tick:
            document = observe_console(self._view).as_json(Formatter(self._offset()))
            self._event = _event("state", document)
            self._tick = tick
            self.made += 1
        return self._event


def _event(name: str, document: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
