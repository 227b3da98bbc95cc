"""Named queues through the middleware: how requests choose one, how they end there, and how handlers are revoked."""

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import load_text
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.blocked_loop import call_beside_the_loop
from tests.support.protected_app import settle

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

TEXT = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 12
  defaults: none
  responses: {headers: all}
  authentication: [{type: proxy, networks: [127.0.0.1], userHeaders: [x-user], groupHeaders: [x-group]}]
  queues: {header: X-Queue, groups: [tenant-admins], default: web%s}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {minSeats: 0}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {minSeats: 0, parent: internal, maxSeats: 2}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: internal}
spec: {minSeats: 0}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: plans}
spec:
  level: web
  queue: {source: group, groups: ['plan:*'], transform: 'plan:(.*)'}
  distinguisher: {source: user}
  rules: [{httpRules: [{paths: [/*]}]}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: probes}
spec:
  level: exempt
  precedence: 2
  rules: [{httpRules: [{paths: [/health]}]}]
"""


class NamedQueueApp:
    """An app behind the middleware whose behaviour depends on the path."""

    def __init__(self, tasks: anyio.abc.TaskGroup, text: str = TEXT % "") -> None:
        self.tasks = tasks
        self.middleware = APFMiddleware(self._app, load_text(text))
        self.queues = self.middleware.service.queues
        self.may_finish = anyio.Event()
        self.revoked: list[str] = []

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/boom":
            raise LookupError(path)
        if path == "/hold":
            await self.may_finish.wait()
        if path == "/kind":
            await scope["apf"].revocable().wait()
            self.revoked.append(scope["apf"].level)
        await send({"type": "http.response.start", "status": 503 if path == "/bad" else 200, "headers": []})
        if path == "/bad-boom":
            raise LookupError(path)
        await send({"type": "http.response.body", "body": scope["apf"].level.encode()})

    def request(self, path: str = "/", **headers: str) -> Exchange:
        named = {name.replace("_", "-"): value for name, value in ({"x_user": "alice"} | headers).items()}
        return Exchange(self.middleware, http_scope(path, headers=named), self.tasks).body().start()

    async def answer(self, path: str = "/", **headers: str) -> Exchange:
        return await self.request(path, **headers).end()


def problem(found: Exchange) -> dict[str, Any]:
    details = json.loads(found.content)
    assert isinstance(details, dict)
    return details


# Choosing a queue


async def test_a_header_names_the_queue_if_its_caller_is_trusted() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)

        assert (await protected.answer(x_queue="batch")).content == b"web"
        for _ in range(2):  # computed, and cached
            found = await protected.answer(x_queue="batch", x_group="tenant-admins")
            assert found.content == b"batch"
            assert found.headers["x-apf-priority-level"] == "batch"
        assert (await protected.answer(x_group="tenant-admins")).content == b"web"


async def test_a_trusted_proxy_may_name_queues() -> None:
    text = TEXT.replace("groups: [tenant-admins]", "trustedProxies: true") % ""
    trusting = text.replace("seats: 12", "seats: 12\n  trustedProxies: {networks: [%s]}")
    async with anyio.create_task_group() as tasks:
        assert (await NamedQueueApp(tasks, trusting % "127.0.0.1").answer(x_queue="batch")).content == b"batch"
        assert (await NamedQueueApp(tasks, trusting % "10.0.0.0/8").answer(x_queue="batch")).content == b"web"


async def test_a_schema_names_the_queue_and_a_header_takes_precedence() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)

        assert (await protected.answer(x_group="plan:batch")).content == b"batch"
        assert (await protected.answer(x_group="plan:nobody")).content == b"web"
        groups = [(b"x-group", b"plan:batch"), (b"x-group", b"tenant-admins")]
        scope = http_scope(headers={"X-User": "a", "X-Queue": "web"})
        scope["headers"] += groups
        both = Exchange(protected.middleware, scope, tasks)
        assert (await both.body().start().end()).content == b"web"


@pytest.mark.parametrize(("unknown", "status"), [("notFound", 404), ("unavailable", 503)])
@pytest.mark.parametrize(
    ("name", "reason"), [("nobody", "queue-not-found"), ("exempt", "queue-not-found"), ("internal", "not-leaf")]
)
async def test_an_unknown_queue_is_answered_as_configured(unknown: str, status: int, name: str, reason: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks, TEXT % f", unknown: {unknown}")

        found = await protected.answer(x_queue=name, x_group="tenant-admins")

        assert found.status == problem(found)["status"] == status
        assert problem(found)["reason"] == reason
        assert ("retry-after" in found.headers) is (status == 503)
        assert protected.middleware.service.reading().unknown_queues[reason] == 1


async def test_a_request_without_a_queue_name_uses_the_default_queue() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)

        for name in ("nobody", "exempt", "internal"):
            assert (await protected.answer(x_queue=name, x_group="tenant-admins")).content == b"web"


async def test_a_queue_can_be_named_from_its_creation_until_its_deletion() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks, TEXT % ", unknown: notFound")
        caller = {"x_queue": "new", "x_group": "tenant-admins"}
        assert (await protected.answer(**caller)).status == 404
        protected.queues.create("new", min=1)
        assert (await protected.answer(**caller)).content == b"new"
        protected.queues.operate("new", "close")
        closed = await protected.answer(**caller)
        assert (closed.status, problem(closed)["reason"]) == (503, "queue-closed")
        assert int(closed.headers["retry-after"]) >= 1
        assert "connection" not in closed.headers
        protected.queues.delete("new")
        assert (await protected.answer(**caller)).status == 404


async def test_a_queue_that_becomes_a_parent_can_no_longer_be_named() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks, TEXT % ", unknown: notFound")
        protected.queues.create("new", min=1)
        caller = {"x_queue": "new", "x_group": "tenant-admins"}
        assert (await protected.answer(**caller)).content == b"new"
        protected.queues.update("batch", parent="new")

        assert problem(await protected.answer(**caller))["reason"] == "not-leaf"


async def test_an_exempt_request_stays_exempt_if_it_names_a_queue() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)

        assert (await protected.answer("/health", x_queue="batch", x_group="tenant-admins")).content == b"exempt"


# How requests end


async def test_every_request_is_counted_by_how_it_ended() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        for path in ("/", "/bad", "/boom", "/bad-boom", "/"):
            await protected.answer(path)
        cancelled = protected.request("/hold")
        await settle()
        running = protected.queues.status("web")
        assert (running.running, running.completed, running.failed, running.aborted) == (1, 2, 3, 0)
        cancelled.cancel_scope.cancel()
        await cancelled.end()

        found = protected.queues.status("web")
        assert (found.running, found.completed, found.failed, found.aborted) == (0, 2, 3, 1)
        assert found.arrived == 6


async def test_a_failed_request_is_running_until_its_seats_are_free() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        may_finish = anyio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await may_finish.wait()
            await send({"type": "http.response.body", "body": b""})

        protected.middleware.app = slow
        failing = protected.request()
        await settle()
        assert (protected.queues.status("web").running, protected.queues.status("web").failed) == (1, 0)
        may_finish.set()
        await failing.end()
        assert (protected.queues.status("web").running, protected.queues.status("web").failed) == (0, 1)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_request_that_fails_without_seats_stays_completed(*, is_cancelled: bool) -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        may_fail = anyio.Event()

        async def early(scope: Scope, receive: Receive, send: Send) -> None:
            scope["apf"].release()
            await may_fail.wait()
            raise ValueError

        protected.middleware.app = early
        failing = protected.request()
        await settle()
        before = protected.queues.status("web")
        if is_cancelled:
            failing.cancel_scope.cancel()
        may_fail.set()
        await failing.end()

        found = protected.queues.status("web")
        assert (before.completed, before.arrived) == (1, 1)
        assert (found.completed, found.failed, found.aborted, found.arrived) == (1, 0, 0, 1)
        counters = protected.middleware.service.controller.levels["web"].schema_counters
        assert sum(one.failed.count + one.aborted.count for one in counters.values()) == 1


async def test_a_closing_queue_rejects_new_requests_and_serves_waiting_ones() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        caller = {"x_queue": "batch", "x_group": "tenant-admins"}
        running = [protected.request("/hold", **caller) for _ in range(3)]
        await settle()
        protected.queues.operate("batch", "close")
        late = await protected.answer(**caller)
        assert (late.status, problem(late)["reason"]) == (503, "queue-closing")
        protected.may_finish.set()
        assert [(await one.end()).status for one in running] == [200, 200, 200]
        assert protected.queues.status("batch").state == "Closed"


async def test_waiting_requests_of_a_shedding_queue_are_rejected_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        caller = {"x_queue": "batch", "x_group": "tenant-admins"}
        running = [protected.request("/hold", **caller) for _ in range(2)]
        await settle()
        waits = protected.request(**caller)
        await settle()
        protected.queues.operate("internal", "close", mode="shed")
        assert (await waits.end()).status == 503
        protected.may_finish.set()
        assert {(await one.end()).status for one in running} == {200}


# Revocation


async def test_a_revocable_handler_is_cancelled_and_the_owner_is_served() -> None:
    text = TEXT.replace("seats: 12", "seats: 5").replace("maxSeats: 2", "maxSeats: 4") % ""
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks, text)
        borrowers = [protected.request("/kind") for _ in range(4)]
        await settle()
        assert protected.queues.status("web").running == 4

        with anyio.fail_after(60):
            owner = await protected.answer(x_queue="batch", x_group="tenant-admins")

        assert owner.content == b"batch"
        assert protected.revoked == ["web"]
        for one in borrowers:
            one.cancel_scope.cancel()


# Reload


async def test_a_reload_keeps_and_applies_live_changes(tmp_path: Any) -> None:  # noqa: ANN401
    path = tmp_path / "apf.yaml"
    path.write_text(TEXT % "")
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        protected.middleware = APFMiddleware(protected._app, str(path))
        protected.queues = protected.middleware.service.queues
        protected.queues.create("new", min=1)
        protected.queues.operate("web", "close")
        path.write_text((TEXT % "").replace("seats: 12", "seats: 14"))

        assert await protected.middleware.reload()

        assert protected.middleware.service.configuration.server.seats == 14
        assert (await protected.answer()).status == 503
        assert (await protected.answer(x_queue="new", x_group="tenant-admins")).content == b"new"
        assert {one.queue for one in protected.queues.drift()} == {"new", "web"}


async def test_a_change_while_files_are_read_is_not_lost(tmp_path: Any) -> None:  # noqa: ANN401
    async with anyio.create_task_group() as tasks:
        protected = NamedQueueApp(tasks)
        service = protected.middleware.service
        fresh = service.prepare(load_text((TEXT % "").replace("seats: 12", "seats: 14")))
        protected.queues.create("new", min=1)

        service.adopt(fresh)

        assert service.configuration.server.seats == 14
        assert (await protected.answer(x_queue="new", x_group="tenant-admins")).content == b"new"


@pytest.mark.parametrize("how", ["list", "status", "create", "update", "operate", "delete"])
async def test_queues_are_changed_in_the_event_loop_whichever_thread_asks(how: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    middleware = APFMiddleware(app, load_text(TEXT % ""))
    async with anyio.create_task_group() as tasks:
        await Exchange(middleware, http_scope("/"), tasks).body().start().end()  # the first request finds the loop
    queues = middleware.service.queues
    queues.create("old")
    calls: dict[str, Callable[[], object]] = {
        "list": queues.list,
        "status": partial(queues.status, "batch"),
        "create": partial(queues.create, "new", weight=2, by="alice"),
        "update": partial(queues.update, "batch", weight=3),
        "operate": partial(queues.operate, "batch", "pause"),
        "delete": partial(queues.delete, "old", cascade=True),
    }
    await call_beside_the_loop(calls[how])
    names = {one.name for one in queues.list()}
    assert ("new" in names, "old" in names) == (how == "create", how != "delete")
    assert queues.status("batch").state == ("Paused" if how == "operate" else "Open")
