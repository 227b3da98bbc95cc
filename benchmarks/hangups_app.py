"""An app that counts the requests that it runs; servers import it as ``benchmarks.hangups_app:app``.

It works on asyncio and trio. ``/hold`` keeps its seat until ``/free`` is requested; every other path is counted under
its ``mark``. ``/tell`` returns the counts. It and ``/free`` take no seats.
"""

import json
from collections import Counter
from typing import Final
from urllib.parse import parse_qs

import anyio
from starlette.types import Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text

__all__ = ["SEATS", "app"]

SEATS: Final = 2

_CONFIG: Final = f"""\
apiVersion: apf/v1
kind: Server
spec: {{seats: {SEATS}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  waitLimit: 60s
  queuing: {{queues: 1, handSize: 1, queueLengthLimit: 5000}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: everybody}}
spec:
  level: crowd
  rules:
  - httpRules: [{{}}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: control}}
spec:
  level: exempt
  precedence: 2
  rules:
  - httpRules: [{{paths: [/tell, /free]}}]
"""

_counts: Counter[str] = Counter()
_held: list[anyio.Event] = []


async def _count(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        raise NotImplementedError  # servers take this for an app without a lifespan
    if scope["path"] == "/free":
        for held in _held:
            held.set()
    elif scope["path"] != "/tell":
        _counts[parse_qs(scope["query_string"].decode())["mark"][0]] += 1
    if scope["path"] == "/hold":
        _held.append(anyio.Event())
        await _held[-1].wait()
    while (await receive()).get("more_body", False):
        pass
    body = json.dumps(_counts).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = APFMiddleware(_count, load_text(_CONFIG))
