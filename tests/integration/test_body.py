"""Estimates by a field of the body: whose body is read, how much of it, and that the app reads all of it again."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.body import LONGEST_BODY
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.config import load_text
from tests.support.asgi_exchange import Exchange, http_scope

if TYPE_CHECKING:
    from starlette.types import Message

pytestmark = pytest.mark.anyio

CONFIG = """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec:
  seats: 40
  defaults: none
  estimation:
    cap: false
    default: {source: body, name: options.max_tokens, perSeat: 1000, mostSeats: 20, seats: 2, networks: [127.0.0.0/8]}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec:
  level: crowd
  rules:
  - httpRules: [{}]
"""
JSON = {"content-type": "application/json"}


def tokens(number: object) -> bytes:
    return json.dumps({"prompt": "Hello", "options": {"max_tokens": number}}).encode()


class RecordingApp:
    """An app behind the middleware, which notes the seats of a request and all that it hears of its client."""

    def __init__(self) -> None:
        self.middleware = APFMiddleware(self._app, load_text(CONFIG))
        self.received: list[Message] = []
        self.seats = self.receive_calls = 0
        self.exchange: Exchange | None = None

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seats = scope["apf"].seats
        self.receive_calls = self.exchange.receive_calls if self.exchange else 0
        while True:
            self.received.append(await receive())
            if not self.received[-1].get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def seats_of(self, *parts: bytes, headers: Mapping[str, str] = JSON, **more: object) -> int:
        """Return the seats of a request with a body in such parts."""
        async with anyio.create_task_group() as tasks:
            exchange = Exchange(self.middleware, http_scope("/", "POST", headers, **more), tasks)
            self.exchange = exchange
            for place, part in enumerate(parts, 1):
                exchange.body(part, more=place < len(parts))
            exchange.start()
            await exchange.ended.wait()
        assert b"".join(message["body"] for message in self.received) == b"".join(parts)
        assert len(self.received) == len(parts)
        self.received.clear()
        return self.seats


@pytest.mark.parametrize(
    ("number", "seats"), [(1, 1), (1000, 1), (1001, 2), (9999, 10), (10**9, 20), (10**30, 20), (0, 1), ("3000", 3)]
)
async def test_a_body_field_gives_the_number_of_seats(number: object, seats: int) -> None:
    assert await RecordingApp().seats_of(tokens(number)) == seats


@pytest.mark.parametrize("number", [-1, 1.5, None, True, [7], "many"])
async def test_a_value_that_is_not_a_number_counts_as_absent(number: object) -> None:
    assert await RecordingApp().seats_of(tokens(number)) == 2


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"max_tokens"', b'{"options": 7}', b"\xff", b"[" * 60_000, b"1" * 60_000]
)
async def test_an_unreadable_body_counts_as_absent(body: bytes) -> None:
    assert await RecordingApp().seats_of(body) == 2


async def test_equal_requests_are_both_read() -> None:
    recording = RecordingApp()

    assert [await recording.seats_of(tokens(number)) for number in (3000, 7000, 3000)] == [3, 7, 3]


async def test_a_body_in_parts_is_parsed_and_replayed_in_the_same_parts() -> None:
    body = tokens(5000)

    assert await RecordingApp().seats_of(body[:5], b"", body[5:9], body[9:]) == 5


async def test_the_rest_of_a_body_that_is_too_long_is_not_received() -> None:
    recording = RecordingApp()
    parts = [b" " * (LONGEST_BODY // 2)] * 2 + [tokens(5000)] * 3

    assert await recording.seats_of(*parts) == 2
    assert recording.receive_calls == 3


async def test_a_body_of_the_maximum_length_is_read() -> None:
    body = tokens(5000)

    assert await RecordingApp().seats_of(body + b" " * (LONGEST_BODY - len(body))) == 5
    assert await RecordingApp().seats_of(body + b" " * (LONGEST_BODY - len(body) + 1)) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {},
        JSON | {"expect": "100-continue", "transfer-encoding": "chunked"},
        JSON | {"content-length": str(LONGEST_BODY + 1)},
        JSON | {"content-length": "many"},
    ],
)
async def test_bodies_of_other_types_are_not_received(headers: Mapping[str, str]) -> None:
    assert await RecordingApp().seats_of(tokens(5000), headers=headers) == 2


async def test_all_json_content_types_are_read() -> None:
    assert await RecordingApp().seats_of(tokens(5000), headers={"content-type": "Application/JSON; charset=utf-8"}) == 5
    assert await RecordingApp().seats_of(tokens(5000), headers={"content-type": "application/problem+json"}) == 5


async def test_bodies_of_untrusted_callers_are_not_read() -> None:
    async with anyio.create_task_group() as tasks:
        recording = RecordingApp()
        scope = http_scope("/", "POST", JSON, client=("192.0.2.1", 50000))
        exchange = Exchange(recording.middleware, scope, tasks).start()
        while not exchange.receive_calls:
            await anyio.lowlevel.checkpoint()

        assert recording.seats == 2  # it is the app that asks
        exchange.body(tokens(5000))


async def test_a_client_that_leaves_before_its_body_has_come_is_not_served() -> None:
    recording = RecordingApp()
    async with anyio.create_task_group() as tasks:
        exchange = Exchange(recording.middleware, http_scope("/", "POST", JSON), tasks).body(b"{", more=True)
        exchange.disconnect()
        exchange.start()
        await exchange.ended.wait()

    assert (recording.received, recording.seats) == ([], 0)
    assert (exchange.status, exchange.content) == (499, b""), "which nobody reads"
    assert recording.middleware.service.controller.hang_ups == 1


@pytest.mark.parametrize("ends", ["slow-body", "queue-closed"])
async def test_the_wait_for_a_missing_body_is_bounded(ends: str) -> None:
    async with anyio.create_task_group() as tasks:
        recording = RecordingApp()
        controller = recording.middleware.service.controller
        exchange = Exchange(recording.middleware, http_scope("/", "POST", JSON), tasks).body(b"{", more=True).start()
        while not controller.bodies.number:
            await anyio.lowlevel.checkpoint()
        assert recording.middleware.service.reading().receiving["crowd"] == 1
        if ends == "slow-body":
            for incoming in controller.bodies._windows:
                incoming.until = 0
            controller.bodies._look()
        else:
            controller.close()
        await exchange.end()

        assert exchange.status == (408 if ends == "slow-body" else 503)
        assert json.loads(exchange.content)["reason"] == ends
        assert (recording.received, controller.bodies.number, controller.bodies.kept) == ([], 0, 0)


async def test_a_request_that_is_cancelled_while_its_body_arrives_keeps_nothing_of_it() -> None:
    async with anyio.create_task_group() as tasks:
        recording = RecordingApp()
        bodies = recording.middleware.service.controller.bodies
        exchange = Exchange(recording.middleware, http_scope("/", "POST", JSON), tasks).body(b"{", more=True).start()
        while not bodies.kept:
            await anyio.lowlevel.checkpoint()
        exchange.cancel_scope.cancel()
        await exchange.end()

        assert (recording.received, bodies.number, bodies.kept) == ([], 0, 0)


@pytest.mark.parametrize("source", ["{source: header,", "{source: body,"])
async def test_a_concurrent_reload_loses_nothing_of_the_body(source: str) -> None:
    recording = RecordingApp()
    service = recording.middleware.service
    body = tokens(3000)
    async with anyio.create_task_group() as tasks:
        exchange = Exchange(recording.middleware, http_scope("/", "POST", JSON), tasks).body(body[:9], more=True)
        exchange.start()
        while exchange.receive_calls < 2:
            await anyio.lowlevel.checkpoint()
        text = CONFIG.replace("{source: body,", source).replace("seats: 40", "seats: 41")
        if "header" in source:
            text = text.replace("options.max_tokens", "x-tokens")
        service.adopt(service.prepare(load_text(text)))
        exchange.body(body[9:])
        await exchange.ended.wait()

        assert [message["body"] for message in recording.received] == [body[:9], body[9:]]
        assert recording.seats == (2 if "header" in source else 3)
        seen = await service.resolver.resolve(http_scope("/", "POST"), 0, exchange.receive)
        assert isinstance(seen, ResolvedRequest)
        assert seen.body is None  # that was the other request's
