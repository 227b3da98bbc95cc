"""The app of docs/adapters.md for asyncpg, with the database of ``APF_TEST_DATABASE``.

``APF_TEST_CONFIG`` names the configuration. With ``APF_TEST_FORGETS`` the app doesn't add its gate.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI

from apf_middleware import APFMiddleware, Gates
from apf_middleware.adapters.asyncpg import pool_gate

gates = Gates()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["APF_TEST_DATABASE"], min_size=1, max_size=2) as pool:
        if "APF_TEST_FORGETS" not in os.environ:
            pool_gate(gates, "db", pool)
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)
app.add_middleware(APFMiddleware, config=os.environ["APF_TEST_CONFIG"], gates=gates)


@app.get("/orders")
async def orders() -> dict[str, int]:
    pool = app.state.pool
    has_waited = pool.get_idle_size() == 0 and pool.get_size() == pool.get_max_size()
    await pool.execute("SELECT pg_sleep(0.05)")
    return {"had to wait in the pool": int(has_waited)}


@app.get("/prices")
async def prices() -> dict[str, int]:
    return {"17": 350}
