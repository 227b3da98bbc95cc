"""The smallest fair limiter: tenants take turns. It is what fairness costs without anything else.

Queues have the length and the wait limit of the configuration ``overload`` (see `wire_configs`), and rejections look
like ours. There are no levels, weights, metrics or logs; each request counts as one, whatever work it is; and a client
that hangs up keeps its place.
"""

import asyncio
from collections import deque
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.wire_rejection import reject

__all__ = ["RoundRobin"]

_LENGTH: Final = 50
_WAIT_LIMIT_S: Final = 0.8
_TENANT: Final = b"x-tenant"

_Waiting = deque[asyncio.Future[bool]]


class RoundRobin:
    """An ASGI app that passes at most ``seats`` requests at a time to ``app``, those of the tenants in turn."""

    __slots__ = ("_app", "_free", "_queues", "_turns")

    def __init__(self, app: ASGIApp, seats: int) -> None:
        self._app = app
        self._free = seats
        self._queues: dict[bytes, _Waiting] = {}  # of the tenants that wait, by name
        self._turns: deque[bytes] = deque()  # the same tenants, the next one first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._free:
            self._free -= 1
        elif not await self._wait(_tenant(scope)):
            await reject(send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._release()

    async def _wait(self, tenant: bytes) -> bool:
        """Wait for a seat; return False if the queue is full or the wait too long."""
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = deque()
            self._turns.append(tenant)
        elif len(queue) >= _LENGTH:
            return False
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        queue.append(woken)
        timer = loop.call_later(_WAIT_LIMIT_S, _give_up, woken)
        try:
            return await woken
        except asyncio.CancelledError:
            if woken.done() and not woken.cancelled() and woken.result():
                self._release()
            raise
        finally:
            timer.cancel()

    def _release(self) -> None:
        """Pass the seat on to the oldest request of the next tenant."""
        while self._turns:
            tenant = self._turns.popleft()
            queue = self._queues[tenant]
            while queue:
                woken = queue.popleft()
                if not woken.done():
                    woken.set_result(True)
                    self._keep(tenant, queue)
                    return
            self._keep(tenant, queue)
        self._free += 1

    def _keep(self, tenant: bytes, queue: _Waiting) -> None:
        """Give the tenant another turn, after all others, if it still waits."""
        if queue:
            self._turns.append(tenant)
        else:
            del self._queues[tenant]


def _tenant(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == _TENANT:
            found: bytes = value
            return found
    return b""


def _give_up(woken: asyncio.Future[bool]) -> None:
    if not woken.done():
        woken.set_result(False)
