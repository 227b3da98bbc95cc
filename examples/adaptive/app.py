"""An app in front of a database that serves 20 queries well at once, until somebody makes it slower.

The server isn't told this number, and finds it.
"""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from apf_middleware import APFMiddleware


class Database:
    """Up to ``capacity`` queries take 200 ms; if there are more at once, all become slower."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queries = 0

    async def query(self) -> None:
        self.queries += 1
        try:
            await asyncio.sleep(0.2 * max(1.0, self.queries / self.capacity))
        finally:
            self.queries -= 1


database = Database(20)


async def items(_: Request) -> JSONResponse:
    await database.query()
    return JSONResponse({"items": 17})


async def show(_: Request) -> JSONResponse:
    return JSONResponse({"capacity": database.capacity})


async def change(request: Request) -> JSONResponse:
    database.capacity = int(request.query_params["capacity"])
    return await show(request)


app = Starlette(
    routes=[
        Route("/items", items),
        Route("/database", show),
        Route("/database", change, methods=["POST"]),
    ]
)
app.add_middleware(APFMiddleware, config="examples/adaptive/apf.yaml")
