"""Listening in an app's place: what is kept, when to stop, and what an app hears afterwards."""

import asyncio
from collections.abc import Iterable

import anyio
import pytest
from starlette.types import Message

from apf_middleware.asgi.hangup import Hearing

pytestmark = pytest.mark.anyio

WHOLE = {"type": "http.request", "body": b"all", "more_body": False}
PART = {"type": "http.request", "body": b"some", "more_body": True}
GONE = {"type": "http.disconnect"}


class Server:
    """Says what it is told to say, and then nothing."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)
        self.asked = 0

    async def receive(self) -> Message:
        self.asked += 1
        await anyio.sleep(0.001)
        if not self.messages:
            await anyio.sleep_forever()
        return self.messages.pop(0)


class Client:
    """Who waits, as its listener knows it."""

    has_gone = False

    def wake(self) -> None:
        raise AssertionError("a listener wakes nobody")

    def hang_up(self) -> None:
        self.has_gone = True


@pytest.mark.parametrize(
    ("said", "gone", "asked"),
    [
        ([GONE], True, 1),
        ([WHOLE, GONE], True, 2),
        ([PART, PART, WHOLE], False, 1),
        ([WHOLE, WHOLE, WHOLE, GONE], False, 2),
        ([{"type": "something.new"}, GONE], False, 1),
        ([{"type": "websocket.connect"}, {"type": "websocket.disconnect"}], True, 2),
        ([{"type": "websocket.connect"}, {"type": "websocket.receive"}], False, 2),
    ],
)
async def test_it_listens_until_the_client_has_gone_or_there_is_too_much_to_keep(
    said: list[Message],
    gone: bool,  # noqa: FBT001
    asked: int,
) -> None:
    everything = list(said)
    server = Server(said)
    hearing = Hearing(server.receive)
    client = Client()
    await hearing.listen(client)
    assert client.has_gone is gone
    assert server.asked == asked
    heard = [await hearing.receive() for _ in range(len(said))]

    assert heard == everything


async def test_the_app_hears_everything_in_order() -> None:
    server = Server([PART, WHOLE, GONE])
    hearing = Hearing(server.receive)
    await hearing.listen(Client())

    assert [await hearing.receive() for _ in range(3)] == [PART, WHOLE, GONE]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_app_whose_hearing_is_cancelled_hears_the_same_message_later() -> None:
    server = Server([])
    hearing = Hearing(server.receive)
    hearing.listening = asyncio.ensure_future(hearing.listen(Client()))
    await anyio.sleep(0.005)
    with anyio.move_on_after(0.01) as scope:
        await hearing.receive()
    assert scope.cancelled_caught
    listening = hearing.listening
    assert not listening.done(), "what it asked for may still come"
    hearing.stop()
    with pytest.raises(asyncio.CancelledError):
        await listening


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_servers_error_is_the_apps_to_see() -> None:
    async def broken() -> Message:
        raise OSError("broken pipe")

    hearing = Hearing(broken)
    hearing.listening = asyncio.ensure_future(hearing.listen(Client()))
    await asyncio.wait([hearing.listening])

    with pytest.raises(OSError, match="broken pipe"):
        await hearing.receive()
