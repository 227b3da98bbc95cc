"""A service that works for a while (``/work``), and passes requests on to other services (``/ask``)."""

import asyncio
import os

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.config import load

__all__ = ["app"]


async def work(request: Request) -> Response:
    await asyncio.sleep(0.3)
    return JSONResponse([request.scope["apf"].level, request.scope["apf"].criticality])


async def ask(request: Request) -> Response:
    """Ask the service of this address, which may ask another one."""
    hooks = [] if request.query_params["of"].endswith("silent=1") else [CriticalityHeaders().tell_async]
    async with httpx.AsyncClient(event_hooks={"request": hooks}, trust_env=False, timeout=60) as client:
        answer = await client.get(request.query_params["of"])
    return JSONResponse(answer.json())


app = Starlette(routes=[Route("/work", work), Route("/ask", ask)])
app = APFMiddleware(app, load(os.environ["CRITICALITY_CONFIG"]))  # type: ignore[assignment]
