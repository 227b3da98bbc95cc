"""Streams on their way: when they give their seats back, when they are refused, what they watch."""

from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.classification import Resource
from apf_middleware.config import Configuration, load_text
from apf_middleware.estimation import ObjectStats
from apf_middleware.runtime import Controller, DrainMeter, OpenStreams
from tests.support.asgi_exchange import Conversation, http_scope, websocket_scope
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
spec: {{seats: {seats}, defaults: none{server}}}
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


class Studio:
    """An app whose responses have the type that the query names, and go on until they are let go."""

    def __init__(self, tasks: TaskGroup, config: Configuration | None = None) -> None:
        self.tasks = tasks
        self.middleware = APFMiddleware(self._app, config or configuration())
        self.doors: dict[str, anyio.Event] = {}
        self.said: dict[str, bool] = {}

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        path, kind = scope["path"], scope["query_string"].decode()
        if path == "/by-hand":
            self.said[path] = scope["apf"].release()
        if path == "/watcher":
            scope["apf"].watch("pods", "shop")
        headers = [(b"content-type", kind.replace("watch=true", "").encode())] if kind else []
        await send({"type": "http.response.start", "status": 200, "headers": iter(headers)})
        door = self.doors[path] = anyio.Event()
        await door.wait()
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
        """Seats in use."""
        level = self.controller.levels["crowd"]
        level.look(self.controller.now())
        return level.shared.queueset.seats_in_use

    async def comes(self, path: str, user: str = "alice", **headers: str) -> Conversation:
        given = {"X-User": user} | {name.replace("_", "-"): value for name, value in headers.items()}
        conversation = Conversation(self.middleware, http_scope(path, headers=given), self.tasks).body().start()
        await settle()
        return conversation

    async def socket(self, path: str = "/socket", user: str = "alice") -> Conversation:
        scope = websocket_scope(path)
        scope["headers"] = [(b"x-user", user.encode())]
        conversation = Conversation(self.middleware, scope, self.tasks)
        conversation.say({"type": "websocket.connect"})
        conversation.start()
        await settle()
        return conversation

    async def let_go(self, *conversations: Conversation) -> None:
        for conversation in conversations:
            if conversation.scope["type"] == "websocket":
                conversation.say({"type": "websocket.disconnect", "code": 1000})
            elif conversation.scope["path"] in self.doors:
                self.doors[conversation.scope["path"]].set()
            await conversation.end()
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
        studio = Studio(tasks)
        stream = await studio.comes(f"/a?{kind}")
        assert stream.status == 200
        assert (studio.seats, studio.streams.open) == ((0, 1) if is_stream else (1, 0))
        assert stream.headers["x-apf-priority-level"] == "crowd"
        await studio.let_go(stream)
        tally = studio.controller.levels["crowd"].tallies["everybody"]
        assert (tally.streams.count, tally.executions.count) == ((1, 0) if is_stream else (0, 1))


@pytest.mark.parametrize(
    ("streams", "server"), [("{releaseAtStart: false}", ""), ("{}", ", streams: {releaseAtStart: false}")]
)
async def test_releasing_seats_can_be_disabled_by_level_or_for_all(streams: str, server: str) -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration(streams, server=server))
        stream, socket = await studio.comes(f"/a?{EVENTS}"), await studio.socket()
        assert (studio.seats, studio.streams.open) == (2, 0)
        await studio.let_go(stream, socket)


async def test_a_hundred_streams_do_not_delay_requests() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks)
        streams = [await studio.comes(f"/{number}?{EVENTS}", user=f"u{number}") for number in range(100)]
        sockets = [await studio.socket(f"/s{number}") for number in range(10)]
        assert studio.streams.open == 110
        plain = await studio.comes("/plain")
        assert plain.status == 200
        studio.doors["/plain"].set()
        await plain.end()
        await studio.let_go(*streams, *sockets)


