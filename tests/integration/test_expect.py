"""Requests with ``Expect: 100-continue``: the client gets 100 when its request has a seat."""

import anyio
import pytest

from apf_middleware.asgi.body import is_for_app
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import ProtectedApp, configuration, settle

pytestmark = pytest.mark.anyio


def uploader(protected: ProtectedApp, path: str, expect: str) -> Exchange:
    scope = http_scope(path, "POST", {"X-User": "alice", "Content-Length": "4", "Expect": expect})
    return Exchange(protected.middleware, scope, protected.tasks)


async def a_hang_up_is_noticed(protected: ProtectedApp) -> None:
    """Check that a later request's disconnect is noticed; an earlier one's would then have been noticed, too."""
    before = protected.middleware.service.controller.hang_ups
    other = protected.request("/other", user="other")
    await settle()
    other.disconnect()
    await other.end()
    assert protected.middleware.service.controller.hang_ups == before + 1


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
async def test_a_body_is_not_received_before_there_is_a_seat(expect: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        upload = uploader(protected, "/read", expect).start()
        await a_hang_up_is_noticed(protected)
        assert upload.receive_calls == 0

        protected.finish()
        await settle()
        assert upload.receive_calls == 1, "the app has asked"
        upload.body(b"body")
        await upload.end()
        await holder.end()

        assert [message["body"] for message in protected.bodies["/read"]] == [b"body"]
        assert upload.status == 200
        assert protected.is_idle()


async def test_a_rejected_request_never_receives_its_body() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait="30ms"))
        holder = await protected.holder()
        upload = await uploader(protected, "/read", "100-continue").start().end()

        assert (upload.status, upload.receive_calls) == (429, 0)
        assert protected.waiting == 0
        protected.finish()
        await holder.end()
        assert protected.is_idle()


async def test_an_undetected_disconnect_ends_with_the_wait_limit() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(wait="50ms"))
        holder = await protected.holder()
        upload = uploader(protected, "/read", "100-continue").start()
        await settle()
        upload.disconnect()
        await upload.end()

        assert (upload.status, protected.waiting) == (429, 0)
        protected.finish()
        await holder.end()
        assert protected.is_idle()


async def test_a_disconnect_of_a_client_that_has_no_body_to_send_is_noticed() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        scope = http_scope("/x", "GET", {"X-User": "alice", "Expect": "100-continue"})
        left = Exchange(protected.middleware, scope, tasks).start()
        await a_hang_up_is_noticed(protected)
        left.disconnect()
        await left.end()

        assert (left.status, protected.waiting) == (499, 0)
        protected.finish()
        await holder.end()
        assert protected.is_idle()


@pytest.mark.parametrize("expect", ["", "200-ok"])
async def test_a_request_with_another_expectation_is_received(expect: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        upload = uploader(protected, "/read", expect).start()
        await a_hang_up_is_noticed(protected)

        assert upload.receive_calls == 1
        upload.disconnect()
        await upload.end()
        protected.finish()
        await holder.end()


@pytest.mark.parametrize("scope", [websocket_scope(), {"type": "http"}, {"type": "http", "headers": None}])
def test_a_scope_without_an_expectation_expects_nothing(scope: dict[str, object]) -> None:
    assert not is_for_app(scope)
