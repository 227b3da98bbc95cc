"""A clock that sends events and a room to talk in, with a single seat: neither keeps it."""

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from apf_middleware import APFMiddleware


async def clock(request: Request) -> Response:
    """Server-Sent Events: the seat is free as soon as the response starts."""

    async def events() -> AsyncIterator[str]:
        for tick in range(1, int(request.query_params.get("ticks", "3")) + 1):
            yield f"data: tick {tick}\n\n"
            await asyncio.sleep(0.1)

    return StreamingResponse(events(), media_type="text/event-stream")


async def talk(socket: WebSocket) -> None:
    """Serve a WebSocket: its seat is free as soon as it is accepted."""
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text.upper())


async def poll(request: Request) -> Response:
    """Long polling: what is waited for needs no seat, and nobody can know that but the app."""
    admission = request.scope["apf"]
    freed = admission.release()
    await asyncio.sleep(0.2)
    return JSONResponse({"freed": freed, "news": "none"})


async def hello(request: Request) -> Response:
    admission = request.scope["apf"]
    return JSONResponse({"hello": "world", "seats": admission.seats, "waited": admission.waited})


app = Starlette(routes=[Route("/", hello), Route("/clock", clock), Route("/poll", poll), WebSocketRoute("/talk", talk)])
app.add_middleware(APFMiddleware, config="examples/streams/apf.yaml")
