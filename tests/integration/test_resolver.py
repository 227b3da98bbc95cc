"""Who is let in as whom: what is remembered of callers, for how long, and who can't pretend to be whom."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.identity import Authenticated, FunctionAuthenticator, Refused
from apf_middleware.classification import Identity
from apf_middleware.config import Configuration, load_text
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio

LEVELS = """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec: {defaults: none%s}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: known}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-user}
spec:
  level: known
  distinguisher: {source: user}
  rules:
  - subjects: [{group: "system:authenticated"}]
    httpRules: [{}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-address}
spec:
  level: known
  precedence: 2000
  distinguisher: {source: clientAddress, prefixV4: 32, transform: '(.*)/32'}
  rules:
  - httpRules: [{}]
"""


def configured(server: str = "") -> Configuration:
    return load_text(LEVELS % server)


class Door:
    """Asks the middleware who somebody is; ``refuse`` are the challenges that were answered."""

    def __init__(self, configuration: Configuration, *functions: Callable[[Scope], object]) -> None:
        chain = [FunctionAuthenticator(function, headers=["authorization"]) for function in functions]  # type: ignore[arg-type]
        self.middleware = APFMiddleware(self._app, configuration, authenticators=chain)
        self.flow: str | None = None
        self.sent: list[Message] = []

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.flow = scope["apf"].flow
        assert scope["apf"].schema in {"by-user", "by-address"}
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask(self, path: str = "/", client: str = "10.0.0.1", **headers: str) -> str | int:
        """Return the flow, or the status of a refusal."""
        self.flow = None
        self.sent.clear()

        async def send(message: Message) -> None:
            self.sent.append(message)

        async def receive() -> Message:
            raise AssertionError

        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.middleware({**http_scope(path, headers=given), "client": (client, 1)}, receive, send)
        flow: str | None = self.flow
        status: int = self.sent[0]["status"]
        return status if flow is None else flow


class Desk:
    """A user's authenticator whose answers a test sets; ``asked`` counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: dict[bytes, Authenticated | Refused] = {}

    def __call__(self, scope: Scope) -> Authenticated | Refused | None:
        self.asked += 1
        return self.answers.get(dict(scope["headers"]).get(b"authorization", b""))


def known(name: str, valid_until: float | None = None) -> Authenticated:
    return Authenticated(Identity(name), valid_until)


async def test_a_caller_is_authenticated_once_for_many_requests_and_paths() -> None:
    desk = Desk()
    desk.answers = {b"a": known("alice"), b"b": known("bob")}
    door = Door(configured(), desk)

    for _ in range(3):
        assert await door.ask("/1", authorization="a") == "alice"
        assert await door.ask("/2", authorization="a") == "alice"
        assert await door.ask("/1", authorization="b") == "bob"
        assert await door.ask("/1") == "10.0.0.1", "without credentials nobody is anybody"
    assert desk.asked == 3


async def test_cached_requests_expire_with_the_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, now = Desk(), 1000.0
    clock = 10**18
    desk.answers = {b"a": known("alice", valid_until=1060.0)}
    door = Door(configured(), desk)
    monkeypatch.setattr(door.middleware.service.resolver, "_wall_clock", lambda: now)
    monkeypatch.setattr(door.middleware.service, "now", lambda: clock)
    monkeypatch.setattr(door.middleware.service.controller, "now", lambda: clock)
    door.middleware.service.due = 2**62

    assert await door.ask(authorization="a") == "alice"
    clock += 59 * 10**9
    assert await door.ask(authorization="a") == "alice"
    assert await door.ask("/else", authorization="a") == "alice"
    assert desk.asked == 1
    desk.answers = {b"a": Refused('Bearer error="invalid_token"', "expired")}
    clock += 2 * 10**9

    assert await door.ask(authorization="a") == 401
    assert await door.ask("/else", authorization="a") == 401
    assert await door.ask("/new", authorization="a") == 401


