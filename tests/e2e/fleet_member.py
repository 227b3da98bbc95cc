"""An app with a scarce backend behind a Unix socket, which the middleware protects; its settings are variables.

``FLEET_BACKEND`` is the path of the socket, and ``FLEET_CONFIG`` that of the configuration.
"""

import asyncio
import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware

__all__ = ["app"]


async def work(_: Request) -> PlainTextResponse:
    """Answer when the backend has, with the number of this process."""
    reader, writer = await asyncio.open_unix_connection(os.environ["FLEET_BACKEND"])
    try:
        writer.write(b"?")
        await reader.readexactly(1)
    finally:
        writer.close()
    return PlainTextResponse(str(os.getpid()))


app = Starlette(routes=[Route("/", work)])
app.add_middleware(APFMiddleware, config=os.environ["FLEET_CONFIG"])
