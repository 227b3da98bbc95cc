"""Whether a gate in Redis recovers when Redis has paused: ``python -m benchmarks.redis_pause [--json] [--rounds 3]``.

A real Redis, and an app on uvicorn behind a capacity of four places that are held for 120 s at most. A row is a round:

pause    40 clients ask again as soon as they are answered, and Redis is stopped for 2 s in between
crowd    500 clients ask at once and hang up at once, four times

``served_before`` and ``served_after`` are requests a second, after it from one second after Redis was continued on.
``leaked`` places are still taken 8 s after the last request, with nobody left to use them.
"""

import argparse
import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from redis import Redis as Client

from benchmarks.measure import print_json, print_table
from tests.support import databases
from tests.support.databases import Redis
from tests.support.servers import Server, serve

__all__ = ["OnError", "Plan", "Round", "endure"]

OnError = Literal["admit", "reject", "backoff"]

_KEY: Final = "apf:places:"
_CLIENTS: Final = 40
_CROWD: Final = 500
_REST: Final = 8.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds before, in and after the pause."""

    on_error: OnError = "reject"
    rounds: int = 1
    before: float = 2
    pause: float = 2
    after: float = 4


@dataclass(frozen=True, slots=True)
class Round:
    """What became of one round."""

    kind: Literal["pause", "crowd"]
    on_error: OnError
    served_before: float | None
    served_after: float | None
    leaked: int


def endure(plan: Plan) -> list[Round]:
    """Run all rounds on one server and one Redis; a pause and a crowd in each."""
    found: list[Round] = []
    with databases.redis() as redis:
        environment = {"APF_REDIS": redis.url, "APF_ON_ERROR": plan.on_error}
        with serve("benchmarks.redis_pause_app:app", environment=environment, ready="/free") as server:
            for _ in range(plan.rounds):
                before, after = asyncio.run(_pause(plan, server, redis))
                found.append(Round("pause", plan.on_error, before, after, _leaked(redis)))
                asyncio.run(_crowd(server))
                found.append(Round("crowd", plan.on_error, None, None, _leaked(redis)))
    return found


def _leaked(redis: Redis) -> int:
    """Count the places that are taken although nobody uses them; then free them for the next round."""
    deadline = time.monotonic() + _REST
    with Client.from_url(redis.url) as client:
        while (taken := int(client.zcount(_KEY, 1, "+inf"))) and time.monotonic() < deadline:
            time.sleep(0.05)
        client.delete(_KEY)
    return taken


async def _pause(plan: Plan, server: Server, redis: Redis) -> tuple[float, float]:
    clients = _Clients(server)
    asking = [asyncio.create_task(clients.ask()) for _ in range(_CLIENTS)]
    before = await clients.rate(plan.before)
    redis.pause()
    await asyncio.sleep(plan.pause)
    redis.resume()
    await asyncio.sleep(1)
    after = await clients.rate(plan.after - 1)
    clients.is_over = True
    _, waiting = await asyncio.wait(asking, timeout=10)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return before, after


class _Clients:
    """Clients that ask again as soon as they are answered, and a little later when they are refused."""

    def __init__(self, server: Server) -> None:
        self._port = server.port
        self.answers: Counter[int] = Counter()
        self.is_over = False

    async def rate(self, seconds: float) -> float:
        """Return how many are served in a second, over so many seconds."""
        served, began = self.answers[200], time.monotonic()
        await asyncio.sleep(seconds)
        return round((self.answers[200] - served) / (time.monotonic() - began), 1)

    async def ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer):
            while not self.is_over:
                writer.write(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
                status = int(head.split()[1])
                self.answers[status] += 1
                if status != 200:
                    await asyncio.sleep(0.05)


async def _crowd(server: Server) -> None:
    """Let 500 clients ask for what takes long, and hang up while the gate is asked for them."""
    for patience in (0.0, 0.02, 0.1, 0.5):
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(_CROWD)]
        for _, writer in opened:
            writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(patience)
        for _, writer in opened:
            writer.transport.abort()
    await asyncio.sleep(0.5)


def main(arguments: Sequence[str] | None = None, run: Callable[[Plan], list[Round]] = endure) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=3, help="for each policy of errors")
    asked = parser.parse_args(arguments)
    policies: tuple[OnError, ...] = ("admit", "reject", "backoff")
    rows: list[dict[str, Any]] = [
        asdict(found) for policy in policies for found in run(Plan(on_error=policy, rounds=asked.rounds))
    ]
    if asked.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
