"""What each worker runs. It reports which of them answers, and how many seats that one has."""

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware


async def hello(request: Request) -> Response:
    return JSONResponse({"worker": os.getpid(), "level": request.scope["apf"].level})


app = Starlette(routes=[Route("/", hello)])
app.add_middleware(APFMiddleware, config="examples/workers/apf.yaml")
