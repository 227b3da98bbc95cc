"""Long bodies, of which an app receives the rest itself: its seats while nothing comes, and how it goes on."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import anyio
import anyio.abc
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.exceptions import TicketStateError
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.mode import Mode
from apf_middleware.runtime import Admission
from apf_middleware.runtime.adaptive_runner import AdaptiveRunner
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import problem, settle
from tests.support.upload_app import CHUNKED, CONFIG, UploadApp

pytestmark = pytest.mark.anyio

LONG = b"x" * 101  # longer than the buffer
EXPECTING = CHUNKED | {"expect": "100-continue"}


class HeldUploadApp(UploadApp):
    """An app whose requests lose their seats while they wait for more of a body."""

    def expire_holds(self) -> int:
        """As if all who wait for more had waited for as long as they may with seats; how many they are."""
        held = self.bodies.held
        waiting = list(held._ends)
        for upload in waiting:
            held.end(upload)
            upload.suspend()
        return len(waiting)

    async def start(self, path: str = "/long", user: str = "alice") -> Exchange:
        """Wait until a request has its seats and its app waits for more."""
        exchange = self.open(path, user).body(LONG, more=True)
        await settle()
        assert (self.seats_in_use, len(self.received[path])) == (1, 1)
        return exchange

    async def start_suspended(self) -> Exchange:
        """Wait until a request has its seats, and then loses them."""
        exchange = await self.start()
        self.expire_holds()
        return exchange


async def test_seats_are_released_while_the_app_waits_for_more_of_a_body() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start()
        assert protected.expire_holds() == 1
        assert (protected.seats_in_use, protected.bodies.number) == (0, 1)
        assert (await protected.open("/other", "bob").body(b"hello").end()).status == 200

        long.body(b"a", more=True)
        await settle()
        assert (len(protected.received["/long"]), protected.seats_in_use) == (1, 0), "a byte is no work"
        long.body(b"b")
        assert (await long.end()).status == 200
        assert [message["body"] for message in protected.received["/long"]] == [LONG, b"a", b"b"]
        protected.check_idle()


async def test_nothing_is_learned_from_the_wait_for_a_body() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        text = (CONFIG % "").replace("seats: 1", "seats: {adaptive: {min: 1, max: 4}}")
        protected.middleware = APFMiddleware(protected._app, load_text(text))
        long = await protected.start_suspended()
        controller = protected.middleware.service.controller
        assert isinstance(controller.adaptive, AdaptiveRunner)
        window = controller.adaptive.total.window
        assert (len(controller.costs), window.succeeded) == (0, 0)

        assert (await long.body(b"b").end()).status == 200
        assert (len(controller.costs), window.succeeded) == (1, 1)
        protected.check_idle()


async def test_an_upload_is_queued_again_when_more_of_it_arrives() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        long.body(b"b")
        await settle()
        queueset = protected.middleware.service.controller.levels["crowd"].shared.queueset
        assert (queueset.waiting, len(protected.received["/long"])) == (1, 1)

        other.body()
        for exchange in (other, long):
            assert (await exchange.end()).status == 200
        assert [message["body"] for message in protected.received["/long"]] == [LONG, b"b"]
        protected.check_idle()


async def test_an_upload_goes_on_with_the_call_that_began_while_it_waited_for_seats() -> None:
    """It makes one if a reload has enlarged the buffer meanwhile."""
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        protected.bodies.adopt(replace(protected.bodies.settings, buffer=1000), {})
        long.body(LONG, more=True)
        await settle()
        await other.body().end()
        await settle()
        assert (len(protected.received["/long"]), protected.expire_holds(), protected.seats_in_use) == (2, 1, 0)

        assert long.receive_calls == 3, "of which one waits"
        long.body(b"a", more=True)
        await settle()
        assert (len(protected.received["/long"]), protected.seats_in_use) == (2, 0), "a byte is no work"
        assert (await long.body(b"b").end()).status == 200
        assert [message["body"] for message in protected.received["/long"]] == [LONG, LONG, b"a", b"b"]
        protected.check_idle()


async def test_an_upload_may_wait_again_before_its_deadline() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        admission = long.scope["apf"]
        assert isinstance(admission, Admission)
        now = protected.middleware.service.now()
        admission.set_deadline(now + 3600 * 10**9, now - 1)  # the body has taken the time for the first wait
        other = await protected.start("/other", "bob")
        long.body(b"b")
        await settle()
        assert admission.is_waiting
        assert admission.deadline_ns == now + 3600 * 10**9

        other.body()
        for exchange in (other, long):
            assert (await exchange.end()).status == 200
        protected.check_idle()


async def test_a_slow_remainder_of_a_body_ends_the_request() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        protected.pass_time()
        await long.end()

        assert (long.status, problem(long)["reason"]) == (408, "slow-body")
        assert problem(long)["waited"] < 60, "it was seated at once, however busy the machine is"
        assert len(long.sent) == 2, "what the app sent afterwards isn't sent"
        assert [message["type"] for message in protected.received["/long"]] == ["http.request", "http.disconnect"]
        counters = protected.middleware.service.controller.levels["crowd"].schema_counters["everybody"]
        assert counters.rejected[Reason.SLOW_BODY] == 1
        protected.check_idle()


async def test_an_upload_that_gets_no_seats_again_is_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        text = (CONFIG % "").replace("spec: {shares", "spec: {waitLimit: 30ms, shares")
        protected.middleware = APFMiddleware(protected._app, load_text(text))
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        long.body(b"b")
        await long.end()

        assert (long.status, problem(long)["reason"]) == (429, "time-out")
        assert protected.received["/long"][-1]["type"] == "http.disconnect"
        assert (await other.body().end()).status == 200
        protected.check_idle()


@pytest.mark.parametrize("discipline", ["equal-serial", "max-min-serial", "max-min-concurrent"])
async def test_no_seats_linger_after_a_slow_body(discipline: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        text = (CONFIG % "").replace("  bodies:", f"  discipline: {discipline}\n  bodies:")
        lingers = "  level: crowd\n  estimate: {seats: 1, finalSeats: 1, linger: 1ms}\n"
        protected.middleware = APFMiddleware(protected._app, load_text(text.replace("  level: crowd\n", lingers)))
        long = await protected.start()
        assert protected.expire_holds() == 1
        assert protected.seats_in_use == 1, "seats that linger are kept"
        protected.pass_time()
        await long.end()

        assert (long.status, problem(long)["reason"]) == (408, "slow-body")
        assert (await protected.open("/other", "bob").body(b"hello").end()).status == 200
        await anyio.sleep(0.01)
        protected.middleware.service.controller.tick()
        queueset = protected.middleware.service.controller.levels["crowd"].shared.queueset
        assert [queue for queue in queueset.deck if queue.seats_in_use] == []
        protected.check_idle()


class KeepingUploadApp(HeldUploadApp):
    """An app whose requests keep their seats while they wait for more of a body, because they have passed a gate."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__(tasks)
        text = (CONFIG % "").replace("  bodies:", "  gates: [{name: db, capacity: 1}]\n  bodies:")
        text = text.replace("  level: crowd\n", "  level: crowd\n  gates: [db]\n")
        self.middleware = APFMiddleware(self._app, load_text(text))

    @property
    def places_taken(self) -> int:
        gates = self.middleware.service.controller.gates
        assert gates is not None
        return gates.scheduler.gates["db"].used("") or 0


