"""A connection to Redis without redis-py's client: commands are sent at once, and answered in the order of sending.

Redis-py connects and logs in. Afterwards the connection belongs to a `RedisPipe`, because seats are idle while a
command is on its way: the client gets a connection from a pool for each command, lets tasks wait in between, and parses
the answers by a coroutine for each line.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import ConnectionError as LostConnectionError
from redis.exceptions import InvalidResponse

from apf_middleware.runtime.fleet.redis_wire import ReplyReader

__all__ = ["RedisPipe", "Take"]

Take = Callable[[list[Any]], None]
"""What is called with replies."""


class RedisPipe(asyncio.Protocol):
    """The ``connection``, which redis-py has opened."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        writer: Any = connection._writer  # noqa: SLF001 - redis-py has no other way to the transport
        self._transport: asyncio.Transport = writer.transport
        is_plain = self._transport.get_extra_info("ssl_object") is None
        self._file: int | None = self._transport.get_extra_info("socket").fileno() if is_plain else None
        self._reader = ReplyReader()
        self._asked: deque[tuple[asyncio.Future[list[Any]], list[Any], int, Take | None]] = deque()
        self._lost = asyncio.Event()
        self._transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return not self._transport.is_closing()

    @property
    def unanswered(self) -> int:
        """The number of calls of `ask` without an answer."""
        return len(self._asked)

    def ask(self, *commands: bytes, take: Take | None = None) -> asyncio.Future[list[Any]]:
        """Send packed commands in this turn of the event loop; return their replies, among which there may be errors.

        If the connection is lost, the last one is an error. Without errors, ``take`` is called with the replies as soon
        as they have arrived, before all tasks that are ready.
        """
        asked: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self.is_open:
            self._asked.append((asked, [], len(commands), take))
            self._write(b"".join(commands))
        else:
            asked.set_result([LostConnectionError("the connection is closed")])
        return asked

    def _write(self, data: bytes) -> None:
        """Pass ``data`` to the operating system; a transport of uvloop only does so after all tasks that are ready."""
        sent = 0
        if self._file is not None and not self._transport.get_write_buffer_size():
            with suppress(OSError):  # the transport gets the same error, or can send later
                sent = os.write(self._file, data)
        if sent < len(data):
            self._transport.write(data[sent:])

    async def run(self, *commands: bytes, take: Take | None = None) -> list[Any]:
        """Send packed commands, and return their replies; ``take`` gets them as early as by `ask`."""
        return await self.answer(self.ask(*commands, take=take))

    async def answer(self, asked: asyncio.Future[list[Any]]) -> list[Any]:
        """Return the replies to what has been asked; if one is an error, raise it.

        An error, or an end of the wait, closes the connection.
        """
        try:
            replies = await asked
        except BaseException:
            self.close()
            raise
        for reply in replies:
            if isinstance(reply, Exception):
                self.close()
                raise reply
        return replies

    def data_received(self, data: bytes) -> None:
        """Pass replies on."""
        try:
            for reply in self._reader.feed(data):
                self._take(reply)
        except InvalidResponse:
            self.close()

    def _take(self, reply: object) -> None:
        if not self._asked:
            raise InvalidResponse(f"unexpected reply {reply!r}")
        if isinstance(reply, Exception):
            self.close()  # what has been asked afterwards must not be done
        asked, replies, number, take = self._asked[0]
        replies.append(reply)
        if len(replies) == number:
            self._asked.popleft()
            if not asked.done():
                asked.set_result(replies)
            if take is not None and self.is_open:
                take(replies)

    def connection_lost(self, error: Exception | None) -> None:
        """Answer all that has been asked by an error."""
        while self._asked:
            asked, replies, *_ = self._asked.popleft()
            if not asked.done():
                asked.set_result([*replies, LostConnectionError(str(error or "the connection has been closed"))])
        self._lost.set()

    def close(self) -> None:
        """Close the connection at once; `aclose` must follow."""
        self._transport.abort()

    async def aclose(self) -> None:
        """Close the connection, and wait until it is closed."""
        self.close()
        await self._connection.disconnect(nowait=True)
        await self._lost.wait()

    def __repr__(self) -> str:
        return f"<RedisPipe{'' if self.is_open else ', closed'}: {len(self._asked)} unanswered>"
