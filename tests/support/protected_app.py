"""Apps and configurations for exchanges: a level with few seats, and an app that holds them until a test ends it."""

import json
from dataclasses import replace
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.admin import AdminSettings
from tests.support.asgi_exchange import Exchange, http_scope

__all__ = ["ALL_HEADERS", "WEB_DEFAULTS", "ProtectedApp", "configuration", "problem", "settle", "with_admin"]


ALL_HEADERS: Final = ", responses: {headers: all}"
"""Part of a Server document: all responses name schema and level."""

WEB_DEFAULTS: Final = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 100{ALL_HEADERS}}}")


def configuration(
    *,
    seats: int = 1,
    wait: str = "10s",
    length: int = 5,
    queues: int = 2,
    server: str = ALL_HEADERS,
    response: str = "Queue",
) -> Configuration:
    """Return a configuration with one level for all requests, and flows by the header X-User."""
    queuing = (
        f"waitLimit: {wait}\n  queuing: {{queues: {queues}, handSize: {queues}, queueLengthLimit: {length}}}"
        if response == "Queue"
        else ""
    )
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
metadata: {{name: server}}
spec: {{seats: {seats}, defaults: none{server}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  response: {response}
  {queuing}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: everybody}}
spec:
  level: crowd
  distinguisher: {{source: header, name: X-User}}
  rules:
  - httpRules: [{{}}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: probes}}
spec:
  level: exempt
  precedence: 2
  rules:
  - httpRules: [{{paths: [/health]}}]
"""
    )


class ProtectedApp:
    """An app behind the middleware that holds requests until the test ends them, and records their paths."""

    def __init__(self, tasks: TaskGroup, config: Configuration | None = None, **options: Any) -> None:  # noqa: ANN401
        self.tasks = tasks
        self.started: list[str] = []
        self.finished: list[str] = []
        self.bodies: dict[str, list[Message]] = {}
        self.may_finish: dict[str, anyio.Event] = {}
        self.middleware = APFMiddleware(self._app, config or configuration(), **options)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.started.append(path)
        if path.startswith("/read"):
            self.bodies[path] = await _read(receive)
        if path.startswith("/boom"):
            raise LookupError("boom")
        event = self.may_finish.get(path)
        if event is not None:
            await event.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"here")]})
        await send({"type": "http.response.body", "body": path.encode()})
        self.finished.append(path)

    def request(self, path: str, method: str = "GET", user: str = "alice", **more: object) -> Exchange:
        """Send a request with an empty body."""
        return self.open(path, method, user, **more).body().start()

    def open(self, path: str, method: str = "GET", user: str = "alice", **more: object) -> Exchange:
        scope = http_scope(path, method, {"X-User": user}, **more)
        return Exchange(self.middleware, scope, self.tasks)

    async def holder(self, path: str = "/hold") -> Exchange:
        """Start a request that holds its seats until `finish`."""
        self.may_finish[path] = anyio.Event()
        exchange = self.request(path, user="holder")
        await settle()
        assert path in self.started
        return exchange

    def finish(self, path: str = "/hold") -> None:
        self.may_finish[path].set()

    @property
    def waiting(self) -> int:
        return self.middleware.service.controller.levels["crowd"].shared.queueset.waiting

    def is_idle(self) -> bool:
        """Return whether no request has a seat or a place in a queue; check that all sums add up."""
        controller = self.middleware.service.controller
        controller.sharing.check()
        return all(
            runtime.shared.queueset.is_idle
            and runtime.shared.alone is None
            and not any(counters.waiting or counters.executing for counters in runtime.schema_counters.values())
            for runtime in controller.levels.values()
        )


async def _read(receive: Receive) -> list[Message]:
    messages = []
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return messages


async def settle() -> None:
    """Let all tasks run until they wait for something."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def problem(exchange: Exchange) -> dict[str, Any]:
    """Return the problem document of the response."""
    assert exchange.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = json.loads(exchange.content)
    return found


def with_admin(app: ASGIApp, config: Configuration, settings: AdminSettings) -> APFMiddleware:
    """Return the middleware with an admin."""
    return APFMiddleware(app, replace(config, server=replace(config.server, admin=settings)))
