"""An app behind a capacity of four places in Redis; uvicorn imports it as ``benchmarks.redis_pause_app:app``.

``APF_REDIS`` is the URL of Redis, ``APF_ON_ERROR`` what happens when it doesn't answer. ``/work`` needs a place for
20 ms, ``/long`` for 2 s, ``/free`` needs none.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from apf_middleware import APFMiddleware, Gates
from apf_middleware.adapters.redis import redis_capacity

__all__ = ["HOLD", "PLACES", "app"]

PLACES: Final = 4
HOLD: Final = 120.0
"""Seconds after which a place that was not given back comes free."""

_CONFIG: Final = """\
apiVersion: apf/v1
kind: Server
spec: {seats: 50, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: app}
spec: {shares: 100, waitLimit: 5s, queuing: {queues: 16, handSize: 4, queueLengthLimit: 500}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: work}
spec:
  level: app
  precedence: 10
  gates: [places]
  rules:
  - httpRules: [{paths: [/work, /long]}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: others}
spec: {level: app, rules: [{httpRules: [{}]}]}
"""

on_error: Any = os.environ.get("APF_ON_ERROR", "admit")
gates = Gates()
redis = Redis.from_url(os.environ.get("APF_REDIS", "redis://127.0.0.1:6379/0"))
redis_capacity(gates, "places", redis, limit=PLACES, hold=HOLD, on_error=on_error)


async def work(_request: Request) -> Response:
    await asyncio.sleep(0.02)
    return PlainTextResponse("done")


async def long(_request: Request) -> Response:
    await asyncio.sleep(2)
    return PlainTextResponse("done")


async def free(_request: Request) -> Response:
    return PlainTextResponse("free")


def _made() -> APFMiddleware:
    with tempfile.TemporaryDirectory(prefix="apf-redis-") as folder:
        file = Path(folder) / "apf.yaml"
        file.write_text(_CONFIG)
        routes = [Route("/work", work), Route("/long", long), Route("/free", free)]
        return APFMiddleware(Starlette(routes=routes), str(file), gates=gates)


app = _made()
