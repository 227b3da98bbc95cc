"""Who claims what, in a whole app: rules test it, the app sees it, and caches don't mix it up."""

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.request_criticality import build_criticality
from apf_middleware.config import load_text
from apf_middleware.propagation.current import CURRENT_CRITICALITY
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio

TEXT = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 10
  defaults: none
  criticality: {groups: [ops], headers: {x-criticality: name, priority: urgency}}
  trustedProxies: {networks: [10.1.0.0/16]}
  authentication: [{type: user, scopesAsGroups: true}]
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 10}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: users}
spec: {shares: 10}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: reports}
spec: {level: batch, precedence: 5, criticality: sheddablePlus, rules: [{httpRules: [{paths: [/reports]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: batch}
spec: {level: batch, precedence: 10, rules: [{httpRules: [{criticality: [sheddable, sheddablePlus]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: users, rules: [{httpRules: [{}]}]}
"""


class World:
    """The middleware before an app that notes the level, and what is passed on."""

    def __init__(self, text: str = TEXT) -> None:
        self.middleware = APFMiddleware(self.serve, load_text(text))
        self.seen: list[tuple[str, str | None]] = []

    async def serve(self, scope: Scope, _receive: Receive, send: Send) -> None:
        passed_on = CURRENT_CRITICALITY.get()
        assert scope["apf"].criticality == (None if passed_on is None else passed_on.key)
        self.seen.append((scope["apf"].level, scope["apf"].criticality))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(
        self, path: str = "/", *, groups: tuple[str, ...] = (), client: str = "192.0.2.1", **said: str
    ) -> None:
        user = type("User", (), {"is_authenticated": True, "identity": "alice"})()
        auth = type("Auth", (), {"scopes": list(groups)})()

        async def receive() -> Any:  # noqa: ANN401
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Any) -> None:  # noqa: ANN401
            pass

        headers = {name.replace("_", "-"): value for name, value in said.items()}
        scope = http_scope(path, headers=headers, client=(client, 7), user=user, auth=auth)
        await self.middleware(scope, receive, send)


@pytest.mark.parametrize(
    ("path", "options", "seen"),
    [
        ("/", {}, ("users", "critical")),
        ("/", {"x_criticality": "sheddable"}, ("batch", "sheddable")),
        ("/", {"priority": "u=5"}, ("batch", "sheddablePlus")),
        ("/", {"x_criticality": "criticalPlus"}, ("users", "critical")),
        ("/", {"x_criticality": "criticalPlus", "groups": ("ops",)}, ("users", "criticalPlus")),
        ("/", {"x_criticality": "criticalPlus", "client": "10.1.2.3"}, ("users", "criticalPlus")),
        ("/", {"x_criticality": "urgent"}, ("users", "critical")),
        ("/reports", {}, ("batch", "sheddablePlus")),
        ("/reports", {"x_criticality": "sheddable"}, ("batch", "sheddable")),
    ],
)
async def test_what_requests_claim_and_what_is_passed_on(
    path: str, options: dict[str, Any], seen: tuple[str, str]
) -> None:
    world = World()
    for _ in range(2):  # the second one is found in the cache
        await world.ask(path, **options)
    await world.ask()
    await world.ask(path, **options)

    assert world.seen == [seen, seen, ("users", "critical"), seen]


async def test_metrics_count_what_was_ignored() -> None:
    world = World()
    await world.ask(x_criticality="criticalPlus")
    await world.ask(x_criticality="urgent")
    reading = world.middleware.service.reading()

    assert reading.invalid_criticality == {"x-criticality": 1}
    assert reading.lowered_criticality == {"criticalPlus": 1}

    service = world.middleware.service
    service.adopt(service.prepare(load_text(TEXT.replace("seats: 10", "seats: 11"))))
    await world.ask(x_criticality="nonsense")
    assert service.reading().invalid_criticality == {"x-criticality": 2}, "a reload counts on"


async def test_without_settings_nothing_is_read_or_passed_on() -> None:
    text = TEXT.replace("  criticality: {groups: [ops], headers: {x-criticality: name, priority: urgency}}\n", "")
    world = World(text.replace("criticality: sheddablePlus, ", ""))
    await world.ask(x_criticality="sheddable")

    assert world.seen == [("users", None)]


async def test_a_schema_alone_is_enough() -> None:
    text = TEXT.replace("  criticality: {groups: [ops], headers: {x-criticality: name, priority: urgency}}\n", "")
    world = World(text)
    assert build_criticality(world.middleware.service.configuration, world.middleware.service.chain) is not None
    await world.ask("/reports", x_criticality="sheddable")
    await world.ask()

    assert world.seen == [("batch", "sheddablePlus"), ("users", "critical")]