async def test_the_rest_of_a_body_must_arrive_in_time_also_where_seats_are_kept() -> None:
    async with anyio.create_task_group() as tasks:
        protected = KeepingUploadApp(tasks)
        long = await protected.start()
        assert protected.expire_holds() == 1
        assert (protected.seats_in_use, protected.places_taken, protected.bodies.number) == (1, 1, 1)
        other = protected.open("/other", "bob").body(b"hello")
        long.body(b"a", more=True)
        await settle()
        assert len(protected.received["/long"]) == 1, "it is gathered"

        protected.pass_time()
        await long.end()
        assert (long.status, problem(long)["reason"]) == (408, "slow-body")
        assert [message["type"] for message in protected.received["/long"]] == ["http.request", "http.disconnect"]
        assert (await other.end()).status == 200
        assert protected.places_taken == 0
        protected.check_idle()


async def test_a_body_that_arrives_in_time_is_received_on_seats_that_are_kept() -> None:
    async with anyio.create_task_group() as tasks:
        protected = KeepingUploadApp(tasks)
        long = await protected.start_suspended()
        long.body(b"a", more=True)
        await settle()
        assert protected.expire_holds() == 0, "it is limited already"
        long.body(b"b")
        assert (await long.end()).status == 200
        assert [message["body"] for message in protected.received["/long"]] == [LONG, b"a", b"b"]
        assert protected.places_taken == 0
        protected.check_idle()


