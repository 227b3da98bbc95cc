"""A minimal reverse proxy, to try the example without nginx: ``python -m examples.behind_proxy.proxy``.

It does what a proxy in front of the middleware must do: authenticate users, remove the headers that only it may set,
and set them itself. It connects to the app from its own address, 127.0.0.2, as if it were another machine (this works
on Linux; macOS needs ``ifconfig lo0 alias 127.0.0.2`` before). It doesn't forward bodies.
"""

import argparse
import asyncio
from base64 import b64encode
from contextlib import suppress

__all__ = ["ADDRESS", "rewritten", "serve"]

ADDRESS = "127.0.0.2"
_USERS = {b"Basic " + b64encode(b"alice:wonderland"): b"alice"}
_OURS = (b"x-remote-", b"authorization", b"connection", b"content-length", b"transfer-encoding")


async def serve(port: int, app_port: int) -> None:
    """Serve until the task is cancelled."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = rewritten(await reader.readuntil(b"\r\n\r\n"), writer.get_extra_info("peername")[0])
            answer, request = await asyncio.open_connection("127.0.0.1", app_port, local_addr=(ADDRESS, 0))
            request.write(head)
            client_left = asyncio.create_task(_copy(reader, None))
            answered = asyncio.create_task(_copy(answer, writer))
            await asyncio.wait({client_left, answered}, return_when=asyncio.FIRST_COMPLETED)
            client_left.cancel()
            request.close()
        writer.close()

    async with await asyncio.start_server(serve_one, "127.0.0.1", port) as server:
        await server.serve_forever()


def rewritten(head: bytes, client: str) -> bytes:
    """Return the request's head as the app may see it; raise ValueError if it is ambiguous."""
    request, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if any(b"\r" in line or b"\n" in line for line in (request, *lines)):
        raise ValueError("a line must end with CR and LF")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    kept = [line for line in lines if not line.lower().startswith(_OURS)]
    added = [f"X-Forwarded-For: {client}".encode(), b"Connection: close"]
    user = _USERS.get(headers.get(b"authorization", b""))
    if user:
        added += [b"X-Remote-User: " + user, b"X-Remote-Group: staff"]
    return b"\r\n".join([request, *kept, *added, b"", b""])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            if writer is not None:
                writer.write(part)
                await writer.drain()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A reverse proxy, for trying out.")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--app-port", type=int, default=8000)
    ports = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(ports.port, ports.app_port))
