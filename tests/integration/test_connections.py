"""Clients on a server that shows whether they are connected, in virtual time: when they are noticed to hang up."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest
from starlette.types import Message

from apf_middleware.asgi.service import Service
from apf_middleware.runtime.connection_polls import MOST_LOOKS, POLL_NS
from apf_middleware.runtime.wait_monitor import WATCH_AFTER_NS
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, settle
from tests.support.virtual_loop import VirtualLoop

NOTICED = (2 * WATCH_AFTER_NS + POLL_NS) / 10**9  # seconds after which each hang-up has been noticed
WATCHED = NOTICED + MOST_LOOKS * POLL_NS / 10**9


class OpenExchange(Exchange):
    """An exchange on a server like uvicorn."""

    __module__ = "uvicorn.protocols.http.of_a_test"
    disconnected = False
    arrival: asyncio.Event | None = None

    def disconnect(self) -> None:
        self.disconnected = True
        super().disconnect()

    def deliver(self, message: Message) -> None:
        super().deliver(message)
        if self.arrival is not None:
            self.arrival.set()

    async def receive(self) -> Message:
        self.receive_calls += 1
        while not self._said:  # an event of anyio would need a task
            self.arrival = asyncio.Event()
            await self.arrival.wait()
        return self._said.popleft()


def request(protected: ProtectedApp, path: str) -> OpenExchange:
    exchange = OpenExchange(protected.middleware, http_scope(path, headers={"X-User": "alice"}), protected.tasks)
    exchange.body().start()
    return exchange


def run(test: Callable[[ProtectedApp], Coroutine[Any, Any, None]]) -> None:
    async def run_test() -> None:
        async with anyio.create_task_group() as tasks:
            protected = ProtectedApp(tasks)
            holder = await protected.holder()
            await test(protected)
            protected.finish()
            await holder.end()
        assert protected.is_idle()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.MonkeyPatch.context() as patch:
        loop = runner.get_loop()
        clocked = partial(Service, now=lambda: round(loop.time() * 10**9))
        patch.setattr("apf_middleware.asgi.middleware.Service", clocked)
        runner.run(run_test())


@pytest.mark.parametrize("after", [0.0, 0.1, 2.0])
def test_a_client_that_hangs_up_frees_its_place(after: float) -> None:
    async def test(protected: ProtectedApp) -> None:
        waiting = request(protected, "/waiting")
        await asyncio.sleep(after)
        assert protected.waiting == 1
        waiting.disconnect()
        await asyncio.sleep(NOTICED)
        assert protected.waiting == 0
        await waiting.end()
        assert waiting.receive_calls == (0 if after == 0.1 else 2)
        assert protected.middleware.service.controller.hang_ups == 1
        assert protected.started == ["/hold"]

    run(test)


@pytest.mark.parametrize("after", [0.0, 0.1, 2.0])
def test_the_app_receives_what_its_client_has_sent(after: float) -> None:
    async def test(protected: ProtectedApp) -> None:
        waiting = request(protected, "/read")
        await asyncio.sleep(after)
        assert waiting.receive_calls == (0 if after < 1 else 2)
        protected.finish()
        await waiting.end()
        assert waiting.status == 200
        assert protected.bodies["/read"] == [{"type": "http.request", "body": b"", "more_body": False}]

    run(test)


def test_a_hang_up_that_the_connection_does_not_show_is_noticed_by_a_watch() -> None:
    async def test(protected: ProtectedApp) -> None:
        waiting = request(protected, "/waiting")
        Exchange.disconnect(waiting)
        await asyncio.sleep(WATCHED - 2 * NOTICED)
        assert (protected.waiting, waiting.receive_calls) == (1, 0)
        await asyncio.sleep(2 * NOTICED)
        assert protected.waiting == 0
        await waiting.end()

    run(test)


@pytest.mark.parametrize("after", [0.0, 0.1, 2.0])
def test_a_request_whose_task_is_cancelled_leaves_its_queue(after: float) -> None:
    async def test(protected: ProtectedApp) -> None:
        waiting = request(protected, "/waiting")
        await asyncio.sleep(after)
        waiting.cancel_scope.cancel()
        await settle()
        assert protected.waiting == 0
        waiting.disconnect()
        await asyncio.sleep(WATCHED)
        assert protected.middleware.service.controller.hang_ups == 0

    run(test)


@pytest.mark.parametrize("after", [0.1, 2.0])
def test_nothing_is_kept_of_a_wait_that_is_over(after: float) -> None:
    async def test(protected: ProtectedApp) -> None:
        waiting = request(protected, "/waiting")
        await asyncio.sleep(after)
        protected.finish()
        await waiting.end()
        await asyncio.sleep(NOTICED)
        connection = weakref.ref(waiting)
        del waiting
        assert connection() is None

    gc.disable()
    try:
        run(test)
    finally:
        gc.enable()
