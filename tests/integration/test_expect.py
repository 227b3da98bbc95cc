"""A client that waits to be told to continue is told so by its own request, when that has a seat."""

import anyio
import pytest

from apf_middleware.asgi.body import expects_continue
from tests.support.asgi_exchange import Conversation, http_scope, websocket_scope
from tests.support.protected_app import Stage, configuration, settle

pytestmark = pytest.mark.anyio


def uploader(stage: Stage, path: str, expect: str) -> Conversation:
    scope = http_scope(path, "POST", {"X-User": "alice", "Content-Length": "4", "Expect": expect})
    return Conversation(stage.middleware, scope, stage.tasks)


async def a_hang_up_is_noticed(stage: Stage) -> None:
    """So whoever came before is listened to as well, if anybody listens to them."""
    before = stage.middleware.service.controller.hang_ups
    other = stage.comes("/other", user="other")
    await settle()
    other.hang_up()
    await other.end()
    assert stage.middleware.service.controller.hang_ups == before + 1


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
async def test_a_body_is_not_received_before_there_is_a_seat(expect: str) -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        upload = uploader(stage, "/read", expect).start()
        await a_hang_up_is_noticed(stage)
        assert upload.asked == 0

        stage.let_go()
        await settle()
        assert upload.asked == 1, "the app has asked"
        upload.body(b"body")
        await upload.end()
        await holder.end()

        assert [message["body"] for message in stage.bodies["/read"]] == [b"body"]
        assert upload.status == 200
        assert stage.is_at_rest()


async def test_a_rejected_request_never_receives_its_body() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, configuration(wait="30ms"))
        holder = await stage.holder()
        upload = await uploader(stage, "/read", "100-continue").start().end()

        assert (upload.status, upload.asked) == (429, 0)
        assert stage.waiting == 0
        stage.let_go()
        await holder.end()
        assert stage.is_at_rest()


async def test_an_undetected_disconnect_ends_with_the_wait_limit() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, configuration(wait="50ms"))
        holder = await stage.holder()
        upload = uploader(stage, "/read", "100-continue").start()
        await settle()
        upload.hang_up()
        await upload.end()

        assert (upload.status, stage.waiting) == (429, 0)
        stage.let_go()
        await holder.end()
        assert stage.is_at_rest()


@pytest.mark.parametrize("expect", ["", "200-ok"])
async def test_a_request_with_another_expectation_is_received(expect: str) -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        holder = await stage.holder()
        upload = uploader(stage, "/read", expect).start()
        await a_hang_up_is_noticed(stage)

        assert upload.asked == 1
        upload.hang_up()
        await upload.end()
        stage.let_go()
        await holder.end()


@pytest.mark.parametrize("scope", [websocket_scope(), {"type": "http"}, {"type": "http", "headers": None}])
def test_a_scope_without_an_expectation_expects_nothing(scope: dict[str, object]) -> None:
    assert not expects_continue(scope)
