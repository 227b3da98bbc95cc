"""What a scrape says of requests that really came, also by the names that Kubernetes has removed."""

import re
import threading
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.metrics import ServerReading
from apf_middleware.runtime import read_server
from tests.support.protected_app import ProtectedApp, configuration, settle

pytestmark = pytest.mark.anyio

KUBERNETES = ", resolver: kubernetes, estimation: {default: {source: kubernetes}}, metrics: {legacyNames: true}, \
strictUpstream: true"
LABELS = '{flow_schema="everybody",priority_level="crowd"'


async def scraped(protected: ProtectedApp) -> str:
    return (await protected.request("/metrics").end()).content.decode()


async def test_reads_and_writes_are_counted_apart_while_they_execute_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.runtime.request_kinds._PERIOD_NS", 1_000_000)
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=1))
        holder = await protected.holder()
        writers = [protected.request(f"/{number}", "POST") for number in range(2)]
        await settle()
        text = ""
        with anyio.fail_after(60):
            while not re.search(r'kind="mutating"} [1-9]', text):
                await anyio.sleep(0.01)
                text = await scraped(protected)
        found = {
            (phase, kind): float(value)
            for phase, kind, value in re.findall(
                r'apf_read_vs_write_current_requests_sum{phase="(\w+)",request_kind="(\w+)"} (\S+)', text
            )
        }
        assert found["executing", "readOnly"] > 0
        assert found["waiting", "mutating"] > 0
        assert (found["executing", "mutating"], found["waiting", "readOnly"]) == (0, 0)
        assert protected.middleware.service.controller.levels["crowd"].schema_counters["everybody"].waiting == 2
        protected.finish()
        for one in (holder, *writers):
            assert (await one.end()).status == 200
        assert protected.is_idle()


async def test_a_write_is_shown_with_the_watches_that_it_concerns() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/watch":
            for _ in range(12):
                scope["apf"].watch("pods", "shop")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/watch":
            scope["apf"].release()
            await door.wait()
        await send({"type": "http.response.body"})

    door = anyio.Event()
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        protected.middleware = APFMiddleware(app, configuration(seats=10, server=KUBERNETES))
        watching = protected.request("/watch")
        await settle()
        for namespace in ("shop", "other"):
            assert (await protected.request(f"/api/v1/namespaces/{namespace}/pods", "POST").end()).status == 200
        text = await scraped(protected)
        door.set()
        await watching.end()

    assert f"apf_watch_count_samples_count{LABELS}}} 2\n" in text
    assert f"apf_watch_count_samples_sum{LABELS}}} 12\n" in text
    for le, count in (("0", 1), ("10", 1), ("100", 2), ("+Inf", 2)):
        assert (
            f'apf_watch_count_samples_bucket{{flow_schema="everybody",le="{le}",priority_level="crowd"}} {count}\n'
            in text
        )
    assert 'apf_epoch_advance_total{priority_level="crowd",success="true"} 0\n' in text
    assert 'apf_request_concurrency_limit{priority_level="crowd"} 10\n' in text
    in_use, executing = (
        re.search(rf"apf_{name}{LABELS}}} (.*)", text)
        for name in ("request_concurrency_in_use", "current_executing_seats")
    )
    assert in_use
    assert executing
    assert in_use[1] == executing[1]


async def test_removed_kubernetes_names_are_optional() -> None:
    async with anyio.create_task_group() as tasks:
        assert "request_concurrency" not in await scraped(ProtectedApp(tasks))


async def test_a_registry_that_is_read_in_a_thread_is_read_beside_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def read_and_note(*args: Any, **named: Any) -> ServerReading:  # noqa: ANN401
        threads.append(threading.get_ident())
        return read_server(*args, **named)

    monkeypatch.setattr("apf_middleware.asgi.service.read_server", read_and_note)
    registry = CollectorRegistry()
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=10), registry=registry)
        running = await protected.holder()
        text = (await run_sync(generate_latest, registry)).decode()
        protected.finish()
        assert (await running.end()).status == 200

    assert f"apf_current_executing_requests{LABELS}}} 1.0\n" in text
    assert threads == [threading.get_ident()]


async def test_a_flood_of_scrapes_is_answered_with_a_few_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = []

    def read_and_count(*arguments: Any, **options: Any) -> ServerReading:  # noqa: ANN401
        readings.append(read_server(*arguments, **options))
        return readings[-1]

    monkeypatch.setattr("apf_middleware.asgi.service.read_server", read_and_count)
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=1))
        began = anyio.current_time()
        texts = [await scraped(protected) for _ in range(200)]
        seconds = anyio.current_time() - began

        assert len(readings) <= 20 + 10 * seconds + 1
        assert len(set(texts)) <= len(readings)
        assert all(text.startswith("# HELP") for text in texts)
        await anyio.sleep(0.11)
        await protected.request("/").end()
        assert f"apf_dispatched_requests_total{LABELS}}} 1\n" in await scraped(protected)
