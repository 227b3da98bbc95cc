"""The apps of the benchmarks on the wire: three small ones, and the wrappers around them, each a row.

A row's wrapper is a function from an ASGI app to one. Wrappers that need no library are written as plainly as a user
would write them: they are what a library is compared with. Servers make their app with `make_app`, from the environment
variable ``APF_BENCHMARK``: the app's name, the wrapper's, and a configuration if it takes one.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

import anyio
import prometheus_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import apf_middleware
from benchmarks.wire_backend import Backend, Scoreboard
from benchmarks.wire_builds import Build
from benchmarks.wire_rejection import reject
from benchmarks.wire_round_robin import RoundRobin

__all__ = ["APPS", "SEATS", "VARIABLE", "WRAPPERS", "environment", "make_app", "ours"]

VARIABLE: Final = "APF_BENCHMARK"
SEATS: Final = 10

Wrapper = Callable[[ASGIApp], ASGIApp]

_START: Final = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
_BODY: Final = {"type": "http.response.body", "body": b"ok"}
_HEADERS: Final = [(b"x-apf-flow-schema", b"anonymous"), (b"x-apf-priority-level", b"anonymous")]


async def raw(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer as the smallest possible app does."""
    await send(_START)
    await send(_BODY)


async def reading(_scope: Scope, receive: Receive, send: Send) -> None:
    """Receive the whole body, and answer as `raw` does."""
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send(_BODY)


async def holding(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as `raw` does, except that requests of the path ``/hold`` last until their clients hang up."""
    if scope["path"] != "/hold":
        await raw(scope, receive, send)
        return
    while (await receive())["type"] != "http.disconnect":
        pass


async def _hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


def _starlette() -> ASGIApp:
    return Starlette(routes=[Route("/{path:path}", _hello)])


def _fastapi() -> ASGIApp:
    from fastapi import FastAPI  # noqa: PLC0415 - only where it is measured: no other row should need it

    app = FastAPI(openapi_url=None)

    @app.get("/items/{name}")
    async def item(name: str, limit: int = 10) -> dict[str, str | int]:
        return {"name": name, "limit": limit}

    return app


APPS: Final[Mapping[str, Callable[[], ASGIApp]]] = {
    "raw": lambda: raw,
    "reading": lambda: reading,
    "holding": lambda: holding,
    "starlette": _starlette,
    "fastapi": _fastapi,
    "backend": lambda: Backend(Scoreboard.from_environment()),
    "varied-backend": lambda: Backend(Scoreboard.from_environment(), Random(1)),
}
"""By name, how they are made."""


def bare(app: ASGIApp) -> ASGIApp:
    return app


def noop(app: ASGIApp) -> ASGIApp:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return call


def semaphore(app: ASGIApp, seats: int = SEATS) -> ASGIApp:
    limit = asyncio.Semaphore(seats)

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async with limit:
            await app(scope, receive, send)

    return call


def semaphore_reject(app: ASGIApp, seats: int = SEATS) -> ASGIApp:
    """Reject requests while no seat is free."""
    limit = asyncio.Semaphore(seats)

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if limit.locked():
            await reject(send)
            return
        async with limit:
            await app(scope, receive, send)

    return call


def round_robin(app: ASGIApp, seats: int = SEATS) -> ASGIApp:
    return RoundRobin(app, seats)


def capacity_limiter(app: ASGIApp, seats: int = SEATS) -> ASGIApp:
    limit = anyio.CapacityLimiter(seats)

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async with limit:
            await app(scope, receive, send)

    return call


def prometheus(app: ASGIApp) -> ASGIApp:
    """One counter and one histogram with their labels resolved beforehand: the minimum cost of metrics."""
    registry = prometheus_client.CollectorRegistry()
    counter = prometheus_client.Counter("requests", "Requests", ["level"], registry=registry).labels("all")
    histogram = prometheus_client.Histogram("seconds", "Durations", ["level"], registry=registry).labels("all")

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        begin = time.perf_counter()
        try:
            await app(scope, receive, send)
        finally:
            counter.inc()
            histogram.observe(time.perf_counter() - begin)

    return call


def headers(app: ASGIApp) -> ASGIApp:
    """Add two headers to each response and do nothing else: the minimum cost of reporting schema and level."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        def send_with_headers(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            return send(message)

        await app(scope, receive, send_with_headers)

    return call


def ours(app: ASGIApp, config: str | Path | None = None) -> ASGIApp:
    """Our middleware, with its defaults or the configuration in a file."""
    return apf_middleware.APFMiddleware(app, config=config)  # only here: servers of other rows don't import it


WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "bare": bare,
    "noop": noop,
    "semaphore": semaphore,
    "semaphore-reject": semaphore_reject,
    "round-robin": round_robin,
    "capacity-limiter": capacity_limiter,
    "prometheus": prometheus,
    "headers": headers,
    "ours": ours,
}
"""By name."""


def environment(app: str, wrapper: str, config: Path | None = None) -> dict[str, str]:
    """Return the environment that selects the app of `make_app` in a server's process."""
    return {VARIABLE: " ".join([app, wrapper, *([str(config)] if config else [])])}


def make_app() -> ASGIApp:
    """Return the app that the environment names, and print the build of our package.

    For ``uvicorn --factory benchmarks.wire_apps:make_app``.
    """
    Build.here().print()
    app, wrapper, *config = os.environ[VARIABLE].split(" ", 2)
    made = APPS[app]()
    return ours(made, config[0]) if config else WRAPPERS[wrapper](made)
