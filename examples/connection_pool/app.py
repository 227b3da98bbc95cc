"""Orders are in a database whose pool has three connections, and gives up after a tenth of a second."""

import asyncio
import os
import tempfile
from typing import Any

from fastapi import FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from apf_middleware import APFMiddleware, Gates
from apf_middleware.adapters.sqlalchemy import engine_gate

url = os.environ.get("DATABASE_URL") or f"sqlite+aiosqlite:///{tempfile.mkdtemp()}/orders.db"
engine = create_async_engine(url, pool_size=2, max_overflow=1, pool_timeout=0.1)

gates = Gates()
engine_gate(gates, "db", engine)

app = FastAPI(title="Orders from a small pool")
app.add_middleware(APFMiddleware, config="examples/connection_pool/apf.yaml", gates=gates)


@app.get("/orders")
async def orders() -> dict[str, Any]:
    async with engine.connect() as connection:
        found = await connection.execute(text("SELECT 17"))
        await asyncio.sleep(0.05)  # with the connection
        return {"order": found.scalar_one()}


@app.get("/gates")
async def show() -> dict[str, Any]:
    [status] = gates.list()
    return {"gate": status.gate, "limit": status.limit, "acquired": status.acquired, "parked": status.parked}
