"""The admin of a middleware at work: who may look is authenticated, a dump shows what happens, and nobody waits."""

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.config import Configuration
from apf_middleware.config.admin import AdminSettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.busy_threads import busy_threads
from tests.support.protected_app import ProtectedApp, configuration, settle, with_admin

pytestmark = pytest.mark.anyio

PATH = "/debug/api_priority_and_fairness"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.csv"
    file.write_text('secret-o,olga,1,"operators"\nsecret-u,ulla,2,"users"\n')
    return file


@pytest.fixture
def config(tokens: Path) -> Configuration:
    return configuration(
        seats=2,
        length=20_000,
        wait="60s",
        server=f", maxWaitingMemory: 1GiB, authentication: [{{type: tokens, file: {json.dumps(str(tokens))}}}]",
    )


Opened = Callable[[anyio.abc.TaskGroup], ProtectedApp]


@pytest.fixture
def opened(config: Configuration) -> Opened:
    def open_app(tasks: anyio.abc.TaskGroup) -> ProtectedApp:
        protected = ProtectedApp(tasks, config)
        protected.middleware = with_admin(protected._app, config, AdminSettings(groups=("operators",)))
        return protected

    return open_app


async def look(protected: ProtectedApp, page: str, token: str = "secret-o", accept: str = "*/*") -> Exchange:  # noqa: S107
    headers = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
    return (
        await Exchange(protected.middleware, http_scope(f"{PATH}/{page}", headers=headers), protected.tasks)
        .body()
        .start()
        .end()
    )


async def requests(protected: ProtectedApp) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((await look(protected, "dump_requests?format=json")).content)
    return found["requests"]


async def test_dumps_show_running_and_waiting_requests_until_they_end(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        one, two = await protected.holder("/one"), await protected.holder("/two")
        waiting = [protected.request("/three", user="mouse"), protected.request("/four", user="mole")]
        await settle()

        found = await requests(protected)
        assert sorted(one["flow"] for one in found if one["seated_at"] is None) == ["mole", "mouse"]
        assert [one["flow"] for one in found if one["seated_at"] is not None] == ["holder", "holder"]
        assert {one["level"] for one in found} == {"crowd"}

        waiting[1].disconnect()
        await waiting[1].end()
        assert sorted(one["flow"] for one in await requests(protected)) == ["holder", "holder", "mouse"]

        protected.finish("/one")
        await one.end()
        await waiting[0].end()
        assert [one["flow"] for one in await requests(protected)] == ["holder"]
        protected.finish("/two")
        await two.end()
        assert await requests(protected) == []
        assert protected.is_idle()
        tasks.cancel_scope.cancel()


async def test_a_failed_request_is_not_shown_as_running(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        await protected.request("/boom").end()

        assert await requests(protected) == []


@pytest.mark.parametrize(("token", "status"), [("", 401), ("nonsense", 401), ("secret-u", 403), ("secret-o", 200)])
@pytest.mark.parametrize("page", ["dump_priority_levels", "dump_requests", "configuration", "flows", "openapi.json"])
async def test_the_admin_needs_the_credentials_of_an_operator(
    opened: Opened, token: str, status: int, page: str
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        answer = await look(protected, page, token)

        assert answer.status == status
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert protected.started == [], "the app hears nothing of it"


async def test_the_admin_answers_while_the_level_is_full(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        for path in ("/one", "/two"):
            await protected.holder(path)
        protected.request("/three")
        await settle()

        rows = (await look(protected, "dump_priority_levels")).content.decode().splitlines()

        [crowd] = [row for row in rows if row.startswith("crowd")]
        assert [cell.strip() for cell in crowd.split(",")][1:7] == ["1", "false", "false", "1", "2", "2"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("method", "page", "body"),
    [
        ("GET", "configuration", b""),
        ("PUT", "shadow", json.dumps({"configuration": "apiVersion: apf/v1\nkind: Server\nspec: {seats: 3}"}).encode()),
        ("POST", "recordings", b'{"seconds": 0.01}'),
    ],
)
async def test_the_admin_doesnt_wait_for_the_threads_of_the_app(
    config: Configuration, method: str, page: str, body: bytes
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, config)
        protected.middleware = with_admin(protected._app, config, AdminSettings(operators=("operators",)))
        headers = {"Authorization": "Bearer secret-o", "Content-Type": "application/json"}
        with busy_threads(), anyio.fail_after(60):
            scope = http_scope(f"{PATH}/{page}", method=method, headers=headers)
            exchange = await Exchange(protected.middleware, scope, tasks).body(body).start().end()
        assert exchange.status == 200, exchange.content
        tasks.cancel_scope.cancel()


async def test_dumps_show_the_heavy_flow(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        protected.middleware.service.controller.levels["crowd"].wait_limit_ns = 10**6
        for path in ("/one", "/two"):
            await protected.holder(path)
        rejected = [protected.request(f"/{number}", user="elephant") for number in range(30)]
        for exchange in rejected:
            assert (await exchange.end()).status == 429

        head, first, *_ = (await look(protected, "flows?by=rejected")).content.decode().splitlines()

        assert head.startswith("PriorityLevelName, FlowSchemaName, FlowDistinguisher, Work,")
        assert [cell.strip() for cell in first.split(",")][2:6] == ["elephant", "0.00000000ss", "0.00000000ss", "30"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("accept", ["text/plain", "application/json"])
async def test_ten_thousand_waiting_requests_are_shown_and_the_others_go_on(opened: Opened, accept: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = opened(tasks)
        controller = protected.middleware.service.controller
        for path in ("/one", "/two"):
            await protected.holder(path)
        opened_scope = http_scope("/x", headers={"X-User": "crowd"})
        messages = Exchange(protected.middleware, opened_scope, tasks).receive
        seen = await protected.middleware.service.resolver.resolve(opened_scope, controller.now(), messages)
        assert isinstance(seen, ResolvedRequest)
        crowd = [Admission(seen) for _ in range(10_000)]
        for admission in crowd:
            controller.arrive(controller.now(), admission)
        longest, turns = await longest_turn_during(
            lambda: look(protected, "dump_requests?includeRequestDetails=1", accept=accept)
        )

        assert turns > 100
        assert longest < 0.5, "a generous bound: the longest step takes 4 to 7 ms on a quiet machine"
        for admission in crowd:
            controller.abandon(admission, Reason.CANCELLED)
        tasks.cancel_scope.cancel()


async def longest_turn_during(ask: Callable[[], Any]) -> tuple[float, int]:
    """For how long at most nobody else had a turn, and how many turns there were.

    In this thread's own time: what else the machine is busy with doesn't count. Nor do garbage collections, which take
    half a second among the objects that all tests leave.
    """
    gaps = [0.0]
    ended = anyio.Event()

    async def watch() -> None:
        last = time.thread_time()
        while not ended.is_set():
            await anyio.lowlevel.checkpoint()
            gaps.append(time.thread_time() - last)
            last = time.thread_time()

    gc.disable()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            answer = await ask()
            ended.set()
    finally:
        gc.enable()
    assert answer.status == 200
    assert answer.content.count(b"crowd") >= 10_000
    return max(gaps), len(gaps)
