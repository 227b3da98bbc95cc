"""A shop whose orders and pages take a tenth of a second, for the console; ``APF_CONFIG`` is its configuration.

``APF_TEST_LIFETIME_S`` is the time after which the page has to connect again, if not the usual one.
"""

import asyncio
import logging
import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.asgi.console import feed

__all__ = ["app"]

setattr(feed, "LIFETIME_S", float(os.environ.get("APF_TEST_LIFETIME_S", feed.LIFETIME_S)))  # noqa: B010 - it is final
logging.basicConfig(format="%(message)s", level=logging.INFO)


async def serve(request: Request) -> JSONResponse:
    await asyncio.sleep(float(request.query_params.get("seconds", "0.1")))
    return JSONResponse({"path": request.url.path})


app = Starlette(routes=[Route("/{path:path}", serve, methods=["GET", "POST"])])
app.add_middleware(APFMiddleware, config=os.environ["APF_CONFIG"])
