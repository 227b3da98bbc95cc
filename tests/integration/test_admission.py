"""What apps and clients see of requests that are admitted at once, queued, rejected, abandoned or cancelled."""

import asyncio
import gzip
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.blocked_loop import call_beside_the_loop
from tests.support.protected_app import ProtectedApp, configuration, problem, settle
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.runtime import Admission

pytestmark = pytest.mark.anyio


async def test_an_app_sees_the_same_scope_and_messages_as_without_the_middleware() -> None:
    seen: list[object] = []
    sent: list[Message] = []
    start = {"type": "http.response.start", "status": 203, "headers": [(b"a", b"1"), (b"a", b"2")], "trailers": True}
    body = {"type": "http.response.body", "body": b"x", "more_body": False}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([scope, receive, await receive()])
        await send(start)
        await send(body)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"hello", "more_body": False, "extra": 1}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = http_scope("/a?b=c", "POST", {"x-user": "bob"}, extensions={"http.response.trailers": {}})
    before = dict(scope)
    await APFMiddleware(app, configuration())(scope, receive, send)

    assert seen[0] is scope
    assert {name: value for name, value in scope.items() if name != "apf"} == before
    assert seen[1] is receive
    assert seen[2] == {"type": "http.request", "body": b"hello", "more_body": False, "extra": 1}
    more = [(b"x-apf-flow-schema", b"everybody"), (b"x-apf-priority-level", b"crowd")]
    assert sent == [{**start, "headers": [(b"a", b"1"), (b"a", b"2"), *more]}, body]
    assert start["headers"] == [(b"a", b"1"), (b"a", b"2")], "the app's own list stays as it is"


async def test_the_admission_contains_schema_level_and_flow() -> None:
    found: list[Admission] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope["apf"])
        assert scope["apf"].seats == 1

    async with anyio.create_task_group() as tasks:
        await (
            Exchange(APFMiddleware(app, configuration()), http_scope("/", headers={"X-User": "bob"}), tasks)
            .start()
            .end()
        )

    [admission] = found
    assert (admission.schema, admission.level, admission.flow, admission.waited) == ("everybody", "crowd", "bob", 0.0)
    assert admission.seats == 0
    assert admission.identity.name == "system:anonymous"


async def test_an_error_of_the_app_passes_through_and_frees_the_seat() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        for _ in range(3):
            exchange = await protected.request("/boom").end()
            assert isinstance(exchange.error, LookupError)
        assert protected.is_idle()


async def test_a_request_without_a_free_seat_waits() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        second = protected.request("/second")
        await settle()
        assert (protected.waiting, protected.started) == (1, ["/hold"])

        protected.finish()
        await second.end()
        await holder.end()

        assert second.status == 200
        assert second.content == b"/second"
        assert second.scope["apf"].waited > 0
        assert protected.is_idle()


async def test_a_client_that_hangs_up_while_queued_leaves_and_its_request_never_runs() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        leaver = protected.request("/leaver")
        stayer = protected.request("/stayer")
        await until(lambda: protected.waiting == 2)

        leaver.disconnect()
        with anyio.fail_after(10):
            await leaver.ended.wait()
        assert protected.waiting == 1
        protected.finish()
        await stayer.end()
        await holder.end()

        assert leaver.status == 499, "which nobody reads"
        assert "/leaver" not in protected.started
        assert protected.is_idle()


async def test_a_body_received_while_waiting_reaches_the_app() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        parts = [b"one", b"x" * 40_000, b"y" * 40_000, b"three"]
        upload = protected.open("/read", "POST")
        for part in parts:
            upload.body(part, more=part != b"three")
        upload.start()
        await anyio.sleep(0.02)
        assert upload.receive_calls <= 3, "64 KiB are kept, and no more is asked for"

        protected.finish()
        await upload.end()
        await holder.end()

        assert [message["body"] for message in protected.bodies["/read"]] == parts
        assert upload.status == 200


