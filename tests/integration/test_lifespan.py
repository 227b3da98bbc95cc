"""Beginning and end: the lifespan protocol, the signals of a server that is asked to stop, servers without either."""

import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware, get_admission
from tests.support.protected_app import WEB_DEFAULTS, configuration

pytestmark = pytest.mark.anyio


async def hello(request: Request) -> PlainTextResponse:
    admission = await get_admission(request)
    return PlainTextResponse(f"{admission.level} {request.url.path}")


def starlette_app(registry: CollectorRegistry | None = None) -> Starlette:
    app = Starlette(routes=[Route("/hello", hello), Mount("/sub", routes=[Route("/hello", hello)])])
    app.add_middleware(APFMiddleware, config=configuration(), registry=registry)
    return app


def test_the_middleware_works_under_the_test_client_with_and_without_lifespan() -> None:
    app = starlette_app()
    with TestClient(app) as client:
        assert client.get("/hello").text == "crowd /hello"
    assert TestClient(app).get("/sub/hello").text == "crowd /sub/hello"
    with TestClient(app) as client:  # again, on another event loop
        assert client.get("/hello").status_code == 200


def test_apps_that_run_one_after_another_have_their_metrics_in_one_registry() -> None:
    registry = CollectorRegistry()
    first, second = starlette_app(registry), starlette_app(registry)
    for app in (first, second, first):
        with TestClient(app) as client:
            assert client.get("/hello").status_code == 200
            assert b"\napf_dispatched_requests_total{" in generate_latest(registry)
        assert generate_latest(registry) == b""


async def test_the_middleware_works_under_httpx() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(starlette_app()), base_url="http://app") as client:
        response = await client.get("/hello")
        assert (response.status_code, response.text) == (200, "crowd /hello")
        assert response.headers["x-apf-priority-level"] == "crowd"


async def test_the_middleware_works_in_a_mounted_app_and_twice_in_one_process() -> None:
    inner = starlette_app()
    outer = Starlette(routes=[Mount("/tenants", inner)])
    outer.add_middleware(APFMiddleware, config=WEB_DEFAULTS)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://app") as client:
        response = await client.get("/tenants/hello")
        metrics = await client.get("/metrics")
        inner_metrics = await client.get("/tenants/metrics")

    assert response.text == "crowd /tenants/hello"
    assert response.headers.get_list("x-apf-priority-level") == ["crowd", "anonymous"]
    assert (
        'apf_dispatched_requests_total{flow_schema="anonymous-clients",priority_level="anonymous"} 1\n' in metrics.text
    )
    assert 'apf_dispatched_requests_total{flow_schema="everybody",priority_level="crowd"} 1\n' in inner_metrics.text


def twice_protected(way: str) -> ASGIApp:
    app = starlette_app()
    if way == "wrapped":
        return APFMiddleware(app, configuration())
    if way == "wrapped twice":
        return APFMiddleware(APFMiddleware(Starlette(), configuration()), configuration())
    app.add_middleware(APFMiddleware, config=configuration())
    return app


@pytest.mark.parametrize("way", ["added twice", "wrapped", "wrapped twice"])
def test_a_second_middleware_around_the_same_app_is_logged(way: str, caplog: pytest.LogCaptureFixture) -> None:
    with TestClient(twice_protected(way)):
        pass

    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.__dict__["event"] for record in warnings] == ["apf.added-twice"]
    assert "remove one of the two" in warnings[0].message


def test_middlewares_of_an_app_and_of_one_that_is_mounted_in_it_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outer = Starlette(routes=[Mount("/tenants", starlette_app())])
    outer.add_middleware(APFMiddleware, config=WEB_DEFAULTS)
    for _ in range(2):  # a second run is no second middleware
        with TestClient(outer) as client:
            assert client.get("/tenants/hello").status_code == 200

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_the_lifespan_passes_through_and_its_end_closes_the_levels() -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["made"] = True
        for _ in range(2):
            message = await receive()
            heard.append(message["type"])
            closing.append(controller.is_closing)
            await send({"type": f"{message['type']}.complete"})

    inbox: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Message] = []
    closing: list[bool] = []
    middleware = APFMiddleware(app, configuration())
    controller = middleware.service.controller

    async def receive() -> Message:
        return inbox.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    before = signal.getsignal(signal.SIGTERM)
    await middleware(scope, receive, send)

    assert heard == ["lifespan.startup", "lifespan.shutdown"]
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert scope["state"] == {"made": True}
    assert closing == [False, True]
    assert not controller.is_closing, "or no test's client could come after it"
    assert signal.getsignal(signal.SIGTERM) is before, "the signals are given back"


