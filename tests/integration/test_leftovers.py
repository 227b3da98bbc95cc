"""What a request leaves behind is freed when it is over, and isn't left for the garbage collector to find.

Cycles of references are collected now and then, all at once, and meanwhile everybody waits: 40,000 objects that queued
requests had left took a tenth of a second every few seconds, and those who were there then had the longest tails.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.config import load_text
from tests.support.asgi_exchange import http_scope
from tests.support.references import overcounted

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

REQUESTS = 60


def guarded(app: ASGIApp, *, wait: str = "10s", length: int = 100, gates: str = "", more: str = "") -> APFMiddleware:
    return APFMiddleware(
        app,
        config=load_text(
            f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 4, defaults: none{gates}}}\n---\n"
            "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: all}\n"
            f"spec: {{shares: 1000, waitLimit: {wait}, "
            f"queuing: {{queues: 2, handSize: 1, queueLengthLimit: {length}}}}}\n---\n"
            "apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: all}\n"
            f"spec: {{level: all, rules: [{{httpRules: [{{}}]}}]{more}}}\n"
        ),
    )


async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
    await anyio.sleep(0.002)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
    await anyio.sleep(0.002)
    raise LookupError


class Client:
    """Sends a request without a body; one that ``leaves`` has gone a moment later."""

    def __init__(self, *, leaves: bool = False) -> None:
        self._leaves = leaves
        self._has_asked = False
        self.messages = 0

    async def receive(self) -> Message:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await anyio.sleep(0.01 if self._leaves else 60)
        return {"type": "http.disconnect"}

    async def send(self, _: Message) -> None:
        self.messages += 1


async def stay(app: ASGIApp) -> None:
    client = Client()
    await app(http_scope(), client.receive, client.send)


async def leave(app: ASGIApp) -> None:
    client = Client(leaves=True)
    await app(http_scope(), client.receive, client.send)


async def fail(app: ASGIApp) -> None:
    client = Client()
    with pytest.raises((LookupError, BaseExceptionGroup)):
        await app(http_scope(), client.receive, client.send)


async def be_cancelled(app: ASGIApp) -> None:
    task = asyncio.ensure_future(stay(app))
    await anyio.sleep(0.012)
    task.cancel()
    await asyncio.wait([task])


gated = partial(guarded, gates=", gates: [{name: db, capacity: 2}]", more=", gates: [db]")


@pytest.mark.parametrize(
    ("middleware", "come"),
    [
        pytest.param(guarded(slow), stay, id="waits"),
        pytest.param(guarded(slow, wait="15ms"), stay, id="out of time"),
        pytest.param(guarded(slow, wait="4ms"), stay, id="soon out of time"),
        pytest.param(guarded(slow, length=5), stay, id="queue full"),
        pytest.param(guarded(slow), leave, id="hangs up"),
        pytest.param(guarded(slow), be_cancelled, id="is cancelled"),
        pytest.param(guarded(fails), fail, id="fails"),
        pytest.param(gated(slow), stay, id="parked"),
        pytest.param(gated(slow, wait="15ms"), stay, id="parked and out of time"),
        pytest.param(gated(slow), leave, id="parked and hangs up"),
    ],
)
async def test_requests_create_no_reference_cycles(
    middleware: APFMiddleware, come: Callable[[ASGIApp], Awaitable[None]]
) -> None:
    await asyncio.gather(*(come(middleware) for _ in range(REQUESTS)))  # whatever is made once is there now
    await anyio.sleep(0.02)
    gc.collect()
    gc.disable()
    before = set(map(id, gc.get_objects()))  # other tests may leave something that is only now unreachable
    try:
        await asyncio.gather(*(come(middleware) for _ in range(REQUESTS)))
        await anyio.sleep(0.02)  # what was cancelled has come to its end
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage if id(one) not in before)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert left.total() < REQUESTS, left


@pytest.mark.parametrize("make", [guarded, gated], ids=["waiting", "parked"])
async def test_the_collector_is_shown_each_reference_once(make: Callable[[ASGIApp], APFMiddleware]) -> None:
    middleware = make(slow)
    coming = [asyncio.ensure_future(stay(middleware)) for _ in range(REQUESTS)]
    await anyio.sleep(0.004)

    found = overcounted()
    await asyncio.gather(*coming)

    assert not found
