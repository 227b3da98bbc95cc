"""A service that is slow (``/slow``) until ``/free`` is asked, and asks another how much time is left (``/ask``)."""

import asyncio
import os

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.config import load

__all__ = ["app"]


freed = asyncio.Event()


async def slow(request: Request) -> Response:
    await freed.wait()
    return PlainTextResponse("done")


async def free(request: Request) -> Response:
    freed.set()
    return PlainTextResponse("done")


async def left(request: Request) -> Response:
    return JSONResponse(request.scope["apf"].remaining)


async def known(request: Request) -> Response:
    admission = request.scope["apf"]
    return JSONResponse({"left": admission.remaining, "criticality": admission.criticality})


async def running(request: Request) -> Response:
    return JSONResponse(request.scope["apf"].destination.runtime.shared.queueset.executing)


async def ask(request: Request) -> Response:
    """Take a part of the time, and ask the service of this address, which may ask another one."""
    await asyncio.sleep(0.1)
    async with httpx.AsyncClient(event_hooks={"request": [DeadlineHeaders().tell_async]}, trust_env=False) as client:
        answer = await client.get(request.query_params["of"])
    return JSONResponse([request.scope["apf"].remaining, answer.json()])


app = Starlette(
    routes=[
        Route("/slow", slow),
        Route("/free", free),
        Route("/left", left),
        Route("/known", known),
        Route("/running", running),
        Route("/ask", ask),
    ]
)
app = APFMiddleware(app, load(os.environ["DEADLINE_CONFIG"]))  # type: ignore[assignment]
