"""A Starlette app that is protected by one line, without any configuration: the web defaults apply."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware


async def hello(request: Request) -> Response:
    admission = request.scope["apf"]
    return JSONResponse({"hello": "world", "level": admission.level, "flow": admission.flow})


async def health(_request: Request) -> Response:
    return PlainTextResponse("fine\n")


app = Starlette(routes=[Route("/", hello), Route("/healthz", health)])
app.add_middleware(APFMiddleware)
