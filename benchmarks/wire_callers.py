"""Who calls in an overload: elephants who never rest, mice who come when they come, and what is counted of both.

An elephant's connections are closed loops: the next request as soon as there is an answer, a pause of 100 ms (give or
take half) after a refusal, a new connection after a deadline of one second. A mouse is an open loop: requests come at
random times (Poisson) whatever became of those before, none is repeated, and the latency counts from the moment when a
request was *due*. Otherwise a generator that is held up by a slow server would leave out just those that would have
waited (coordinated omission).
"""

import asyncio
import math
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.wire_client import Connection, request_bytes

__all__ = ["ElephantLoop", "Field", "LoadPlan", "Mouse", "MouseSample", "Tally", "is_success"]

_STALE: Final = 3.0  # seconds after which an idle connection isn't used again; servers end theirs after five or so


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Who comes how often. ``connections`` are those of all elephants together; ``rate`` is a mouse's, per second.

    A server of several processes has several ``ports``, which mice use in turn. Elephants spread their connections over
    ``elephant_ports``, or over all ports. Without ``ports`` there is only ``port``.
    """

    port: int
    elephants: int = 1
    connections: int = 200
    mice: int = 10
    rate: float = 10.0
    seconds: float = 10.0
    warm_up: float = 2.0
    deadline: float = 1.0
    pause: float = 0.1
    path: str = "/"
    seed: int = 1
    ports: Sequence[int] = ()
    elephant_ports: Sequence[int] = ()

    def elephant_port(self, number: int) -> int:
        """Return the port of the elephants' connection of this number."""
        ports = self.elephant_ports or self.ports or (self.port,)
        return ports[number // self.elephants % len(ports)]

    def mouse_port(self, number: int) -> int:
        """Return the port of a mouse's request of this number."""
        ports = self.ports or (self.port,)
        return ports[number % len(ports)]


@dataclass(frozen=True, slots=True)
class MouseSample:
    """One request of a mouse: when it was due, from the begin of the window, and how long it took; None: failed."""

    mouse: int
    due: float
    latency: float | None


@dataclass(slots=True)
class Tally:
    """What is counted while the window is open; a mouse's request belongs to the window that it is due in."""

    is_open: bool = False
    begin: float = math.inf
    end: float = math.inf
    useful: int = 0  # successes, by when they were answered
    refused: int = 0
    timed_out: int = 0
    lost: int = 0
    served: list[int] = field(default_factory=list)  # by elephant
    lateness: list[float] = field(default_factory=list)
    samples: list[MouseSample] = field(default_factory=list)

    def open_at(self, begin: float, seconds: float) -> None:
        self.begin = begin
        self.end = begin + seconds

    def count(self, status: int | None) -> None:
        """Take an answer; None is a connection that was lost."""
        if not self.is_open:
            return
        if status is None:
            self.lost += 1
        elif is_success(status):
            self.useful += 1
        else:
            self.refused += 1


def is_success(status: int) -> bool:
    return 200 <= status < 300


class Field:
    """What callers share: a clock, a die, the tally, and how to connect."""

    __slots__ = ("_tasks", "begin", "dice", "is_over", "living", "loop", "plan", "tally")

    def __init__(self, plan: LoadPlan, loop: asyncio.AbstractEventLoop) -> None:
        self.plan = plan
        self.loop = loop
        self.dice = random.Random(plan.seed)
        self.tally = Tally(served=[0] * plan.elephants)
        self.begin = loop.time()
        self.tally.open_at(self.begin + plan.warm_up, plan.seconds)
        self.is_over = False
        self.living: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def connect(self, port: int) -> Connection | None:
        try:
            async with asyncio.timeout(self.plan.deadline):
                _, connection = await self.loop.create_connection(lambda: Connection(self.living), "127.0.0.1", port)
        except OSError:  # a time-out is one too
            return None
        return connection

    async def finish(self) -> None:
        """Nobody calls any more, and all connections end."""
        self.is_over = True
        for connection in list(self.living):
            connection.abandon()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections end in the loop's next turn


class ElephantLoop:
    """One connection of an elephant, and the ones that replace it; ``number`` counts those of all elephants."""

    __slots__ = ("_connection", "_field", "_number", "_port", "_request", "_timer")

    def __init__(self, field: Field, number: int) -> None:
        self._field = field
        self._number = number % field.plan.elephants
        self._port = field.plan.elephant_port(number)
        self._request = request_bytes(field.plan.path, X_Tenant=f"elephant-{self._number}")
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None

    def begin(self) -> None:
        if not self._field.is_over:
            self._field.start(self._connect())

    async def _connect(self) -> None:
        self._connection = await self._field.connect(self._port)
        if self._connection is None:
            self._field.tally.count(None)
            self._rest()
        else:
            self._ask()

    def _ask(self) -> None:
        if self._connection is None or not self._connection.reusable:
            self.begin()
        elif not self._field.is_over:
            self._timer = self._field.loop.call_later(self._field.plan.deadline, self._give_up)
            self._connection.ask(self._request, self)

    def _rest(self) -> None:
        pause = self._field.plan.pause * self._field.dice.uniform(0.5, 1.5)
        self._field.loop.call_later(pause, self._ask)

    def _give_up(self) -> None:
        if self._connection is not None:
            self._connection.abandon()
        if self._field.tally.is_open:
            self._field.tally.timed_out += 1
        self.begin()

    def answered(self, _connection: Connection, status: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        tally = self._field.tally
        tally.count(status)
        if not is_success(status):
            self._rest()
            return
        if tally.is_open:
            tally.served[self._number] += 1
        self._ask()

    def lost(self, connection: Connection) -> None:
        if connection.is_waiting:  # otherwise it is noticed when the next request is due
            if self._timer is not None:
                self._timer.cancel()
            self._field.tally.count(None)
            self._rest()


class Mouse:
    """Requests at random times, each on an idle connection or a new one."""

    __slots__ = ("_count", "_dice", "_due", "_field", "_idle", "_number", "_request")

    def __init__(self, field: Field, number: int) -> None:
        self._field = field
        self._number = number
        self._request = request_bytes(field.plan.path, X_Tenant=f"mouse-{number}")
        self._count = number  # of its requests; the first ones of several mice go to different ports
        self._idle: dict[int, list[Connection]] = {}  # by port
        self._due = field.begin
        self._dice = random.Random(f"{field.plan.seed} {number}")  # when mice come depends on nothing that happens

    def begin(self) -> None:
        self._due += self._dice.expovariate(self._field.plan.rate)
        self._field.loop.call_at(self._due, self._fire)

    def _fire(self) -> None:
        if self._field.is_over:
            return
        due = self._due
        self.begin()
        tally = self._field.tally
        counted = tally.begin <= due < tally.end
        if counted:
            tally.lateness.append(self._field.loop.time() - due)
        port = self._field.plan.mouse_port(self._count)
        self._count += 1
        idle = self._idle.setdefault(port, [])
        errand = _Errand(self._field, idle, self._number, due, counted=counted)
        connection = self._fresh(idle)
        if connection is None:
            self._field.start(errand.connect(port, self._request))
        else:
            errand.ask(connection, self._request)

    def _fresh(self, idle: list[Connection]) -> Connection | None:
        while idle:
            connection = idle.pop()
            if connection.reusable and self._field.loop.time() - connection.since < _STALE:
                return connection
            connection.abandon()
        return None


class _Errand:
    """One request of a mouse, from when it was due until it has an outcome."""

    __slots__ = ("_connection", "_counted", "_due", "_field", "_idle", "_is_settled", "_number", "_timer")

    def __init__(self, field: Field, idle: list[Connection], number: int, due: float, *, counted: bool) -> None:
        self._field = field
        self._idle = idle
        self._number = number
        self._due = due
        self._counted = counted
        self._is_settled = False
        self._connection: Connection | None = None
        self._timer = field.loop.call_at(due + field.plan.deadline, self._give_up)

    async def connect(self, port: int, request: bytes) -> None:
        connection = await self._field.connect(port)
        if connection is None:
            self._settle(None, None)
        elif self._is_settled:
            connection.abandon()
        else:
            self.ask(connection, request)

    def ask(self, connection: Connection, request: bytes) -> None:
        self._connection = connection
        connection.ask(request, self)

    def _give_up(self) -> None:
        if self._connection is not None:
            self._connection.abandon()
        if self._field.tally.is_open:
            self._field.tally.timed_out += 1
        self._settle(None, 0)

    def answered(self, connection: Connection, status: int) -> None:
        now = self._field.loop.time()
        self._settle(now - self._due if is_success(status) else None, status)
        if connection.reusable:
            connection.since = now
            self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        if connection.is_waiting:
            self._settle(None, None)

    def _settle(self, latency: float | None, status: int | None) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        self._timer.cancel()
        tally = self._field.tally
        if status != 0:  # a time-out has been counted
            tally.count(status)
        if self._counted:
            tally.samples.append(MouseSample(self._number, self._due - tally.begin, latency))
