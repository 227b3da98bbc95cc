"""Requests that run although their clients have gone: ``python -m benchmarks.hangups [--json] [--clients 200]``.

For each server: two requests take both seats, then clients of each shape send their requests, which are queued, and
disconnect. When the server has had time to notice, the seats are freed; once nothing waits, the app reports how many of
those requests it ran. There should be none, except where the server doesn't report the disconnect:

get        no body
post       a small body, in the segment that the head comes in
parts      a body in five chunks, each a segment of its own
long       a body of 48 KiB
huge       a body of 1 MiB: it isn't read to its end before there is a seat, so the disconnect is not seen
pipelined  two requests in one segment: while the second is unread, servers don't report that the client has gone
"""

import argparse
import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

from benchmarks.hangups_app import SEATS
from benchmarks.measure import print_json, print_table
from tests.support.servers import Kind, Server, serve

__all__ = ["SERVERS", "SHAPES", "Hangups", "count_hangups"]

SERVERS: Final[dict[str, tuple[Kind, tuple[str, ...]]]] = {
    "uvicorn, httptools": ("uvicorn", ("--loop", "uvloop", "--http", "httptools")),
    "uvicorn, h11": ("uvicorn", ("--loop", "asyncio", "--http", "h11")),
    "hypercorn, asyncio": ("hypercorn", ("--worker-class", "asyncio", "--backlog", "2048")),
    "hypercorn, trio": ("hypercorn", ("--worker-class", "trio", "--backlog", "2048")),
    "granian": ("granian", ("--workers", "1", "--backlog", "2048")),
}

_STILL_S: Final = 0.7  # a value that hasn't changed for so long is final
_PATIENCE_S: Final = 30.0

T = TypeVar("T")

Segments = list[bytes]
"""What a client writes, each part in a segment of its own."""


def _head(mark: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join((f"{method} /count?mark={mark} HTTP/1.1", "Host: x", *headers, "", "")).encode()


def _post(mark: str, size: int) -> bytes:
    return _head(mark, f"Content-Length: {size}") + b"x" * size


def _parts(mark: str) -> Segments:
    return [_head(mark, "Transfer-Encoding: chunked"), *[b"4\r\nbody\r\n"] * 5, b"0\r\n\r\n"]


SHAPES: Final[dict[str, Callable[[str], Segments]]] = {
    "get": lambda mark: [_head(mark, method="GET")],
    "post": lambda mark: [_post(mark, 8)],
    "parts": _parts,
    "long": lambda mark: [_post(mark, 48 * 1024)],
    "huge": lambda mark: [_post(mark, 1024 * 1024)],
    "pipelined": lambda mark: [_post(mark, 8) * 2],
}


@dataclass(frozen=True, slots=True)
class Hangups:
    """The result for one shape: of ``hung_up`` requests whose clients disconnected, ``ran`` were run."""

    server: str
    shape: str
    hung_up: int
    ran: int


def count_hangups(
    clients: int, servers: Iterable[str] = tuple(SERVERS), shapes: Sequence[str] = tuple(SHAPES)
) -> list[Hangups]:
    """Run each server, and let ``clients`` clients disconnect for each shape of request."""
    found = []
    for name in servers:
        kind, options = SERVERS[name]
        with serve("benchmarks.hangups_app:app", *options, kind=kind, ready="/tell") as server:
            ran = asyncio.run(_hang_up(server, shapes, clients))
        found += [Hangups(name, shape, clients, ran.get(shape, 0)) for shape in shapes]
    return found


async def _hang_up(server: Server, shapes: Sequence[str], clients: int) -> dict[str, int]:
    """Return how many requests of disconnected clients have run, by shape."""
    holders = [asyncio.create_task(_hold(server)) for _ in range(SEATS)]
    await _become(lambda: _counts(server).get("held", 0) == SEATS)
    writers = [await _send(server, SHAPES[shape](shape)) for _ in range(clients) for shape in shapes]
    await _become(lambda: _waiting(server) == len(writers))
    for writer in writers:
        writer.close()
    await _settle(lambda: _waiting(server))
    await asyncio.to_thread(_asked, server, "/free")
    await asyncio.gather(*holders)
    await _become(lambda: _waiting(server) == 0)
    return await _settle(lambda: _counts(server))  # a second request of the same connection may run yet


async def _hold(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /hold?mark=held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()


async def _send(server: Server, segments: Segments) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for segment in segments:
        writer.write(segment)
        await asyncio.sleep(0.001 if len(segments) > 1 else 0)
    return writer


async def _become(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it comes from elsewhere
            await asyncio.sleep(0.02)


async def _settle(look: Callable[[], T]) -> T:
    """Return the value once it has stopped changing."""
    seen, since = await asyncio.to_thread(look), time.monotonic()
    while time.monotonic() - since < _STILL_S:
        await asyncio.sleep(0.05)
        before, seen = seen, await asyncio.to_thread(look)
        if seen != before:
            since = time.monotonic()
    return seen


def _asked(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(server.url + path, timeout=_PATIENCE_S) as answer:  # noqa: S310 - it is ours
        body: bytes = answer.read()
    return body


def _counts(server: Server) -> dict[str, int]:
    counts: dict[str, int] = json.loads(_asked(server, "/tell"))
    return counts


def _waiting(server: Server) -> int:
    lines = [line for line in _asked(server, "/metrics").decode().splitlines() if not line.startswith("#")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("apf_current_inqueue_requests"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--clients", type=int, default=200, help="how many hang up, of each shape")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    asked = parser.parse_args(arguments)
    rows = [asdict(one) for one in count_hangups(asked.clients, asked.servers, asked.shapes)]
    if asked.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