class LifespanServer:
    """A server that starts ``app``, and stops it when the test says so."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.started, self.stops, self.stopped = anyio.Event(), anyio.Event(), anyio.Event()

    async def run(self) -> None:
        await self.app({"type": "lifespan"}, self._receive, self._send)
        self.stopped.set()

    async def _receive(self) -> Message:
        if not self.started.is_set():
            return {"type": "lifespan.startup"}
        await self.stops.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, _message: Message) -> None:
        self.started.set()

    async def stop(self) -> None:
        self.stops.set()
        await self.stopped.wait()


async def test_of_two_servers_in_one_event_loop_the_first_one_starts_and_stops_the_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    middleware = APFMiddleware(Starlette(), configuration())
    for _ in range(2):  # a later run is as good as the first
        caplog.clear()
        async with anyio.create_task_group() as tasks:
            first, second = LifespanServer(middleware), LifespanServer(middleware)
            for server in (first, second):
                tasks.start_soon(server.run)
                await server.started.wait()
            await second.stop()
            events = [record.__dict__["event"] for record in caplog.records]
            assert events == ["apf.started", "apf.lifespan-repeated"], "nothing has stopped for the first one"
            await first.stop()
        assert caplog.records[-1].__dict__["event"] == "apf.stopped"


async def raises_at_once(_receive: Receive, _send: Send) -> None:
    raise LookupError("no lifespan here")


async def returns_at_once(_receive: Receive, _send: Send) -> None:
    pass


async def returns_when_it_has_started(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})


@pytest.mark.parametrize("part", [raises_at_once, returns_at_once, returns_when_it_has_started])
async def test_the_lifespan_is_completed_in_the_place_of_an_app_that_ends_it(
    part: Callable[[Receive, Send], Awaitable[None]],
) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await part(receive, send)

    sent: list[str] = []
    is_open: list[bool] = []
    inbox: list[Message] = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    middleware = APFMiddleware(app, configuration())
    controller = middleware.service.controller

    async def receive() -> Message:
        if sent:
            is_open.append(not controller.is_closing)
        return inbox.pop()

    async def send(message: Message) -> None:
        sent.append(message["type"])

    before = signal.getsignal(signal.SIGTERM)
    await middleware({"type": "lifespan"}, receive, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert is_open == [True], "the server runs until its shutdown"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("first", [None, "lifespan.startup.complete", "lifespan.startup.failed"])
async def test_the_end_of_a_lifespan_that_an_app_takes_part_in_is_its_own(first: str | None) -> None:
    sent: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if first is not None:
            await send({"type": first})
        if first != "lifespan.startup.failed":
            raise LookupError("no database here")

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    with suppress(LookupError):
        await APFMiddleware(app)({"type": "lifespan"}, receive, send)
    assert sent == [first] * (first is not None)


async def test_other_scopes_pass_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None: ...

    await APFMiddleware(app)({"type": "something-new"}, receive, send)
    assert seen == ["something-new"]


@pytest.fixture
def usr1(monkeypatch: pytest.MonkeyPatch) -> signal.Signals:
    """Return a signal that a test may raise."""
    monkeypatch.setattr("apf_middleware.asgi.signals._SIGNALS", (signal.SIGUSR1,))
    return signal.SIGUSR1


async def test_a_signal_during_the_lifespan_rejects_waiting_requests(usr1: signal.Signals) -> None:
    started, ending = anyio.Event(), anyio.Event()
    before = signal.signal(usr1, signal.SIG_IGN)

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        started.set()
        await receive()

    async def receive() -> Message:
        if started.is_set():
            await ending.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def send(_message: Message) -> None: ...

    middleware = APFMiddleware(app, configuration())
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(middleware, {"type": "lifespan"}, receive, send)
            await started.wait()
            closing = [middleware.service.controller.is_closing]
            signal.raise_signal(usr1)
            with anyio.fail_after(60):
                while not middleware.service.controller.is_closing:  # noqa: ASYNC110 - a signal tells nobody else
                    await anyio.sleep(0.005)
            closing.append(middleware.service.controller.is_closing)
            ending.set()
        assert closing == [False, True]
    finally:
        signal.signal(usr1, before)
