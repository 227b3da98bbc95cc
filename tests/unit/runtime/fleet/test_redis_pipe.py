"""A connection whose commands are answered in the order of sending; the server is played by the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from redis.exceptions import ConnectionError as LostConnectionError
from redis.exceptions import ResponseError

from apf_middleware.runtime.fleet.redis_pipe import RedisPipe

if TYPE_CHECKING:
    from redis.asyncio import Connection

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Opened:
    """A connection that redis-py has opened, as far as a pipe uses it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def disconnect(self, *, nowait: bool) -> None:
        assert nowait, "the stream of redis-py doesn't learn any more that the connection is closed"
        self._writer.close()


class Peer:
    """The server's side of one connection."""

    def __init__(self) -> None:
        self.accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.set_result((reader, writer))

    async def expect(self, data: bytes) -> None:
        reader, _ = await self.accepted
        assert await reader.readexactly(len(data)) == data

    async def reply(self, data: bytes) -> None:
        (await self.accepted)[1].write(data)

    async def close(self) -> None:
        (await self.accepted)[1].close()


@pytest.fixture
async def peer() -> Peer:
    return Peer()


@pytest.fixture
async def pipe(peer: Peer, tmp_path: Path) -> AsyncIterator[RedisPipe]:
    path = str(tmp_path / "server")
    server = await asyncio.start_unix_server(peer.accept, path)
    _, writer = await asyncio.open_unix_connection(path)
    pipe = RedisPipe(cast("Connection", Opened(writer)))
    yield pipe
    await pipe.aclose()
    await peer.close()
    server.close()


async def test_answers_come_in_the_order_of_sending(pipe: RedisPipe, peer: Peer) -> None:
    first, second = pipe.ask(b"one", b"two"), pipe.ask(b"three")
    await peer.expect(b"onetwothree")
    assert pipe.unanswered == 2
    await peer.reply(b":1\r\n")
    await peer.reply(b":2\r\n:3\r\n")
    assert await pipe.answer(second) == [3]
    assert first.result() == [1, 2]
    assert pipe.unanswered == 0


async def test_a_command_is_sent_in_the_same_turn(pipe: RedisPipe, peer: Peer) -> None:
    reader, _ = await peer.accepted
    arrived = asyncio.ensure_future(reader.read(100))
    await asyncio.sleep(0)
    pipe.ask(b"x" * 50)
    assert not pipe._transport.get_write_buffer_size()
    assert await arrived == b"x" * 50


async def test_more_than_the_operating_system_takes_at_once_follows_later(pipe: RedisPipe, peer: Peer) -> None:
    asked = pipe.ask(b"x" * 5_000_000), pipe.ask(b"y")
    await peer.expect(b"x" * 5_000_000 + b"y")
    await peer.reply(b":1\r\n:2\r\n")
    assert [await pipe.answer(one) for one in asked] == [[1], [2]]


async def test_an_error_closes_the_connection(pipe: RedisPipe, peer: Peer) -> None:
    asked = pipe.ask(b"one", b"two")
    await peer.reply(b"-ERR no\r\n:2\r\n")
    with pytest.raises(ResponseError, match="no"):
        await pipe.answer(asked)
    assert not pipe.is_open
    with pytest.raises(LostConnectionError):
        await pipe.run(b"three")


async def test_replies_are_taken_before_tasks_that_are_ready(pipe: RedisPipe) -> None:
    taken: list[list[object]] = []
    ready = asyncio.Event()
    asked = pipe.ask(b"one", b"two", take=taken.append)
    asked.add_done_callback(lambda _: ready.set())
    pipe.data_received(b":1\r\n")
    assert not taken
    pipe.data_received(b":2\r\n")
    assert taken == [[1, 2]]
    assert not ready.is_set()
    assert await pipe.answer(asked) == [1, 2]


async def test_errors_are_not_taken(pipe: RedisPipe, peer: Peer) -> None:
    taken: list[list[object]] = []
    asked = pipe.ask(b"one", b"two", take=taken.append), pipe.ask(b"three", take=taken.append)
    await peer.reply(b":1\r\n-ERR no\r\n:3\r\n")
    with pytest.raises(ResponseError, match="no"):
        await pipe.answer(asked[0])
    await asked[1]
    assert not taken, "the connection is closed after an error"


async def test_a_loss_answers_all_that_has_been_asked(pipe: RedisPipe, peer: Peer) -> None:
    asked = pipe.ask(b"one", b"two"), pipe.ask(b"three")
    await peer.reply(b":1\r\n")
    await peer.close()
    for one in asked:
        with pytest.raises(LostConnectionError):
            await pipe.answer(one)
    assert asked[0].result()[0] == 1


@pytest.mark.parametrize("data", [b"nonsense\r\n", b":1\r\n:2\r\n"])
async def test_what_nobody_has_asked_for_closes_the_connection(pipe: RedisPipe, peer: Peer, data: bytes) -> None:
    asked = pipe.ask(b"one")
    await peer.expect(b"one")
    await peer.reply(data)
    reply = (await asked)[0]
    assert reply == 1 or isinstance(reply, LostConnectionError)
    reader, _ = await peer.accepted
    with suppress(ConnectionResetError):
        assert not await reader.read()
    assert not pipe.is_open


async def test_a_wait_that_ends_early_closes_the_connection(pipe: RedisPipe) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await pipe.run(b"one")
    assert not pipe.is_open