async def test_event_stream_requests_count_on_arrival_and_are_limited() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 2, maxOpenPerFlow: 1}"))
        first = await studio.comes(f"/1?{EVENTS}", accept="Text/Event-Stream")
        own = await studio.comes(f"/2?{EVENTS}", accept="text/html, Text/Event-Stream;q=0.9")
        second = await studio.comes(f"/3?{EVENTS}", user="bob", accept=EVENTS)
        third = await studio.comes(f"/4?{EVENTS}", user="carol", accept=EVENTS)

        assert [one.status for one in (first, own, second, third)] == [200, 429, 200, 429]
        told = problem(own)
        assert (told["reason"], told["type"]) == ("stream-limit", "urn:apf:stream-limit")
        assert 1 <= int(own.headers["retry-after"]) <= 60
        tally = studio.controller.levels["crowd"].tallies["everybody"]
        assert {reason.value: n for reason, n in tally.rejected.items() if n} == {"stream-limit": 2}
        plain = await studio.comes("/5?text/html", user="alice", accept=f"text/html, {EVENTS};q=0")
        assert plain.status == 200, "only streams are limited"
        studio.doors["/5"].set()
        await studio.let_go(first, second, plain)
        again = await studio.comes(f"/6?{EVENTS}", accept=EVENTS)
        assert again.status == 200
        await studio.let_go(again)


async def test_a_websocket_beyond_the_limit_is_rejected_before_it_is_accepted() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 1}"))
        first, second = await studio.socket("/1"), await studio.socket("/2")

        assert [one["type"] for one in first.sent] == ["websocket.accept"]
        assert [(one["type"], one["code"]) for one in second.sent] == [("websocket.close", 1013)]
        assert "apf" not in second.scope
        await studio.let_go(first)


async def test_a_request_that_is_no_stream_releases_its_stream_slot() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 1}"))
        plain = await studio.comes("/1?application/json", accept=f"application/json, {EVENTS}")
        bare = await studio.comes("/2", accept=EVENTS)
        assert (studio.seats, studio.streams.open) == (2, 0)
        studio.doors["/1"].set()
        await plain.end()
        stream = await studio.comes(f"/3?{EVENTS}", accept=EVENTS)
        assert stream.status == 200
        studio.doors["/2"].set()
        await bare.end()
        await studio.let_go(stream)


async def test_an_undeclared_stream_beyond_the_limit_keeps_its_seat() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 1}"))
        first = await studio.comes(f"/1?{EVENTS}")
        second = await studio.comes(f"/2?{EVENTS}")
        assert (first.status, second.status) == (200, 200)
        assert (studio.seats, studio.streams.open) == (1, 1)
        by_hand = await studio.comes("/by-hand?text/html")
        assert studio.said == {"/by-hand": False}
        assert studio.seats == 2
        studio.doors["/2"].set()
        studio.doors["/by-hand"].set()
        await second.end()
        await by_hand.end()
        await studio.let_go(first)


async def test_a_permit_is_released_on_every_path() -> None:
    """Rejected otherwise, gone while waiting, cancelled while waiting or running, an app that raises."""
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 9}", seats=1, queues=1, wait="300ms"))
        holder = await studio.comes("/holder")
        timed_out = await studio.comes(f"/1?{EVENTS}", accept=EVENTS)
        gone = await studio.comes(f"/2?{EVENTS}", accept=EVENTS)
        cancelled = await studio.comes(f"/3?{EVENTS}", accept=EVENTS)
        socket = await studio.socket()
        assert studio.streams.open == 4
        cancelled.cancel_scope.cancel()
        await cancelled.end()
        assert studio.streams.open == 3
        gone.hang_up()
        await gone.end()
        await timed_out.end()
        await socket.end()
        assert problem(timed_out)["reason"] == "time-out"
        assert studio.streams.open == 0
        studio.doors["/holder"].set()
        await holder.end()
        boom, running = await studio.comes(f"/boom?{EVENTS}"), await studio.comes(f"/4?{EVENTS}", accept=EVENTS)
        assert studio.streams.open == 2
        running.cancel_scope.cancel()
        await running.end()
        await studio.let_go(boom)
        assert isinstance(boom.error, LookupError)


async def test_a_rejected_request_leaves_the_queue_before_its_response() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 1}", seats=1))
        holder = await studio.comes("/holder")
        slow = Reader(studio.middleware, tasks, "/slow")
        await settle()
        assert studio.streams.open == 1
        with anyio.fail_after(60):
            await slow.is_told.wait()
        assert not slow.ended.is_set()
        assert studio.streams.open == 0
        slow.reads.set()
        await studio.let_go(holder)


async def test_a_stream_whose_level_is_removed_is_counted_until_it_ends() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpen: 3}"))
        service = studio.middleware.service
        stream = await studio.comes(f"/1?{EVENTS}", accept=EVENTS)
        service.adopt(service.prepare(load_text("apiVersion: apf/v1\nkind: Server\nspec: {defaults: none}")))
        assert service.reading().open_streams == {"catch-all": 0, "exempt": 0, "crowd": 1}
        service.adopt(service.prepare(configuration("{maxOpen: 1}")))
        refused = await studio.comes(f"/2?{EVENTS}", accept=EVENTS)
        assert refused.status == 429
        await studio.let_go(stream)


