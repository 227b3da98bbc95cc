"""One request of a recording: the parts of its row that depend on what becomes of it."""

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.recording import Disguise, NeededFacts, Recorder, RecordingSettings
from apf_middleware.config import load_text
from apf_middleware.recordings import Pseudonyms, RecordedRequest
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import ProtectedApp, settle

pytestmark = pytest.mark.anyio

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 10
  defaults: none
  mode: MODE
  bodies: {holdSeats: false}
  deadlines: {headers: {x-timeout: milliseconds}}
  criticality: {headers: {x-criticality: name}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000, streams: {releaseAtStart: true, maxOpen: 5}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: everybody}
spec: {level: crowd, rules: [{httpRules: [{}]}]}
"""


async def report(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok", 404)


async def events(_request: Request) -> StreamingResponse:
    async def parts() -> object:
        yield "data: 1\n\n"

    return StreamingResponse(parts(), media_type="text/event-stream")  # type: ignore[arg-type]


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


def routed() -> ASGIApp:
    inner = [Route("/reports/{name}", report)]
    streams = [Route("/events", events, methods=["GET", "POST"]), WebSocketRoute("/talk", talk)]
    return Starlette(routes=[Mount("/shop", routes=inner), *streams])


def recorder_of(middleware: APFMiddleware) -> Recorder:
    service, pseudonyms = middleware.service, Pseudonyms(bytes(32))
    found = Recorder(
        RecordingSettings("1", "olga", 600, 1.0, "hashed"),
        Disguise(NeededFacts(service.configuration), pseudonyms),
        pseudonyms,
        now=service.controller.now,
        address_of=service.chain.client_address,
    )
    service.observers.add(found)
    return found


async def recorded(scope: Scope, app: ASGIApp | None = None, *, mode: str = "on") -> RecordedRequest:
    middleware = APFMiddleware(app or routed(), load_text(CONFIG.replace("MODE", mode)))
    found = recorder_of(middleware)
    async with anyio.create_task_group() as tasks:
        exchange = Exchange(middleware, scope, tasks)
        if scope["type"] == "websocket":
            exchange.deliver({"type": "websocket.connect"})
        else:
            exchange.body()
        await exchange.start().end()
    [row] = found.take(10)
    return row


async def test_the_route_of_the_app_is_recorded_also_below_a_mount() -> None:
    row = await recorded(http_scope("/shop/reports/alice"))

    assert row.route == "/shop/reports/{name}"
    assert row.path == f"/shop/reports/{Pseudonyms(bytes(32)).of('alice')}"
    assert (row.status, row.outcome, row.is_stream) == (404, "served", False)


async def test_a_path_without_a_route_is_hashed() -> None:
    row = await recorded(http_scope("/shop/unknown"))

    assert row.route == ""
    assert "unknown" not in row.path
    assert row.status == 404


async def test_streams_are_marked_and_end_when_they_give_their_seats_back() -> None:
    row = await recorded(http_scope("/events"))

    assert (row.is_stream, row.outcome, row.route) == (True, "served", "/events")


BROKEN_EVENTS = {"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/event-stream")]}
OK = {"type": "http.response.start", "status": 200, "headers": []}


def sending(*messages: Message) -> ASGIApp:
    """Return an app that sends ``messages``, and then raises an exception."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        raise LookupError

    return app


@pytest.mark.parametrize("mode", ["on", "observe"])
async def test_the_status_of_a_stream_is_known(mode: str) -> None:
    row = await recorded(http_scope("/events"), mode=mode)
    assert (row.status, row.outcome, row.is_stream) == (200, "served", True)

    row = await recorded(http_scope("/events"), sending(BROKEN_EVENTS), mode=mode)
    assert (row.status, row.outcome, row.is_stream) == (500, "failed", True)


async def test_the_status_of_a_stream_is_known_while_the_body_of_its_request_arrives() -> None:
    middleware = APFMiddleware(routed(), load_text(CONFIG.replace("MODE", "on")))
    found = recorder_of(middleware)
    async with anyio.create_task_group() as tasks:
        scope = http_scope("/events", headers={"transfer-encoding": "chunked"})
        exchange = Exchange(middleware, {**scope, "method": "POST"}, tasks).body(b"x" * 100_000, more=True)
        await exchange.start().end()

    [row] = found.take(10)
    assert (row.status, row.is_stream) == (200, True)


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
@pytest.mark.parametrize(("sent", "status"), [((), 0), ((OK,), 200)])
async def test_an_exception_is_a_failure_also_after_the_beginning_of_the_answer(
    sent: tuple[Message, ...], status: int, mode: str
) -> None:
    row = await recorded(http_scope("/", headers={"accept": "text/event-stream"}), sending(*sent), mode=mode)

    assert (row.status, row.outcome) == (status, "failed")


async def test_a_request_that_announces_a_stream_and_gets_another_answer_is_none() -> None:
    row = await recorded(http_scope("/shop/reports/7", headers={"accept": "text/event-stream"}))

    assert (row.status, row.is_stream) == (404, False)


async def test_websockets_are_streams() -> None:
    row = await recorded(websocket_scope("/talk"))

    assert (row.is_stream, row.outcome, row.method, row.route) == (True, "served", "GET", "/talk")


async def test_deadlines_and_criticality_are_recorded() -> None:
    row = await recorded(http_scope("/shop/reports/7", headers={"x-timeout": "1500", "x-criticality": "sheddable"}))

    assert row.deadline_ns is not None
    assert 10**9 < row.deadline_ns <= 1_500_000_000
    assert row.criticality == "sheddable"
    assert row.headers == {"x-timeout": "1500", "x-criticality": "sheddable"}


async def test_headers_may_have_any_bytes() -> None:
    scope = http_scope("/")
    scope["path"] = "/shop/reports/\udcff\0\n"
    scope["headers"] = [(b"x-timeout", b"\xff\x00"), (b"X-Criticality", bytes(range(256))), (b"\xff", b"")]
    row = await recorded(scope)

    assert set(row.headers) <= {"x-timeout", "x-criticality"}


async def test_an_app_that_raises_before_it_answers_has_failed() -> None:
    async def broken(_scope: Scope, _receive: object, _send: object) -> None:
        raise LookupError

    row = await recorded(http_scope("/"), broken)

    assert (row.outcome, row.status) == ("failed", 0)


async def test_a_request_that_passes_is_told_apart() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        found = recorder_of(app.middleware)
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        app.middleware.service.switch("off")
        await waiting.end()
        await app.request("/later").end()
        app.finish()

    rows = list(found.take(10))
    assert [row.outcome for row in rows] == ["passed", "served", "served"]
    assert rows[0].duration_ns is None
    assert rows[0].wait_ns is not None
    assert rows[1].status == 200
