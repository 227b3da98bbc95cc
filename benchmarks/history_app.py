"""An app with four seats whose requests take 40 ms: ``uvicorn benchmarks.history_app:app``.

``APF_DISCIPLINE`` and ``APF_STRICT`` change the default configuration in that point alone.
"""

import os
from typing import Final

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text

__all__ = ["SEATS", "WORK_S", "app"]

SEATS: Final = 4
WORK_S: Final = 0.04

_CONFIG: Final = """\
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, discipline: {discipline}, strictUpstream: {strict}}}
"""


async def work(_request: Request) -> PlainTextResponse:
    await anyio.sleep(WORK_S)
    return PlainTextResponse("done")


app = APFMiddleware(
    Starlette(routes=[Route("/", work)]),
    load_text(
        _CONFIG.format(
            seats=SEATS,
            discipline=os.environ.get("APF_DISCIPLINE", "equal-serial"),
            strict=os.environ.get("APF_STRICT", "false"),
        )
    ),
)
