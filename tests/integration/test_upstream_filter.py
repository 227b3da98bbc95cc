"""The tests of Kubernetes' own filter, for a middleware: seats and responses, whatever an app or a time-out does.

Where Kubernetes has a watch there is a stream here that has given its seats back; where it has a panic, an exception;
where its time-out filter answers in place of a handler, a middleware outside of ours that calls the app away.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.asgi.service import Service
from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.config import Configuration
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, configuration, problem, settle

pytestmark = pytest.mark.anyio

LEVELS = [{"response": "Reject"}, {"queues": 1, "length": 10}]
UIDS = ", responses: {dialect: kubernetes}"
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

both_kinds_of_level = pytest.mark.parametrize("level", LEVELS, ids=["reject", "queue"])


def number_of(service: Service, what: str) -> int:
    [counters] = [one.counters for one in service.reading().schemas if one.schema == "everybody"]
    return int(getattr(counters, what))


class Timeout:
    """Time-out middleware: answers 504 in place of an app that takes too long, and refuses what it sends afterwards.

    How long that is, the test says.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._limits: list[anyio.CancelScope] = []
        self.late: list[Message] = []

    async def expire(self) -> None:
        """As if the time of all requests were over, when none of them can go on."""
        await settle()
        for limit in self._limits:
            limit.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if limit.cancel_called:
                self.late.append(message)
                raise ConnectionError("it is too late")
            begun = True
            await send(message)

        with anyio.CancelScope() as limit:
            self._limits.append(limit)
            await self._app(scope, receive, guarded)
        if limit.cancelled_caught:
            if begun:
                raise ConnectionResetError("the response can't be completed")
            await send({"type": "http.response.start", "status": 504, "headers": []})
            await send({"type": "http.response.body"})


class Guarded:
    """Handlers by path, behind a level with one seat and a time-out."""

    def __init__(self, tasks: anyio.abc.TaskGroup, level: dict[str, Any], **handlers: Handler) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            name = scope["path"].strip("/")
            self.started.append(name)
            await handlers.get(name, answer)(scope, receive, send)

        self.tasks = tasks
        self.started: list[str] = []
        self.middleware = APFMiddleware(app, configuration(server=UIDS, **level))
        self.app = Timeout(self.middleware)

    def request(self, path: str) -> Exchange:
        return Exchange(self.app, http_scope(f"/{path}"), self.tasks).body().start()

    async def check_that_the_seat_is_free(self) -> None:
        """Check that the next request is served, with the UIDs of its schema and level."""
        served = await self.request("next").end()
        assert served.status == 200
        assert len(served.headers["x-kubernetes-pf-flowschema-uid"]) == 36
        assert len(served.headers["x-kubernetes-pf-prioritylevel-uid"]) == 36
        assert number_of(self.middleware.service, "executing") == number_of(self.middleware.service, "waiting") == 0


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine"})


async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise LookupError("the handler")


async def hang(_scope: Scope, _receive: Receive, _send: Send) -> None:
    await anyio.sleep_forever()


async def test_an_exempt_request_is_served_while_all_seats_are_taken() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        probe = await protected.request("/health").end()

        assert (probe.status, probe.headers["x-apf-priority-level"]) == (200, "exempt")
        protected.finish()
        await holder.end()


async def test_dumps_show_five_running_and_five_waiting_requests_until_they_end() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=5, length=5, queues=1))
        service = protected.middleware.service
        for number in range(5):
            await protected.holder(f"/{number}")
        others = [protected.request(f"/other-{number}") for number in range(5)]
        await settle()
        assert (number_of(service, "executing"), number_of(service, "waiting")) == (5, 5)
        for number in range(5):
            protected.finish(f"/{number}")
        for other in others:
            assert (await other.end()).status == 200

        assert (number_of(service, "executing"), number_of(service, "waiting")) == (0, 0)
        assert protected.is_idle()


async def test_streams_hold_their_seats_until_they_have_begun() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, configuration(seats=5, response="Reject"))
        service = protected.middleware.service
        streams = [await protected.holder(f"/{number}") for number in range(5)]
        assert number_of(service, "executing") == 5
        assert (await protected.request("/refused").end()).status == 429
        for stream in streams:
            stream.scope["apf"].release()
        assert number_of(service, "executing") == 0
        more = [await protected.holder(f"/more-{number}") for number in range(5)]

        assert number_of(service, "executing") == 5
        assert not any(stream.ended.is_set() for stream in streams)
        for stream in [*streams, *more]:
            protected.finish(stream.scope["path"])
            assert (await stream.end()).status == 200
        assert protected.is_idle()


