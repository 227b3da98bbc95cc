"""The API of a shop, whose backend serves ten requests at once and becomes slower for all with more, like a database.

uvicorn examples.demo.app:app            # protected
uvicorn examples.demo.app:unprotected    # without the middleware
"""

import asyncio
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware

__all__ = ["CONFIG", "PLACES", "SERVICE_S", "Backend", "app", "unprotected"]

CONFIG = Path(__file__).with_name("apf.yaml")
PLACES = 10
SERVICE_S = 0.02


class Backend:
    """A backend that sleeps instead of computing: its places are limited, not the processor."""

    def __init__(self) -> None:
        self.in_flight = 0

    async def ask(self) -> None:
        self.in_flight += 1
        try:
            await asyncio.sleep(SERVICE_S * max(1, self.in_flight / PLACES) ** 1.5)
        finally:
            self.in_flight -= 1


def _shop() -> Starlette:
    backend = Backend()

    async def order(request: Request) -> JSONResponse:
        await backend.ask()
        return JSONResponse({"order": request.path_params["number"], "state": "shipped"})

    return Starlette(routes=[Route("/orders/{number:int}", order)])


unprotected = _shop()

app = _shop()
app.add_middleware(APFMiddleware, config=CONFIG)
