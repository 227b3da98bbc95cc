"""The part of an HTTP/1.1 client that a load generator needs: keep-alive connections with little overhead.

A client library's time per request would be missing for the server, or delay the load. Here nothing is awaited: a
connection reports each response to its owner by a call, and has one request at a time. Bodies are skipped.
"""

import asyncio
from typing import Final, Protocol, cast

__all__ = ["Connection", "Owner", "request_bytes"]

_HEAD_END: Final = b"\r\n\r\n"


class Owner(Protocol):
    """The receiver of a connection's events."""

    def answered(self, connection: "Connection", status: int) -> None:
        """Take a complete response; when ``connection.reusable``, the connection takes the next request."""

    def lost(self, connection: "Connection") -> None:
        """Take the end of a connection, with or without a pending request; never after `Connection.abandon`."""


class Connection(asyncio.Protocol):
    """One connection to a server."""

    __slots__ = ("_buffer", "_living", "_owner", "_transport", "is_waiting", "reusable", "since")

    def __init__(self, living: "set[Connection]") -> None:
        """``living`` is the set of open connections."""
        self._living = living
        self._owner: Owner | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self.is_waiting = False
        self.reusable = True
        self.since = 0.0  # for the owner's use

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without inheriting from it
        self._living.add(self)

    def ask(self, request: bytes, owner: Owner) -> None:
        """Send a request, whose outcome is reported to ``owner``."""
        self._owner = owner
        self.is_waiting = True
        if self._transport is not None:
            self._transport.write(request)

    def abandon(self) -> None:
        """Abort the connection, as a client does that has waited too long; the owner gets no more calls."""
        self._owner = None
        self.is_waiting = self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        status = self._complete(data)
        if status is None:
            self._buffer = data
            return
        self._buffer = b""
        self._report(status)

    def connection_lost(self, _error: Exception | None) -> None:
        self._living.discard(self)
        self.reusable = False
        owner, self._owner = self._owner, None
        if owner is None:
            return
        if self.is_waiting and self._ends_here(self._buffer):
            self.is_waiting = False
            owner.answered(self, int(self._buffer[9:12]))
        owner.lost(self)

    def _report(self, status: int) -> None:
        self.is_waiting = False
        if self._owner is None:
            return
        if self.reusable:
            self._owner.answered(self, status)
            return
        owner = self._owner
        self.abandon()
        owner.answered(self, status)

    def _complete(self, data: bytes) -> int | None:
        """Return the status of a response that is complete, or None."""
        end = data.find(_HEAD_END)
        if end < 0:
            return None
        head = data[:end].lower()
        length = _header(head, b"content-length")
        if length is not None:
            if len(data) < end + len(_HEAD_END) + int(length):
                return None
        elif _header(head, b"transfer-encoding") == b"chunked":
            if not data.endswith(b"0" + _HEAD_END):
                return None
        elif not head.startswith((b"http/1.1 204", b"http/1.1 304")):
            return None  # until the connection ends
        self.reusable = _header(head, b"connection") != b"close"
        return int(head[9:12])

    @staticmethod
    def _ends_here(data: bytes) -> bool:
        """Return whether this is a response that ends with the connection."""
        head, separator, _ = data.partition(_HEAD_END)
        head = head.lower()
        return bool(separator) and not any(_header(head, name) for name in (b"content-length", b"transfer-encoding"))


def _header(head: bytes, name: bytes) -> bytes | None:
    """Return the value of a header in a head in lower case."""
    begin = head.find(b"\r\n" + name + b":")
    if begin < 0:
        return None
    begin += len(name) + 3
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else len(head)].strip()


def request_bytes(path: str, **headers: str) -> bytes:
    """Return a GET request; underscores in keywords stand for hyphens."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
