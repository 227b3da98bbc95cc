"""What balancers learn: the header of responses and rejections, the document, and the readiness probe."""

import base64
import json
from types import SimpleNamespace
from typing import Literal

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.load_reports import rejected_for_load
from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.metrics.reading import FleetReading
from apf_middleware.runtime import Admission
from tests.support.asgi_exchange import Exchange, websocket_scope
from tests.support.protected_app import ALL_HEADERS, ProtectedApp, configuration, settle

pytestmark = pytest.mark.anyio

SECOND = 10**9
TEXT = "loadReports: {header: text, forEverybody: true, path: /load}"
ACCEPTANCE: Message = {"type": "websocket.accept", "headers": [(b"a", b"b")]}
READY = "readiness: {levels: [crowd], after: 2s, recover: 5s}"


def reporting(*settings: str, length: int = 1) -> Configuration:
    return configuration(seats=2, length=length, queues=1, server=f"{ALL_HEADERS}, {', '.join(settings)}")


def pairs(header: str) -> dict[str, float]:
    form, _, text = header.partition(" ")
    assert form == "TEXT"
    return {name: float(value) for name, value in (pair.split("=") for pair in text.split(","))}


def move_clock(app: APFMiddleware, seconds: float) -> None:
    """Stop the app's clock ``seconds`` later than it is."""
    later = app.service.controller.now() + round(seconds * SECOND)
    app.service.controller.now = app.service.now = lambda: later


def stopped(tasks: TaskGroup, config: Configuration) -> ProtectedApp:
    """Return an app whose clock only the test moves, so that rates don't depend on how busy the machine is."""
    protected = ProtectedApp(tasks, config)
    service = protected.middleware.service
    move_clock(protected.middleware, 0)
    service.load_reports = None  # a new one counts from now
    service._build_parts(service.configuration)
    return protected


async def ask(app: APFMiddleware, path: str, method: str = "GET", peer: str = "127.0.0.1") -> httpx.Response:
    transport = httpx.ASGITransport(app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, path)


async def test_responses_and_rejections_have_the_load() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT))
        holders = [await protected.holder(f"/hold{number}") for number in range(2)]
        waiting = protected.request("/waiting")
        await settle()
        move_clock(protected.middleware, 10)
        rejected = protected.request("/rejected")
        await rejected.end()

        assert rejected.status == 429
        found = pairs(rejected.headers["endpoint-load-metrics"])
        assert found["application_utilization"] == pytest.approx(1.5, abs=0.01), "two have seats and one waits"
        assert found["named_metrics.apf.crowd.utilization"] == pytest.approx(1.5, abs=0.01)
        assert found["rps_fractional"] == pytest.approx(0.2, abs=0.01)
        for number in range(2):
            protected.finish(f"/hold{number}")
        for exchange in (*holders, waiting):
            await exchange.end()
            assert exchange.headers["endpoint-load-metrics"].startswith("TEXT ")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_request_counts_for_the_time_that_it_takes_and_not_because_it_gets_the_report() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT))
        reports: list[str] = []
        for _ in range(40):
            holder = await protected.holder()
            move_clock(protected.middleware, 0.02)
            protected.finish()
            await holder.end()
            reports.append(holder.headers["endpoint-load-metrics"])
            move_clock(protected.middleware, 0.18)

    found = pairs(reports[-1])
    assert found["application_utilization"] == pytest.approx(0.05, abs=0.01), "one of two seats for a tenth of the time"
    assert found["named_metrics.apf.crowd.utilization"] == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_after_other_settings_the_utilisation_is_that_of_now() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT))
        holder = await protected.holder()
        move_clock(protected.middleware, 100)
        service = protected.middleware.service
        service.adopt(service.prepare(reporting(TEXT.replace("text", "json"))))
        report = (await ask(protected.middleware, "/load")).json()
        protected.finish()
        await holder.end()

    assert report["application_utilization"] == pytest.approx(0.5, abs=0.01)


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "websocket.connect"
    if scope["path"] == "/denied":
        await send({"type": "websocket.http.response.start", "status": 403, "headers": [(b"a", b"b")]})
        await send({"type": "websocket.http.response.body", "body": b""})
        return
    await send({"type": "websocket.accept"} if scope["path"] == "/plain" else ACCEPTANCE)
    await send({"type": "websocket.send", "text": "hello"})


async def connect(app: ASGIApp, path: str, peer: str = "127.0.0.1") -> Exchange:
    async with anyio.create_task_group() as tasks:
        scope = websocket_scope(path, extensions={"websocket.http.response": {}}, client=(peer, 1))
        socket = Exchange(app, scope, tasks)
        socket.deliver({"type": "websocket.connect"})
        await socket.start().end()
    assert socket.error is None
    return socket


