"""Apps whose middleware can't be set up; servers import them as ``tests.e2e.unready:added`` or ``…:wrapped``.

``APF_TEST_CONFIG`` names the configuration; ``APF_TEST_ARGUMENT`` is the name of the argument that it is given as.
"""

import os
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware

_ARGUMENTS: dict[str, Any] = {os.environ.get("APF_TEST_ARGUMENT", "config"): os.environ["APF_TEST_CONFIG"]}


async def hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


added = Starlette(routes=[Route("/", hello)])
added.add_middleware(APFMiddleware, **_ARGUMENTS)
wrapped = APFMiddleware(Starlette(routes=[Route("/", hello)]), **_ARGUMENTS)