async def test_a_client_that_hangs_up_in_its_body_is_no_slow_one() -> None:
    async with anyio.create_task_group() as tasks:
        protected = KeepingUploadApp(tasks)
        long = await protected.start_suspended()
        long.disconnect()
        await long.end()
        assert [message["type"] for message in protected.received["/long"]] == ["http.request", "http.disconnect"]
        counters = protected.middleware.service.controller.levels["crowd"].schema_counters["everybody"]
        assert not counters.rejected[Reason.SLOW_BODY]
        assert protected.places_taken == 0
        protected.check_idle()


class HintingApp(HeldUploadApp):
    """An app that sends an early hint before it receives."""

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
        await super()._app(scope, receive, send)


async def test_an_early_hint_does_not_begin_the_response() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HintingApp(tasks)
        long = await protected.start()
        assert protected.expire_holds() == 1
        assert protected.seats_in_use == 0
        protected.pass_time()
        await long.end()

        assert (long.status, problem(long)["reason"]) == (408, "slow-body")
        protected.check_idle()


class PatientApp(HeldUploadApp):
    """An app that calls ``receive`` again after a test has cancelled a call."""

    calls: dict[str, anyio.CancelScope]

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = self.received[scope["path"]] = []
        while not received or received[-1].get("more_body"):
            with anyio.CancelScope() as self.calls[scope["path"]]:
                received.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


