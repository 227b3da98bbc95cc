"""Bodies that are on their way: no seat is held for them, and there are bounds to their time, number and bytes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.admin.observation import observe_levels
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import IncomingBodies
from tests.support.asgi_exchange import Conversation, http_scope
from tests.support.protected_app import problem, settle

if TYPE_CHECKING:
    from starlette.types import Message

pytestmark = pytest.mark.anyio

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 1
  defaults: none
  bodies: {holdSeats: false, buffer: 100B, maxReceiving: 4, maxBuffered: 4KiB%s}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000, queuing: {queues: exact}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: everybody}
spec:
  level: crowd
  distinguisher: {source: header, name: X-User}
  rules:
  - httpRules: [{}]
"""
CHUNKED = {"transfer-encoding": "chunked"}


class Stage:
    """An app behind the middleware that reads bodies; time is what a test says it is."""

    def __init__(self, tasks: anyio.abc.TaskGroup, more: str = "") -> None:
        self.middleware = APFMiddleware(self._app, load_text(CONFIG % more))
        self.tasks = tasks
        self.heard: dict[str, list[Message]] = {}

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        heard = self.heard[scope["path"]] = []
        while not heard or heard[-1].get("more_body"):
            heard.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    def opens(
        self, path: str, user: str = "alice", method: str = "POST", headers: Mapping[str, str] = CHUNKED
    ) -> Conversation:
        scope = http_scope(path, method, {"X-User": user, **headers})
        return Conversation(self.middleware, scope, self.tasks).start()

    @property
    def bodies(self) -> IncomingBodies:
        return self.middleware.service.controller.bodies

    def pass_time(self) -> None:
        """As if the windows of all who are being received ended now."""
        for incoming in self.bodies._windows:
            incoming.until = 0
        self.bodies._look()

    @property
    def seats_in_use(self) -> int:
        runtime = self.middleware.service.controller.levels["crowd"]
        return sum(tally.executing for tally in runtime.tallies.values())

    def check_at_rest(self) -> None:
        self.bodies.check()
        assert (self.bodies.number, self.bodies.kept, self.seats_in_use) == (0, 0, 0)
        assert self.middleware.service.controller.levels["crowd"].shared.queueset.is_idle


async def test_a_request_takes_no_seat_until_its_body_has_arrived() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        slow = stage.opens("/slow").body(b"a", more=True)
        await settle()
        assert "/slow" not in stage.heard
        assert (stage.seats_in_use, stage.bodies.number) == (0, 1)

        assert (await stage.opens("/quick", "bob").body(b"hello").end()).status == 200
        slow.body(b"", more=True).body(b"b")
        assert (await slow.end()).status == 200

        assert [message["body"] for message in stage.heard["/slow"]] == [b"a", b"", b"b"]
        stage.check_at_rest()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"content-length": "0"}])
async def test_a_request_without_a_body_is_not_received(method: str, headers: Mapping[str, str]) -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        bodiless = stage.opens("/", method=method, headers=headers)
        await settle()

        assert "/" in stage.heard
        assert stage.bodies.number == 0
        bodiless.body()


async def test_bodies_of_all_methods_are_received() -> None:
    async with anyio.create_task_group() as tasks:
        for more, is_received in (("", False), (", anyMethod: true", True)):
            stage = Stage(tasks, more)
            slow = stage.opens("/", method="GET")
            await settle()
            assert (stage.bodies.number == 1, "/" not in stage.heard) == (is_received, is_received)
            assert (await slow.body(b"hello").end()).status == 200
            stage.check_at_rest()


async def test_the_rest_of_a_long_body_is_not_received() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        parts = [b"x" * 60, b"y" * 60, b"z" * 60, b""]
        conversation = stage.opens("/")
        for place, part in enumerate(parts, 1):
            conversation.body(part, more=place < len(parts))
            await settle()
            assert ("/" in stage.heard) == (place > 1)
        assert (await conversation.end()).status == 200

        assert [message["body"] for message in stage.heard["/"]] == parts
        stage.check_at_rest()


