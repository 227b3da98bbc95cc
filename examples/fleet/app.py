"""One replica. Each request takes 50 ms at a backend that all replicas use, and for which 20 at once are enough."""

import asyncio
import socket

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware


async def order(request: Request) -> Response:
    await asyncio.sleep(0.05)
    admission = request.scope["apf"]
    return JSONResponse(
        {"replica": socket.gethostname(), "tenant": admission.flow, "waited": round(admission.waited, 3)}
    )


app = Starlette(routes=[Route("/", order)])
app.add_middleware(APFMiddleware, config="examples/fleet/apf.yaml")
