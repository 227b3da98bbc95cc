"""The admin of a middleware at work: who may look is authenticated, a dump shows what happens, and nobody waits."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.types import ASGIApp

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.config import Configuration
from apf_middleware.config.admin import AdminSettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission
from tests.support.asgi_exchange import Conversation, http_scope
from tests.support.protected_app import Stage, configuration, settle

pytestmark = pytest.mark.anyio

PATH = "/debug/api_priority_and_fairness"


def guarded(app: ASGIApp, config: Configuration, settings: AdminSettings) -> APFMiddleware:
    """Return the middleware with an admin."""
    return APFMiddleware(app, replace(config, server=replace(config.server, admin=settings)))


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


Opened = Callable[[anyio.abc.TaskGroup], Stage]


@pytest.fixture
def opened(config: Configuration) -> Opened:
    def open_stage(tasks: anyio.abc.TaskGroup) -> Stage:
        stage = Stage(tasks, config)
        stage.middleware = guarded(stage._app, config, AdminSettings(groups=("operators",)))
        return stage

    return open_stage


async def look(stage: Stage, page: str, token: str = "secret-o", accept: str = "*/*") -> Conversation:  # noqa: S107
    headers = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
    return (
        await Conversation(stage.middleware, http_scope(f"{PATH}/{page}", headers=headers), stage.tasks)
        .body()
        .start()
        .end()
    )


async def requests(stage: Stage) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((await look(stage, "dump_requests?format=json")).content)
    return found["requests"]


async def test_dumps_show_running_and_waiting_requests_until_they_end(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        one, two = await stage.holder("/one"), await stage.holder("/two")
        waiting = [stage.comes("/three", user="mouse"), stage.comes("/four", user="mole")]
        await settle()

        found = await requests(stage)
        assert sorted(one["flow"] for one in found if one["seated_at"] is None) == ["mole", "mouse"]
        assert [one["flow"] for one in found if one["seated_at"] is not None] == ["holder", "holder"]
        assert {one["level"] for one in found} == {"crowd"}

        waiting[1].hang_up()
        await waiting[1].end()
        assert sorted(one["flow"] for one in await requests(stage)) == ["holder", "holder", "mouse"]

        stage.let_go("/one")
        await one.end()
        await waiting[0].end()
        assert [one["flow"] for one in await requests(stage)] == ["holder"]
        stage.let_go("/two")
        await two.end()
        assert await requests(stage) == []
        assert stage.is_at_rest()
        tasks.cancel_scope.cancel()


async def test_a_failed_request_is_not_shown_as_running(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        await stage.comes("/boom").end()

        assert await requests(stage) == []


@pytest.mark.parametrize(("token", "status"), [("", 401), ("nonsense", 401), ("secret-u", 403), ("secret-o", 200)])
@pytest.mark.parametrize("page", ["dump_priority_levels", "dump_requests", "configuration", "flows", "openapi.json"])
async def test_the_admin_needs_the_credentials_of_an_operator(
    opened: Opened, token: str, status: int, page: str
) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        answer = await look(stage, page, token)

        assert answer.status == status
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert stage.started == [], "the app hears nothing of it"


async def test_the_admin_answers_while_the_level_is_full(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        for path in ("/one", "/two"):
            await stage.holder(path)
        stage.comes("/three")
        await settle()

        rows = (await look(stage, "dump_priority_levels")).content.decode().splitlines()

        [crowd] = [row for row in rows if row.startswith("crowd")]
        assert [cell.strip() for cell in crowd.split(",")][1:7] == ["1", "false", "false", "1", "2", "2"]
        tasks.cancel_scope.cancel()


async def test_dumps_show_the_heavy_flow(opened: Opened) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        stage.middleware.service.controller.levels["crowd"].wait_limit_ns = 10**6
        for path in ("/one", "/two"):
            await stage.holder(path)
        for number in range(30):
            stage.comes(f"/{number}", user="elephant")
        await anyio.sleep(0.1)

        head, first, *_ = (await look(stage, "flows?by=rejected")).content.decode().splitlines()

        assert head.startswith("PriorityLevelName, FlowSchemaName, FlowDistinguisher, Work,")
        assert [cell.strip() for cell in first.split(",")][2:6] == ["elephant", "0.00000000ss", "0.00000000ss", "30"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("accept", ["text/plain", "application/json"])
async def test_ten_thousand_waiting_requests_are_shown_and_the_others_go_on(opened: Opened, accept: str) -> None:
    async with anyio.create_task_group() as tasks:
        stage = opened(tasks)
        controller = stage.middleware.service.controller
        for path in ("/one", "/two"):
            await stage.holder(path)
        opened_scope = http_scope("/x", headers={"X-User": "crowd"})
        messages = Conversation(stage.middleware, opened_scope, tasks).receive
        seen = await stage.middleware.service.resolver.resolve(opened_scope, controller.now(), messages)
        assert isinstance(seen, ResolvedRequest)
        crowd = [Admission(seen) for _ in range(10_000)]
        for admission in crowd:
            controller.arrive(controller.now(), admission)
        longest, turns = await longest_turn_during(
            lambda: look(stage, "dump_requests?includeRequestDetails=1", accept=accept)
        )

        assert turns > 100
        assert longest < 0.5, "a generous bound: the longest step takes 4 to 7 ms on a quiet machine"
        for admission in crowd:
            controller.abandon(admission, Reason.CANCELLED)
        tasks.cancel_scope.cancel()


async def longest_turn_during(ask: Callable[[], Any]) -> tuple[float, int]:
    """For how long at most nobody else had a turn, and how many turns there were.

    In this thread's own time: what else the machine is busy with doesn't count.
    """
    gaps = [0.0]
    ended = anyio.Event()

    async def watch() -> None:
        last = time.thread_time()
        while not ended.is_set():
            await anyio.lowlevel.checkpoint()
            gaps.append(time.thread_time() - last)
            last = time.thread_time()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        answer = await ask()
        ended.set()
    assert answer.status == 200
    assert answer.content.count(b"crowd") >= 10_000
    return max(gaps), len(gaps)
