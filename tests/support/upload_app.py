"""An app behind the middleware that reads bodies, with a clock that the test moves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.abc
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import load_text
from apf_middleware.runtime import IncomingBodies
from tests.support.asgi_exchange import Exchange, http_scope

if TYPE_CHECKING:
    from starlette.types import Message

__all__ = ["CHUNKED", "CONFIG", "UploadApp"]

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 1
  defaults: none
  responses: {headers: all}
  bodies: {holdSeats: false, buffer: 100B, maxReceiving: 4, maxBuffered: 4KiB%s}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000, queuing: {queues: exact}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: everybody}
spec:
  level: crowd
  distinguisher: {source: header, name: X-User}
  rules:
  - httpRules: [{}]
"""


CHUNKED = {"transfer-encoding": "chunked"}


class UploadApp:
    """An app behind the middleware that reads bodies; time is what a test says it is."""

    def __init__(self, tasks: anyio.abc.TaskGroup, more: str = "") -> None:
        self.middleware = APFMiddleware(self._app, load_text(CONFIG % more))
        self.tasks = tasks
        self.received: dict[str, list[Message]] = {}

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = self.received[scope["path"]] = []
        while not received or received[-1].get("more_body"):
            received.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    def open(
        self, path: str, user: str = "alice", method: str = "POST", headers: Mapping[str, str] = CHUNKED
    ) -> Exchange:
        self.bodies.held.limit_ns = 10**18  # a test says when it is over, however busy the machine is
        scope = http_scope(path, method, {"X-User": user, **headers})
        return Exchange(self.middleware, scope, self.tasks).start()

    @property
    def bodies(self) -> IncomingBodies:
        return self.middleware.service.controller.bodies

    def pass_time(self) -> None:
        """As if the windows of all who are being received ended now."""
        for incoming in self.bodies._windows:
            incoming.until = 0
        self.bodies._look()

    @property
    def seats_in_use(self) -> int:
        runtime = self.middleware.service.controller.levels["crowd"]
        return sum(counters.executing for counters in runtime.schema_counters.values())

    def check_idle(self) -> None:
        self.bodies.check()
        assert (self.bodies.number, self.bodies.kept, self.seats_in_use) == (0, 0, 0)
        assert self.middleware.service.controller.levels["crowd"].shared.queueset.is_idle