async def test_a_body_that_is_too_slow_ends_its_request() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks, ", minRate: 4B, patience: 10s")
        slow, quick = (stage.opens(path).body(b"x", more=True) for path in ("/slow", "/quick"))
        await settle()
        quick.body(b"x" * 40, more=True)
        await settle()
        stage.pass_time()
        await slow.end()

        assert slow.status == 408
        assert slow.headers["connection"] == "close"
        assert problem(slow)["reason"] == "slow-body"
        assert stage.bodies.number == 1
        quick.body()
        assert (await quick.end()).status == 200
        assert "/slow" not in stage.heard
        stage.check_at_rest()


async def test_beyond_the_limit_the_oldest_upload_of_the_largest_flow_is_ended() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        comes = [("/1", "bob"), ("/2", "elephant"), ("/3", "elephant"), ("/4", "elephant"), ("/5", "carol")]
        conversations = {}
        for path, user in comes:
            conversations[path] = stage.opens(path, user)
            await settle()
        await conversations["/2"].end()

        assert conversations["/2"].status == 429
        assert problem(conversations["/2"])["reason"] == "body-limit"
        assert stage.bodies.number == 4
        for path in ("/1", "/3", "/4", "/5"):
            assert (await conversations[path].body(b"x").end()).status == 200
        stage.check_at_rest()


async def test_a_client_that_hangs_up_frees_everything_and_its_app_is_never_called() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        gone = stage.opens("/").body(b"x" * 10, more=True)
        await settle()
        gone.hang_up()
        await gone.end()

        assert (gone.status, stage.heard) == (499, {}), "which nobody reads"
        assert stage.middleware.service.controller.hang_ups == 1
        stage.check_at_rest()


async def test_a_cancelled_task_frees_everything() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        cancelled = stage.opens("/").body(b"x", more=True)
        await settle()
        cancelled.cancel_scope.cancel()
        await cancelled.end()

        assert cancelled.sent == []
        stage.check_at_rest()


async def test_a_stopping_server_rejects_requests_whose_bodies_are_incomplete() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        before = stage.opens("/before").body(b"x", more=True)
        await settle()
        stage.middleware.service.controller.close()
        after = stage.opens("/after")

        for conversation in (before, after):
            await conversation.end()
            assert conversation.status == 503
            assert problem(conversation)["reason"] == "queue-closed"
        stage.check_at_rest()


async def test_a_request_with_a_full_buffer_asks_for_a_seat() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        stage.bodies.adopt(load_text(CONFIG.replace("100B", "1KiB") % "").server.bodies, {})
        greedy = stage.opens("/")
        for _ in range(6):
            await settle()
            greedy.body(b"x" * 100, more=True)
        await settle()

        assert "/" in stage.heard
        assert len(stage.heard["/"]) == 6
        greedy.body()
        await greedy.end()
        stage.check_at_rest()


async def test_a_concurrent_reload_loses_nothing_of_the_body() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        service = stage.middleware.service
        slow = stage.opens("/").body(b"a", more=True)
        await settle()
        service.adopt(service.prepare(load_text((CONFIG % "").replace("crowd", "people"))))
        slow.body(b"b")
        await slow.end()

        assert slow.status == 200
        assert slow.headers["x-apf-priority-level"] == "people"
        assert [message["body"] for message in stage.heard["/"]] == [b"a", b"b"]
        assert stage.bodies.number == stage.bodies.kept == 0


async def test_requests_with_incomplete_bodies_and_their_ends_are_counted() -> None:
    async with anyio.create_task_group() as tasks:
        stage = Stage(tasks)
        slow = stage.opens("/").body(b"abc", more=True)
        await settle()
        slow.body(b"def", more=True)
        await settle()
        picture = stage.middleware.service.reading()
        assert picture.receiving == {"catch-all": 0, "crowd": 1, "exempt": 0}
        assert picture.body_bytes == 6 + 2 * 256, "each message takes memory, too"
        receiving = {level.level: level.receiving for level in observe_levels(stage.middleware.service)}
        assert receiving == {"catch-all": 0, "crowd": 1, "exempt": 0}

        stage.pass_time()
        await slow.end()
        tallies = stage.middleware.service.controller.levels["crowd"].tallies
        assert tallies["everybody"].rejected[Reason.SLOW_BODY] == 1
        assert set(stage.middleware.service.reading().receiving.values()) == {0}
