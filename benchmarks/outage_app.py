"""An app in front of a database with five connections; uvicorn imports it as ``benchmarks.outage_app:app``.

``APF_DATABASE`` is SQLAlchemy's URL, ``APF_CONFIG`` the configuration.
``/rows`` queries the database, ``/free`` doesn't, and ``/tell`` returns the counters.
"""

import os
from collections import Counter
from typing import Final

from purgatory import AsyncCircuitBreakerFactory
from purgatory.domain.model import OpenedState
from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware, Gates
from apf_middleware.adapters.purgatory import purgatory_gate
from apf_middleware.adapters.sqlalchemy import engine_gate
from benchmarks.outage import CONNECTIONS

__all__ = ["app"]

_SERVICE_MS: Final = 20

engine = create_async_engine(
    os.environ.get("APF_DATABASE", "sqlite+aiosqlite://"), pool_size=CONNECTIONS, max_overflow=0, pool_timeout=1
)
breakers = AsyncCircuitBreakerFactory(default_threshold=CONNECTIONS, default_ttl=0.3)
happened: Counter[str] = Counter()
gates = Gates()
purgatory_gate(gates, "breaker", breakers, "database")
engine_gate(gates, "db", engine)


async def rows(_request: Request) -> Response:
    happened["now"] += 1
    happened["most"] = max(happened["most"], happened["now"])
    try:
        async with await breakers.get_breaker("database"), engine.connect() as connection:
            await connection.execute(text(f"SELECT pg_sleep({_SERVICE_MS / 1000})"))
    except exc.TimeoutError:
        happened["pool time-outs"] += 1
        return PlainTextResponse("no connection came free", 504)
    except (exc.SQLAlchemyError, OSError, OpenedState):
        happened["failures"] += 1
        return PlainTextResponse("the database is away", 502)
    finally:
        happened["now"] -= 1
    return PlainTextResponse("rows")


async def free(_request: Request) -> Response:
    return PlainTextResponse("free")


async def show_counts(_request: Request) -> Response:
    rescues = max(status.rescues for status in gates.list())
    return JSONResponse({**happened, "rescues": rescues})


app = APFMiddleware(
    Starlette(routes=[Route("/rows", rows), Route("/free", free), Route("/tell", show_counts)]),
    os.environ.get("APF_CONFIG"),
    gates=gates,
)