@pytest.mark.parametrize("while_it", ["waits for more", "waits for seats", "waits long for seats"])
async def test_an_app_that_cancels_a_call_and_calls_again_gets_all_with_seats(while_it: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = PatientApp(tasks)
        protected.calls = {}
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        if while_it != "waits for more":
            long.body(LONG, more=True)
            await (settle() if while_it == "waits for seats" else anyio.sleep(0.02))
        protected.calls["/long"].cancel()
        await settle()
        if while_it == "waits for more":
            assert protected.bodies.number == 1
            long.body(LONG, more=True)
            await settle()
        assert len(protected.received["/long"]) == 1, "there are no seats yet"
        await other.body().end()
        await settle()

        assert (len(protected.received["/long"]), protected.seats_in_use) == (2, 1)
        assert (await long.body(b"b").end()).status == 200
        assert [message["body"] for message in protected.received["/long"]] == [LONG, LONG, b"b"]
        protected.check_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_cancelled_at_the_instant_it_gets_seats_aborts_nothing() -> None:
    class TimedApp(HeldUploadApp):
        async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
            received = self.received[scope["path"]] = []
            while not received or received[-1].get("more_body"):
                self.call = asyncio.ensure_future(receive())
                with suppress(asyncio.CancelledError):
                    received.append(await self.call)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

    async with anyio.create_task_group() as tasks:
        protected = TimedApp(tasks)
        long = await protected.start()
        long_call = protected.call
        protected.expire_holds()
        other = await protected.start("/other", "bob")
        long.body(b"b")
        await settle()
        service = protected.middleware.service
        service.controller.release(other.scope["apf"])
        long_call.cancel()
        assert (await long.end()).status == (await other.body().end()).status == 200
        status = service.queues.status("crowd")
        assert (status.completed, status.aborted) == (4, 0), "each time it gave its seats back"
        protected.check_idle()


OWNER = """
---
{apiVersion: apf/v1, kind: PriorityLevel, metadata: {name: owner}, spec: {shares: 1000, minSeats: 0}}
"""


@pytest.mark.parametrize("opts_in", ["with seats", "without seats", "never"])
async def test_an_upload_that_has_seats_again_may_be_asked_for_them_if_it_allows_that(opts_in: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        text = (CONFIG % "").replace("seats: 1\n", "seats: 3\n").replace("shares: 1000", "shares: 1000, minSeats: 0")
        protected.middleware = APFMiddleware(protected._app, load_text(text + OWNER))
        controller = protected.middleware.service.controller
        long = await protected.start()
        upload = long.scope["apf"]
        if opts_in == "with seats":
            upload.revocable()
        protected.expire_holds()
        if opts_in == "without seats":
            upload.revocable()
        elif controller.reclaimer is not None:
            controller.reclaimer._forget()  # as a claim does
        long.body(LONG, more=True)
        await settle()
        others = [protected.open(f"/{number}").body(LONG, more=True) for number in range(2)]
        await settle()
        assert (protected.seats_in_use, upload.seats, upload.revoked.is_set()) == (3, 1, False)

        place = Classification("catch-all", "owner", "bob", 0)
        waits = Admission(controller.destination(place, Work()))
        controller.arrive(controller.now(), waits)
        assert upload.revoked.is_set() is (opts_in != "never")
        controller.leave(waits)
        for one in (long, *others):
            await one.body(b"b").end()
        protected.check_idle()


async def test_other_tasks_may_begin_watches_while_an_upload_has_no_seats() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        admission = long.scope["apf"]
        assert isinstance(admission, Admission)
        admission.watch("orders")
        assert (await long.body(b"b").end()).status == 200
        with pytest.raises(TicketStateError):
            admission.watch("orders")
        protected.check_idle()
        assert protected.middleware.service.controller.watches.total == 0


async def test_an_app_that_answers_without_seats_asks_for_none_in_its_response() -> None:
    calls: list[anyio.CancelScope] = []
    after: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/long":
            with anyio.CancelScope() as call:
                calls.append(call)
                await receive()
        else:
            await receive()
        await send({"type": "http.response.start", "status": 408, "headers": []})
        if scope["path"] == "/long":
            after.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"too slow"})
        after.append((await receive())["type"])

    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = protected.open("/long").body(LONG, more=True)
        await settle()
        protected.expire_holds()
        other = protected.open("/other", "bob").body(LONG, more=True)
        await settle()
        long.body(b"a", more=True).body(b"b")
        await settle()
        calls[0].cancel()
        assert (await long.end()).status == 408
        assert after == ["http.request", "http.disconnect"]
        assert protected.middleware.service.controller.levels["crowd"].dispatched == 2
        other.body().disconnect()
        await other.end()
        protected.check_idle()


async def test_a_request_that_fails_without_seats_and_gets_them_again_is_counted_soundly() -> None:
    fails, ends = anyio.Event(), anyio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        async def fail() -> None:
            await fails.wait()
            await send({"type": "http.response.start", "status": 500, "headers": []})

        await receive()
        async with anyio.create_task_group() as own:
            own.start_soon(fail)
            await receive()
            await ends.wait()
        await send({"type": "http.response.body", "body": b"failed"})

    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        queues = protected.middleware.service.queues
        upload = protected.open("/long").body(LONG, more=True)
        await settle()
        protected.expire_holds()
        fails.set()
        await settle()
        upload.body(LONG)
        await settle()
        status = queues.status("crowd")
        assert (status.running, status.completed, status.failed) == (1, 1, 0), "it has given seats back once"
        ends.set()
        assert (await upload.end()).status == 500
        status = queues.status("crowd")
        assert (status.running, status.completed, status.failed) == (0, 2, 0)
        protected.check_idle()


async def test_the_app_receives_the_disconnect_of_its_client() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        long.body(b"a", more=True)
        long.disconnect()
        await long.end()

        assert [message["type"] for message in protected.received["/long"]] == ["http.request"] * 2 + [
            "http.disconnect"
        ]
        protected.check_idle()


