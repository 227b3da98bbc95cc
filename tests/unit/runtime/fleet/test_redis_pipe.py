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


class Replies:
    """What has been asked: the replies, as soon as they have arrived."""

    def __init__(self, pipe: RedisPipe, *commands: bytes) -> None:
        self._found: asyncio.Future[list[object]] = asyncio.Future()
        pipe.ask(*commands, take=self._found.set_result)

    @property
    def now(self) -> list[object] | None:
        return self._found.result() if self._found.done() else None

    async def get(self) -> list[object]:
        return await self._found


async def test_answers_come_in_the_order_of_sending(pipe: RedisPipe, peer: Peer) -> None:
    first, second = Replies(pipe, b"one", b"two"), Replies(pipe, b"three")
    await peer.expect(b"onetwothree")
    assert pipe.unanswered == 2
    await peer.reply(b":1\r\n")
    await peer.reply(b":2\r\n:3\r\n")
    assert await second.get() == [3]
    assert first.now == [1, 2]
    assert pipe.unanswered == 0


async def test_a_command_is_sent_in_the_same_turn(pipe: RedisPipe, peer: Peer) -> None:
    reader, _ = await peer.accepted
    arrived = asyncio.ensure_future(reader.read(100))
    await asyncio.sleep(0)
    Replies(pipe, b"x" * 50)
    assert not pipe._transport.get_write_buffer_size()
    assert await arrived == b"x" * 50


async def test_more_than_the_operating_system_takes_at_once_follows_later(pipe: RedisPipe, peer: Peer) -> None:
    asked = Replies(pipe, b"x" * 5_000_000), Replies(pipe, b"y")
    await peer.expect(b"x" * 5_000_000 + b"y")
    await peer.reply(b":1\r\n:2\r\n")
    assert [await one.get() for one in asked] == [[1], [2]]


async def test_replies_are_taken_in_the_turn_in_which_they_arrive(pipe: RedisPipe) -> None:
    asked = Replies(pipe, b"one", b"two")
    pipe.data_received(b":1\r\n")
    assert asked.now is None
    pipe.data_received(b":2\r\n")
    assert asked.now == [1, 2]


async def test_an_error_closes_the_connection(pipe: RedisPipe, peer: Peer) -> None:
    running = asyncio.create_task(pipe.run(b"one", b"two"))
    await peer.expect(b"onetwo")
    await peer.reply(b"-ERR no\r\n:2\r\n")
    with pytest.raises(ResponseError, match="no"):
        await running
    assert not pipe.is_open
    with pytest.raises(LostConnectionError):
        await pipe.run(b"three")


async def test_what_arrives_after_an_error_does_not_count(pipe: RedisPipe, peer: Peer) -> None:
    asked = Replies(pipe, b"one", b"two"), Replies(pipe, b"three")
    await peer.reply(b":1\r\n-ERR no\r\n:3\r\n")
    first, second = [await one.get() for one in asked]
    assert first[0] == 1
    assert isinstance(first[1], ResponseError)
    assert len(second) == 1
    assert isinstance(second[0], LostConnectionError)


async def test_a_loss_answers_all_that_has_been_asked(pipe: RedisPipe, peer: Peer) -> None:
    asked = Replies(pipe, b"one", b"two"), Replies(pipe, b"three")
    await peer.reply(b":1\r\n")
    await peer.close()
    first, second = [await one.get() for one in asked]
    assert first[0] == 1
    assert isinstance(first[1], LostConnectionError)
    assert isinstance(second[0], LostConnectionError)


async def test_a_poll_asks_again_after_each_reply(pipe: RedisPipe, peer: Peer) -> None:
    taken: list[object] = []
    polling = asyncio.create_task(pipe.poll(b"next", taken.append, 60))
    await peer.expect(b"next")
    for number in range(3):
        pipe.data_received(b":%d\r\n" % number)
        assert taken == [*range(number + 1)]
        await peer.expect(b"next")
    assert pipe.unanswered == 1
    await peer.reply(b"-ERR no\r\n")
    with pytest.raises(ResponseError, match="no"):
        await polling
    assert taken == [0, 1, 2]
    assert not pipe.is_open


async def test_a_poll_ends_with_the_connection(pipe: RedisPipe, peer: Peer) -> None:
    taken: list[object] = []
    polling = asyncio.create_task(pipe.poll(b"next", taken.append, 60))
    await peer.expect(b"next")
    await peer.close()
    with pytest.raises(LostConnectionError):
        await polling
    with pytest.raises(LostConnectionError):
        await pipe.poll(b"next", taken.append, 60)
    assert not taken


async def test_a_poll_ends_after_a_silence(pipe: RedisPipe, peer: Peer) -> None:
    polling = asyncio.create_task(pipe.poll(b"next", lambda _: None, 0.001))
    with pytest.raises(TimeoutError, match="no reply"):
        await polling
    assert not pipe.is_open
    await peer.expect(b"next")


async def test_a_poll_goes_on_while_there_are_replies(pipe: RedisPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []

    async def wait(_: object, timeout: float) -> None:  # noqa: ASYNC109 - as asyncio's
        assert timeout == 60
        if len(taken) < 3:
            pipe.data_received(b":1\r\n")
        await asyncio.sleep(0)

    monkeypatch.setattr(asyncio, "wait", wait)
    with pytest.raises(TimeoutError, match="no reply for 60 s"):
        await pipe.poll(b"next", taken.append, 60)
    assert taken == [1, 1, 1]


async def test_what_a_reply_makes_ready_comes_before_the_next_poll(pipe: RedisPipe, peer: Peer) -> None:
    loop = asyncio.get_running_loop()
    unanswered: list[int] = []

    def take(_: object) -> None:
        loop.call_soon(lambda: unanswered.append(pipe.unanswered))

    polling = asyncio.create_task(pipe.poll(b"next", take, 60))
    await peer.expect(b"next")
    pipe.data_received(b":1\r\n")
    await peer.expect(b"next")
    assert unanswered == [0]
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling


async def test_a_poll_survives_what_it_calls(pipe: RedisPipe, peer: Peer) -> None:
    def fail(_: object) -> None:
        raise ValueError("no")

    polling = asyncio.create_task(pipe.poll(b"next", fail, 60))
    await peer.expect(b"next")
    with pytest.raises(ValueError, match="no"):
        pipe.data_received(b":1\r\n")
    await peer.expect(b"next")
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling
    assert not pipe.is_open


@pytest.mark.parametrize("data", [b"nonsense\r\n", b":1\r\n:2\r\n"])
async def test_what_nobody_has_asked_for_closes_the_connection(pipe: RedisPipe, peer: Peer, data: bytes) -> None:
    asked = Replies(pipe, b"one")
    await peer.expect(b"one")
    await peer.reply(data)
    reply = (await asked.get())[0]
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
