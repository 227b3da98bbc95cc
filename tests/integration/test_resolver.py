"""Who is let in as whom: what is remembered of callers, for how long, and who can't pretend to be whom."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.identity import Authenticated, Authenticator, FunctionAuthenticator, Refused
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


class AuthenticatedApp:
    """Asks the middleware who somebody is; ``refuse`` are the challenges that were answered."""

    def __init__(
        self,
        configuration: Configuration,
        *functions: Callable[[Scope], object],
        authenticator: Authenticator | None = None,
    ) -> None:
        chain: list[Authenticator] = [] if authenticator is None else [authenticator]
        chain += [FunctionAuthenticator(function, headers=["authorization"]) for function in functions]  # type: ignore[arg-type]
        self.middleware = APFMiddleware(self._app, configuration, authenticators=chain)
        self.flow: str | None = None
        self.sent: list[Message] = []

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.flow = scope["apf"].flow
        assert scope["apf"].schema in {"by-user", "by-address"}
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def flow_of(self, path: str = "/", client: str = "10.0.0.1", **headers: str) -> str | int:
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


class Directory:
    """An authenticator that looks up who has the tokens, and answers when a test lets it."""

    headers = frozenset({b"authorization"})
    memorable = True

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.asked, self.answers = anyio.Event(), anyio.Event()

    async def authenticate(self, _scope: Scope) -> Authenticated:
        found = known(self.owner)
        self.asked.set()
        await self.answers.wait()
        return found

    def refresh(self) -> bool:
        return True


class CountingAuthenticator:
    """A user's authenticator whose answers a test sets; ``calls`` counts."""

    def __init__(self) -> None:
        self.calls = 0
        self.answers: dict[bytes, Authenticated | Refused] = {}

    def __call__(self, scope: Scope) -> Authenticated | Refused | None:
        self.calls += 1
        return self.answers.get(dict(scope["headers"]).get(b"authorization", b""))


def known(name: str, valid_until: float | None = None) -> Authenticated:
    return Authenticated(Identity(name), valid_until)


async def test_a_caller_is_authenticated_once_for_many_requests_and_paths() -> None:
    authenticator = CountingAuthenticator()
    authenticator.answers = {b"a": known("alice"), b"b": known("bob")}
    protected = AuthenticatedApp(configured(), authenticator)

    for _ in range(3):
        assert await protected.flow_of("/1", authorization="a") == "alice"
        assert await protected.flow_of("/2", authorization="a") == "alice"
        assert await protected.flow_of("/1", authorization="b") == "bob"
        assert await protected.flow_of("/1") == "10.0.0.1", "without credentials nobody is anybody"
    assert authenticator.calls == 3


async def test_a_caller_with_a_long_token_is_authenticated_once() -> None:
    authenticator = CountingAuthenticator()
    one, other, many = "a" * 9000, "a" * 8999 + "b", "c" * 9000
    groups = Authenticated(Identity("carol", tuple(f"group-{number}" for number in range(100))))
    authenticator.answers = {one.encode(): known("alice"), other.encode(): known("bob"), many.encode(): groups}
    protected = AuthenticatedApp(configured(), authenticator)

    for path in ("/1", "/2", "/1"):
        assert await protected.flow_of(path, authorization=one) == "alice"
        assert await protected.flow_of(path, authorization=other) == "bob"
    assert authenticator.calls == 2
    for _ in range(3):
        assert await protected.flow_of(authorization=many) == "carol"
    assert authenticator.calls == 5, "the identity that a client sends would take as much memory as its token"


async def test_cached_requests_expire_with_the_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator, now = CountingAuthenticator(), 1000.0
    clock = 10**18
    authenticator.answers = {b"a": known("alice", valid_until=1060.0)}
    protected = AuthenticatedApp(configured(), authenticator)
    monkeypatch.setattr(protected.middleware.service.resolver, "_wall_clock", lambda: now)
    monkeypatch.setattr(protected.middleware.service, "now", lambda: clock)
    monkeypatch.setattr(protected.middleware.service.controller, "now", lambda: clock)
    protected.middleware.service.due = 2**62

    assert await protected.flow_of(authorization="a") == "alice"
    clock += 59 * 10**9
    assert await protected.flow_of(authorization="a") == "alice"
    assert await protected.flow_of("/else", authorization="a") == "alice"
    assert authenticator.calls == 1
    authenticator.answers = {b"a": Refused('Bearer error="invalid_token"', "expired")}
    clock += 2 * 10**9

    assert await protected.flow_of(authorization="a") == 401
    assert await protected.flow_of("/else", authorization="a") == 401
    assert await protected.flow_of("/new", authorization="a") == 401


async def test_a_function_is_asked_again_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function can't tell that a key has been revoked, or has been made."""
    keys, clock = {b"old": Identity("alice")}, 10**18
    protected = AuthenticatedApp(
        configured(), lambda scope: keys.get(dict(scope["headers"]).get(b"authorization", b""))
    )
    monkeypatch.setattr(protected.middleware.service, "now", lambda: clock)
    monkeypatch.setattr(protected.middleware.service.controller, "now", lambda: clock)

    for expected in (("alice", "10.0.0.1"), ("alice", "10.0.0.1"), ("10.0.0.1", "bob")):
        found = await protected.flow_of(authorization="old"), await protected.flow_of(authorization="new")
        assert found == expected
        keys = {b"new": Identity("bob")}
        clock += 6 * 10**9


