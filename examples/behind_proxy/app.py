"""An app whose users sign in at the proxy in front of it. It reports how a request was classified."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware


async def classified(request: Request) -> Response:
    admission = request.scope["apf"]
    return JSONResponse({"schema": admission.schema, "level": admission.level, "flow": admission.flow})


app = Starlette(routes=[Route("/", classified)])
app.add_middleware(APFMiddleware, config="examples/behind_proxy/apf.yaml")
