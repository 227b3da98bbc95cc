"""Spans of waits in real exchanges: their parents and attributes, and that disabled tracing records none."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, configuration, settle
from tests.support.reloadable_app import ReloadableApp, level, written

if TYPE_CHECKING:
    from apf_middleware.config import Configuration


pytestmark = pytest.mark.anyio
ON = ", telemetry: {tracing: true}"
CLIENTS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(**settings: Any) -> "Configuration":  # noqa: ANN401 - whatever a configuration has
    return configuration(**{"server": ON} | settings)


def instrumented(app: ASGIApp) -> ASGIApp:
    """Wrap an app in a span, as instrumentation does."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        with trace.get_tracer("test").start_as_current_span(f"{scope['method']} {scope['path']}"):
            await app(scope, receive, send)

    return run


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def waits(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == "apf wait"]


async def queue_behind(protected: ProtectedApp, exchange: Exchange) -> None:
    """Queue the request while the only seat is taken, and then seat it."""
    holder = await protected.holder()
    exchange.body().start()
    await settle()
    assert protected.waiting == 1
    protected.finish()
    await exchange.end()
    await holder.end()
    assert protected.is_idle()


async def test_a_wait_that_ends_by_another_mode_has_passed(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        holder = await protected.holder()
        second = protected.request("/second")
        await settle()
        protected.middleware.service.switch("off")
        await second.end()
        protected.finish()
        await holder.end()

        [span] = waits(spans)
        assert facts(span)["apf.outcome"] == "passed"
        assert "apf.reason" not in facts(span)


async def test_a_wait_is_a_span(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        await queue_behind(protected, protected.open("/second"))

        [span] = waits(spans)
        assert span.parent is None
        assert (span.kind, span.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
        assert facts(span) == {
            "apf.level": "crowd",
            "apf.schema": "everybody",
            "apf.seats": 1,
            "apf.outcome": "seated",
        }
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.name == "apf_middleware"
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time > span.start_time


@pytest.mark.parametrize("traceparent", [{}, {"traceparent": CLIENTS}])
async def test_the_span_belongs_to_that_of_outer_instrumentation(
    spans: InMemorySpanExporter, traceparent: dict[str, str]
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        scope = http_scope("/second", headers={"X-User": "alice", **traceparent})
        await queue_behind(protected, Exchange(instrumented(protected.middleware), scope, tasks))

        [wait] = waits(spans)
        [outer] = [span for span in spans.get_finished_spans() if span.name == "GET /second"]
        assert outer.parent is None, "this instrumentation doesn't look at headers"
        assert wait.parent is not None
        assert wait.parent.span_id == outer.context.span_id
        attributes = facts(outer)
        assert attributes.pop("apf.waited") > 0
        assert attributes == facts(wait)


async def test_without_instrumentation_the_span_belongs_to_that_of_the_client(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        scope = http_scope("/second", headers={"X-User": "alice", "Traceparent": CLIENTS})
        await queue_behind(protected, Exchange(protected.middleware, scope, tasks))

        [span] = waits(spans)
        assert span.parent is not None
        assert f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01" == CLIENTS
        assert span.context.trace_id == span.parent.trace_id


async def test_a_request_seated_at_once_adds_attributes_to_the_current_span(
    spans: InMemorySpanExporter,
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        await Exchange(instrumented(protected.middleware), http_scope("/first"), tasks).body().start().end()
        await protected.request("/second").end()

        [outer] = spans.get_finished_spans()
        assert facts(outer) == {
            "apf.level": "crowd",
            "apf.schema": "everybody",
            "apf.seats": 1,
            "apf.outcome": "seated",
            "apf.waited": 0.0,
        }


async def test_a_rejection_without_a_wait_records_its_reason(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced(response="Reject"))
        holder = await protected.holder()
        refused = Exchange(instrumented(protected.middleware), http_scope("/second"), tasks).body().start()
        await refused.end()
        protected.finish()
        await holder.end()

        assert refused.status == 429
        [outer] = spans.get_finished_spans()
        assert facts(outer)["apf.outcome"] == "rejected"
        assert facts(outer)["apf.reason"] == "concurrency-limit"
        assert outer.status.status_code is StatusCode.UNSET, "a rejection is an answer, not an error"


@pytest.mark.parametrize(("end", "reason"), [("time", "time-out"), ("hang-up", "cancelled"), ("cancel", "cancelled")])
async def test_a_wait_that_ends_without_seats_reports_its_reason(
    spans: InMemorySpanExporter, end: str, reason: str
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced(wait="30ms" if end == "time" else "10s"))
        holder = await protected.holder()
        other = protected.request("/second")
        await settle()
        if end == "hang-up":
            other.disconnect()
        elif end == "cancel":
            other.cancel_scope.cancel()
        await other.end()

        [span] = waits(spans)
        assert (facts(span)["apf.outcome"], facts(span)["apf.reason"]) == ("rejected", reason)
        assert protected.waiting == 0
        protected.finish()
        await holder.end()
        assert protected.is_idle()


async def test_spans_contain_the_flow_only_if_configured(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced(server=", telemetry: {tracing: true, flows: true}"))
        await queue_behind(protected, protected.open("/second", user="alice"))

        [span] = waits(spans)
        assert facts(span)["apf.flow"] == "alice"


async def test_an_error_in_a_propagator_costs_no_seat(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("the propagator")

    monkeypatch.setattr(propagate, "extract", fail)
    caplog.set_level("DEBUG", "apf_middleware")
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        second = protected.open("/second")
        await queue_behind(protected, second)

        assert second.status == 200
        assert waits(spans) == []
        assert "apf.tracing-failed error=LookupError('the propagator')" in caplog.messages


async def test_invalid_trace_headers_are_ignored(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        scope = http_scope("/second", headers={"Traceparent": "00-nonsense"})
        scope["headers"].append((b"tracestate", b"\xff\xfe"))
        await queue_behind(protected, Exchange(protected.middleware, scope, tasks))

        [span] = waits(spans)
        assert span.parent is None


async def test_tracing_can_be_switched_while_the_server_runs(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ReloadableApp(tasks, tmp_path / "apf.yaml", written(level("crowd")))
        seen = []
        for on in ("false", "true", "false"):
            assert await protected.becomes(written(level("crowd"), server=f", telemetry: {{tracing: {on}}}"))
            spans.clear()
            second = Exchange(instrumented(protected.middleware), http_scope("/second"), tasks)
            await queue_behind(protected, second)
            assert second.status == 200
            outer = next(span for span in spans.get_finished_spans() if span.name == "GET /second")
            seen.append((len(waits(spans)), "apf.level" in facts(outer)))

        assert seen == [(0, False), (1, True), (0, False)]
        assert protected.middleware.app == protected._app


@pytest.mark.parametrize("anyio_backend", ["trio"])  # on asyncio such a request begins to run, and then it is cancelled
async def test_a_seat_granted_at_the_instant_of_a_cancellation_is_released(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, traced())
        holder = await protected.holder()
        other = protected.request("/second")
        await settle()
        holder.scope["apf"].release()  # which seats the other one, whose task hasn't run yet
        other.cancel_scope.cancel()
        await other.end()

        [span] = waits(spans)
        assert (facts(span)["apf.outcome"], facts(span)["apf.reason"]) == ("rejected", "cancelled")
        assert "/second" not in protected.started
        protected.finish()
        await holder.end()
        assert protected.is_idle()


async def test_a_reload_that_needs_a_missing_library_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "apf.yaml"
    text = "apiVersion: apf/v1\nkind: Server\nspec: {seats: %d, telemetry: {tracing: %s}}\n"
    file.write_text(text % (10, "false"))
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        protected.middleware = APFMiddleware(protected._app, file)
        file.write_text(text % (20, "true"))
        monkeypatch.delitem(sys.modules, "apf_middleware.asgi.tracing", raising=False)
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opentelemetry", None)

        assert not await protected.middleware.reload()
        assert protected.middleware.service.configuration.server.seats == 10
        assert "pip install 'apf-middleware[otel]'" in str(protected.middleware.service.last_reload_error)
        assert (await protected.request("/x").end()).status == 200


def test_opentelemetry_is_not_imported_if_tracing_is_off() -> None:
    program = (
        "import sys; from apf_middleware import APFMiddleware; APFMiddleware(print); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_flows_are_not_computed_without_spans() -> None:
    with pytest.raises(ValueError, match=r"spec\.telemetry\.flows is true, but"):
        load_text("apiVersion: apf/v1\nkind: Server\nspec: {telemetry: {flows: true}}")
