"""The load: when the elephant and the mice send requests, and the outcome of each.

The elephant is a closed loop on each of its connections: it sends the next request as soon as it has a response, after
a pause if that was a rejection, and on a new connection if none came in time. A mouse is an open loop: it sends its
requests at random times, independent of earlier responses, and latencies count from the time at which a request was
due. If a mouse waited for its responses, a slow server would get fewer requests and look better than it is.

All of it runs in one event loop and takes a few percent of a core.
"""

import asyncio
import re
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, cast

__all__ = ["Asked", "Load", "Run"]

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE: Final = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a run, in seconds. The first part is calm; then, during ``onset``, the elephant arrives."""

    seconds: float = 8.0
    connections: int = 200
    mice: int = 10
    rate: float = 10.0
    deadline: float = 1.0
    pause: float = 0.1
    onset: float = 0.25
    seed: int = 1

    @property
    def calm(self) -> float:
        return self.seconds / 5


class Asked(NamedTuple):
    """One request: when it was due since the beginning, how long the client waited, and the status of the response.

    The status is 0 if no response came in time, or if the connection was lost.
    """

    due: float
    took: float
    status: int

    @property
    def is_served(self) -> bool:
        return 200 <= self.status < 300


class _Connection(asyncio.Protocol):
    """A keep-alive connection with one request under way at a time."""

    def __init__(self, living: "set[_Connection]") -> None:
        self._living = living
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._received = b""
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._living.add(self)

    async def ask(self, request: bytes) -> int:
        """Return the status of a complete answer; raise ConnectionError if it never comes."""
        if self._transport is None or not self.is_open:
            raise ConnectionResetError("the server has closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(_HEAD_END)
        length = _LENGTH.search(head)
        if not separator or len(body) < (int(length[1]) if length else 0):
            return
        self._received = b""
        self.is_open = _CLOSE.search(head) is None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(int(head[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        self._living.discard(self)
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server has closed the connection"))

    def abandon(self) -> None:
        """Close the connection, as a client does after a time-out."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


class _Caller:
    """One client: its key, its idle connections, and its requests so far."""

    def __init__(self, name: str, load: Load, asked: list[Asked]) -> None:
        lines = ("GET /orders/7 HTTP/1.1", "Host: 127.0.0.1", f"X-API-Key: {name}-key", "", "")
        self.request = "\r\n".join(lines).encode()
        self.chance = Random(f"{load.seed} {name}")  # noqa: S311 - a load that repeats, not a secret
        self.idle: list[_Connection] = []
        self.asked = asked


class Run:
    """The load on one server, whose progress can be read while it runs."""

    def __init__(self, load: Load, port: int) -> None:
        self.load = load
        self.port = port
        self.mice: list[Asked] = []
        self.elephant: list[Asked] = []
        self.lateness: list[float] = []
        """The delay of each request of a mouse until it was sent, which bounds the error of the measurement."""
        self._living: set[_Connection] = set()
        self._began: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, up to the planned duration; the last responses may take longer."""
        return 0.0 if self._began is None else min(self._now() - self._began, self.load.seconds)

    async def play(self) -> None:
        """Send the load, that of the elephant until the last mouse has its last response."""
        self._began = self._now()
        elephant = _Caller("elephant", self.load, self.elephant)
        try:
            async with asyncio.TaskGroup() as connections:
                loops = [connections.create_task(self._run_elephant(elephant)) for _ in range(self.load.connections)]
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(self.load.seconds))  # the last mouse may come before the end
                    for number in range(1, self.load.mice + 1):
                        group.create_task(self._run_mouse(_Caller(f"mouse-{number}", self.load, self.mice), group))
                for one in loops:
                    one.cancel()
        finally:
            for connection in list(self._living):
                connection.abandon()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _run_elephant(self, elephant: _Caller) -> None:
        """Run one connection of the elephant."""
        await asyncio.sleep(self.load.calm + self.load.onset * elephant.chance.random())
        while True:
            answer = await self._ask(elephant, self._now())
            if not answer.is_served and answer.took < self.load.deadline:  # refused, or the connection was lost
                await asyncio.sleep(self.load.pause * elephant.chance.uniform(0.5, 1.5))

    async def _run_mouse(self, mouse: _Caller, group: asyncio.TaskGroup) -> None:
        """Run a mouse, which doesn't wait for its responses."""
        began = due = self._now()
        while (due := due + mouse.chance.expovariate(self.load.rate)) < began + self.load.seconds:
            await asyncio.sleep(due - self._now())
            self.lateness.append(self._now() - due)
            group.create_task(self._ask(mouse, due))

    async def _ask(self, caller: _Caller, due: float) -> Asked:
        """Send one request, whose response must come within the deadline from the time at which it was due."""
        connection: _Connection | None = None
        status = 0
        try:
            async with asyncio.timeout_at(due + self.load.deadline):
                connection = self._idle(caller) or await self._connect()
                status = await connection.ask(caller.request)
        except OSError:  # a time-out is one, too
            if connection is not None:
                connection.abandon()
        else:
            caller.idle.append(connection)
        answer = Asked(due - (self._began or 0.0), self._now() - due, status)
        caller.asked.append(answer)
        return answer

    @staticmethod
    def _idle(caller: _Caller) -> _Connection | None:
        while caller.idle:
            connection = caller.idle.pop()
            if connection.is_open:
                return connection
            connection.abandon()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: _Connection(self._living), "127.0.0.1", self.port)
        return connection
