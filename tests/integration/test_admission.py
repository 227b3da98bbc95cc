"""What an app and its clients see: admitted at once, queued, rejected, gone, cancelled."""

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from tests.support.asgi_exchange import Conversation, http_scope
from tests.support.protected_app import Stage, configuration, problem, settle

if TYPE_CHECKING:
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
            Conversation(APFMiddleware(app, configuration()), http_scope("/", headers={"X-User": "bob"}), tasks)
            .start()
            .end()
        )

    [admission] = found
    assert (admission.schema, admission.level, admission.flow, admission.waited) == ("everybody", "crowd", "bob", 0.0)
    assert admission.seats == 0
    assert admission.identity.name == "system:anonymous"


async def test_an_error_of_the_app_passes_through_and_frees_the_seat() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        for _ in range(3):
            conversation = await stage.comes("/boom").end()
            assert isinstance(conversation.error, LookupError)
        assert stage.is_at_rest()


async def test_a_request_without_a_free_seat_waits() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        second = stage.comes("/second")
        await settle()
        assert (stage.waiting, stage.started) == (1, ["/hold"])

        stage.let_go()
        await second.end()
        await holder.end()

        assert second.status == 200
        assert second.content == b"/second"
        assert second.scope["apf"].waited > 0
        assert stage.is_at_rest()


async def test_a_client_that_hangs_up_while_queued_leaves_and_its_request_never_runs() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        leaver = stage.comes("/leaver")
        stayer = stage.comes("/stayer")
        await anyio.sleep(0.02)
        assert stage.waiting == 2

        leaver.hang_up()
        with anyio.fail_after(10):
            await leaver.ended.wait()
        assert stage.waiting == 1
        stage.let_go()
        await stayer.end()
        await holder.end()

        assert leaver.status == 499, "which nobody reads"
        assert "/leaver" not in stage.started
        assert stage.is_at_rest()


async def test_a_body_received_while_waiting_reaches_the_app() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        parts = [b"one", b"x" * 40_000, b"y" * 40_000, b"three"]
        upload = stage.opens("/read", "POST")
        for part in parts:
            upload.body(part, more=part != b"three")
        upload.start()
        await anyio.sleep(0.02)
        assert upload.asked <= 3, "64 KiB are kept, and no more is asked for"

        stage.let_go()
        await upload.end()
        await holder.end()

        assert [message["body"] for message in stage.bodies["/read"]] == parts
        assert upload.status == 200


async def test_a_message_that_arrives_after_the_wait_reaches_the_app() -> None:
    """Although it was asked for while the request was queued."""
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        slow = stage.opens("/read", "POST").start()
        await anyio.sleep(0.02)
        stage.let_go()
        await settle()
        assert "/read" in stage.started
        slow.body(b"late")
        await slow.end()
        await holder.end()

        assert [message["body"] for message in stage.bodies["/read"]] == [b"late"]


async def test_a_request_that_waits_too_long_is_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, configuration(wait="20ms"))
        holder = await stage.holder()
        late = await stage.comes("/late").end()

        assert late.status == 429
        assert 1 <= int(late.headers["retry-after"]) <= 60
        assert late.headers["x-apf-priority-level"] == "crowd"
        told = problem(late)
        assert (told["reason"], told["level"], told["schema"], told["status"]) == (
            "time-out",
            "crowd",
            "everybody",
            429,
        )
        assert 0.01 < told["waited"] < 5
        assert stage.waiting == 0
        stage.let_go()
        await holder.end()
        assert "/late" not in stage.started
        assert stage.is_at_rest()


async def test_a_full_queue_rejects_at_once_and_names_the_flow() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, configuration(length=2))
        holder = await stage.holder()
        waiting = [stage.comes(f"/{number}", user="elephant") for number in range(4)]
        await settle()

        own = await stage.comes("/own", user="elephant").end()
        other = await stage.comes("/other", user="mouse").end()

        assert own.status == other.status == 429
        assert (problem(own)["reason"], problem(own)["own_flow"]) == ("queue-full", True)
        assert (problem(other)["reason"], problem(other)["own_flow"]) == ("queue-full", False)
        stage.let_go()
        for conversation in (*waiting, holder):
            await conversation.end()
        assert stage.is_at_rest()


async def test_a_level_without_queues_rejects_requests_beyond_its_seats() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, configuration(response="Reject"))
        holder = await stage.holder()
        refused = await stage.comes("/refused", "HEAD").end()

        assert refused.status == 429
        assert refused.content == b"", "an answer to HEAD has no body"
        stage.let_go()
        await holder.end()
        assert (await stage.comes("/next").end()).status == 200


async def test_a_request_that_is_cancelled_while_queued_leaves_the_queue() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        cancelled = stage.comes("/cancelled")
        await settle()
        assert stage.waiting == 1

        cancelled.cancel_scope.cancel()
        await cancelled.end()
        assert stage.waiting == 0
        stage.let_go()
        await holder.end()
        assert cancelled.sent == []
        assert stage.is_at_rest()


@pytest.mark.parametrize("first", ["seat", "cancellation"])
async def test_a_seat_granted_at_the_instant_of_a_cancellation_is_passed_on(first: str) -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        cancelled, next_one = stage.comes("/cancelled"), stage.comes("/next")
        await settle()
        controller = stage.middleware.service.controller
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
        stage.let_go()
        await holder.end()

        assert next_one.status == 200
        assert stage.is_at_rest()


@pytest.mark.parametrize("first", ["seat", "cancellation"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_task_cancellation_passes_the_seat_on(first: str) -> None:
    """A scope of anyio puts off its cancellation when the task has been woken already; Task.cancel() does not."""
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        conversation = stage.opens("/cancelled").body()
        task = asyncio.ensure_future(stage.middleware(conversation.scope, conversation.receive, conversation.send))
        await settle()
        next_one = stage.comes("/next")
        await settle()
        controller = stage.middleware.service.controller

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
        stage.let_go()
        await holder.end()

        assert "/cancelled" not in stage.started
        assert stage.is_at_rest()


async def test_a_seat_can_be_released_early() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        second = stage.comes("/second")
        await settle()
        admission = holder.scope["apf"]

        admission.release()
        admission.release()
        await second.end()
        assert second.status == 200
        assert admission.seats == 0
        stage.let_go()
        await holder.end()
        assert holder.status == 200
        assert stage.is_at_rest()


async def test_a_closing_server_rejects_waiting_requests_and_lets_running_ones_finish() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        waiting = [stage.comes(f"/{number}") for number in range(3)]
        await settle()
        assert stage.waiting == 3

        stage.middleware.service.controller.close()
        for conversation in waiting:
            await conversation.end()
            assert conversation.status == 503
            assert conversation.headers["connection"] == "close"
            assert problem(conversation)["reason"] == "queue-closed"
        late = await stage.comes("/late").end()
        assert late.status == 503
        probe = await stage.comes("/health").end()
        assert probe.status == 200
        stage.let_go()
        await holder.end()
        assert holder.status == 200
        assert stage.is_at_rest()
