"""An app that receives bodies and streams answers, with the web defaults: ``uvicorn benchmarks.slow_app:app``.

``APF_CONFIG`` names a configuration to use in their place. Requests read their body, work for 20 ms and answer;
``/download`` streams 64 MiB.
"""

import os
from collections.abc import AsyncIterator
from typing import Final

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware

__all__ = ["app"]

_WORK_S: Final = 0.02
_PART: Final = b"x" * (256 * 1024)
_PARTS: Final = 256


async def work(request: Request) -> Response:
    size = 0
    async for part in request.stream():
        size += len(part)
    await anyio.sleep(_WORK_S)
    return PlainTextResponse(str(size))


async def download(_request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(_PARTS):
            yield _PART

    return StreamingResponse(parts(), media_type="application/octet-stream")


app = APFMiddleware(
    Starlette(routes=[Route("/", work, methods=["GET", "POST"]), Route("/download", download)]),
    os.environ.get("APF_CONFIG"),
)
