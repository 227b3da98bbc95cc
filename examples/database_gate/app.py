"""Orders need one of two connections, and a database that is well; what needs neither is served meanwhile."""

import asyncio
from dataclasses import asdict

from fastapi import FastAPI

from apf_middleware import APFMiddleware, Gates
from apf_middleware.gates import GateRequest

gates = Gates()
database = {"state": "up"}


@gates.condition("breaker", on="database.state")
def breaker(_: GateRequest) -> bool:
    """Check the switch that stands in for a circuit breaker."""
    return database["state"] == "up"


app = FastAPI(title="Orders from a small database")
app.add_middleware(APFMiddleware, config="examples/database_gate/apf.yaml", gates=gates)


@app.get("/orders")
async def orders() -> dict[str, list[int]]:
    await asyncio.sleep(0.05)  # with a connection
    return {"orders": [17, 4]}


@app.get("/prices")
async def prices() -> dict[str, int]:
    return {"17": 350, "4": 120}


@app.post("/database/{state}")
async def switch(state: str) -> dict[str, str]:
    database["state"] = state  # first the state, then the event
    gates.emit("database.state")
    return database


@app.get("/gates")
async def show() -> list[dict[str, object]]:
    return [
        {name: value for name, value in asdict(status).items() if name in {"gate", "state", "parked", "limit"}}
        for status in gates.list()
    ]
