"""Messages on a stream, in parts of any size."""

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.fleet.frames import MOST_BYTES, FrameReader, framed

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Parts(ByteReceiveStream):
    """A stream that gives its bytes in parts of one ``size``."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002
        if not self.data:
            raise anyio.EndOfStream
        part, self.data = self.data[: self.size], self.data[self.size :]
        return part

    async def aclose(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("size", [1, 3, 4, 7, 1000])
async def test_messages_come_back_whole(size: int) -> None:
    reader = FrameReader(Parts(framed(b"one") + framed(b"") + framed(b"x" * 300), size))

    assert [await reader.read() for _ in range(3)] == [b"one", b"", b"x" * 300]
    with pytest.raises(anyio.EndOfStream):
        await reader.read()


async def test_a_message_that_ends_early_is_the_end() -> None:
    with pytest.raises(anyio.EndOfStream):
        await FrameReader(Parts(framed(b"one")[:-1], 5)).read()


async def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidValueError, match="length of a message"):
        await FrameReader(Parts((MOST_BYTES + 1).to_bytes(4, "big"), 5)).read()
