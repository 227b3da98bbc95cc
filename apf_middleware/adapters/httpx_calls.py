"""Transports for httpx that pass on what is known about the current request, and limit time-outs to what is left.

They do what the event hooks of `DeadlineHeaders` and `CriticalityHeaders` do, and make none of the client's time-outs
longer than the time that is left. Each time-out is for one step, so a call of several steps may take longer in all::

    transport = AsyncCallTransport(DeadlineHeaders(), CriticalityHeaders())
    client = httpx.AsyncClient(transport=transport)
"""

import time
from collections.abc import Callable, Iterable

from apf_middleware.exceptions import MissingExtraError
from apf_middleware.propagation.current import CURRENT_DEADLINE
from apf_middleware.propagation.outgoing import OutgoingHeaders

try:
    import httpx
except ImportError:
    raise MissingExtraError("httpx", "httpx") from None

__all__ = ["AsyncCallTransport", "CallTransport"]

_SECOND = 10**9
_STEPS = ("connect", "read", "write", "pool")


class AsyncCallTransport(httpx.AsyncBaseTransport):
    """Send requests with the headers of ``told`` through ``inner``, which is by default a transport of httpx."""

    def __init__(
        self,
        *told: OutgoingHeaders,
        inner: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._told = told
        self._inner = inner or httpx.AsyncHTTPTransport()
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _prepare(request, self._told, self._clock)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class CallTransport(httpx.BaseTransport):
    """The same for ``httpx.Client``."""

    def __init__(
        self,
        *told: OutgoingHeaders,
        inner: httpx.BaseTransport | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._told = told
        self._inner = inner or httpx.HTTPTransport()
        self._clock = clock

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        _prepare(request, self._told, self._clock)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def _prepare(request: httpx.Request, told: Iterable[OutgoingHeaders], clock: Callable[[], int]) -> None:
    """Write the headers, and let no step of the call take longer than the time that is left."""
    for one in told:
        one.tell(request)
    deadline = CURRENT_DEADLINE.get()
    if deadline is None:
        return
    left = max(0.001, (deadline - clock()) / _SECOND)
    given = request.extensions.get("timeout", {})
    limits = {step: left if (own := given.get(step)) is None else min(own, left) for step in _STEPS}
    request.extensions = {**request.extensions, "timeout": limits}
