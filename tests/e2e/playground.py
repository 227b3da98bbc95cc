"""An app behind the middleware, controlled by its requests; servers import it as ``tests.e2e.playground:app``.

``APF_TEST_CONFIG`` names the configuration. It works on asyncio and trio.
"""

import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator

import anyio
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from apf_middleware import APFMiddleware

happened: Counter[str] = Counter()
held: dict[str, anyio.Event] = {}


async def hold(request: Request) -> Response:
    """Keep a seat for ``ms``, or until ``mark`` is released; ``mark`` is counted at the start."""
    mark = request.query_params.get("mark", "hold")
    happened[mark] += 1
    with anyio.move_on_after(int(request.query_params.get("ms", "100")) / 1000):
        await held.setdefault(mark, anyio.Event()).wait()
    return Response("held")


async def let_go(request: Request) -> Response:
    """End all requests that keep a seat under ``mark`` now."""
    held.pop(request.query_params["mark"], anyio.Event()).set()
    return Response("let go")


async def echo(request: Request) -> Response:
    """Return the size of the body, the number of its parts, and its hash."""
    digest, size, parts = hashlib.sha256(), 0, 0
    async for part in request.stream():
        digest.update(part)
        size += len(part)
        parts += bool(part)
    return JSONResponse({"size": size, "parts": parts, "sha256": digest.hexdigest()})


async def who(request: Request) -> Response:
    admission = request.scope["apf"]
    return JSONResponse(
        {
            "level": admission.level,
            "schema": admission.schema,
            "flow": admission.flow,
            "seats": admission.seats,
            "waited": admission.waited,
        }
    )


async def show_counts(_request: Request) -> Response:
    """Return the counts so far, by mark."""
    return JSONResponse(happened)


async def pid(_request: Request) -> Response:
    """Return the number of the worker's process."""
    return Response(str(os.getpid()))


async def boom(_request: Request) -> Response:
    raise RuntimeError("boom")


async def stream(request: Request) -> Response:
    """Return ``n`` parts of ``size`` bytes, ``ms`` between them, of the media type ``type``."""
    n, ms = int(request.query_params.get("n", "3")), int(request.query_params.get("ms", "10"))
    size = int(request.query_params.get("size", "5"))

    async def parts() -> AsyncIterator[bytes]:
        try:
            for _ in range(n):
                yield b"x" * size
                await anyio.sleep(ms / 1000)
            happened["stream-ended"] += 1
        finally:
            happened["stream-left"] += 1

    return StreamingResponse(parts(), media_type=request.query_params.get("type", "text/plain"))


class Download:
    """An endpoint that sends without looking whether its client is still there, as Starlette's `FileResponse` does."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(60):
            await send({"type": "http.response.body", "body": b"x" * 200_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def after(_request: Request) -> Response:
    async def note() -> None:
        happened["background"] += 1

    return Response("done", background=BackgroundTask(note))


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    happened["websocket"] += 1
    async for text in socket.iter_text():
        await socket.send_text(text.upper())


bare = Starlette(
    routes=[
        Route("/hold", hold, methods=["GET", "POST"]),
        Route("/let-go", let_go),
        Route("/echo", echo, methods=["POST"]),
        Route("/who", who),
        Route("/tell", show_counts),
        Route("/pid", pid),
        Route("/boom", boom),
        Route("/stream", stream),
        Route("/download", Download()),
        Route("/after", after),
        Route("/health", show_counts),
        WebSocketRoute("/talk", talk),
    ]
)
app = APFMiddleware(bare, os.environ.get("APF_TEST_CONFIG"))
mounted = Starlette(routes=[Mount("/", app)])  # the middleware gets no lifespan
fast = FastAPI()  # it wraps the messages of the lifespan
fast.add_middleware(APFMiddleware, config=os.environ.get("APF_TEST_CONFIG"))
fast.mount("/", bare)
