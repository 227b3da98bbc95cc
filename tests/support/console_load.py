"""Clients that a server's proxy has named: an elephant that never rests, and mice. Run as a process: PORT [CLIENT...].

A client is written NAME:CONNECTIONS:PAUSE:PATH. Each of its connections sends a request, waits for the answer, and then
for the pause.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["ELEPHANT", "MICE", "load"]

ELEPHANT: Final = "elephant:30:0:/orders/export"
MICE: Final = tuple(f"mouse-{number}:1:0.4:/orders/{number}" for number in range(1, 6))


async def _connect(port: int, name: str, pause: float, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: shop\r\nX-Remote-User: {name}\r\n\r\n".encode()
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError, IndexError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                while True:
                    writer.write(head)
                    status = await _read_answer(reader)
                    await asyncio.sleep(pause + (0.2 if status in {429, 503} else 0))
            finally:
                writer.close()
        await asyncio.sleep(0.2)


async def _read_answer(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
    return int(head.split()[1])


async def _play(port: int, clients: Sequence[str]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            name, connections, pause, path = client.split(":", 3)
            for _ in range(int(connections)):
                tasks.create_task(_connect(port, name, float(pause), path))


@contextlib.contextmanager
def load(port: int, *clients: str) -> Iterator[None]:
    """Let ``clients`` send requests to the server at ``port``."""
    process = subprocess.Popen([sys.executable, __file__, str(port), *clients], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(_play(int(sys.argv[1]), sys.argv[2:]))
