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
        self._asked: deque[tuple[list[Any], int, Take]] = deque()
        self._lost = asyncio.Event()
        self._transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return not self._transport.is_closing()

    @property
    def unanswered(self) -> int:
        """The number of calls of `ask` without replies."""
        return len(self._asked)

    def ask(self, *commands: bytes, take: Take) -> None:
        """Send packed commands in this turn of the event loop.

        ``take`` is called with their replies in the turn in which the last one arrives. If the connection is lost, or
        a reply is an error, an error is the last of the replies that ``take`` gets, and the connection is closed.
        """
        if self.is_open:
            self._asked.append(([], len(commands), take))
            self._write(b"".join(commands))
        else:
            take([LostConnectionError("the connection is closed")])

    def _write(self, data: bytes) -> None:
        """Pass ``data`` to the operating system; a transport of uvloop only does so after all tasks that are ready."""
        sent = 0
        if self._file is not None and not self._transport.get_write_buffer_size():
            with suppress(OSError):  # the transport gets the same error, or can send later
                sent = os.write(self._file, data)
        if sent < len(data):
            self._transport.write(data[sent:])

    async def run(self, *commands: bytes) -> list[Any]:
        """Send packed commands, and return their replies; if the last one is an error, raise it.

        An end of the wait closes the connection.
        """
        asked: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.ask(*commands, take=lambda replies: None if asked.done() else asked.set_result(replies))
        try:
            replies = await asked
        except BaseException:
            self.close()
            raise
        if isinstance(replies[-1], Exception):
            raise replies[-1]
        return replies

    async def poll(self, command: bytes, take: Callable[[Any], None], silence_s: float) -> None:
        """Send ``command`` whenever the last one has been answered, and call ``take`` with each reply.

        That is done in the turn in which the reply arrives, and the next command is sent after what ``take`` has made
        ready. Raise an error if the connection is lost, or if there is no reply for ``silence_s``, up to twice that.
        """
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[Exception] = loop.create_future()
        replies_seen = 0

        def note(replies: list[Any]) -> None:
            nonlocal replies_seen
            replies_seen += 1
            reply = replies[-1]
            if not isinstance(reply, Exception):
                try:
                    take(reply)
                finally:
                    loop.call_soon(ask)
            else:  # nothing has been asked afterwards
                failed.set_result(reply)

        def ask() -> None:
            self.ask(command, take=note)

        ask()
        try:
            while not failed.done():
                seen = replies_seen
                await asyncio.wait({failed}, timeout=silence_s)
                if seen == replies_seen:
                    raise TimeoutError(f"no reply for {silence_s:g} s")
            raise failed.result()
        finally:
            self.close()

    def data_received(self, data: bytes) -> None:
        """Pass replies on."""
        try:
            for reply in self._reader.feed(data):
                self._take(reply)
                if not self.is_open:
                    return  # what follows is answered by the loss of the connection
        except InvalidResponse:
            self.close()

    def _take(self, reply: object) -> None:
        if not self._asked:
            raise InvalidResponse(f"unexpected reply {reply!r}")
        replies, number, take = self._asked[0]
        replies.append(reply)
        if isinstance(reply, Exception):
            self.close()  # what has been asked afterwards must not be done
        elif len(replies) < number:
            return
        self._asked.popleft()
        take(replies)

    def connection_lost(self, error: Exception | None) -> None:
        """Answer all that has been asked by an error."""
        while self._asked:
            replies, _, take = self._asked.popleft()
            take([*replies, LostConnectionError(str(error or "the connection has been closed"))])
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
