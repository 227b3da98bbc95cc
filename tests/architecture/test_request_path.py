"""The way of an admitted request through the package: how many files and calls a reader has to follow.

Each way is traced with ``sys.setprofile`` from the server's call of the middleware to its return. A generator
expression, a comprehension and a resumed coroutine count as calls, like functions. Run with ``-s`` to read the traces.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest
from starlette.types import Message, Receive, Scope, Send

import apf_middleware
from apf_middleware import APFMiddleware

PACKAGE = str(Path(apf_middleware.__file__).parent)
SLOW = {"Histogram.observe", "Histogram._search"}  # for longer durations than usual, as on a busy machine


@dataclass
class Trace:
    """The calls of functions of the package, each with its file."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_qualname not in SLOW:
            self.calls.append((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname))

    @property
    def files(self) -> int:
        return len({file for file, _ in self.calls})

    @property
    def switches(self) -> int:
        return sum(here[0] != there[0] for here, there in zip(self.calls, self.calls[1:], strict=False))

    def __str__(self) -> str:
        lines = [f"{self.files} files, {len(self.calls)} calls, {self.switches} switches of file"]
        return "\n".join([*lines, *(f"    {file:44} {name}" for file, name in self.calls)])


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"done"})


async def receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(message: Message) -> None:
    """Accept whatever is sent."""


def scope_of(path: str, host: str = "192.0.2.17") -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"api.example.com")],
        "client": (host, 40_000),
        "server": ("127.0.0.1", 8000),
    }


async def trace(middleware: APFMiddleware, scope: Scope) -> Trace:
    found = Trace()
    sys.setprofile(found.profile)
    try:
        await middleware(scope, receive, send)
    finally:
        sys.setprofile(None)
    return found


async def first() -> Trace:
    """Send the first request that a server gets."""
    return await trace(APFMiddleware(answer), scope_of("/orders"))


async def new() -> Trace:
    """Send a request for a new path, from a new client, to a server that has served others."""
    middleware = APFMiddleware(answer)
    for number in range(3):
        await middleware(scope_of(f"/orders/{number}"), receive, send)
    return await trace(middleware, scope_of("/invoices/1", "198.51.100.3"))


async def cached() -> Trace:
    """Send a request like one that was served before, while no other one runs."""
    middleware = APFMiddleware(answer)
    for _ in range(3):
        await middleware(scope_of("/orders"), receive, send)
    return await trace(middleware, scope_of("/orders"))


async def beside_another() -> Trace:
    """Send a request like one that was served before, while another one runs."""
    began, end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            began.set()
            await end.wait()
        await answer(scope, receive, send)

    middleware = APFMiddleware(app)
    slow = asyncio.ensure_future(middleware(scope_of("/slow"), receive, send))
    await began.wait()
    for _ in range(3):
        await middleware(scope_of("/orders"), receive, send)
    found = await trace(middleware, scope_of("/orders"))
    end.set()
    await slow
    return found


Way = Callable[[], Coroutine[None, None, Trace]]


@pytest.mark.parametrize(
    ("way", "files", "calls"),
    [(first, 27, 135), (new, 17, 62), (cached, 6, 10), (beside_another, 13, 39)],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_an_admitted_request_passes_few_files_and_calls(way: Way, files: int, calls: int) -> None:
    found = asyncio.run(way())

    print(way.__name__, found)
    assert found.files <= files, found
    assert len(found.calls) <= calls, found
