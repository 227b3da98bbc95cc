"""A service that works (``/work``), perhaps until ``/free`` is asked (``/held``), and passes requests on (``/ask``)."""

import asyncio
import os
from itertools import count

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.config import load

__all__ = ["app"]


freed = asyncio.Event()
finished = count()


async def work(request: Request) -> Response:
    """Return how much work has been finished before this one, too."""
    return JSONResponse([request.scope["apf"].level, request.scope["apf"].criticality, next(finished)])


async def held(request: Request) -> Response:
    await freed.wait()
    return await work(request)


async def free(request: Request) -> Response:
    freed.set()
    return Response()


async def ask(request: Request) -> Response:
    """Ask the service of this address, which may ask another one."""
    hooks = [] if request.query_params["of"].endswith("silent=1") else [CriticalityHeaders().tell_async]
    async with httpx.AsyncClient(event_hooks={"request": hooks}, trust_env=False, timeout=60) as client:
        answer = await client.get(request.query_params["of"])
    return JSONResponse(answer.json())


app = Starlette(routes=[Route("/work", work), Route("/held", held), Route("/free", free), Route("/ask", ask)])
app = APFMiddleware(app, load(os.environ["CRITICALITY_CONFIG"]))  # type: ignore[assignment]