async def test_an_error_of_a_stream_that_has_begun_passes_through_and_frees_nothing_twice() -> None:
    async def stream(scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        scope["apf"].release()
        raise LookupError("the stream")

    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, {"response": "Reject"}, stream=stream)
        broken = await guarded.request("stream").end()

        assert isinstance(broken.error, LookupError)
        guarded.middleware.service.controller.sharing.check()
        await guarded.check_that_the_seat_is_free()


def costs(digest: RequestDigest, _classification: Classification) -> int:
    """Raise for one path; otherwise return the number that the path contains."""
    if digest.path == "/broken":
        raise LookupError("the estimate")
    return int(digest.path.strip("/"))


async def test_an_error_before_a_request_is_queued_passes_through_and_costs_no_seat() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, estimated())
        broken = await protected.request("/broken").end()

        assert isinstance(broken.error, LookupError)
        assert broken.sent == []
        assert protected.started == []
        assert protected.is_idle()


async def test_a_request_holds_its_estimated_seats() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks, estimated())
        holder = await protected.holder("/7")
        admission = holder.scope["apf"]

        assert (admission.work.seats, admission.width, admission.seats) == (7, 7, 7)
        protected.finish("/7")
        await holder.end()
        assert admission.seats == 0
        admission.release()  # what is over stays over
        assert protected.is_idle()


def estimated() -> Configuration:
    estimator = json.dumps({"source": "callable", "callable": f"{__name__}:costs"})
    return configuration(seats=100, server=f", estimation: {{default: {estimator}, cap: false}}")


@both_kinds_of_level
async def test_after_a_handler_has_failed_the_next_request_is_served(level: dict[str, Any]) -> None:
    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, level, fail=fail)
        assert isinstance((await guarded.request("fail").end()).error, LookupError)

        await guarded.check_that_the_seat_is_free()


@both_kinds_of_level
async def test_a_revoked_handler_releases_its_seat(level: dict[str, Any]) -> None:
    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, level, hang=hang)
        hanging = guarded.request("hang")
        await guarded.app.expire()
        assert (await hanging.end()).status == 504

        await guarded.check_that_the_seat_is_free()


@both_kinds_of_level
@pytest.mark.parametrize("ends", ["fails", "writes"])
async def test_calls_after_a_revocation_have_no_effect(level: dict[str, Any], ends: str) -> None:
    async def cling(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await settle()
                assert number_of(guarded.middleware.service, "executing") == 1, "who runs has its seat"
            if ends == "fails":
                raise LookupError("after its time")
            with anyio.CancelScope(shield=True):
                await answer(scope, receive, send)

    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, level, cling=cling)
        late = guarded.request("cling")
        await guarded.app.expire()
        await late.end()

        assert isinstance(late.error, LookupError if ends == "fails" else ConnectionError)
        assert len(guarded.app.late) == (ends == "writes")
        assert late.sent == []
        await guarded.check_that_the_seat_is_free()


@both_kinds_of_level
async def test_an_error_after_the_response_began_is_raised_to_the_server(level: dict[str, Any]) -> None:
    async def begin(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, level, begin=begin)
        cut = guarded.request("begin")
        await guarded.app.expire()
        await cut.end()

        assert isinstance(cut.error, ConnectionResetError)
        assert len(cut.headers["x-kubernetes-pf-flowschema-uid"]) == 36
        await guarded.check_that_the_seat_is_free()


@both_kinds_of_level
async def test_after_a_deadline_a_waiting_request_never_runs(level: dict[str, Any]) -> None:
    async with anyio.create_task_group() as tasks:
        guarded = Guarded(tasks, {**level, "wait": "10ms"}, first=hang, second=hang)
        first = guarded.request("first")
        await settle()
        second = await guarded.request("second").end()
        await guarded.app.expire()
        await first.end()

        assert first.status == 504
        reason = "time-out" if "queues" in level else "concurrency-limit"
        assert (second.status, problem(second)["reason"]) == (429, reason)
        assert len(second.headers["x-kubernetes-pf-flowschema-uid"]) == 36
        assert guarded.started == ["first"]
        await guarded.check_that_the_seat_is_free()


async def test_a_request_that_ends_before_it_arrives_takes_no_place() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        over = protected.open("/over").body()
        over.cancel_scope.cancel()
        await over.start().end()

        assert (over.sent, protected.waiting) == ([], 0)
        protected.finish()
        await holder.end()
        assert "/over" not in protected.started
        assert protected.is_idle()
