"""Messages on a stream socket: four bytes of length, then the message."""

from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

from apf_middleware.exceptions import InvalidValueError

__all__ = ["MOST_BYTES", "FrameReader", "framed"]

MOST_BYTES: Final = 8 * 2**20
"""The longest message: far more than a report of a hundred levels with a hundred flows each."""

_HEAD: Final = 4
_PART: Final = 64 * 1024


def framed(message: bytes) -> bytes:
    """Return the bytes that carry one message."""
    return len(message).to_bytes(_HEAD, "big") + message


class FrameReader:
    """Read messages from ``stream``."""

    __slots__ = ("_buffer", "_stream")

    def __init__(self, stream: ByteReceiveStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def read(self) -> bytes:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the peer has closed the connection.
            InvalidValueError: the message is too long.
        """
        await self._fill(_HEAD)
        length = int.from_bytes(self._buffer[:_HEAD], "big")
        if length > MOST_BYTES:
            raise InvalidValueError("length of a message", length, f"it must be at most {MOST_BYTES} bytes")
        await self._fill(_HEAD + length)
        message = bytes(self._buffer[_HEAD : _HEAD + length])
        del self._buffer[: _HEAD + length]
        return message

    async def _fill(self, length: int) -> None:
        while len(self._buffer) < length:
            part = await self._stream.receive(_PART)
            if not part:
                raise anyio.EndOfStream
            self._buffer += part
