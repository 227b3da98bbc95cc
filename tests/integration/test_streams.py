"""Streams: when they release their seats, when they are refused, and what they watch."""

from collections.abc import Coroutine, Generator
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.classification import Resource
from apf_middleware.config import Configuration, load_text
from apf_middleware.estimation import ObjectStats
from apf_middleware.mode import Mode
from apf_middleware.runtime import Controller, DrainMeter, OpenStreams
from tests.support.asgi_exchange import Exchange, http_scope, websocket_scope
from tests.support.protected_app import problem, settle

pytestmark = pytest.mark.anyio

EVENTS = "text/event-stream"
PODS = Resource("pods", namespace="shop")


def configuration(
    streams: str = "{}", *, seats: int = 2, server: str = "", queues: int = 2, wait: str = "50ms"
) -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, responses: {{headers: all}}{server}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  waitLimit: {wait}
  queuing: {{queues: {queues}, handSize: 1, queueLengthLimit: 5}}
  streams: {streams}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: everybody}}
spec:
  level: crowd
  distinguisher: {{source: header, name: X-User}}
  rules:
  - httpRules: [{{}}]
  - resourceRules: [{{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}}]
"""
    )


class StreamingApp:
    """An app whose responses have the media type that the query names, and last until a test ends them."""

    def __init__(self, tasks: TaskGroup, config: Configuration | None = None) -> None:
        self.tasks = tasks
        self.middleware = APFMiddleware(self._app, config or configuration())
        self.may_finish: dict[str, anyio.Event] = {}
        self.released: dict[str, bool] = {}

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        path, kind = scope["path"], scope["query_string"].decode()
        if path == "/by-hand":
            self.released[path] = scope["apf"].release()
        if path == "/watcher":
            scope["apf"].watch("pods", "shop")
        headers = [(b"content-type", kind.replace("watch=true", "").encode())] if kind else []
        await send({"type": "http.response.start", "status": 200, "headers": iter(headers)})
        event = self.may_finish[path] = anyio.Event()
        await event.wait()
        if path == "/boom":
            raise LookupError(path)
        await send({"type": "http.response.body", "body": b"x"})

    @property
    def controller(self) -> Controller:
        return self.middleware.service.controller

    @property
    def streams(self) -> OpenStreams:
        return self.controller.levels["crowd"].streams

    @property
    def seats(self) -> int:
        """Return the number of seats in use."""
        level = self.controller.levels["crowd"]
        level.look(self.controller.now())
        return level.shared.queueset.seats_in_use

    async def request(self, path: str, user: str = "alice", **headers: str) -> Exchange:
        given = {"X-User": user} | {name.replace("_", "-"): value for name, value in headers.items()}
        exchange = Exchange(self.middleware, http_scope(path, headers=given), self.tasks).body().start()
        await settle()
        return exchange

    async def socket(self, path: str = "/socket", user: str = "alice") -> Exchange:
        scope = websocket_scope(path)
        scope["headers"] = [(b"x-user", user.encode())]
        exchange = Exchange(self.middleware, scope, self.tasks)
        exchange.deliver({"type": "websocket.connect"})
        exchange.start()
        await settle()
        return exchange

    async def finish(self, *exchanges: Exchange) -> None:
        for exchange in exchanges:
            if exchange.scope["type"] == "websocket":
                exchange.deliver({"type": "websocket.disconnect", "code": 1000})
            elif exchange.scope["path"] in self.may_finish:
                self.may_finish[exchange.scope["path"]].set()
            await exchange.end()
        assert self.seats == 0
        assert self.streams.open == 0
        assert self.controller.watches.total == 0
        self.streams.check()


@pytest.mark.parametrize(
    ("kind", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream;charset=utf-8", True),
        ("text/event-stream ; charset=utf-8", True),
        ("text/event-streams", False),
        ("text/html", False),
        ("text/e", False),
        ("application/json", False),
        ("", False),
    ],
)
async def test_event_streams_release_their_seats_when_the_response_starts(kind: str, is_stream: bool) -> None:  # noqa: FBT001
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks)
        stream = await streaming.request(f"/a?{kind}")
        assert stream.status == 200
        assert (streaming.seats, streaming.streams.open) == ((0, 1) if is_stream else (1, 0))
        assert stream.headers["x-apf-priority-level"] == "crowd"
        await streaming.finish(stream)
        counters = streaming.controller.levels["crowd"].schema_counters["everybody"]
        assert (counters.streams.count, counters.executions.count) == ((1, 0) if is_stream else (0, 1))


@pytest.mark.parametrize(
    ("streams", "server"), [("{releaseAtStart: false}", ""), ("{}", ", streams: {releaseAtStart: false}")]
)
async def test_releasing_seats_can_be_disabled_by_level_or_for_all(streams: str, server: str) -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration(streams, server=server))
        stream, socket = await streaming.request(f"/a?{EVENTS}"), await streaming.socket()
        assert (streaming.seats, streaming.streams.open) == (2, 0)
        await streaming.finish(stream, socket)


async def test_a_hundred_streams_do_not_delay_requests() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks)
        streams = [await streaming.request(f"/{number}?{EVENTS}", user=f"u{number}") for number in range(100)]
        sockets = [await streaming.socket(f"/s{number}") for number in range(10)]
        assert streaming.streams.open == 110
        plain = await streaming.request("/plain")
        assert plain.status == 200
        streaming.may_finish["/plain"].set()
        await plain.end()
        await streaming.finish(*streams, *sockets)


async def test_event_stream_requests_count_on_arrival_and_are_limited() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 2, maxOpenPerFlow: 1}"))
        first = await streaming.request(f"/1?{EVENTS}", accept="Text/Event-Stream")
        own = await streaming.request(f"/2?{EVENTS}", accept="text/html, Text/Event-Stream;q=0.9")
        second = await streaming.request(f"/3?{EVENTS}", user="bob", accept=EVENTS)
        third = await streaming.request(f"/4?{EVENTS}", user="carol", accept=EVENTS)

        assert [one.status for one in (first, own, second, third)] == [200, 429, 200, 429]
        details = problem(own)
        assert (details["reason"], details["type"]) == ("stream-limit", "urn:apf:stream-limit")
        assert 1 <= int(own.headers["retry-after"]) <= 60
        counters = streaming.controller.levels["crowd"].schema_counters["everybody"]
        assert {reason.value: n for reason, n in counters.rejected.items() if n} == {"stream-limit": 2}
        plain = await streaming.request("/5?text/html", user="alice", accept=f"text/html, {EVENTS};q=0")
        assert plain.status == 200, "only streams are limited"
        streaming.may_finish["/5"].set()
        await streaming.finish(first, second, plain)
        again = await streaming.request(f"/6?{EVENTS}", accept=EVENTS)
        assert again.status == 200
        await streaming.finish(again)


async def test_a_websocket_beyond_the_limit_is_rejected_before_it_is_accepted() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 1}"))
        first, second = await streaming.socket("/1"), await streaming.socket("/2")

        assert [one["type"] for one in first.sent] == ["websocket.accept"]
        assert [(one["type"], one["code"]) for one in second.sent] == [("websocket.close", 1013)]
        assert "apf" not in second.scope
        await streaming.finish(first)


async def test_a_request_that_is_no_stream_releases_its_stream_slot() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 1}"))
        plain = await streaming.request("/1?application/json", accept=f"application/json, {EVENTS}")
        bare = await streaming.request("/2", accept=EVENTS)
        assert (streaming.seats, streaming.streams.open) == (2, 0)
        streaming.may_finish["/1"].set()
        await plain.end()
        stream = await streaming.request(f"/3?{EVENTS}", accept=EVENTS)
        assert stream.status == 200
        streaming.may_finish["/2"].set()
        await bare.end()
        await streaming.finish(stream)


@pytest.mark.parametrize("mode", ["on", "observe"])
async def test_a_denied_websocket_releases_its_stream_slot(mode: Mode) -> None:
    denied = anyio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.http.response.start", "status": 403, "headers": []})
        await denied.wait()
        await send({"type": "websocket.http.response.body", "body": b"no"})

    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 1}"))
        streaming.middleware = APFMiddleware(app, configuration("{maxOpen: 1}"))
        streaming.middleware.service.switch(mode)
        socket = await streaming.socket()
        assert (streaming.seats, streaming.streams.open) == (1, 0)
        denied.set()
        await streaming.finish(socket)


async def test_an_undeclared_stream_beyond_the_limit_keeps_its_seat() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 1}"))
        first = await streaming.request(f"/1?{EVENTS}")
        second = await streaming.request(f"/2?{EVENTS}")
        assert (first.status, second.status) == (200, 200)
        assert (streaming.seats, streaming.streams.open) == (1, 1)
        by_hand = await streaming.request("/by-hand?text/html")
        assert streaming.released == {"/by-hand": False}
        assert streaming.seats == 2
        streaming.may_finish["/2"].set()
        streaming.may_finish["/by-hand"].set()
        await second.end()
        await by_hand.end()
        await streaming.finish(first)


async def test_a_permit_is_released_on_every_path() -> None:
    """After another rejection, a disconnect or cancellation in the queue, a cancelled handler, and an error."""
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 9}", seats=1, queues=1, wait="1h"))
        holder = await streaming.request("/holder")
        gone = await streaming.request(f"/2?{EVENTS}", accept=EVENTS)
        cancelled = await streaming.request(f"/3?{EVENTS}", accept=EVENTS)
        left = await streaming.socket()
        assert streaming.streams.open == 3
        cancelled.cancel_scope.cancel()
        await cancelled.end()
        assert streaming.streams.open == 2
        gone.disconnect()
        await gone.end()
        assert streaming.streams.open == 1
        left.deliver({"type": "websocket.disconnect", "code": 1001})
        await left.end()
        streaming.controller.levels["crowd"].wait_limit_ns = 10**6
        timed_out = await streaming.request(f"/1?{EVENTS}", accept=EVENTS)
        socket = await streaming.socket()
        await timed_out.end()
        await socket.end()
        assert problem(timed_out)["reason"] == "time-out"
        assert streaming.streams.open == 0
        streaming.may_finish["/holder"].set()
        await holder.end()
        boom, running = (
            await streaming.request(f"/boom?{EVENTS}"),
            await streaming.request(f"/4?{EVENTS}", accept=EVENTS),
        )
        assert streaming.streams.open == 2
        running.cancel_scope.cancel()
        await running.end()
        await streaming.finish(boom)
        assert isinstance(boom.error, LookupError)


async def test_a_rejected_request_leaves_the_queue_before_its_response() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 1}", seats=1))
        holder = await streaming.request("/holder")
        slow = Reader(streaming.middleware, tasks, "/slow")
        with anyio.fail_after(60):
            await slow.sending.wait()
        assert not slow.ended.is_set()
        assert streaming.streams.open == 0
        slow.reads.set()
        await streaming.finish(holder)


async def test_a_stream_whose_level_is_removed_is_counted_until_it_ends() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpen: 3}"))
        service = streaming.middleware.service
        stream = await streaming.request(f"/1?{EVENTS}", accept=EVENTS)
        service.adopt(service.prepare(load_text("apiVersion: apf/v1\nkind: Server\nspec: {defaults: none}")))
        assert service.reading().open_streams == {"catch-all": 0, "exempt": 0, "crowd": 1}
        service.adopt(service.prepare(configuration("{maxOpen: 1}")))
        refused = await streaming.request(f"/2?{EVENTS}", accept=EVENTS)
        assert refused.status == 429
        await streaming.finish(stream)


class Service:
    """A level whose configuration goes and comes while requests wait until ``may_go`` is set."""

    def __init__(self, streams: str) -> None:
        self.configured = configuration(streams, seats=1, wait="1h")
        self.middleware = APFMiddleware(self._app, self.configured)
        self.may_go = anyio.Event()

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await self.may_go.wait()
        if scope["path"] == "/stream":
            scope["apf"].release()
            await anyio.sleep_forever()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def remove_level(self) -> None:
        self._adopt(load_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 1, defaults: none}"))

    def add_level(self) -> None:
        self._adopt(self.configured)

    def _adopt(self, configured: Configuration) -> None:
        service = self.middleware.service
        service.adopt(service.prepare(configured))


async def test_a_request_that_becomes_a_stream_when_its_level_is_removed_counts_when_that_is_back() -> None:
    async with anyio.create_task_group() as tasks:
        service = Service("{maxOpen: 1}")
        Exchange(service.middleware, http_scope("/stream"), tasks).body().start()
        await settle()
        service.remove_level()
        service.may_go.set()
        await settle()
        service.add_level()
        assert service.middleware.service.reading().open_streams["crowd"] == 1
        tasks.cancel_scope.cancel()


async def test_nothing_is_left_of_requests_that_waited_while_their_level_went_and_came_back() -> None:
    async with anyio.create_task_group() as tasks:
        service = Service("{releaseWhenBlocked: 1h}")
        exchanges = [Exchange(service.middleware, http_scope(f"/{path}"), tasks).body().start() for path in range(3)]
        await settle()
        service.remove_level()
        service.add_level()
        service.may_go.set()
        for one in exchanges:
            await one.end()
        sends = service.middleware.service.controller.levels["crowd"].streams.sends
        assert not sends.senders


async def test_nothing_is_kept_of_a_removed_level_that_has_drained() -> None:
    async with anyio.create_task_group() as tasks:
        service = Service("{}")
        exchange = Exchange(service.middleware, http_scope("/1"), tasks).body().start()
        await settle()
        service.remove_level()
        service.may_go.set()
        await exchange.end()
        registry = service.middleware.service.controller.registry
        assert registry.streams.counts({"crowd"}) == {"crowd": 0}
        service.middleware.service.reading()
        assert not registry.streams.counts({"crowd"})


class Reader:
    """A client that doesn't read before ``reads`` is set; until then, sends are blocked after ``room`` messages."""

    def __init__(self, middleware: ASGIApp, tasks: TaskGroup, path: str = "/download", room: int = 1) -> None:
        self.middleware = middleware
        self.scope = http_scope(path, headers={"Accept": EVENTS})
        self.room = room
        self.sending = anyio.Event()
        self.reads = anyio.Event()
        self.ended = anyio.Event()
        self.messages: list[Message] = []
        tasks.start_soon(self._run)

    async def _run(self) -> None:
        async def receive() -> Message:
            await anyio.sleep_forever()
            raise AssertionError

        await self.middleware(self.scope, receive, self._send)
        self.ended.set()

    async def _send(self, message: Message) -> None:
        self.sending.set()
        if len(self.messages) >= self.room:
            await self.reads.wait()
        self.messages.append(message)


