"""``Expect: 100-continue`` on real servers: a queued upload stays with its client until it has a seat."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.observing import become
from tests.support.servers import Server, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PLAYGROUND = Path(__file__).parent / "data" / "playground.yaml"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["h11", "httptools"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    environment = {"APF_TEST_CONFIG": str(PLAYGROUND)}
    with serve("tests.e2e.playground:app", "--http", request.param, environment=environment, ready="/tell") as running:
        yield running


class Upload:
    """A request with a body that is sent when a test wants it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, server: Server, user: str, *more: str) -> "Upload":
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        head = ("POST /echo HTTP/1.1", "Host: x", f"X-User: {user}", "Content-Length: 5", *more, "", "")
        streams[1].write("\r\n".join(head).encode())
        return cls(*streams)

    async def line(self) -> bytes:
        return await asyncio.wait_for(self.reader.readline(), 60)

    async def end(self) -> None:
        """Send the body, and hear the status."""
        self.writer.write(b"hello")
        assert (await self.line()).split()[1] == b"200"
        self.writer.close()


async def hang_up_while_queued(server: Server, client: httpx.AsyncClient) -> None:
    """Somebody comes later, hangs up, and it is noticed: so long have those before been waiting, at least."""
    later = await Upload.to(server, "later")
    await become(client, "inqueue", 2)
    later.writer.close()
    await become(client, "inqueue", 1)


@pytest.mark.parametrize("status", [b"200", b"429"], ids=["served", "rejected"])
async def test_a_client_is_asked_to_continue_when_its_request_has_a_seat(server: Server, status: bytes) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        holders = [await Upload.to(server, "holder") for _ in range(2)]
        await become(client, "executing", 2)
        upload = await Upload.to(server, "up", "Expect: 100-continue")
        await become(client, "inqueue", 1)
        await hang_up_while_queued(server, client)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(upload.reader.read(1), 0.01)  # nothing has come in all that time
        if status == b"200":
            await holders.pop().end()
            assert await upload.line() + await upload.line() == CONTINUE
            await upload.end()
        else:
            assert (await upload.line()).split()[1] == status
            upload.writer.close()
        for holder in holders:
            await holder.end()
