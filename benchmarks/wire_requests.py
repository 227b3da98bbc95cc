"""Requests as a server hands them to an app, made beforehand: scopes that nobody has seen, and what is received.

All that is in a scope is new for each request, as a server parses it anew: neither a remembered hash nor an identity
may make the second request cheaper than the first.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from starlette.types import Message, Scope

from benchmarks.wire_configs import TOKEN

__all__ = ["Receiver", "RequestMaker", "send"]

_MESSAGE: Final = {"type": "http.request", "body": b"", "more_body": False}

_HEADERS: Final = (
    ("host", "api.example.com"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("accept", "application/json, text/plain, */*"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-US,en;q=0.5"),
    ("connection", "keep-alive"),
)
_TENANTS: Final = 16


async def send(_message: Message) -> None:
    """Somebody takes it."""


class Receiver:
    """A request without a body, whose client stays: the first message is all that ever comes."""

    __slots__ = ("_was_read",)

    def __init__(self) -> None:
        self._was_read = False

    async def __call__(self) -> Message:
        if self._was_read:
            await asyncio.get_running_loop().create_future()
        self._was_read = True
        return _MESSAGE


class RequestMaker:
    """Makes requests. With ``new_paths`` or ``new_callers``, no path or client's address occurs twice.

    With ``body`` they are POST requests whose bodies have arrived.
    """

    __slots__ = ("_count", "_headers", "_method", "_new_callers", "_new_paths")

    def __init__(
        self,
        *,
        new_paths: bool = False,
        new_callers: bool = False,
        token: bool = False,
        tenants: bool = False,
        body: bool = False,
    ) -> None:
        self._count = 0
        self._new_paths = new_paths
        self._new_callers = new_callers
        self._method = "POST" if body else "GET"
        more = [("authorization", f"Bearer {TOKEN}")] if token else []
        more += [("content-type", "application/json"), ("content-length", "0002")] if body else []
        names = [[("x-tenant", f"tenant-{number}")] for number in range(_TENANTS)] if tenants else [[]]
        self._headers = [[*_HEADERS, *more, *name] for name in names]

    def make(self, number: int) -> Sequence[tuple[Scope, Receiver]]:
        return [(self._scope(), Receiver()) for _ in range(number)]

    def _scope(self) -> Scope:
        count = self._count = self._count + 1
        # As many digits for each, so that lengths are the same; 20 paths that come again and again, or all different.
        path = f"/items/{count if self._new_paths else count % 20:09}"
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("127.0.0.1", 8000),
            "client": (self._address(count) if self._new_callers else "192.0.2.17", 40000 + count % 20000),
            "scheme": "http",
            "method": self._method,
            "root_path": "",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"limit=10",
            "headers": [(name.encode(), value.encode()) for name, value in self._headers[count % len(self._headers)]],
            "state": {},
            "extensions": {"http.response.debug": {}},
        }
        return scope

    @staticmethod
    def _address(count: int) -> str:
        """Neighbors differ in their first bytes, so that no prefix makes two of them one."""
        return f"{count % 200 + 1}.{count // 200 % 256}.{count // 51200 % 256}.7"
