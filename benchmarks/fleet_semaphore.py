"""A semaphore in Redis for each request, as in the recipes: a sorted set of holders, each with its time of expiry.

One script removes the holders whose time is up, counts the others, and adds one if there is room; the clock is that of
Redis. Whoever finds no room asks again after 50 ms, give or take half, and gives up after the wait limit of the other
rows. Whoever asks at the right moment is next: there is no queue, and no fairness.
"""

import random
from asyncio import sleep
from typing import Final

from redis.asyncio import Redis
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.wire_rejection import reject

__all__ = ["RedisSemaphore"]

_KEY: Final = "places"
_HOLD_MS: Final = 10_000
_PAUSE_S: Final = 0.05
_WAIT_LIMIT_S: Final = 0.8

_ACQUIRE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
return 1
"""


class RedisSemaphore:
    """An ASGI app that passes at most ``seats`` requests at a time to ``app``, of all processes with this Redis."""

    __slots__ = ("_acquire", "_app", "_name", "_number", "_redis", "_seats")

    def __init__(self, app: ASGIApp, redis: Redis, seats: int, name: str) -> None:
        self._app = app
        self._redis = redis
        self._seats = seats
        self._name = name
        self._number = 0
        self._acquire = redis.register_script(_ACQUIRE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._number += 1
        holder = f"{self._name}-{self._number}"
        if not await self._wait(holder):
            await reject(send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            await self._redis.zrem(_KEY, holder)

    async def _wait(self, holder: str) -> bool:
        waited = 0.0
        while waited < _WAIT_LIMIT_S:
            if await self._acquire(keys=[_KEY], args=[self._seats, _HOLD_MS, holder]):
                return True
            pause = _PAUSE_S * random.uniform(0.5, 1.5)
            await sleep(pause)
            waited += pause
        return False
