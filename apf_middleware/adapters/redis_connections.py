"""Connections to Redis that belong to one gate, so that neither the app nor many requests at once can exhaust them.

The app's client says where Redis is and how to log in. Size and time-outs of the pool are the gate's own: with those of
the app's pool, 500 requests that end at once would ask for 500 connections, and the ones above its limit would fail.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.exceptions import InvalidValueError, require_amount, require_integer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from redis.asyncio import Redis

__all__ = ["NotSentError", "RedisConnections", "RedisSharing"]

_TIMEOUT: Final = 0.5
_CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class RedisSharing:
    """The settings of gates that servers share: the keys of a gate begin with ``prefix`` and the gate's name.

    Redis has ``timeout`` seconds for each answer. A gate has at most ``connections`` connections for questions, and as
    many for returns.
    """

    prefix: str = "apf"
    timeout: float = _TIMEOUT
    connections: int = _CONNECTIONS

    def __post_init__(self) -> None:
        if require_amount("timeout", self.timeout) <= 0:
            raise InvalidValueError("timeout", self.timeout, "it must be more than 0 seconds")
        require_integer("connections", self.connections, least=1)


class RedisConnections:
    """A bounded number of connections to the Redis of the client ``redis``.

    Connections and semaphores belong to one event loop, so another loop gets new ones: a test client may run each
    request on a loop of its own, and an app that is started again may run on another loop.
    """

    def __init__(self, redis: "Redis", sharing: RedisSharing) -> None:
        _require_asynchronous(redis)
        self._redis, self._sharing = redis, sharing
        self._loop: asyncio.AbstractEventLoop | None = None

    def _require_loop(self) -> None:
        """Make everything anew unless it belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._client, self._is_own = _bounded(self._redis, self._sharing)
            self._questions = asyncio.Semaphore(self._sharing.connections)
            self._returns = asyncio.Semaphore(self._sharing.connections)

    def script(self, source: str) -> Any:  # noqa: ANN401 - redis-py's own
        """Return a script that these connections can run."""
        return self._redis.register_script(source)

    async def ask(self, script: Any, place: str, *arguments: "Hashable") -> Any:  # noqa: ANN401 - what it returns
        """Run ``script`` within the time-out, which includes the wait for a connection.

        Raise NotSentError if Redis hasn't been asked.
        """
        self._require_loop()
        may_be_sent = False
        try:
            async with asyncio.timeout(self._sharing.timeout), self._questions, self._connected() as client:
                may_be_sent = True
                return await script(keys=[place], args=list(arguments), client=client)
        except Exception as error:
            if may_be_sent:
                raise
            if isinstance(error, TimeoutError):
                raise NotSentError("none came free or could be opened within the time-out") from error
            raise NotSentError(f"{type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Open a connection, and yield a client that uses it; another client than ours opens one when it sends."""
        if not self._is_own:
            yield self._client
            return
        from redis import VERSION  # noqa: PLC0415 - an extra

        pool = self._client.connection_pool
        command = ("EVALSHA",) if VERSION < (5, 3) else ()  # needed, and deprecated since then
        connection = await pool.get_connection(*command)
        client = copy(self._client)
        client.connection = connection
        try:
            yield client
        finally:
            client.connection = None
            await pool.release(connection)

    async def give_back(self, script: Any, place: str, *arguments: "Hashable") -> Any:  # noqa: ANN401
        """Run ``script``, for which no request waits, on one of the connections that questions can't take."""
        self._require_loop()
        async with self._returns, asyncio.timeout(self._sharing.timeout):
            return await script(keys=[place], args=list(arguments), client=self._client)

    async def aclose(self) -> None:
        """Close the connections, unless they belong to the app's client or to a former event loop."""
        if self._loop is asyncio.get_running_loop() and self._is_own:
            await self._client.aclose()
            await self._client.connection_pool.disconnect()


class NotSentError(Exception):
    """There was no connection, so Redis hasn't been asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no connection to Redis: {reason}")


def _require_asynchronous(redis: object) -> None:
    """Refuse clients whose answers can't be awaited: each command would fail, and by default admit its request."""
    from redis import Redis, RedisCluster  # noqa: PLC0415 - an extra

    if isinstance(redis, Redis | RedisCluster):
        hint = "Take redis.asyncio.Redis or redis.asyncio.RedisCluster"
        raise InvalidValueError("redis", type(redis), "it must be an asynchronous client", hint)


def _bounded(redis: "Redis", sharing: RedisSharing) -> tuple[Any, bool]:
    """Return a client with a pool of its own, and True; or ``redis`` itself if its pool is of a special kind.

    A cluster's client has a pool for each node, and the pool of Sentinel asks for the master's address.
    """
    from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis  # noqa: PLC0415 - an extra
    from redis.asyncio.retry import Retry  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415

    pool = getattr(redis, "connection_pool", None)
    if type(pool) not in {ConnectionPool, BlockingConnectionPool}:
        return redis, False
    assert pool is not None
    ours: dict[str, Any] = {
        **pool.connection_kwargs,
        "socket_timeout": sharing.timeout,
        "socket_connect_timeout": sharing.timeout,
        "retry": Retry(NoBackoff(), 0),  # a token must not be taken twice
    }
    most = 2 * sharing.connections
    made = BlockingConnectionPool(most, sharing.timeout, connection_class=pool.connection_class, **ours)
    return Redis(connection_pool=made), True
