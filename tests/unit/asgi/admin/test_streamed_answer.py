"""Answers that go on until they end or the client disconnects."""

from typing import TYPE_CHECKING

import anyio
import pytest

from apf_middleware.asgi.admin.streamed_answer import StreamedAnswer, send_streamed
from tests.support.asgi_exchange import Exchange, http_scope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio


class Pages:
    """An app that sends a few parts, or parts without end, and records that its generator was closed."""

    def __init__(self, parts: int | None) -> None:
        self.parts = parts
        self.is_closed = False

    async def _generate(self) -> "AsyncGenerator[bytes, None]":
        try:
            number = 0
            while self.parts is None or number < self.parts:
                yield b"%d\n" % number
                number += 1
                await anyio.lowlevel.checkpoint()
        finally:
            self.is_closed = True

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        answer = StreamedAnswer(200, [(b"content-type", b"text/plain")], self._generate(), patience_s=60.0)
        await send_streamed(answer, scope, receive, send)


@pytest.mark.parametrize(("method", "content"), [("GET", b"0\n1\n2\n"), ("HEAD", b"")])
async def test_the_parts_are_sent_until_they_end(method: str, content: bytes) -> None:
    async with anyio.create_task_group() as tasks:
        pages = Pages(3)
        exchange = await Exchange(pages, http_scope("/", method), tasks).body().start().end()

    assert exchange.error is None
    assert exchange.content == content
    assert exchange.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert pages.is_closed or method == "HEAD"  # a generator that has not begun has nothing to close


async def test_a_client_that_disconnects_ends_the_parts() -> None:
    async with anyio.create_task_group() as tasks:
        pages = Pages(None)
        exchange = Exchange(pages, http_scope("/"), tasks).body().start()
        while not exchange.content.endswith(b"5\n"):
            await anyio.lowlevel.checkpoint()
        exchange.disconnect()
        await exchange.end()

    assert pages.is_closed
    assert exchange.error is None


async def test_a_client_that_does_not_read_is_given_up_after_the_patience() -> None:
    pages, sent = Pages(None), list[str]()

    async def send(message: "Message") -> None:
        sent.append(message["type"])
        if len(sent) == 3:  # its buffers are full now
            await anyio.sleep_forever()

    async def receive() -> "Message":
        await anyio.sleep_forever()
        raise AssertionError

    answer = StreamedAnswer(200, [], pages._generate(), patience_s=0.01)
    await send_streamed(answer, http_scope("/"), receive, send)

    assert sent == ["http.response.start", "http.response.body", "http.response.body"]
    assert pages.is_closed
