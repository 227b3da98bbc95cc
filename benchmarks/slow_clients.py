"""Service of other clients during slow-client attacks: ``python -m benchmarks.slow_clients [--json] [--seconds 8]``.

A server with the web defaults on uvicorn, 100 connections of one /24 that are slow in one way, and ten clients of ten
other networks that request 20 ms of work again and again. Each has its own loopback address. Each attack is repeated
with slow clients that hold their seats, as without these settings.

trickle   a body of which a byte comes each second
burst     a body of 10 MB of which 128 KiB come at once, and then a byte each second
expect    a body that the client starts to send after the response 100, a byte each second
get       a body of a GET, of which a byte comes each second; the server has `anyMethod: true`
reader    a download that the client doesn't read
"""

import argparse
import asyncio
import contextlib
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol

from benchmarks.measure import print_json, print_table
from tests.support.servers import serve

__all__ = ["ATTACKS", "Outcome", "attack", "main"]

ATTACKS: Final = ("trickle", "burst", "expect", "get", "reader")

_SLOW: Final = 100
_GOOD: Final = 10
_LONGEST_S: Final = 40
_HOLDING: Final = (
    "apiVersion: apf/v1\nkind: Server\nspec: {bodies: {holdSeats: true}, streams: {releaseWhenBlocked: 0s}}\n"
)
_ANY_METHOD: Final = "apiVersion: apf/v1\nkind: Server\nspec: {bodies: {anyMethod: true}}\n"
_HEADS: Final = {
    "trickle": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    "burst": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 131_072,
    "expect": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
    "get": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    "reader": b"GET /download HTTP/1.1\r\nHost: x\r\n\r\n",
}
_ASK: Final = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


@dataclass(slots=True)
class Outcome:
    """The results of the ten other clients; ``slow`` counts the statuses of the slow ones."""

    attack: str
    holds_seats: bool
    seconds: float
    served: int = 0
    starved: int = 0
    refused: int = 0
    slowest: float = 0.0
    slow: Counter[str] = field(default_factory=Counter)


def attack(kind: str, seconds: float, *, holds_seats: bool, least: int = 0) -> Outcome:
    """Start a server, and let slow and other clients connect.

    On a busy machine it takes longer, until each of the others has been served ``least`` times.
    """
    outcome = Outcome(kind, holds_seats, seconds)
    environment = {}
    with tempfile.TemporaryDirectory(prefix="apf-slow-") as folder:
        if holds_seats or kind == "get":
            config = Path(folder) / "apf.yaml"
            config.write_text(_HOLDING if holds_seats else _ANY_METHOD)
            environment["APF_CONFIG"] = str(config)
        with serve("benchmarks.slow_app:app", environment=environment, ready="/metrics") as server:
            asyncio.run(_run(server.port, outcome, least))
    return outcome


class Run(Protocol):
    """Runs an attack."""

    def __call__(self, kind: str, seconds: float, *, holds_seats: bool) -> Outcome: ...


async def _run(port: int, outcome: Outcome, least: int) -> None:
    slow = [asyncio.create_task(_be_slow(port, number, outcome)) for number in range(_SLOW)]
    await asyncio.sleep(1)
    end = time.monotonic() + outcome.seconds
    served = await asyncio.gather(*[_ask(port, number, outcome, end, least) for number in range(_GOOD)])
    outcome.served, outcome.starved = sum(served), served.count(0)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def _be_slow(port: int, number: int, outcome: Outcome) -> None:
    """Act as a slow client, and reconnect whenever the connection ends."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await _connect(port, f"127.0.1.{number + 1}")
            writer.write(_HEADS[outcome.attack])
            sending = asyncio.create_task(_trickle(writer)) if outcome.attack != "reader" else None
            try:
                if sending is None:
                    reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001 - else it buffers
                    await asyncio.sleep(_LONGEST_S)
                line = b"100"
                while b"100" in line or not line.strip():
                    line = await reader.readline()
                    if not line:
                        break
                outcome.slow[line.decode().split()[1] if line else "closed"] += 1
            finally:
                if sending is not None:
                    sending.cancel()
                writer.close()


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(1)
        writer.write(b"x")


async def _ask(port: int, number: int, outcome: Outcome, end: float, least: int) -> int:
    """Send requests one after another, and return how many were served."""
    served = 0
    latest = end if not least else end + _LONGEST_S
    while (begin := time.monotonic()) < (end if served >= least else latest):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.{number + 10}.1", 0))
        try:
            async with asyncio.timeout(latest - begin):
                writer.write(_ASK)
                status = (await reader.readline()).split()[1]
                if status == b"200":
                    served += 1
                else:
                    outcome.refused += 1
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pass
        finally:
            writer.close()
        outcome.slowest = max(outcome.slowest, time.monotonic() - begin)
    return served


async def _connect(port: int, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect with a small receive buffer, which has to be set before the connection is made."""
    connection = socket.socket()
    connection.setblocking(False)  # noqa: FBT003 - its only parameter
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        connection.bind((host, 0))
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise


def main(arguments: Sequence[str] | None = None, run: Run = attack) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_clients", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=8, help="of each run (8)")
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS), help="by default all")
    given = parser.parse_args(arguments)
    outcomes = [
        run(kind, given.seconds, holds_seats=holds_seats) for kind in given.attacks for holds_seats in (True, False)
    ]
    if given.json:
        print_json([asdict(outcome) for outcome in outcomes])
        return
    print_table(
        ("slow clients", "seats held", "served", "starved of 10", "refused", "slowest", "slow ones got"),
        [
            (
                one.attack,
                "yes" if one.holds_seats else "no",
                f"{one.served}",
                f"{one.starved}",
                f"{one.refused}",
                f"{one.slowest:.2f} s",
                ", ".join(f"{number} of {status}" for status, number in sorted(one.slow.items())) or "nothing",
            )
            for one in outcomes
        ],
    )


if __name__ == "__main__":
    main()
