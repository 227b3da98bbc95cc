"""Whatever a server or a client puts into a scope: an answer or the app, never an error of ours, and no seat lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.identity import TokenAuthenticator
from apf_middleware.classification import Identity
from apf_middleware.config import load, load_text
from tests.support.asgi_exchange import http_scope, websocket_scope
from tests.support.examples import examples

NAMES = st.sampled_from(
    [
        *(b"host", b"authorization", b"x-forwarded-for", b"forwarded", b"x-remote-user", b"x-remote-group", b"origin"),
        *(b"cookie", b"accept", b"access-control-request-method", b"content-length", b"expect", b"x-api-key", b""),
    ]
)
HEADERS = st.lists(st.tuples(NAMES | st.binary(max_size=20), st.binary(max_size=60)), max_size=8)
PATHS = st.text(max_size=60) | st.sampled_from(["/", "/metrics", "/health", "//", "/a/../b", "/%2e%2e", "/metrics/"])
CLIENTS = (
    st.none() | st.tuples(st.text(max_size=20), st.integers()) | st.sampled_from([("127.0.0.1", 1), ("::1", 0), ()])
)
PARTS: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
    {},
    optional={
        "path": PATHS,
        "method": st.text(max_size=10) | st.sampled_from(["GET", "OPTIONS", "HEAD", "get"]),
        "headers": HEADERS,
        "query_string": st.binary(max_size=60),
        "client": CLIENTS,
        "root_path": st.text(max_size=10) | st.just("/a"),
        "extensions": st.none() | st.just({}) | st.just({"tls": {}}) | st.just({"tls": None}),
        "user": st.none() | st.integers() | st.text(),
        "auth": st.none() | st.integers(),
        "state": st.none(),
    },
)
OPTIONAL = ("client", "root_path", "query_string", "headers", "server", "state", "scheme", "raw_path")

EVERYTHING = load_text(
    """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec:
  trustedProxies: {networks: [127.0.0.0/8, "::1"], header: forwarded}
  authentication:
  - {type: user}
  - {type: certificate}
  - {type: proxy, networks: [127.0.0.0/8]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: odd}
spec:
  level: anonymous
  distinguisher: {source: query, name: q}
  rules:
  - httpRules: [{headers: [{name: Cookie, pattern: ".*a"}], hosts: ["*.example.com"], query: [{name: q}]}]
"""
)


class Counting:
    """An app that notes how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.calls += 1
        assert scope["apf"].seats == 1
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body"})


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run to the end within one task: a request whose body is announced reads the clock of the event loop."""
    LOOP.run(coroutine)


LOOP = asyncio.Runner()
APP = Counting()
TOKENS = TokenAuthenticator({"secret": Identity("alice")})
MIDDLEWARES = [APFMiddleware(APP, load()), APFMiddleware(APP, EVERYTHING, authenticators=[TOKENS])]


def check(middleware: APFMiddleware, scope: Scope) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        assert scope["type"] == "http", "only requests have bodies"
        return {"type": "http.request", "body": b"", "more_body": False}

    before = APP.calls
    run(middleware(scope, receive, send))
    called = APP.calls - before
    answered = [message for message in sent if message["type"] in {"http.response.start", "websocket.close"}]

    if scope["type"] == "http":
        assert len(answered) == 1, "one answer, the app's or ours"
    else:
        assert called + len(answered) == 1
    for runtime in middleware.service.controller.levels.values():
        assert runtime.shared.is_idle


@pytest.mark.parametrize("middleware", MIDDLEWARES, ids=["defaults", "everything"])
@given(parts=PARTS, missing=st.sets(st.sampled_from(OPTIONAL), max_size=4), kind=st.sampled_from(["http", "websocket"]))
@example(parts={"method": "0", "headers": [(b"content-length", b"1")]}, missing=set(), kind="websocket")
@examples(70)
def test_arbitrary_scopes_are_handled(
    middleware: APFMiddleware, parts: dict[str, object], missing: set[str], kind: str
) -> None:
    scope = http_scope() if kind == "http" else websocket_scope()
    scope.update(parts)
    for name in missing:
        scope.pop(name, None)
    check(middleware, scope)


def test_the_request_cache_is_bounded() -> None:
    middleware = APFMiddleware(APP, EVERYTHING)
    for number in range(10_000):
        check(middleware, http_scope(f"/{number}"))
    check(middleware, http_scope("/" + "x" * 100_000))

    assert len(middleware.service.resolver.cache) <= 8192
    longest = max(len(str(key[1])) for key in middleware.service.resolver.cache.young)
    assert longest < 4096