@pytest.mark.parametrize("mode", ["on", "observe"])
async def test_the_answers_to_handshakes_have_the_load(mode: str) -> None:
    app = APFMiddleware(greet, reporting(TEXT, f"mode: {mode}"))
    for path, kind in (("/", "accept"), ("/plain", "accept"), ("/denied", "http.response.start")):
        first, *others = (await connect(app, path)).sent
        assert first["type"] == f"websocket.{kind}"
        reports = [value for name, value in first["headers"] if name == b"endpoint-load-metrics"]
        assert len(reports) == 1
        assert reports[0].startswith(b"TEXT ")
        assert all("headers" not in message for message in others)
    assert ACCEPTANCE == {"type": "websocket.accept", "headers": [(b"a", b"b")]}, "the app may send it again"


async def test_a_rejected_handshake_has_the_load() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, configuration(seats=2, response="Reject", server=f", {TEXT}"))
        held = [await protected.holder(f"/hold{number}") for number in range(2)]
        rejected = await connect(protected.middleware, "/socket")
        for number in range(2):
            protected.finish(f"/hold{number}")
        for exchange in held:
            await exchange.end()

    assert (rejected.sent[0]["type"], rejected.status) == ("websocket.http.response.start", 429)
    assert rejected.headers["endpoint-load-metrics"].startswith("TEXT ")


async def test_handshakes_of_other_clients_have_no_report() -> None:
    app = APFMiddleware(greet, reporting("loadReports: {}", "trustedProxies: {networks: [10.0.0.0/8]}"))
    trusted, other = [(await connect(app, "/", peer)).sent[0]["headers"] for peer in ("10.1.2.3", "127.0.0.1")]
    assert "endpoint-load-metrics-bin" in {name.decode() for name, _ in trusted}
    assert "endpoint-load-metrics-bin" not in {name.decode() for name, _ in other}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_only_trusted_proxies_get_the_header_by_default() -> None:
    async with anyio.create_task_group() as tasks:
        config = reporting("loadReports: {}", "trustedProxies: {networks: [10.0.0.0/8]}")
        app = ProtectedApp(tasks, config).middleware
        assert "endpoint-load-metrics-bin" not in (await ask(app, "/")).headers
        answer = await ask(app, "/", peer="10.1.2.3")
        base64.b64decode(answer.headers["endpoint-load-metrics-bin"], validate=True)
        assert (await ask(app, "/load")).text == "/load", "there is no document unless it has a path"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_document() -> None:
    async with anyio.create_task_group() as tasks:
        app = stopped(tasks, reporting("loadReports: {header: null, path: /load}")).middleware
        assert "endpoint-load-metrics" not in (await ask(app, "/")).headers
        move_clock(app, 1)
        answer = await ask(app, "/load")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json()["rps_fractional"] == pytest.approx(1, abs=0.01)
        assert (await ask(app, "/load", "HEAD")).content == b""
        assert (await ask(app, "/load", "POST")).text == "/load", "the app's own"
        assert (await ask(app, "/load/more")).text == "/load/more"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_rejects_for_some_time_is_not_ready() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(READY))
        app = protected.middleware
        assert (await ask(app, "/readyz")).json() == {"ready": True, "closing": False, "rejecting": {}}
        held = [await protected.holder(f"/hold{number}") for number in range(2)]
        held.append(protected.request("/waiting"))
        statuses = []
        for _ in range(4):
            await settle()
            await protected.request("/rejected").end()
            statuses.append((await ask(app, "/readyz")).status_code)
            move_clock(app, 1)
        assert statuses == [200, 200, 503, 503]
        answer = (await ask(app, "/readyz")).json()
        assert answer["ready"] is False
        assert answer["rejecting"]["crowd"] == pytest.approx(4, abs=0.01)
        app.service.switch("observe")
        assert (await ask(app, "/readyz")).status_code == 200, "nobody is rejected now"
        app.service.switch("on")
        move_clock(app, 5)
        assert (await ask(app, "/readyz")).status_code == 200
        for number in range(2):
            protected.finish(f"/hold{number}")
        for exchange in held:
            await exchange.end()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_reload_does_not_make_a_server_seem_idle() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT, READY))
        app = protected.middleware
        held = [await protected.holder(f"/hold{number}") for number in range(2)]
        held.append(protected.request("/waiting"))
        for _ in range(3):
            await settle()
            await protected.request("/rejected").end()
            await ask(app, "/readyz")
            move_clock(app, 1)
        assert (await ask(app, "/readyz")).status_code == 503
        report = (await ask(app, "/load")).json()
        app.service.adopt(app.service.prepare(reporting(TEXT, READY, length=2)))

        assert (await ask(app, "/readyz")).status_code == 503
        assert (await ask(app, "/load")).json() == report
        for number in range(2):
            protected.finish(f"/hold{number}")
        for exchange in held:
            await exchange.end()
        app.service.adopt(app.service.prepare(reporting(length=2)))
        assert (await ask(app, "/readyz")).text == "/readyz"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_clients_without_time_do_not_make_a_server_seem_busy() -> None:
    """Otherwise anybody could take servers away from their balancer."""
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT, READY, "deadlines: {}"))
        app = protected.middleware
        for _ in range(4):
            move_clock(app, 1)
            hopeless = protected.open("/")
            hopeless.scope["headers"].append((b"grpc-timeout", b"0n"))
            await hopeless.body().start().end()
            assert hopeless.status == 504
            assert hopeless.headers["retry-after"] == "1", "the server is idle"
            assert (await ask(app, "/readyz")).status_code == 200
        assert "eps" not in (await ask(app, "/load")).json()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_request_that_gets_its_seats_too_late_is_an_error() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT, "deadlines: {}"))
        held = [await protected.holder(f"/hold{number}") for number in range(2)]
        late = protected.open("/late")
        late.scope["headers"].append((b"grpc-timeout", b"10S"))
        late.body().start()
        await settle()
        protected.finish("/hold0")
        move_clock(protected.middleware, 20)
        await late.end()

        assert late.status == 504
        assert "endpoint-load-metrics" in late.headers
        move_clock(protected.middleware, 1)
        assert (await ask(protected.middleware, "/load")).json()["eps"] > 0
        protected.finish("/hold1")
        for exchange in held:
            await exchange.end()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_counts_as_served_and_as_an_error() -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting("loadReports: {header: null, path: /load}"))
        app = protected.middleware
        for path in ("/health", "/boom", "/"):
            await protected.request(path).end()
        move_clock(app, 1)
        report = (await ask(app, "/load")).json()

    assert report["rps_fractional"] == pytest.approx(2, abs=0.01), "exempt requests don't count"
    assert report["eps"] == pytest.approx(1, abs=0.01), "the app has failed"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("reason", Reason)
