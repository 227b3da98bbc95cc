"""A shop's API whose backend ten can ask at once. Where more do, it gets slower for all, as databases do.

uvicorn examples.demo.app:app            # protected
uvicorn examples.demo.app:unprotected    # as it was before
"""

import asyncio
from pathlib import Path

from fastapi import FastAPI

from apf_middleware import APFMiddleware

__all__ = ["CONFIG", "PLACES", "SERVICE_S", "Backend", "app", "unprotected"]

CONFIG = Path(__file__).with_name("apf.yaml")
PLACES = 10
SERVICE_S = 0.02


class Backend:
    """It sleeps rather than computes: what is scarce are its places, not the processor."""

    def __init__(self) -> None:
        self.in_flight = 0

    async def ask(self) -> None:
        self.in_flight += 1
        try:
            await asyncio.sleep(SERVICE_S * max(1, self.in_flight / PLACES) ** 1.5)
        finally:
            self.in_flight -= 1


def _shop() -> FastAPI:
    shop, backend = FastAPI(title="A shop"), Backend()

    @shop.get("/orders/{number}")
    async def order(number: int) -> dict[str, object]:
        await backend.ask()
        return {"order": number, "state": "shipped"}

    return shop


unprotected = _shop()

app = _shop()
app.add_middleware(APFMiddleware, config=CONFIG)
