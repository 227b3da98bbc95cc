"""Bodies that are on their way: no seat is held for them, and there are bounds to their time, number and bytes."""

import asyncio
import threading
from collections.abc import Mapping

import anyio
import anyio.abc
import pytest

from apf_middleware.asgi.admin.observation import observe_levels
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason
from tests.support.asgi_exchange import Exchange
from tests.support.protected_app import problem, settle
from tests.support.upload_app import CHUNKED, CONFIG, UploadApp

pytestmark = pytest.mark.anyio


async def test_a_request_takes_no_seat_until_its_body_has_arrived() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        slow = protected.open("/slow").body(b"a", more=True)
        await settle()
        assert "/slow" not in protected.received
        assert (protected.seats_in_use, protected.bodies.number) == (0, 1)

        assert (await protected.open("/quick", "bob").body(b"hello").end()).status == 200
        slow.body(b"", more=True).body(b"b")
        assert (await slow.end()).status == 200

        assert [message["body"] for message in protected.received["/slow"]] == [b"a", b"", b"b"]
        protected.check_idle()


async def test_a_length_of_zero_does_not_hide_a_body() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        slow = protected.open("/slow", headers={"content-length": "0", **CHUNKED})
        await settle()
        assert "/slow" not in protected.received
        assert (protected.seats_in_use, protected.bodies.number) == (0, 1)

        assert (await slow.body(b"hello").end()).status == 200
        protected.check_idle()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"content-length": "0"}])
async def test_a_request_without_a_body_is_not_received(method: str, headers: Mapping[str, str]) -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        bodiless = protected.open("/", method=method, headers=headers)
        await settle()

        assert "/" in protected.received
        assert protected.bodies.number == 0
        bodiless.body()


async def test_bodies_of_all_methods_are_received() -> None:
    async with anyio.create_task_group() as tasks:
        for more, is_received in (("", False), (", anyMethod: true", True)):
            protected = UploadApp(tasks, more)
            slow = protected.open("/", method="GET")
            await settle()
            assert (protected.bodies.number == 1, "/" not in protected.received) == (is_received, is_received)
            assert (await slow.body(b"hello").end()).status == 200
            protected.check_idle()


async def test_the_rest_of_a_long_body_is_not_received() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        parts = [b"x" * 60, b"y" * 60, b"z" * 60, b""]
        exchange = protected.open("/")
        for place, part in enumerate(parts, 1):
            exchange.body(part, more=place < len(parts))
            await settle()
            assert ("/" in protected.received) == (place > 1)
        assert (await exchange.end()).status == 200

        assert [message["body"] for message in protected.received["/"]] == parts
        protected.check_idle()


async def test_a_body_that_is_too_slow_ends_its_request() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks, ", minRate: 4B, patience: 10s")
        slow, quick = (protected.open(path).body(b"x", more=True) for path in ("/slow", "/quick"))
        await settle()
        quick.body(b"x" * 40, more=True)
        await settle()
        protected.pass_time()
        await slow.end()

        assert slow.status == 408
        assert slow.headers["connection"] == "close"
        assert problem(slow)["reason"] == "slow-body"
        assert protected.bodies.number == 1
        quick.body()
        assert (await quick.end()).status == 200
        assert "/slow" not in protected.received
        protected.check_idle()


async def test_beyond_the_limit_the_oldest_upload_of_the_largest_flow_is_ended() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        comes = [("/1", "bob"), ("/2", "elephant"), ("/3", "elephant"), ("/4", "elephant"), ("/5", "carol")]
        exchanges = {}
        for path, user in comes:
            exchanges[path] = protected.open(path, user)
            await settle()
        await exchanges["/2"].end()

        assert exchanges["/2"].status == 429
        assert problem(exchanges["/2"])["reason"] == "body-limit"
        assert protected.bodies.number == 4
        for path in ("/1", "/3", "/4", "/5"):
            assert (await exchanges[path].body(b"x").end()).status == 200
        protected.check_idle()


async def test_a_client_that_hangs_up_frees_everything_and_its_app_is_never_called() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        gone = protected.open("/").body(b"x" * 10, more=True)
        await settle()
        gone.disconnect()
        await gone.end()

        assert (gone.status, protected.received) == (499, {}), "which nobody reads"
        assert protected.middleware.service.controller.hang_ups == 1
        protected.check_idle()