async def test_bad_credentials_are_refused_and_counted_but_not_cached() -> None:
    desk = Desk()
    desk.answers = {b"x": Refused('Bearer realm="apf"', "unknown-token")}
    door = Door(configured(), desk)

    assert await door.ask(authorization="x") == 401
    assert dict(door.sent[0]["headers"])[b"www-authenticate"] == b'Bearer realm="apf"'
    assert json.loads(door.sent[1]["body"])["reason"] == "unknown-token"
    assert await door.ask(authorization="x") == 401
    assert door.middleware.service.resolver.refused == {"unknown-token": 2}
    desk.answers = {b"x": known("xaver")}
    assert await door.ask(authorization="x") == "xaver"


@pytest.mark.parametrize("rests", [False, True])
async def test_a_changed_file_takes_effect_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, rests: bool
) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text("secret,alice,1\n")
    door = Door(configured(f", authentication: [{{type: tokens, file: {file}}}]"))
    service = door.middleware.service
    looked, after = service.now() + 10**9, 0
    monkeypatch.setattr(service, "now", lambda: looked + after)
    monkeypatch.setattr(service.controller, "now", lambda: looked + after)
    assert await door.ask(authorization="Bearer secret") == "alice"
    assert await door.ask(authorization="Bearer other") == 401

    file.write_text("other,bob,2,\n")
    after = 9 * 10**8
    if rests:
        service._rest()  # after which the next request keeps house, too early to look
    assert await door.ask(authorization="Bearer secret") == "alice"
    after = 10**9
    assert await door.ask(authorization="Bearer secret") == 401
    assert await door.ask(authorization="Bearer other") == "bob"


async def test_an_authenticator_may_be_asynchronous() -> None:
    async def slowly(scope: Scope) -> Authenticated | None:
        await anyio.sleep(0.001)
        return known("slow") if dict(scope["headers"]).get(b"authorization") else None

    door = Door(configured(), slowly)

    assert await door.ask(authorization="a") == "slow"
    assert await door.ask() == "10.0.0.1"


FORGED = {
    "x_remote_user": "root",
    "x_remote_group": "system:masters",
    "x_remote_extra_scope": "all",
    "x_forwarded_for": "192.0.2.1",
    "forwarded": "for=192.0.2.1",
    "x_forwarded_user": "root",
    "x_real_ip": "192.0.2.1",
    "x_user": "root",
    "authorization": "Basic cm9vdDpyb290",
}


@pytest.mark.parametrize("header", FORGED)
async def test_claims_of_untrusted_callers_are_ignored(header: str) -> None:
    server = ", trustedProxies: {networks: [10.9.0.0/16]}, authentication: [{type: proxy, networks: [10.9.0.0/16]}]"
    door = Door(configured(server))

    assert await door.ask(**{header: FORGED[header]}) == "10.0.0.1"


async def test_identity_headers_are_used_from_trusted_proxies_only() -> None:
    server = ", trustedProxies: {networks: [10.9.0.0/16]}, authentication: [{type: proxy, networks: [10.9.0.0/16]}]"
    door = Door(configured(server))

    for _ in range(2):  # once found out, once remembered
        assert await door.ask(client="10.9.0.1", x_remote_user="alice") == "alice"
        assert await door.ask(client="10.0.0.1", x_remote_user="alice") == "10.0.0.1"
        assert await door.ask(client="10.9.0.1", x_forwarded_for="192.0.2.7") == "192.0.2.7"
        assert await door.ask(client="10.9.0.1", x_forwarded_for="192.0.2.8") == "192.0.2.8"
        assert await door.ask(client="10.0.0.1", x_forwarded_for="192.0.2.7") == "10.0.0.1"
        assert await door.ask(client="10.9.0.1", x_forwarded_for="192.0.2.9, 192.0.2.7") == "192.0.2.7"


async def test_metrics_need_the_configured_group() -> None:
    door = Door(configured(", metrics: {exposedTo: [10.1.0.0/16]}"))

    assert await door.ask("/metrics", client="10.0.0.1") == 403
    assert await door.ask("/metrics", client="10.1.0.1") == 200
    assert b"apf_server_seats 100" in door.sent[1]["body"]
    elsewhere = Door(configured(", metrics: {enabled: false}"))
    assert await elsewhere.ask("/metrics") == "10.0.0.1", "the app's own path"