async def test_which_rejections_are_for_load(reason: Reason) -> None:
    async with anyio.create_task_group() as tasks:
        controller = stopped(tasks, reporting(TEXT)).middleware.service.controller
        place = Classification("everybody", "crowd", "alice", 7)
        controller.refuse(controller.now(), Admission(controller.destination(place, Work())), reason)

        for_load = {Reason.QUEUE_FULL, Reason.CONCURRENCY_LIMIT, Reason.TIME_OUT, Reason.DEADLINE}
        assert rejected_for_load(controller.levels["crowd"]) == (reason in for_load)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_at_most_eight_levels_are_reported() -> None:
    level = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: level-{}}}\nspec: {{shares: 10}}\n"
    server = f"apiVersion: apf/v1\nkind: Server\nspec: {{defaults: none, {TEXT}}}\n"
    app = APFMiddleware(Starlette(), load_text(server + "".join(map(level.format, range(10)))))

    assert len((await ask(app, "/load")).json()["named_metrics"]) == 8


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_member_of_a_fleet_divides_by_the_seats_that_it_was_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, reporting(TEXT))
        service = protected.middleware.service
        holder = await protected.holder()
        move_clock(protected.middleware, 10)
        service.keep_house(service.now())
        reading = FleetReading(
            seats=10,
            granted=4,
            in_use=1,
            members=2,
            exchanges=Histogram(DURATION_BOUNDS_NS),
            age_ns=None,
            fallback_ns=0,
            is_allocator=False,
            epochs=0,
            overshoot=0,
            is_outdated=False,
        )
        monkeypatch.setattr(service, "fleet", SimpleNamespace(participant=SimpleNamespace(reading=lambda: reading)))
        report = (await ask(protected.middleware, "/load")).json()
        protected.finish()
        await holder.end()

    assert report["application_utilization"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_shuts_down_is_not_ready() -> None:
    async with anyio.create_task_group() as tasks:
        app = stopped(tasks, reporting(READY)).middleware
        app.service.controller.close()
        answer = await ask(app, "/readyz")
        assert answer.status_code == 503
        assert json.loads(answer.content)["closing"] is True


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_without_settings_the_paths_are_the_app_s() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks).middleware
        assert (await ask(app, "/readyz")).text == "/readyz"
        assert app.app is app._app
        assert app.service.load_reports is None


@pytest.mark.parametrize("mode", ["on", "observe"])
async def test_rejections_that_nobody_gets_are_no_errors(mode: Literal["on", "observe"]) -> None:
    async with anyio.create_task_group() as tasks:
        protected = stopped(tasks, configuration(seats=2, response="Reject", server=f", {TEXT}"))
        app = protected.middleware
        app.service.switch(mode)
        held = [await protected.holder(f"/hold{number}") for number in range(2)]
        answers = [protected.request(f"/more{number}") for number in range(20)]
        await settle()
        move_clock(app, 2)
        report = (await ask(app, "/load")).json()
        assert ("eps" in report) == (mode == "on")
        for number in range(2):
            protected.finish(f"/hold{number}")
        for exchange in (*held, *answers):
            await exchange.end()