async def test_a_message_that_arrives_after_the_wait_reaches_the_app() -> None:
    """The pending receive was started while the request was queued."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        slow = protected.open("/read", "POST").start()
        await anyio.sleep(0.02)
        protected.finish()
        await settle()
        assert "/read" in protected.started
        slow.body(b"late")
        await slow.end()
        await holder.end()

        assert [message["body"] for message in protected.bodies["/read"]] == [b"late"]


async def test_a_request_that_waits_too_long_is_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait="20ms"))
        holder = await protected.holder()
        late = await protected.request("/late").end()

        assert late.status == 429
        assert 1 <= int(late.headers["retry-after"]) <= 60
        assert late.headers["x-apf-priority-level"] == "crowd"
        details = problem(late)
        assert (details["reason"], details["level"], details["schema"], details["status"]) == (
            "time-out",
            "crowd",
            "everybody",
            429,
        )
        assert 0.01 < details["waited"] < 5
        assert protected.waiting == 0
        protected.finish()
        await holder.end()
        assert "/late" not in protected.started
        assert protected.is_idle()


async def test_a_full_queue_rejects_at_once_and_names_the_flow() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(length=2))
        holder = await protected.holder()
        waiting = [protected.request(f"/{number}", user="elephant") for number in range(4)]
        await settle()

        own = await protected.request("/own", user="elephant").end()
        other = await protected.request("/other", user="mouse").end()

        assert own.status == other.status == 429
        assert (problem(own)["reason"], problem(own)["own_flow"]) == ("queue-full", True)
        assert (problem(other)["reason"], problem(other)["own_flow"]) == ("queue-full", False)
        protected.finish()
        for exchange in (*waiting, holder):
            await exchange.end()
        assert protected.is_idle()


async def test_a_level_without_queues_rejects_requests_beyond_its_seats() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(response="Reject"))
        holder = await protected.holder()
        refused = await protected.request("/refused", "HEAD").end()

        assert refused.status == 429
        assert refused.content == b"", "an answer to HEAD has no body"
        protected.finish()
        await holder.end()
        assert (await protected.request("/next").end()).status == 200


async def test_middleware_outside_may_change_a_rejection_without_changing_the_next_one() -> None:
    """These two change the messages that they get; rejected requests share their answers."""
    async with anyio.create_task_group() as tasks:
        config = configuration(response="Reject", server=", responses: {retryAfter: {least: 7s, most: 7s}}")
        protected = ProtectedApp(tasks, config)
        outer = GZipMiddleware(CORSMiddleware(protected.middleware, allow_origins=["https://a.example"]), 1)
        holder = await protected.holder()

        async def reject(app: ASGIApp, **headers: str) -> Exchange:
            return await Exchange(app, http_scope("/refused", headers=headers), tasks).body().start().end()

        before = await reject(protected.middleware)
        changed = await reject(outer, origin="https://a.example", **{"accept-encoding": "gzip"})
        after = await reject(protected.middleware)

        assert before.status == changed.status == 429
        assert {"access-control-allow-origin", "content-encoding", "vary"} <= set(changed.headers)
        assert before.sent == after.sent
        assert gzip.decompress(changed.content) == after.content
        protected.finish()
        await holder.end()


async def test_a_request_that_is_cancelled_while_queued_leaves_the_queue() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        cancelled = protected.request("/cancelled")
        await settle()
        assert protected.waiting == 1

        cancelled.cancel_scope.cancel()
        await cancelled.end()
        assert protected.waiting == 0
        protected.finish()
        await holder.end()
        assert cancelled.sent == []
        assert protected.is_idle()


@pytest.mark.parametrize("first", ["seat", "cancellation"])
async def test_a_seat_granted_at_the_instant_of_a_cancellation_is_passed_on(first: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        cancelled, next_one = protected.request("/cancelled"), protected.request("/next")
        await settle()
        controller = protected.middleware.service.controller
        [admission] = [held.scope["apf"] for held in (holder,)]

        if first == "seat":
            controller.release(admission)
            cancelled.cancel_scope.cancel()
        else:
            cancelled.cancel_scope.cancel()
            controller.release(admission)
        await cancelled.end()
        with anyio.fail_after(60):
            await next_one.ended.wait()
        protected.finish()
        await holder.end()

        assert next_one.status == 200
        assert protected.is_idle()


@pytest.mark.parametrize("first", ["seat", "cancellation"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_task_cancellation_passes_the_seat_on(first: str) -> None:
    """A cancel scope of anyio is delayed when the task is scheduled already; `asyncio.Task.cancel` is not."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        exchange = protected.open("/cancelled").body()
        task = asyncio.ensure_future(protected.middleware(exchange.scope, exchange.receive, exchange.send))
        await settle()
        next_one = protected.request("/next")
        await settle()
        controller = protected.middleware.service.controller

        if first == "seat":
            controller.release(holder.scope["apf"])
            task.cancel()
        else:
            task.cancel()
            controller.release(holder.scope["apf"])
        with pytest.raises(asyncio.CancelledError):
            await task
        with anyio.fail_after(60):
            await next_one.ended.wait()
        protected.finish()
        await holder.end()

        assert "/cancelled" not in protected.started
        assert protected.is_idle()
        status = protected.middleware.service.queues.status("crowd")
        assert (status.completed, status.aborted) == (2, 1)


async def test_a_seat_can_be_released_early() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        second = protected.request("/second")
        await settle()
        admission = holder.scope["apf"]

        admission.release()
        admission.release()
        await second.end()
        assert second.status == 200
        assert admission.seats == 0
        protected.finish()
        await holder.end()
        assert holder.status == 200
        assert protected.is_idle()


@pytest.mark.parametrize("how", ["release", "charge", "watch", "unwatch", "revocable"])
async def test_what_a_handler_does_in_a_thread_is_done_in_the_event_loop(how: str) -> None:
    """FastAPI runs functions without ``async`` in threads; they must not change the queues beside the event loop."""
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        admission = holder.scope["apf"]
        calls: dict[str, Callable[[], object]] = {
            "release": admission.release,
            "charge": partial(admission.charge, 2),
            "watch": partial(admission.watch, "orders"),
            "unwatch": partial(admission.unwatch, admission.watch("prices")),
            "revocable": admission.revocable,
        }
        await call_beside_the_loop(calls[how])
        assert admission.seats == (how != "release")
        protected.finish()
        await holder.end()
        assert protected.is_idle()


async def test_seats_that_a_thread_releases_and_that_linger_go_to_the_next_request() -> None:
    estimate = ", estimation: {cap: false, default: {seats: 1, finalSeats: 1, linger: 10ms}}"
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait="15s", server=estimate))
        holder = await protected.holder()
        second = protected.request("/second")
        await settle()
        assert await anyio.to_thread.run_sync(holder.scope["apf"].release)
        with anyio.fail_after(10):
            await second.end()
        assert second.status == 200
        protected.finish()
        await holder.end()


async def test_a_closing_server_rejects_waiting_requests_and_lets_running_ones_finish() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        waiting = [protected.request(f"/{number}") for number in range(3)]
        await settle()
        assert protected.waiting == 3

        protected.middleware.service.controller.close()
        for exchange in waiting:
            await exchange.end()
            assert exchange.status == 503
            assert exchange.headers["connection"] == "close"
            assert problem(exchange)["reason"] == "queue-closed"
        late = await protected.request("/late").end()
        assert late.status == 503
        probe = await protected.request("/health").end()
        assert probe.status == 200
        protected.finish()
        await holder.end()
        assert holder.status == 200
        assert protected.is_idle()
