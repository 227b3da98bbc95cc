"""Apps behind the middleware exchange the same messages with their server as without it.

Each case runs bare, admitted at once and queued, on asyncio and trio, with a server that records what it receives.
Rejected requests are answered without the app.
"""

import copy
import pickle
from collections import UserDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware import APFMiddleware
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import ALL_HEADERS, configuration, settle

pytestmark = pytest.mark.anyio

Way = Literal["admitted", "queued"]
WAYS: tuple[Way, ...] = ("admitted", "queued")
PAIRS = [(b"X-Before", b"1"), (b"Content-Type", b"text/plain"), (b"x-after", b"2"), (b"x-after", b"3")]
NONE = ", responses: {headers: none}"


ENDS = {f"http.response.{name}" for name in ("body", "pathsend", "zerocopysend")}


class Server:
    """Sends ``messages`` to an app, and records what the app sends as a server reads it."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = list(messages)
        self.sent: list[Message] = []
        self.answered = anyio.Event()
        self.emptied = anyio.Event()  # all messages have been received, and the app waits for more
        self.gone: Message = {"type": "http.disconnect"}

    async def receive(self) -> Message:
        await anyio.lowlevel.checkpoint()
        if self.messages and not self.answered.is_set():
            return self.messages.pop(0)
        self.emptied.set()
        await self.answered.wait()
        return self.gone

    async def send(self, message: Message) -> None:
        await anyio.lowlevel.checkpoint()
        noted = dict(message)
        for field in ("headers", "links"):
            if field in noted:
                noted[field] = [one if isinstance(one, bytes) else tuple(one) for one in noted[field]]
        self.sent.append(noted)
        if message["type"] in ENDS and not message.get("more_body"):
            self.answered.set()


class Guard:
    """The middleware, and a request that holds its only seat."""

    def __init__(self, app: ASGIApp, server: str, wait: str = "10s") -> None:
        self._app = app
        self.middleware = APFMiddleware(self._route, configuration(server=server, wait=wait))
        self._free = anyio.Event()

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] != "/hold":
            await self._app(scope, receive, send)
        else:
            await self._free.wait()
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})

    @asynccontextmanager
    async def full(self) -> AsyncIterator[Callable[[], None]]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.middleware, http_scope("/hold"), Server([]).receive, Server([]).send)
            await settle()
            yield self._free.set


async def run(
    app: ASGIApp, scope: Scope, server: Server, way: Way, settings: str = NONE, *, is_emptied: bool = False
) -> None:
    """Run one request behind the middleware; a queued one until its whole body has come, if it ``is_emptied``."""
    guard = Guard(app, settings)
    if way == "admitted":
        await guard.middleware(scope, server.receive, server.send)
        return
    async with guard.full() as free, anyio.create_task_group() as tasks:
        tasks.start_soon(guard.middleware, scope, server.receive, server.send)
        await anyio.sleep(0.02)  # until the middleware receives from its client
        with anyio.move_on_after(10 if is_emptied else 0):
            await server.emptied.wait()
        free()


def pairs(kind: str) -> object:
    """Return the same headers in each form that is legal."""
    forms: dict[str, Callable[[], object]] = {
        "list": lambda: list(PAIRS),
        "tuple": lambda: tuple(PAIRS),
        "iterator": lambda: iter(PAIRS),
        "generator": lambda: (pair for pair in PAIRS),
        "lists": lambda: [list(pair) for pair in PAIRS],
        "map": lambda: map(tuple, PAIRS),
    }
    return forms[kind]()


FORMS = ["list", "tuple", "iterator", "generator", "lists", "map"]
BODY: Message = {"type": "http.response.body", "body": b"x"}
START: Message = {"type": "http.response.start", "status": 200}
PART: Message = {"type": "http.response.body", "body": b"x", "more_body": True}


def responses() -> Iterator[tuple[str, Callable[[], list[Message]]]]:
    for form in FORMS:
        yield f"headers: {form}", lambda form=form: [{**START, "headers": pairs(form)}, BODY]  # type: ignore[misc]
    plain: dict[str, list[Message]] = {
        "no headers, no body": [START, {"type": "http.response.body"}],
        "empty headers": [{**START, "headers": []}, BODY],
        "no headers, but an error": [{**START, "status": 503}, BODY],
        "an unknown field": [{**START, "color": "red"}, {**BODY, "color": "red"}],
        "parts": [START, PART, {**PART, "body": b""}, {"type": "http.response.body", "more_body": False}],
        "bytearray and memoryview": [START, {**PART, "body": bytearray(b"x")}, {**BODY, "body": memoryview(b"yz")}],
        "trailers": [
            {**START, "trailers": True},
            BODY,
            {"type": "http.response.trailers", "headers": PAIRS, "more_trailers": True},
            {"type": "http.response.trailers", "headers": PAIRS},
        ],
        "push": [{"type": "http.response.push", "path": "/style.css", "headers": PAIRS}, START, BODY],
        "early hints": [{"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]}, START, BODY],
        "debug": [{"type": "http.response.debug", "info": {"template": "t"}}, START, BODY],
        "pathsend": [START, {"type": "http.response.pathsend", "path": "/etc/hostname"}],
        "zerocopysend": [START, {"type": "http.response.zerocopysend", "file": 3, "offset": 1, "count": 2}],
        "unknown": [{"type": "http.response.something", "x": 1}, START, BODY],
        "nothing": [],
    }
    for name, messages in plain.items():
        yield name, lambda messages=messages: copied(messages)  # type: ignore[misc]


def copied(messages: list[Message]) -> list[Message]:
    return [dict(message) for message in messages]


RESPONSES = dict(responses())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RESPONSES)
async def test_a_response_reaches_the_server_as_it_was_sent(name: str, way: Way) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in RESPONSES[name]():
            before = dict(message)
            await send(message)
            assert message == before, "the app's own message is not changed"

    bare, behind = Server([]), Server([])
    await app({}, bare.receive, bare.send)
    await run(app, http_scope(), behind, way)

    assert behind.sent == bare.sent


@pytest.mark.parametrize("form", FORMS)
async def test_added_headers_follow_those_of_the_app(form: str) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({**START, "headers": pairs(form)})
        await send(BODY)

    behind = Server([])
    await run(app, http_scope(), behind, "admitted", ALL_HEADERS)

    ours = [(b"x-apf-flow-schema", b"everybody"), (b"x-apf-priority-level", b"crowd")]
    assert behind.sent[0]["headers"] == [*PAIRS, *ours]


REQUESTS: dict[str, list[Message]] = {
    "no body": [{"type": "http.request", "body": b"", "more_body": False}],
    "no fields": [{"type": "http.request"}],
    "a body": [{"type": "http.request", "body": b"abc", "more_body": False}],
    "parts": [
        {"type": "http.request", "body": part, "more_body": more} for part, more in ((b"a", 1), (b"", 1), (b"b", 0))
    ],
    "an empty end": [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.request"}],
    "a long body": [{"type": "http.request", "body": b"x" * 50_000, "more_body": n < 5} for n in range(6)],
    "an unknown field": [{"type": "http.request", "body": b"abc", "more_body": False, "color": "red"}],
}


@pytest.mark.parametrize("settings", [NONE, f"{NONE}, bodies: {{holdSeats: false}}"], ids=["held", "received before"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reads", ["all", "some", "nothing"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_an_app_receives_the_messages_of_the_server(name: str, reads: str, way: Way, settings: str) -> None:
    """Before its response the request, and after it the disconnect."""

    def app_with(received: list[Message]) -> ASGIApp:
        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            count = {"all": len(REQUESTS[name]), "some": 1, "nothing": 0}[reads]
            received.extend([await receive() for _ in range(count)])
            await send(START)
            await send(PART)
            await send(BODY)
            received.append(await receive())
            received.append(await receive())

        return app

    scope = http_scope("/", "POST", {"Content-Length": "9"})
    bare: list[Message] = []
    behind: list[Message] = []
    server = Server(REQUESTS[name])
    await app_with(bare)(scope, server.receive, server.send)
    server = Server(REQUESTS[name])
    await run(app_with(behind), scope, server, way, settings)

    assert behind == bare
    assert behind[-2:] == [{"type": "http.disconnect"}] * 2


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_rejected_request_gets_one_whole_response_and_never_reaches_the_app(name: str) -> None:
    ran: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        ran.append(scope["path"])

    guard = Guard(app, NONE, wait="10ms")
    async with guard.full() as free:
        for scope in (http_scope("/", "POST"), websocket_scope()):
            server = Server(REQUESTS[name])
            await guard.middleware(scope, server.receive, server.send)
            kinds = [message["type"] for message in server.sent]
            assert kinds in (["http.response.start", "http.response.body"], ["websocket.close"])
            assert scope["type"] == "websocket" or server.sent[0]["status"] == 429
        free()

    assert ran == []


class Outer(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)


@pytest.mark.parametrize("place", ["outside", "inside"])
async def test_a_client_that_hangs_up_while_queued_ends_quietly(place: str) -> None:
    """Also when Starlette's own middleware expects a response to pass on."""
    ran: list[str] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        ran.append(scope["path"])
        await send(START)
        await send(BODY)

    guard = Guard(Outer(app) if place == "inside" else app, NONE)
    outermost = Outer(guard.middleware) if place == "outside" else guard.middleware
    async with guard.full() as free, anyio.create_task_group() as tasks:
        leaver = Exchange(outermost, http_scope(), tasks).body().start()
        await anyio.sleep(0.02)
        leaver.disconnect()
        await leaver.end()
        free()

    assert leaver.error is None
    assert ran == []


HEADERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda found: (pair for pair in found),
    "lists": lambda found: [list(pair) for pair in found],
    "lists and tuples": lambda found: [list(found[0]), *found[1:]],
    "generator of lists": lambda found: (list(pair) for pair in found),
    "generator of iterators": lambda found: (iter(pair) for pair in found),
}
WHO = [(b"accept", b"text/event-stream"), (b"x-user", b"bob"), (b"x-remote-user", b"carl"), (b"x-api-key", b"s3cret")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", ["tokens", "proxy", "header"])
@pytest.mark.parametrize("form", HEADERS)
async def test_headers_in_any_legal_form_are_accepted(form: str, who: str, way: Way, tmp_path: Path) -> None:
    """The middleware reads them alike, and the app gets them unchanged."""
    keys = tmp_path / "keys.csv"
    keys.write_text("s3cret,dora,1\n")
    authenticators = {
        "tokens": f"{{type: tokens, file: {keys}, header: X-API-Key}}",
        "proxy": "{type: proxy, networks: [127.0.0.1/32]}",
        "header": "{type: user}",
    }
    seen: list[tuple[str, str, list[tuple[bytes, ...]]]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        admission = scope["apf"]
        seen.append((admission.identity.name, admission.flow, [tuple(pair) for pair in scope["headers"]]))
        if form in {"list", "tuple", "lists", "lists and tuples"}:
            assert scope["headers"] == HEADERS[form](WHO)
        await send(START)
        await send(BODY)

    settings = f"{NONE}, authentication: [{authenticators[who]}]"
    guard = Guard(app, settings)
    for _ in range(2):  # the second one is cached
        scope = http_scope(client=("127.0.0.1", 5))
        scope["headers"] = HEADERS[form](WHO)
        if way == "admitted":
            await guard.middleware(scope, Server([]).receive, Server([]).send)
        else:
            await run(app, scope, Server([]), way, settings)

    name = {"tokens": "dora", "proxy": "carl", "header": "system:anonymous"}[who]
    assert seen == [(name, "bob", WHO)] * 2


async def test_a_scope_may_be_another_mapping_than_a_dict() -> None:
    seen: list[tuple[Scope, str, list[tuple[bytes, bytes]]]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append((scope, scope["apf"].flow, list(scope["headers"])))
        await send(START)
        await send(BODY)

    middleware = APFMiddleware(app, configuration())
    scopes = [UserDict(http_scope("/orders?limit=1", user=None), headers=iter(WHO)) for _ in range(2)]
    for scope in scopes:
        await middleware(scope, Server([]).receive, Server([]).send)

    assert seen == [(scope, "bob", WHO) for scope in scopes]
    assert [one is scope for (one, _, _), scope in zip(seen, scopes, strict=True)] == [True, True]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("headers", [{}, {"headers": None}, {"headers": []}, {"headers": ()}])
async def test_a_scope_may_have_no_headers(headers: Scope, way: Way, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("s3cret,dora,1\n")
    seen: list[bool] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append({name: scope[name] for name in scope if name == "headers"} == headers)
        await send(START)
        await send(BODY)

    settings = (
        f"{NONE}, bodies: {{holdSeats: false}}, trustedProxies: {{networks: [127.0.0.1/32]}}"
        f", authentication: [{{type: tokens, file: {keys}}}, {{type: proxy, networks: [127.0.0.1/32]}}]"
    )
    for method in ("GET", "POST"):
        scope = http_scope("/", method)
        del scope["headers"]
        await run(app, {**scope, **headers}, Server(REQUESTS["no body"]), way, settings)

    assert seen == [True, True]


async def at_once(receive: Receive) -> Message | None:
    """Return what can be received without waiting, as frameworks check whether a client has gone."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        return await receive()
    return None


@pytest.mark.parametrize("settings", [NONE, f"{NONE}, bodies: {{holdSeats: false}}"], ids=["held", "received before"])
async def test_a_finished_request_is_not_shown(settings: str) -> None:
    seen: list[Message | None] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(BODY)
        seen.append(await at_once(receive))

    server = Server(REQUESTS["a body"])
    await run(app, http_scope("/", "POST", {"Content-Length": "3"}), server, "queued", settings, is_emptied=True)

    assert seen == [{"type": "http.disconnect"}]


WEBSOCKETS: dict[str, list[Message]] = {
    "accept": [{"type": "websocket.accept"}, {"type": "websocket.send", "text": "x"}, {"type": "websocket.close"}],
    "accept with fields": [{"type": "websocket.accept", "subprotocol": "chat", "headers": PAIRS}],
    "bytes": [{"type": "websocket.accept"}, {"type": "websocket.send", "bytes": b"x", "text": None}],
    "close": [{"type": "websocket.close", "code": 4000, "reason": "no"}],
    "denial": [
        {"type": "websocket.http.response.start", "status": 403, "headers": PAIRS},
        {"type": "websocket.http.response.body", "body": b"no"},
    ],
    "denial without headers": [{"type": "websocket.http.response.start", "status": 500}],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WEBSOCKETS)
async def test_a_websocket_scope_is_passed_through_unchanged(name: str, form: str, way: Way) -> None:
    def app_with(received: list[Message]) -> ASGIApp:
        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            received.append(await receive())
            for message in WEBSOCKETS[name]:
                await send({**message, "headers": pairs(form)} if "headers" in message else dict(message))
            received.append(await receive())

        return app

    said: list[Message] = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "hello"}]
    bare: list[Message] = []
    behind: list[Message] = []
    alone, guarded = Server(said), Server(said)
    await app_with(bare)({}, alone.receive, alone.send)
    await run(app_with(behind), websocket_scope(), guarded, way)

    assert (behind, guarded.sent) == (bare, alone.sent)


async def test_a_lifespan_scope_is_passed_through_unchanged() -> None:
    answers: list[list[Message]] = [
        [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}],
        [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.failed", "message": "no"}],
    ]
    said: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    for answer in answers:

        async def app(scope: Scope, receive: Receive, send: Send, answer: list[Message] = answer) -> None:
            scope["state"]["made"] = "once"
            for expected, message in zip(said, answer, strict=True):
                assert await receive() == expected
                await send(message)

        server = Server(said)
        scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        await APFMiddleware(app, configuration())(scope, server.receive, server.send)
        assert server.sent == answer
        assert scope["state"] == {"made": "once"}


@pytest.mark.parametrize("name", [b"content-type", b"Content-Type", b"CONTENT-TYPE"])
@pytest.mark.parametrize("form", [list, iter])
async def test_an_event_stream_releases_its_seat_with_any_case_of_its_header(
    name: bytes, form: Callable[[list[Any]], Any]
) -> None:
    seats: list[int] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await send({**START, "headers": form([(b"x-first", b"1"), (name, b"text/event-stream; charset=utf-8")])})
        seats.append(scope["apf"].seats)
        await send(BODY)

    await run(app, http_scope(), Server([]), "admitted")

    assert seats == [0]


@pytest.mark.parametrize("settings", [NONE, ", responses: {serverTiming: true}"])
@pytest.mark.parametrize("way", WAYS)
async def test_receive_and_send_are_known_as_coroutine_functions(way: Way, settings: str) -> None:
    seen: list[bool] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([iscoroutinefunction(receive), iscoroutinefunction(send)])

        def answer() -> None:
            async_to_sync(send)(START)

        await anyio.to_thread.run_sync(answer)
        await send(BODY)

    behind = Server([])
    if way == "queued":
        await run(app, http_scope(), behind, way, settings)
    else:
        await APFMiddleware(app, configuration(server=settings))(http_scope(), behind.receive, behind.send)
    assert seen == [True, True]
    assert [message["type"] for message in behind.sent] == ["http.response.start", "http.response.body"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_scope_can_be_copied_and_pickled(way: Way) -> None:
    copies: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        copies.extend([copy.deepcopy(scope), pickle.loads(pickle.dumps(scope)), copy.copy(scope)])  # noqa: S301 - ours
        assert copies[0]["apf"] is scope["apf"], "the seats are the request's, however many copies of its scope"
        assert copy.copy(scope["apf"]) is scope["apf"]
        assert {**copies[0], "apf": 0} == {**scope, "apf": 0} == {**copies[1], "apf": 0}
        unpickled = copies[1]["apf"]
        assert (unpickled.level, unpickled.schema, unpickled.flow, unpickled.seats) == ("crowd", "everybody", "", 1)
        assert unpickled.flow_weight == 1
        assert unpickled.waited == pytest.approx(scope["apf"].waited)
        await send(START)
        await send(BODY)

    await run(app, http_scope(), Server([]), way)

    assert len(copies) == 3