class Reader:
    """A client that reads when it is told to: until then, a send to it lasts."""

    def __init__(self, middleware: APFMiddleware, tasks: TaskGroup, path: str = "/download") -> None:
        self.middleware = middleware
        self.scope = http_scope(path, headers={"Accept": EVENTS})
        self.is_told = anyio.Event()
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
        self.is_told.set()
        if message["type"] == "http.response.body":
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
        config = configuration("{releaseWhenBlocked: 20ms}" if is_on else "{}", seats=1)
        middleware = APFMiddleware(_download, config)
        reader = Reader(middleware, tasks)
        await settle()
        other = Conversation(middleware, http_scope("/other"), tasks).body().start()
        await other.end()
        streams = middleware.service.controller.levels["crowd"].streams

        assert (other.status, streams.open) == ((None, 1) if is_on else (429, 0))
        reader.reads.set()
        with anyio.fail_after(60):
            await reader.ended.wait()
        assert [message.get("body") for message in reader.messages] == [None, b"1", b"2"]
        assert streams.open == 0


async def test_a_failed_write_is_not_in_progress() -> None:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise OSError

    async def receive() -> Message:
        raise AssertionError

    middleware = APFMiddleware(_download, configuration("{releaseWhenBlocked: 1h}"))
    with pytest.raises(OSError):  # noqa: PT011 - its type is all
        await middleware(http_scope("/download"), receive, send)

    writes = middleware.service.controller.levels["crowd"].streams.writes
    assert repr(writes).startswith("<Deadlines of 0,")


KUBERNETES = ", resolver: kubernetes, estimation: {cap: false, default: {source: kubernetes}}"
WATCH = "/api/v1/namespaces/shop/pods?watch=true"


async def test_a_watch_is_registered_while_open_and_writes_are_charged_for_it() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration(seats=40, server=KUBERNETES))
        streams = [await studio.comes(WATCH.replace("?", f"?a={number}&"), user=str(number)) for number in range(19)]
        streams.append(await studio.comes("/watcher?text/plain"))
        watches = studio.controller.watches
        assert watches.interested("update", PODS) == 20
        assert (studio.seats, studio.streams.open) == (0, 20), "watches are streams"
        scope = http_scope("/api/v1/namespaces/shop/pods/one", "PUT", {"X-User": "writer"})
        writer = Conversation(studio.middleware, scope, tasks).body().start()
        await settle()
        work = writer.scope["apf"].work
        assert (work.seats, work.final_seats, work.linger_ns) == (1, 2, 5_000_000)
        studio.doors["/api/v1/namespaces/shop/pods/one"].set()
        await writer.end()
        for stream in streams[:5]:
            stream.cancel_scope.cancel()
            await stream.end()
        assert watches.interested("update", PODS) == 15
        tasks.cancel_scope.cancel()
    assert (watches.total, studio.streams.open) == (0, 0)


async def test_a_watch_beyond_the_limit_is_rejected() -> None:
    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, configuration("{maxOpenPerFlow: 1}", server=KUBERNETES))
        first, second = await studio.comes(WATCH), await studio.comes(WATCH)

        assert (first.status, second.status) == (200, 429)
        await studio.let_go(first)


async def test_each_request_cut_to_the_cap_is_counted() -> None:
    config = configuration(seats=20, server=", estimation: {default: {seats: 5}}")

    async with anyio.create_task_group() as tasks:
        studio = Studio(tasks, config)
        for number in range(3):
            one = await studio.comes(f"/{number % 2}")
            assert one.scope["apf"].work.seats == 3, "15 % of 20"
            await studio.let_go(one)
        [schema] = studio.middleware.service.reading().schemas
        assert schema.tally.cut == 3


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
        refused = await Conversation(middleware, scope, tasks).body().start().end()

    assert int(refused.headers["retry-after"]) == pytest.approx(expected, rel=0.3)


async def test_metrics_contain_the_stream_limits() -> None:
    for streams, expected in (("{}", False), ("{maxOpen: 3}", True)):
        levels = APFMiddleware(_download, configuration(streams)).service.reading().levels
        assert {one.name: one.limits_streams for one in levels}["crowd"] is expected