async def test_an_identity_may_be_valid_for_ever() -> None:
    authenticator = CountingAuthenticator()
    authenticator.answers = {b"a": known("alice", valid_until=math.inf)}
    assert await AuthenticatedApp(configured(), authenticator).flow_of(authorization="a") == "alice"


async def test_an_identity_that_was_valid_is_refused() -> None:
    """A function may return what a table of keys says, without a look at the clock."""

    async def later(_scope: Scope) -> Authenticated:
        return known("bob", valid_until=time.time() - 1)

    for function in (lambda _scope: known("alice", valid_until=time.time() - 1), later):
        protected = AuthenticatedApp(configured(), function)
        assert await protected.flow_of(authorization="a") == 401
        assert protected.middleware.service.resolver.refused == {"expired": 1}


async def test_bad_credentials_are_refused_and_counted_but_not_cached() -> None:
    authenticator = CountingAuthenticator()
    authenticator.answers = {b"x": Refused('Bearer realm="apf"', "unknown-token")}
    protected = AuthenticatedApp(configured(), authenticator)

    assert await protected.flow_of(authorization="x") == 401
    assert dict(protected.sent[0]["headers"])[b"www-authenticate"] == b'Bearer realm="apf"'
    assert json.loads(protected.sent[1]["body"])["reason"] == "unknown-token"
    assert await protected.flow_of(authorization="x") == 401
    assert protected.middleware.service.resolver.refused == {"unknown-token": 2}
    authenticator.answers = {b"x": known("xaver")}
    assert await protected.flow_of(authorization="x") == "xaver"


@pytest.mark.parametrize("rests", [False, True])
async def test_a_changed_file_takes_effect_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, rests: bool
) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text("secret,alice,1\n")
    protected = AuthenticatedApp(configured(f", authentication: [{{type: tokens, file: {file}}}]"))
    service = protected.middleware.service
    looked, after = service.now() + 10**9, 0
    monkeypatch.setattr(service, "now", lambda: looked + after)
    monkeypatch.setattr(service.controller, "now", lambda: looked + after)
    assert await protected.flow_of(authorization="Bearer secret") == "alice"
    assert await protected.flow_of(authorization="Bearer other") == 401

    file.write_text("other,bob,2,\n")
    after = 9 * 10**8
    if rests:
        service._rest()  # after which the next request keeps house, too early to look
    assert await protected.flow_of(authorization="Bearer secret") == "alice"
    after = 10**9
    assert await protected.flow_of(authorization="Bearer secret") == 401
    assert await protected.flow_of(authorization="Bearer other") == "bob"


async def test_an_authenticator_may_be_asynchronous() -> None:
    async def slowly(scope: Scope) -> Authenticated | None:
        await anyio.sleep(0.001)
        return known("slow") if dict(scope["headers"]).get(b"authorization") else None

    protected = AuthenticatedApp(configured(), slowly)

    assert await protected.flow_of(authorization="a") == "slow"
    assert await protected.flow_of() == "10.0.0.1"


async def test_an_identity_found_before_a_refresh_is_not_cached_after_it() -> None:
    directory = Directory("alice")
    protected = AuthenticatedApp(configured(), authenticator=directory)
    flows: list[str | int] = []

    async def ask() -> None:
        flows.append(await protected.flow_of(authorization="a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await directory.asked.wait()
        directory.owner = "bob"
        protected.middleware.service.resolver.refresh()
        directory.answers.set()

    assert flows == ["alice"]
    assert await protected.flow_of("/other", authorization="a") == "bob"  # the caller
    assert await protected.flow_of(authorization="a") == "bob"  # the request


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
    protected = AuthenticatedApp(configured(server))

    assert await protected.flow_of(**{header: FORGED[header]}) == "10.0.0.1"


async def test_identity_headers_are_used_from_trusted_proxies_only() -> None:
    server = ", trustedProxies: {networks: [10.9.0.0/16]}, authentication: [{type: proxy, networks: [10.9.0.0/16]}]"
    protected = AuthenticatedApp(configured(server))

    for _ in range(2):  # once found out, once remembered
        assert await protected.flow_of(client="10.9.0.1", x_remote_user="alice") == "alice"
        assert await protected.flow_of(client="10.0.0.1", x_remote_user="alice") == "10.0.0.1"
        assert await protected.flow_of(client="10.9.0.1", x_forwarded_for="192.0.2.7") == "192.0.2.7"
        assert await protected.flow_of(client="10.9.0.1", x_forwarded_for="192.0.2.8") == "192.0.2.8"
        assert await protected.flow_of(client="10.0.0.1", x_forwarded_for="192.0.2.7") == "10.0.0.1"
        assert await protected.flow_of(client="10.9.0.1", x_forwarded_for="192.0.2.9, 192.0.2.7") == "192.0.2.7"


async def test_metrics_need_the_configured_group() -> None:
    protected = AuthenticatedApp(configured(", metrics: {exposedTo: [10.1.0.0/16]}"))

    assert await protected.flow_of("/metrics", client="10.0.0.1") == 403
    body = protected.sent[1]["body"]
    assert b"metrics.exposedTo" in body
    assert (b"content-length", b"%d" % len(body)) in protected.sent[0]["headers"]
    assert await protected.flow_of("/metrics", client="10.1.0.1") == 200
    assert b"apf_server_seats 100" in protected.sent[1]["body"]
    elsewhere = AuthenticatedApp(configured(", metrics: {enabled: false}"))
    assert await elsewhere.flow_of("/metrics") == "10.0.0.1", "the app's own path"