async def test_a_task_cancelled_while_it_waits_frees_everything() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        for is_held_up in (True, False):
            long = await protected.start()
            assert not is_held_up or protected.expire_holds()
            long.cancel_scope.cancel()
            await long.end()
            protected.check_idle()


async def test_a_running_upload_may_finish_when_the_server_stops() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        protected.middleware.service.controller.close()
        await settle()
        assert protected.bodies.number == 1
        assert (await long.body(b"b").end()).status == 200
        protected.check_idle()


@pytest.mark.parametrize("mode", ["drain", "shed"])
async def test_a_running_upload_may_finish_when_its_queue_is_closed(mode: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        protected.middleware.service.queues.operate("crowd", "close", mode=mode)
        assert (await protected.open("/other", "bob").body(b"hello").end()).status == 503
        assert (await long.body(b"b").end()).status == 200
        protected.check_idle()


async def test_a_running_upload_may_finish_when_a_reload_has_removed_its_level() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        service = protected.middleware.service
        long = await protected.start_suspended()
        service.adopt(service.prepare(load_text((CONFIG % "").replace("crowd", "others"))))
        other = protected.open("/other", "bob").body(LONG, more=True)
        await settle()
        assert (await long.body(b"b").end()).status == 200, "it runs although the only seat is in use"
        assert (await other.body().end()).status == 200
        assert service.controller.levels["others"].shared.queueset.is_idle
        protected.bodies.check()


async def test_100_continue_is_sent_when_the_request_has_seats() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        other = await protected.start("/other", "bob")
        expecting = protected.open("/expecting", headers=EXPECTING)
        await settle()
        assert (expecting.receive_calls, protected.bodies.number) == (0, 0)

        other.body()
        await other.end()
        await settle()
        assert (expecting.receive_calls, protected.seats_in_use) == (1, 1)
        assert protected.expire_holds() == 1
        assert (protected.seats_in_use, protected.bodies.number) == (0, 1)
        assert (await expecting.body(b"hello").end()).status == 200
        protected.check_idle()


async def test_a_request_whose_response_begins_while_its_app_waits_for_more_keeps_its_seats() -> None:
    async with anyio.create_task_group() as tasks:

        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            tasks.start_soon(answer, send)
            await receive()
            await send({"type": "http.response.body", "body": b"done"})

        async def answer(send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": True})

        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = protected.open("/").body(LONG, more=True)
        await settle()
        assert (long.status, protected.expire_holds()) == (200, 1)
        assert (protected.seats_in_use, protected.bodies.number) == (1, 0)
        protected.pass_time()
        await settle()
        assert (await long.body().end()).sent[-1]["body"] == b"done"
        protected.check_idle()


async def test_a_request_that_ends_without_seats_gets_no_error_after_the_beginning_of_its_response() -> None:
    async with anyio.create_task_group() as tasks:
        begins, ends = anyio.Event(), anyio.Event()

        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            tasks.start_soon(answer, send)
            await receive()
            assert (await receive())["type"] == "http.disconnect"
            await send({"type": "http.response.body", "body": b"too late"})
            ends.set()

        async def answer(send: Send) -> None:
            await begins.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = protected.open("/").body(LONG, more=True)
        await settle()
        assert protected.expire_holds() == 1
        begins.set()
        await settle()
        protected.pass_time()
        await long.end()
        assert ends.is_set()
        assert [message["type"] for message in long.sent] == ["http.response.start"]
        protected.check_idle()


@pytest.mark.parametrize("becomes", ["from the start", "by a reload while it arrives"])
async def test_exempt_uploads_are_not_limited(becomes: str) -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        service = protected.middleware.service
        exempt = load_text((CONFIG % "").replace("level: crowd", "level: exempt"))
        if becomes == "from the start":
            service.adopt(service.prepare(exempt))
        long = protected.open("/long").body(b"a", more=True)
        await settle()
        service.adopt(service.prepare(exempt))
        long.body(LONG, more=True)
        await settle()
        assert len(protected.received["/long"]) == 2
        assert (protected.expire_holds(), protected.bodies.number) == (0, 0)
        assert (await long.body(b"b").end()).status == 200
        protected.bodies.check()


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_an_upload_without_seats_goes_on_at_once_when_requests_are_no_longer_limited(mode: Mode) -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        protected.middleware.service.switch(mode)
        assert (await long.body(b"b").end()).status == 200
        assert protected.seats_in_use == 1
        await other.body().end()
        protected.check_idle()


async def test_an_app_whose_upload_was_ended_gets_the_disconnect_each_time() -> None:
    received: list[str] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        received.extend([(await receive())["type"] for _ in range(4)])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = protected.open("/").body(LONG, more=True)
        await settle()
        protected.expire_holds()
        protected.pass_time()
        assert (await long.end()).status == 408
        assert received == ["http.request", "http.disconnect", "http.disconnect", "http.disconnect"]
        protected.check_idle()


async def test_a_request_whose_response_has_begun_keeps_its_seats() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        await send({"type": "http.response.body", "body": b""})

    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = Exchange(protected.middleware, http_scope("/", "POST", CHUNKED), tasks).body(LONG, more=True).start()
        await settle()
        assert (protected.expire_holds(), protected.seats_in_use) == (0, 1)
        await long.body().end()
        protected.check_idle()


async def test_all_parts_that_have_arrived_are_passed_on_at_once() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = protected.open("/long").body(LONG[:60], more=True).body(LONG[:60], more=True)
        await settle()
        assert len(protected.received["/long"]) == 2
        await long.body().end()
        protected.check_idle()


async def test_a_part_that_arrives_soon_is_passed_on_while_the_seats_are_kept() -> None:
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        long = await protected.start()
        for _ in range(3):
            long.body(b"more", more=True)
            await settle()
        assert (len(protected.received["/long"]), protected.seats_in_use) == (4, 1)
        await long.body().end()
        assert protected.middleware.service.controller.levels["crowd"].dispatched == 1
        protected.check_idle()


@pytest.mark.parametrize("waits_for", ["more", "seats"])
async def test_a_task_that_an_app_leaves_behind_gets_no_seats(waits_for: str) -> None:
    async with anyio.create_task_group() as tasks:
        ends = anyio.Event()

        async def receive_more(receive: Receive) -> None:
            await receive()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            if scope["path"] == "/other":
                await receive()
            else:
                tasks.start_soon(receive_more, receive)
                await ends.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        protected = HeldUploadApp(tasks)
        protected.middleware = APFMiddleware(app, load_text(CONFIG % ""))
        long = protected.open("/long").body(LONG, more=True)
        await settle()
        assert protected.expire_holds() == 1
        other = protected.open("/other", "bob").body(LONG, more=True)
        await settle()
        if waits_for == "seats":
            long.body(LONG)
            await settle()
        ends.set()
        await long.end()
        long.body(LONG)
        await other.body().end()
        await settle()
        protected.check_idle()


@pytest.mark.parametrize("goes_on", [True, False])
async def test_an_upload_without_seats_keeps_the_counters_of_its_schema(goes_on: bool) -> None:  # noqa: FBT001
    async with anyio.create_task_group() as tasks:
        protected = HeldUploadApp(tasks)
        controller = protected.middleware.service.controller
        crowd = controller.levels["crowd"]
        long = await protected.start_suspended()
        other = await protected.start("/other", "bob")
        protected.expire_holds()
        await other.body().end()
        controller.reconfigure(load_text((CONFIG % "").replace("everybody", "others")))
        controller.tick()
        assert crowd.schema_counters["everybody"].arrived == 3

        if goes_on:
            long.body(LONG, more=True)
            await settle()
            assert protected.seats_in_use == 1
            await long.body().end()
            assert crowd.schema_counters["everybody"].executions.count == 4
        else:
            long.cancel_scope.cancel()
            await long.end()
        controller.tick()

        assert "everybody" not in crowd.schema_counters
        protected.check_idle()
