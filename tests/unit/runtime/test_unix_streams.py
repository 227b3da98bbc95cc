"""A Unix socket that is read by the event loop itself; under trio it is anyio's."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream

from apf_middleware.runtime.unix_streams import LoopStream, accept_stream, connect_stream

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Connect two streams with each other."""
    path = folder / "socket"
    async with await anyio.create_unix_listener(path) as listener:
        ours = await connect_stream(path)
        theirs = await accept_stream(listener)
        async with ours, theirs:
            yield ours, theirs


async def test_bytes_go_both_ways_until_the_end(tmp_path: Path, anyio_backend: str) -> None:
    async with connected(tmp_path) as (ours, theirs):
        assert isinstance(ours, LoopStream) is (anyio_backend == "asyncio")
        await ours.send(b"question")
        assert await theirs.receive(3) == b"que"
        assert await theirs.receive() == b"stion"
        await theirs.send(b"answer")
        await theirs.send_eof()
        assert await ours.receive() == b"answer"
        with pytest.raises(anyio.EndOfStream):
            await ours.receive()


async def test_a_read_can_be_cancelled_and_begun_again(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        with anyio.move_on_after(0.01):
            await ours.receive()
        await theirs.send(b"late")
        assert await ours.receive() == b"late"


async def test_sending_waits_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        with anyio.move_on_after(0.05) as scope:
            while True:
                await ours.send(bytes(2**20))
        assert scope.cancelled_caught
        await anyio.aclose_forcefully(ours)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError, ConnectionError)):
            await drained(theirs)


async def drained(stream: ByteStream) -> None:
    while True:
        await stream.receive()


async def test_what_was_sent_arrives_although_the_connection_is_closed_at_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        heard = bytearray()

        async def hear() -> None:
            async for part in theirs:
                heard.extend(part)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            await ours.send(bytes(2**21))
            await ours.aclose()
        assert len(heard) == 2**21


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_sent_now_can_be_read_in_the_same_turn(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs:
        theirs.settimeout(0)
        async with LoopStream(ours, *await asyncio.open_unix_connection(sock=ours)) as stream:
            stream.send_now(b"first")
            stream.send_now(b"second")
            assert theirs.recv(100) == b"firstsecond"
        assert not stream.is_idle
        stream.send_now(b"nothing is raised")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_the_peer_does_not_read_follows_in_order(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        assert isinstance(ours, LoopStream)
        parts = [bytes([number]) * 2**19 for number in range(4)]
        for part in parts:
            ours.send_now(part)
        assert not ours.is_idle
        heard = bytearray()
        while len(heard) < 4 * 2**19:
            heard.extend(await theirs.receive())
        assert heard == b"".join(parts)
        await ours.send(b"end")
        assert await theirs.receive() == b"end"
        assert ours.is_idle


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_next_send_tells_that_the_peer_has_gone(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        assert isinstance(ours, LoopStream)
        await theirs.aclose()
        await anyio.sleep(0.01)
        ours.send_now(b"nobody reads this")
        await anyio.sleep(0.01)
        with pytest.raises(OSError, match=r"[Bb]roken pipe|[Cc]onnection"):
            await ours.send(b"nor this")


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": fast}) for fast in (False, True)])
async def test_each_later_send_tells_that_the_peer_has_gone(tmp_path: Path) -> None:
    async with connected(tmp_path) as (ours, theirs):
        assert isinstance(ours, LoopStream)
        await theirs.aclose()
        for _ in range(4):
            ours.send_now(b"nobody reads this")
            await anyio.sleep(0.01)
            with pytest.raises(OSError, match=r"[Bb]roken pipe|[Cc]onnection"):
                await ours.send(b"nor this")


async def test_a_path_where_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await connect_stream(tmp_path / "socket")


async def test_an_accept_waits_and_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with await anyio.create_unix_listener(path) as listener:
        with anyio.move_on_after(0.01) as scope:
            await accept_stream(listener)
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:

            async def connect() -> None:
                await anyio.sleep(0.01)
                async with await connect_stream(path) as ours:
                    await ours.send(b"here")

            tasks.start_soon(connect)
            async with await accept_stream(listener) as theirs:
                assert await theirs.receive() == b"here"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_accept_that_is_cancelled_when_a_client_connects_logs_nothing(tmp_path: Path) -> None:
    """With the accept of anyio the event loop reports an InvalidStateError."""
    reports: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    path = tmp_path / "socket"
    async with await anyio.create_unix_listener(path) as listener:
        waiting = asyncio.create_task(accept_stream(listener))
        await asyncio.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            loop.call_soon(waiting.cancel)  # runs before the event loop looks for the connection
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.sleep(0.01)
    assert reports == []


async def test_no_file_descriptor_is_free(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with await anyio.create_unix_listener(path) as listener:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            with no_file_descriptors(), pytest.raises(OSError, match="Too many open files"):
                await accept_stream(listener)
            async with await accept_stream(listener):
                pass


@contextmanager
def no_file_descriptors() -> Iterator[None]:
    with socket.socket() as highest:
        taken = highest.fileno()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
