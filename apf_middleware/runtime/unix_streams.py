"""Connections of Unix sockets that are read by the event loop itself.

Under asyncio, anyio registers a Unix socket with the event loop anew for each read, which takes longer than the rest of
a short exchange, and a wait that is cancelled just when it is over makes the event loop log an InvalidStateError. The
event loop's own streams have neither.
"""

import asyncio
import errno
from contextlib import suppress
from pathlib import Path
from socket import socket

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute, SocketListener

from apf_middleware.runtime.event_loop import is_asyncio
from apf_middleware.runtime.forks import close_in_children

__all__ = ["LoopStream", "accept_stream", "connect_stream"]


class LoopStream(ByteStream):
    """A connection that asyncio reads and writes, as a stream of anyio."""

    def __init__(self, raw: socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._raw = raw
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(0)  # so that what has been sent isn't lost by closing

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes; raise EndOfStream if the peer has closed the connection."""
        part = await self._reader.read(max_bytes)
        if not part:
            raise anyio.EndOfStream
        return part

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open, and all that was sent has been passed to the operating system."""
        transport = self._writer.transport
        return not transport.is_closing() and not transport.get_write_buffer_size()

    def send_now(self, item: bytes) -> None:
        """Pass ``item`` to the operating system in this turn of the event loop; what it can't take yet follows later.

        A transport of uvloop only does that after all tasks that are ready. No error is raised: the next `send` does.
        """
        if self._writer.transport.is_closing():
            return  # a transport of uvloop would raise a RuntimeError
        sent = 0
        if self.is_idle:
            with suppress(OSError):
                sent = self._raw.send(item)
        if sent < len(item):
            self._writer.write(item[sent:])

    async def send(self, item: bytes) -> None:
        """Pass all of ``item`` to the operating system, and wait while the peer doesn't read.

        Raise OSError if the connection has been closed.
        """
        self.send_now(item)
        await self._writer.drain()
        if self._writer.transport.is_closing():  # after an error that an earlier `drain` has raised
            raise ConnectionResetError(errno.ECONNRESET, "Connection closed")

    async def send_eof(self) -> None:
        """Send no more."""
        self._writer.write_eof()

    async def aclose(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()
        await anyio.lowlevel.checkpoint()


async def connect_stream(path: Path) -> ByteStream:
    """Connect to the socket at ``path``."""
    stream = await anyio.connect_unix(path)
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    close_in_children(raw)
    return await _loop_stream(raw) if is_asyncio() else stream


async def accept_stream(listener: SocketListener) -> ByteStream:
    """Return the next connection; raise OSError if there is no file descriptor for it."""
    if not is_asyncio():
        try:
            stream = await listener.accept()
        except anyio.BrokenResourceError as error:
            raise OSError(str(error.__cause__)) from error
        close_in_children(stream.extra(SocketAttribute.raw_socket))  # noqa: S610 - as above
        return stream
    listening = listener.extra(SocketAttribute.raw_socket)  # noqa: S610 - as above
    while True:
        try:
            raw, _ = listening.accept()
        except BlockingIOError:
            await _readable(listening)
        else:
            close_in_children(raw)
            return await _loop_stream(raw)


async def _readable(listening: socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listening, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listening)


async def _loop_stream(raw: socket) -> LoopStream:
    """Return the connection ``raw``, which nothing has been read from."""
    raw.setblocking(False)  # noqa: FBT003 - it takes no keyword
    try:
        return LoopStream(raw, *await asyncio.open_unix_connection(sock=raw))
    except BaseException:
        raw.close()
        raise