async def _download(scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["path"] == "/download":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        await send({"type": "http.response.body", "body": b"2"})


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_client_that_does_not_read_loses_its_seat(is_on: bool) -> None:  # noqa: FBT001
    async with anyio.create_task_group() as tasks:
        config = configuration("{releaseWhenBlocked: 20ms}", seats=1, wait="1h") if is_on else configuration(seats=1)
        middleware = APFMiddleware(_download, config)
        reader = Reader(middleware, tasks)
        await settle()
        other = Exchange(middleware, http_scope("/other"), tasks).body().start()
        await other.end()
        streams = middleware.service.controller.levels["crowd"].streams

        assert (other.status, streams.open) == ((None, 1) if is_on else (429, 0))
        reader.reads.set()
        with anyio.fail_after(60):
            await reader.ended.wait()
        assert [message.get("body") for message in reader.messages] == [None, b"1", b"2"]
        assert streams.open == 0


async def test_nothing_is_learned_from_the_time_of_a_client_that_does_not_read() -> None:
    async with anyio.create_task_group() as tasks:
        learning = ", estimation: {default: {source: learned}}"
        config = configuration("{releaseWhenBlocked: 20ms}", seats=1, wait="1h", server=learning)
        middleware = APFMiddleware(_download, config)
        costs = middleware.service.controller.costs
        reader = Reader(middleware, tasks)
        await settle()
        await Exchange(middleware, http_scope("/other"), tasks).body().start().end()
        assert len(costs) == 1, "the other route"

        reader.reads.set()
        with anyio.fail_after(60):
            await reader.ended.wait()
        assert len(costs) == 1
        with_room = Reader(middleware, tasks, room=9)
        with anyio.fail_after(60):
            await with_room.ended.wait()
        assert len(costs) == 2


class _Sending:
    """What some servers and compiled middlewares return, which isn't a coroutine of Python code."""

    def __init__(self, call: Coroutine[Any, Any, None]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, None, None]:
        return self._call.__await__()


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.parametrize("room", [0, 1, 2])
async def test_any_message_may_wait_for_the_client(room: int, is_coroutine: bool) -> None:  # noqa: FBT001
    """What blocks may be the start or the end of a response, behind data that the client hasn't read."""
    async with anyio.create_task_group() as tasks:
        middleware = APFMiddleware(_download, configuration("{releaseWhenBlocked: 20ms}", seats=1, wait="1h"))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await middleware(scope, receive, send if is_coroutine else lambda message: _Sending(send(message)))  # type: ignore[arg-type]

        reader = Reader(app, tasks, room=room)
        await settle()
        other = Exchange(middleware, http_scope("/other"), tasks).body().start()
        await other.end()

        assert other.status is None
        assert not reader.ended.is_set()
        reader.reads.set()
        with anyio.fail_after(60):
            await reader.ended.wait()


async def test_a_websocket_that_keeps_its_seat_loses_it_while_its_client_does_not_read() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": "news"})

    reads = anyio.Event()

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        if message["type"] == "websocket.send":
            await reads.wait()

    streams = "{releaseWhenBlocked: 20ms, releaseAtStart: false}"
    middleware = APFMiddleware(app, configuration(streams, seats=1, wait="1h"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(middleware, websocket_scope("/news"), receive, send)
        await settle()
        other = Exchange(middleware, http_scope("/other"), tasks).body().start()
        await other.end()

        assert other.status is None
        reads.set()


async def test_a_blocked_message_is_noticed_while_the_app_sends_others_in_other_tasks() -> None:
    async with anyio.create_task_group() as tasks:

        async def tick(send: Send) -> None:
            await send({"type": "http.response.body", "body": b".", "more_body": True})

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            if scope["path"] == "/ticks":
                while True:
                    tasks.start_soon(tick, send)
                    await anyio.sleep(0.001)

        middleware = APFMiddleware(app, configuration("{releaseWhenBlocked: 20ms}", seats=1, wait="1h"))
        Reader(middleware, tasks, path="/ticks", room=0)
        await settle()
        other = Exchange(middleware, http_scope("/other"), tasks).body().start()
        with anyio.fail_after(60):
            await other.end()
        tasks.cancel_scope.cancel()


async def test_a_failed_write_is_not_in_progress() -> None:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise OSError

    async def receive() -> Message:
        raise AssertionError

    middleware = APFMiddleware(_download, configuration("{releaseWhenBlocked: 1h}"))
    with pytest.raises(OSError):  # noqa: PT011 - its type is all
        await middleware(http_scope("/download"), receive, send)

    sends = middleware.service.controller.levels["crowd"].streams.sends
    assert repr(sends).startswith("<BlockedSends of 0 senders,")


KUBERNETES = ", resolver: kubernetes, estimation: {cap: false, default: {source: kubernetes}}"
WATCH = "/api/v1/namespaces/shop/pods?watch=true"


async def test_a_watch_is_registered_while_open_and_writes_are_charged_for_it() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration(seats=40, server=KUBERNETES))
        streams = [
            await streaming.request(WATCH.replace("?", f"?a={number}&"), user=str(number)) for number in range(19)
        ]
        streams.append(await streaming.request("/watcher?text/plain"))
        watches = streaming.controller.watches
        assert watches.interested("update", PODS) == 20
        assert (streaming.seats, streaming.streams.open) == (0, 20), "watches are streams"
        scope = http_scope("/api/v1/namespaces/shop/pods/one", "PUT", {"X-User": "writer"})
        writer = Exchange(streaming.middleware, scope, tasks).body().start()
        await settle()
        work = writer.scope["apf"].work
        assert (work.seats, work.final_seats, work.linger_ns) == (1, 2, 5_000_000)
        streaming.may_finish["/api/v1/namespaces/shop/pods/one"].set()
        await writer.end()
        for stream in streams[:5]:
            stream.cancel_scope.cancel()
            await stream.end()
        assert watches.interested("update", PODS) == 15
        tasks.cancel_scope.cancel()
    assert (watches.total, streaming.streams.open) == (0, 0)


async def test_a_watch_beyond_the_limit_is_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, configuration("{maxOpenPerFlow: 1}", server=KUBERNETES))
        first, second = await streaming.request(WATCH), await streaming.request(WATCH)

        assert (first.status, second.status) == (200, 429)
        await streaming.finish(first)


async def test_each_request_cut_to_the_cap_is_counted() -> None:
    config = configuration(seats=20, server=", estimation: {default: {seats: 5}}")

    async with anyio.create_task_group() as tasks:
        streaming = StreamingApp(tasks, config)
        for number in range(3):
            one = await streaming.request(f"/{number % 2}")
            assert one.scope["apf"].work.seats == 3, "15 % of 20"
            await streaming.finish(one)
        [schema] = streaming.middleware.service.reading().schemas
        assert schema.counters.cut == 3


async def test_lists_take_seats_by_the_reported_object_counts() -> None:
    seats = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seats.append(scope["apf"].seats)

    async def quiet(*_: object) -> Any:  # noqa: ANN401 - neither is called
        raise AssertionError

    config = configuration(seats=40, server=KUBERNETES)
    for middleware in (
        APFMiddleware(app, config),
        APFMiddleware(app, config, inventory=lambda _: ObjectStats(50, 10_000)),
    ):
        await middleware(http_scope("/api/v1/namespaces/shop/pods", headers={"X-User": "a"}), quiet, quiet)

    assert seats == [1, 5]


@pytest.mark.parametrize(("closed", "expected"), [(0, 60), (20, 1)])
async def test_retry_after_of_a_rejected_stream_follows_the_rate_of_ending_streams(closed: int, expected: int) -> None:
    time = 10**9

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None: ...

    middleware = APFMiddleware(app, configuration("{maxOpen: 0}"))
    service = middleware.service
    streams = service.controller.levels["crowd"].streams
    begun = service.now()
    streams.drain = DrainMeter(begun - 5 * time)
    streams.closed = closed
    async with anyio.create_task_group() as tasks:
        scope = http_scope("/", headers={"Accept": EVENTS})
        refused = await Exchange(middleware, scope, tasks).body().start().end()

    assert int(refused.headers["retry-after"]) == pytest.approx(expected, rel=0.3)
