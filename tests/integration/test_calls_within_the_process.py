"""Requests that an app makes to another app, or to itself, in its own task: each has its own context."""

import time
from collections.abc import Mapping

import anyio
import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import load_text
from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE
from tests.support.protected_app import ProtectedApp, configuration

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # httpx's transport

SETTINGS = "deadlines: {}, criticality: {groups: ['system:unauthenticated']}"
Context = tuple[int | None, str | None]
"""The seconds that are left, and the criticality that is passed on."""

OUTER = (9, "criticalPlus")
OUTER_HEADERS = {"grpc-timeout": "9S", "x-criticality": "criticalPlus"}


def protect(app: ASGIApp, settings: str = SETTINGS) -> APFMiddleware:
    return APFMiddleware(app, load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 10, {settings}}}"))


def context() -> Context:
    deadline, criticality = CURRENT_DEADLINE.get(), CURRENT_CRITICALITY.get()
    left = None if deadline is None else round((deadline - time.monotonic_ns()) / 10**9)
    return left, None if criticality is None else criticality.key


async def get(app: ASGIApp, headers: Mapping[str, str]) -> int:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return (await client.get("/", headers=headers)).status_code


async def answer(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def call(inner: ASGIApp, headers: Mapping[str, str], patience: float = 60) -> tuple[object, Context]:
    """Serve a request that makes one to ``inner``; return the status or the error of that, and the context after it."""
    found: list[object] = []

    async def outer(_scope: Scope, _receive: Receive, send: Send) -> None:
        assert context() == OUTER
        try:
            with anyio.fail_after(patience):
                found.append(await get(inner, headers))
        except (LookupError, TimeoutError) as error:
            found.append(type(error))
        found.append(context())
        await answer(send)

    assert await get(protect(outer), OUTER_HEADERS) == 200
    assert context() == (None, None), "of the task that made the first request"
    status, after = found
    assert isinstance(after, tuple)
    return status, after


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
@pytest.mark.parametrize(
    ("headers", "its_own"),
    [
        ({"grpc-timeout": "2S", "x-criticality": "sheddable"}, (2, "sheddable")),
        ({"x-criticality": "sheddable"}, (None, "sheddable")),
        ({"grpc-timeout": "2S"}, (2, "critical")),
        ({}, (None, "critical")),
    ],
)
async def test_a_request_has_its_context_again_after_one_that_it_made(
    mode: str, headers: dict[str, str], its_own: Context
) -> None:
    seen: list[Context] = []

    async def inner(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(context())
        await answer(send)

    assert await call(protect(inner, f"{SETTINGS}, mode: {mode}"), headers) == (200, OUTER)
    assert seen == [its_own]


@pytest.mark.parametrize(
    ("settings", "its_own"),
    [
        ("metrics: null", OUTER),  # neither is known
        ("deadlines: {}", (2, "criticalPlus")),
        ("criticality: {}", (9, "sheddable")),
    ],
)
async def test_what_a_server_does_not_know_stays_as_it_is(settings: str, its_own: Context) -> None:
    seen: list[Context] = []

    async def inner(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(context())
        await answer(send)

    headers = {"grpc-timeout": "2S", "x-criticality": "sheddable"}
    assert await call(protect(inner, settings), headers) == (200, OUTER)
    assert seen == [its_own]


async def test_a_request_that_fails_or_is_given_up_leaves_no_context_behind() -> None:
    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise LookupError

    async def dawdle(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await anyio.sleep_forever()

    headers = {"grpc-timeout": "2S", "x-criticality": "sheddable"}
    assert await call(protect(fail), headers) == (LookupError, OUTER)
    assert await call(protect(dawdle), headers, patience=0.05) == (TimeoutError, OUTER)


async def test_a_request_that_is_rejected_leaves_no_context_behind() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(response="Reject", server=f", {SETTINGS}"))
        holder = await protected.holder()
        found = await call(protected.middleware, {"grpc-timeout": "2S", "x-criticality": "sheddable"})
        assert found == (429, OUTER)
        late = await call(protected.middleware, {"grpc-timeout": "0n", "x-criticality": "sheddable"})
        assert late == (504, OUTER)
        protected.finish()
        await holder.end()


async def test_tasks_of_a_request_keep_its_context_after_its_end() -> None:
    seen: list[Context] = []
    ended = anyio.Event()

    async def note_later() -> None:
        await ended.wait()
        seen.append(context())

    async with anyio.create_task_group() as tasks:

        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            tasks.start_soon(note_later)
            await answer(send)

        await get(protect(app), OUTER_HEADERS)
        ended.set()
    assert seen == [OUTER]


async def test_an_app_is_called_directly_if_there_is_nothing_to_tell() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send)

    middleware = protect(app, "metrics: null")
    assert middleware.app is app
    settings = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{{SETTINGS}}}")
    middleware.service.adopt(middleware.service.prepare(settings))
    assert middleware.app is not app
