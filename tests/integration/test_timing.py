"""``Server-Timing``: on every response, in addition to the app's own, and only where it is enabled."""

import re
from pathlib import Path

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware import APFMiddleware
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import ProtectedApp, configuration

pytestmark = pytest.mark.anyio

ON = ", responses: {serverTiming: true}"
# The part of the grammar of https://www.w3.org/TR/server-timing/ that is used: a token, and parameters with values.
METRIC = re.compile(r'[-!#$%&\'*+.^_`|~\w]+(;dur=\d+(\.\d+)?)?(;desc="[^"\\]*")?')


def timings(exchange: Exchange) -> list[str]:
    """Return the header's values, line by line."""
    [start] = [one for one in exchange.sent if one["type"].rpartition(".")[2] in {"start", "accept"}]
    return [value.decode() for name, value in start["headers"] if name == b"server-timing"]


async def test_a_request_that_is_seated_at_once_has_not_waited() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(server=ON))

        assert timings(await protected.request("/first").end()) == ['apf;dur=0.0;desc="seated"']


async def test_the_wait_is_reported_in_milliseconds() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(server=ON))
        holder = await protected.holder()
        second = protected.request("/second")
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.02)
        protected.finish()
        await holder.end()

        [timing] = timings(await second.end())
        assert METRIC.fullmatch(timing)
        assert timing.endswith(';desc="queued"')
        assert timing.startswith(f"apf;dur={second.scope['apf'].waited * 1000:.1f};")
        assert second.scope["apf"].waited >= 0.02


@pytest.mark.parametrize(("response", "reason"), [("Queue", "time-out"), ("Reject", "concurrency-limit")])
async def test_a_rejection_reports_its_wait_and_reason(response: str, reason: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(server=ON, wait="20ms", response=response))
        holder = await protected.holder()
        refused = await protected.request("/second").end()
        protected.finish()
        await holder.end()

        assert refused.status == 429
        [timing] = timings(refused)
        found = re.fullmatch(rf'apf;dur=([\d.]+);desc="{reason}"', timing)
        assert found
        assert (float(found[1]) >= 20) is (reason == "time-out")


async def test_the_timings_of_the_app_are_kept() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        own = [(b"server-timing", b"db;dur=53"), (b"server-timing", b"cache")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body"})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, configuration(server=ON))
        answer = await Exchange(middleware, http_scope(), tasks).body().start().end()

        assert timings(answer) == ["db;dur=53", "cache", 'apf;dur=0.0;desc="seated"']


@pytest.mark.parametrize("kind", ["websocket.accept", "websocket.http.response.start"])
async def test_a_rejected_websocket_is_answered_after_its_first_message(kind: str) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": kind, "status": 403})

    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(app, configuration(server=ON))
        answer = await Exchange(middleware, websocket_scope(), tasks).start().end()

        assert timings(answer) == ['apf;dur=0.0;desc="seated"']


async def test_the_timing_header_is_optional(tmp_path: Path) -> None:
    file = tmp_path / "apf.yaml"
    text = "apiVersion: apf/v1\nkind: Server\nspec: {responses: {serverTiming: %s}}\n"
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        assert timings(await protected.request("/first").end()) == []
        file.write_text(text % "false")
        protected.middleware = APFMiddleware(protected._app, file)
        seen = []
        for on in ("false", "true", "false"):
            file.write_text(text % on)
            assert await protected.middleware.reload()
            answer = await protected.request("/x").end()
            assert answer.status == 200
            seen.append(len(timings(answer)))

        assert seen == [0, 1, 0]
