"""A server that only observes, or is off, delays and rejects nobody; the mode changes while requests wait and run."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from asgiref.wsgi import WsgiToAsgi
from starlette.types import Receive, Scope, Send

from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.config import Configuration, load_text
from apf_middleware.exceptions import TicketStateError
from apf_middleware.fairqueuing import Reason
from apf_middleware.mode import Mode
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.gated_app import DB, GatedApp
from tests.support.gated_app import configuration as gated
from tests.support.protected_app import ALL_HEADERS, ProtectedApp, configuration, settle
from tests.support.reloadable_app import ReloadableApp, level, written
from tests.support.until import until
from tests.support.upload_app import CHUNKED, CONFIG, UploadApp

if TYPE_CHECKING:
    from apf_middleware.runtime import Admission

pytestmark = pytest.mark.anyio


def in_mode(mode: Mode, more: str = "", **settings: object) -> Configuration:
    return configuration(server=f"{ALL_HEADERS}, mode: {mode}{more}", **settings)  # type: ignore[arg-type]


def counted(service: Service) -> Mapping[str, float]:
    """Return what the level ``crowd`` has counted, for metrics and dumps alike, and the requests that have passed."""
    runtime = service.controller.levels["crowd"]
    counters = runtime.schema_counters["everybody"]
    assert runtime.shared.queueset.rejected == counters.rejected
    found = {f"rejected {reason}": number for reason, number in counters.rejected.items() if number}
    found["executed"] = sum(counters.executions.counts)
    return found | {f"passed {mode}": number for mode, number in service.passed.items() if number}


@asynccontextmanager
async def serving(config: Configuration) -> AsyncIterator[ProtectedApp]:
    async with anyio.create_task_group() as tasks:
        yield ProtectedApp(tasks, config)


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_a_request_that_passes_tells_services_further_on_what_it_would_if_it_were_limited(mode: Mode) -> None:
    told: list[dict[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        admission = scope["apf"]
        told.append(DeadlineHeaders().headers() | CriticalityHeaders().headers())
        assert 0 < admission.remaining < 10
        assert admission.criticality == "sheddable"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode(mode, ", deadlines: {}, criticality: {}"))
        scope = http_scope("/", headers={"grpc-timeout": "10S", "x-criticality": "sheddable"})
        exchange = await Exchange(middleware, scope, tasks).body().start().end()

    assert exchange.status == 200
    assert told[0].keys() == {"grpc-timeout", "x-criticality"}


async def test_observed_requests_run_at_once_and_are_counted_as_if_they_were_limited() -> None:
    """Of eight at once, one would have got the seat, five would have waited, and two would have been rejected."""
    async with serving(in_mode("observe", length=5, queues=1)) as protected:
        protected.may_finish["/hold"] = anyio.Event()
        exchanges = [protected.request("/hold") for _ in range(8)]
        await settle()
        assert protected.started == ["/hold"] * 8
        assert protected.waiting == 5
        service = protected.middleware.service
        assert counted(service) == {"rejected queue-full": 2, "executed": 0, "passed observe": 8}
        protected.finish()
        for exchange in exchanges:
            assert (await exchange.end()).status == 200
            assert exchange.headers["x-apf-priority-level"] == "crowd"
        await until(protected.is_idle)
        assert counted(service) == {"rejected queue-full": 2, "executed": 6, "passed observe": 8}


async def test_a_server_that_is_off_only_counts() -> None:
    async with serving(in_mode("off")) as protected:
        protected.may_finish["/hold"] = anyio.Event()
        exchanges = [protected.request("/hold") for _ in range(8)]
        await settle()
        assert protected.started == ["/hold"] * 8
        protected.finish()
        for exchange in exchanges:
            assert (await exchange.end()).status == 200
        assert counted(protected.middleware.service) == {"executed": 0, "passed off": 8}
        assert protected.is_idle()


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_requests_without_seats_have_an_admission(mode: Mode) -> None:
    found: list[Admission] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        admission = scope["apf"]
        found.append(admission)
        assert (admission.level, admission.seats, admission.waited) == ("crowd", 0, 0)
        assert admission.has_passed
        assert admission.charge(7) is (mode == "observe")
        admission.watch("orders")
        assert admission.release()
        assert not admission.revocable().is_set()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode(mode))
        exchange = Exchange(middleware, http_scope("/"), tasks).body().start()
        assert (await exchange.end()).status == 204
        assert exchange.error is None
        assert len(found) == 1


@pytest.mark.parametrize("mode", ["observe", "off"])
@pytest.mark.parametrize("begins_in", ["on", "observe", "off"])
async def test_a_request_that_has_passed_begins_no_watch_after_its_end(begins_in: Mode, mode: Mode) -> None:
    """A task that its app has left behind may try; nothing would ever end that watch."""
    async with serving(in_mode(begins_in)) as protected:
        protected.may_finish["/hold"] = anyio.Event()
        exchanges = [protected.request("/hold") for _ in range(2)]  # the second one waits, if requests are limited
        await settle()
        service = protected.middleware.service
        service.switch(mode)
        protected.finish()
        for exchange in exchanges:
            await exchange.end()
        await until(protected.is_idle)
        for exchange in exchanges:
            with pytest.raises(TicketStateError, match="has ended"):
                exchange.scope["apf"].watch("orders")
        assert service.controller.watches.total == 0


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_the_client_s_tools_see_that_a_request_has_passed(mode: Mode) -> None:
    async with serving(configuration(server=f", mode: {mode}, responses: {{serverTiming: true}}")) as protected:
        holder = await protected.holder()
        second = await protected.request("/second").end()
        assert second.headers["server-timing"] == 'apf;dur=0.0;desc="passed"'
        protected.finish()
        await holder.end()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("mode", ["on", "observe", "off"])
async def test_adapters_for_synchronous_apps_know_that_they_send_by_a_coroutine_function(mode: Mode) -> None:
    """Those of asgiref warn otherwise. The estimate receives the body, so that ``send`` isn't the server's own."""

    def app(_environ: object, start_response: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        start_response("200 OK", [])
        return [b"done"]

    estimation = "estimation: {default: {source: body, name: n, mostSeats: 1, users: ['*']}}"
    async with anyio.create_task_group() as tasks:
        adapted = WsgiToAsgi(app)  # type: ignore[no-untyped-call]
        middleware = APFMiddleware(adapted, in_mode(mode, f", {estimation}"))
        scope = http_scope("/", "POST", {"content-type": "application/json"})
        exchange = await Exchange(middleware, scope, tasks).body(b"{}").start().end()

    assert (exchange.status, exchange.error) == (200, None)


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_what_waits_runs_at_once_and_nobody_is_rejected(mode: Mode) -> None:
    async with serving(configuration(seats=1, length=50, queues=1)) as protected:
        holder = await protected.holder()
        waiting = [protected.request(f"/{number}", user=f"user-{number}") for number in range(9)]
        await settle()
        assert protected.waiting == 9
        service = protected.middleware.service
        service.switch(mode)
        for exchange in waiting:
            assert (await exchange.end()).status == 200
        assert sorted(protected.started[1:]) == [f"/{number}" for number in range(9)]
        assert (await protected.request("/later").end()).status == 200
        assert counted(service) == {"executed": 0, f"passed {mode}": 10}

        service.switch("on")
        last = protected.request("/last")
        await settle()
        assert protected.waiting == 1, "the holder has had the only seat since it began"
        protected.finish()
        assert (await holder.end()).status == (await last.end()).status == 200
        assert service.mode == "on"
        await until(protected.is_idle)
        assert not any(name.startswith("rejected") for name in counted(service))


async def test_requests_whose_wait_ends_without_seats_stay_counted() -> None:
    wide = f"{ALL_HEADERS}, estimation: {{default: {{source: constant, seats: 2}}, cap: false}}"
    async with serving(configuration(seats=2, server=wide)) as app:
        holder = await app.holder()
        waiting = app.request("/waiting")
        await settle()
        assert app.waiting == 1
        counters = app.middleware.service.controller.levels["crowd"].schema_counters["everybody"]
        before = counters.arrived, sum(counters.estimated_widths().values())

        app.middleware.service.switch("off")

        assert before == (2, 2)
        assert (counters.arrived, sum(counters.estimated_widths().values())) == before
        assert min(counters.estimated_widths().values()) >= 0
        assert (await waiting.end()).status == 200
        app.finish()
        await holder.end()


async def test_requests_that_wait_for_a_gate_run_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, gated(server=DB))
        holder = await protected.holder("/db/hold")
        parked = [protected.request(f"/db/{number}") for number in range(3)]
        await settle()
        assert protected.started == ["/db/hold"]
        assert [(gate.acquired, gate.parked) for gate in protected.gates.list()] == [(1, 3)]
        protected.middleware.service.switch("off")
        for exchange in parked:
            assert (await exchange.end()).status == 200
        protected.finish("/db/hold")
        await holder.end()
        assert protected.is_idle()


async def test_virtual_requests_hold_gates_for_as_long_as_they_would() -> None:
    async with anyio.create_task_group() as tasks:
        protected = GatedApp(tasks, gated(server=f"{DB}, mode: observe"))
        protected.may_finish["/db/hold"] = anyio.Event()
        held = [protected.request("/db/hold") for _ in range(5)]
        await settle()
        assert protected.started == ["/db/hold"] * 5
        assert [(gate.acquired, gate.parked) for gate in protected.gates.list()] == [(1, 4)]
        protected.finish("/db/hold")
        for exchange in held:
            assert (await exchange.end()).status == 200
        await until(protected.is_idle)


async def test_virtual_streams_give_their_seats_back_when_their_response_begins() -> None:
    ends = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
        else:
            kind = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
        await ends.wait()

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode("observe"))
        socket = Exchange(middleware, websocket_scope("/"), tasks)
        socket.deliver({"type": "websocket.connect"})
        streams = [Exchange(middleware, http_scope("/"), tasks).body(), socket]
        for stream in streams:
            stream.start()
            await settle()
            assert len(stream.sent) == 1
            queueset = middleware.service.controller.levels["crowd"].shared.queueset
            assert (queueset.seats_in_use, queueset.waiting) == (0, 0)
        ends.set()
        for stream in streams:
            await stream.end()


async def test_seats_that_the_app_gives_back_early_are_given_back_virtually() -> None:
    given_back, end = anyio.Event(), anyio.Event()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/early":
            assert scope["apf"].charge(3)
            assert scope["apf"].release()
            assert not scope["apf"].charge(7), "the seats have been given back"
            given_back.set()
            await end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode("observe"))
        runtime = middleware.service.controller.levels["crowd"]
        early = Exchange(middleware, http_scope("/early"), tasks).body().start()
        await given_back.wait()
        assert (runtime.shared.snapshot().seats_in_use, runtime.streams.open) == (0, 1)
        await Exchange(middleware, http_scope("/other"), tasks).body().start().end()
        end.set()
        assert (await early.end()).status == 200
        counters = runtime.schema_counters["everybody"]
        assert (sum(counters.executions.counts), sum(counters.streams.counts)) == (1, 1)
        assert runtime.streams.open == 0
        middleware.service.controller.sharing.check()


@pytest.mark.parametrize("path", ["/socket", "/events"])
async def test_a_stream_too_many_is_counted_as_rejected_and_runs(path: str) -> None:
    end = anyio.Event()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            kind = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
        await end.wait()
        if scope["type"] == "http":
            await send({"type": "http.response.body"})

    def open_one() -> Exchange:
        scope = websocket_scope("/") if path == "/socket" else http_scope("/", headers={"accept": "text/event-stream"})
        exchange = Exchange(middleware, scope, tasks)
        exchange.deliver({"type": "websocket.connect"} if path == "/socket" else {"type": "http.request"})
        return exchange.start()

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode("observe"))
        runtime = middleware.service.controller.levels["crowd"]
        runtime.streams.adopt(replace(runtime.streams.settings, max_open=1))
        streams = [open_one(), open_one()]
        await settle()
        assert [len(stream.sent) for stream in streams] == [1, 1], "both run"
        assert runtime.schema_counters["everybody"].rejected[Reason.STREAM_LIMIT] == 1
        assert (runtime.streams.open, runtime.shared.snapshot().seats_in_use) == (1, 0)
        end.set()
        for stream in streams:
            await stream.end()
        assert runtime.streams.open == 0
        runtime.streams.check()


async def test_a_stream_that_has_ended_does_not_wait_in_another_mode() -> None:
    async with serving(in_mode("observe", seats=1)) as protected:
        protected.may_finish["/hold"] = anyio.Event()
        service = protected.middleware.service
        streams = service.controller.levels["crowd"].streams
        streams.adopt(replace(streams.settings, max_open=1))
        holder = protected.request("/hold")
        await settle()
        scope = http_scope("/events", headers={"X-User": "alice", "accept": "text/event-stream"})
        ended = await Exchange(protected.middleware, scope, protected.tasks).body().start().end()
        assert (ended.status, protected.waiting) == (200, 1), "virtually it still waits for the only seat"
        service.switch("off")
        assert protected.waiting == 0
        protected.finish()
        await holder.end()
        await until(protected.is_idle)
        assert streams.open == 0


async def test_requests_fail_as_if_they_were_limited() -> None:
    async with serving(in_mode("observe")) as protected:
        failed = protected.request("/boom")
        await failed.end()
        assert isinstance(failed.error, LookupError)
        service = protected.middleware.service
        assert counted(service) == {"executed": 1, "passed observe": 1}
        assert service.controller.levels["crowd"].schema_counters["everybody"].failed.count == 1
        assert protected.is_idle()


@pytest.mark.parametrize("mode", ["on", "observe"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_answers_of_the_app_fail_from_500_on(kind: str, mode: Mode) -> None:
    start = "http.response.start" if kind == "http" else "websocket.http.response.start"

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": start, "status": int(scope["path"][1:]), "headers": []})
        await send({"type": start.replace("start", "body")})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, in_mode(mode))
        counters = []
        for status in (404, 499, 500, 503):
            make = http_scope if kind == "http" else websocket_scope
            exchange = Exchange(middleware, make(f"/{status}"), tasks)
            exchange.deliver({"type": "http.request" if kind == "http" else "websocket.connect"})
            assert (await exchange.start().end()).status == status
            assert exchange.headers["x-apf-priority-level"] == "crowd"
            [schema] = middleware.service.controller.levels["crowd"].schema_counters.values()
            counters.append((sum(schema.executions.counts), schema.failed.count))
        assert counters == [(1, 0), (2, 0), (3, 1), (4, 2)]


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_a_body_that_only_the_estimate_reads_is_dropped_at_the_end(mode: Mode) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    more = f"estimation: {{default: {{source: body, name: n, mostSeats: 1, users: ['*']}}}}\n  mode: {mode}"
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        text = (CONFIG % "").replace("defaults: none", f"defaults: none\n  {more}")
        protected.middleware = APFMiddleware(app, load_text(text))
        exchange = protected.open("/", headers={**CHUNKED, "content-type": "application/json"})
        exchange.body(b'{"n":', more=True)
        await settle()
        assert protected.bodies.kept > 0
        assert (await exchange.body(b" 1}").end()).status == 200
        await settle()
        protected.check_idle()


async def test_observed_requests_have_their_deadlines() -> None:
    """One that would have been too late runs, and is counted as rejected."""
    async with serving(in_mode("observe", ", deadlines: {}")) as protected:
        holder = await protected.holder()
        late = protected.open("/late")
        late.scope["headers"].append((b"grpc-timeout", b"30m"))
        assert (await late.body().start().end()).status == 200
        await until(lambda: not protected.waiting)
        counters = protected.middleware.service.controller.levels["crowd"].schema_counters["everybody"]
        assert counters.rejected[Reason.DEADLINE] == 1
        protected.finish()
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_the_mode_changes_while_a_body_arrives(mode: Mode) -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        late = protected.open("/late").body(b"first,", more=True)
        await settle()
        protected.middleware.service.switch(mode)
        late.body(b" second")
        assert (await late.end()).status == 200
        assert b"".join(message["body"] for message in protected.received["/late"]) == b"first, second"
        assert protected.middleware.service.passed[mode] == 1
        await settle()
        protected.check_idle()


async def test_a_reload_switches_only_if_the_mode_in_the_files_has_changed(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        app = ReloadableApp(tasks, tmp_path / "apf.yaml", written(level("crowd")))
        service = app.middleware.service
        service.switch("observe")
        assert await app.becomes(written(level("crowd"), seats=2))
        assert str(service.mode) == "observe", "an operator has set it"
        assert await app.becomes(written(level("crowd"), server=", mode: off"))
        assert service.mode == "off"