async def test_a_cancelled_task_frees_everything() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        cancelled = protected.open("/").body(b"x", more=True)
        await settle()
        cancelled.cancel_scope.cancel()
        await cancelled.end()

        assert cancelled.sent == []
        protected.check_idle()


async def test_a_stopping_server_rejects_requests_whose_bodies_are_incomplete() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        before = protected.open("/before").body(b"x", more=True)
        await settle()
        protected.middleware.service.controller.close()
        after = protected.open("/after")

        for exchange in (before, after):
            await exchange.end()
            assert exchange.status == 503
            assert problem(exchange)["reason"] == "queue-closed"
        protected.check_idle()


async def test_a_request_with_a_full_buffer_asks_for_a_seat() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        protected.bodies.adopt(load_text(CONFIG.replace("100B", "1KiB") % "").server.bodies, {})
        greedy = protected.open("/")
        for _ in range(6):
            await settle()
            greedy.body(b"x" * 100, more=True)
        await settle()

        assert "/" in protected.received
        assert len(protected.received["/"]) == 6
        greedy.body()
        await greedy.end()
        protected.check_idle()


async def test_a_concurrent_reload_loses_nothing_of_the_body() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        service = protected.middleware.service
        slow = protected.open("/").body(b"a", more=True)
        await settle()
        service.adopt(service.prepare(load_text((CONFIG % "").replace("crowd", "people"))))
        slow.body(b"b")
        await slow.end()

        assert slow.status == 200
        assert slow.headers["x-apf-priority-level"] == "people"
        assert [message["body"] for message in protected.received["/"]] == [b"a", b"b"]
        assert protected.bodies.number == protected.bodies.kept == 0


async def test_requests_with_incomplete_bodies_and_their_ends_are_counted() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        slow = protected.open("/").body(b"abc", more=True)
        await settle()
        slow.body(b"def", more=True)
        await settle()
        picture = protected.middleware.service.reading()
        assert picture.receiving == {"catch-all": 0, "crowd": 1, "exempt": 0}
        assert picture.body_bytes == 6 + 2 * 256, "each message takes memory, too"
        receiving = {level.level: level.receiving for level in observe_levels(protected.middleware.service)}
        assert receiving == {"catch-all": 0, "crowd": 1, "exempt": 0}

        protected.pass_time()
        await slow.end()
        schema_counters = protected.middleware.service.controller.levels["crowd"].schema_counters
        assert schema_counters["everybody"].rejected[Reason.SLOW_BODY] == 1
        assert set(protected.middleware.service.reading().receiving.values()) == {0}


def _serve_in_thread(backend: str, ready: threading.Event, found: list[UploadApp], ended: list[Exchange]) -> None:
    async def serve() -> None:
        if backend == "asyncio":
            asyncio.get_running_loop().set_debug(True)  # calls that aren't safe from other threads raise errors
        async with anyio.create_task_group() as tasks:
            protected = found[0] if found else UploadApp(tasks)
            protected.tasks = tasks
            found.append(protected)
            exchange = protected.open("/").body(b"a", more=True)
            await settle()
            ready.set()
            ended.append(await exchange.end())

    anyio.run(serve, backend=backend)


def test_a_request_of_another_event_loop_is_interrupted_in_that_loop(anyio_backend: str) -> None:
    ready, found, ended = threading.Event(), list[UploadApp](), list[Exchange]()
    thread = threading.Thread(target=_serve_in_thread, args=(anyio_backend, ready, found, ended))
    thread.start()
    try:
        assert ready.wait(60)
    finally:
        found[0].bodies.close()
        thread.join(60)

    assert [exchange.status for exchange in ended] == [503]
    found[0].check_idle()


async def test_a_request_is_not_interrupted_after_its_body_has_come() -> None:
    async with anyio.create_task_group() as tasks:
        protected = UploadApp(tasks)
        exchange = protected.open("/").body(b"a", more=True)
        await settle()
        (incoming,) = protected.bodies._windows
        exchange.body(b"b")
        await exchange.end()

        incoming._interrupt_if_waiting()  # as if another loop had posted this call too late
        await settle()
        assert (exchange.status, exchange.error) == (200, None)
