"""The scarce thing behind the app: a backend with 10 places of 20 ms, which slows down beyond, and its scoreboard.

With n calls in flight each takes 20 ms * max(1, n/10)^1.5, known when it begins: at 10 it does 500 calls a second, and
at 100 only 158. So do databases under contention. It sleeps rather than computes: the processor is not what is scarce.

The scoreboard is memory that the server's process and the load generator's share. Asking the server over its sockets
would be asking the thing that is overloaded.
"""

import asyncio
import mmap
import os
from pathlib import Path
from random import Random
from typing import Final, Self

from starlette.types import Receive, Scope, Send

__all__ = ["CAPACITY", "PLACES", "SERVICE_S", "Backend", "Scoreboard"]

PLACES: Final = 10
SERVICE_S: Final = 0.02
CAPACITY: Final = PLACES / SERVICE_S
"""Calls a second at best."""

_VARIABLE: Final = "APF_SCOREBOARD"
_FIELDS: Final = 3
_START: Final = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
_BODY: Final = {"type": "http.response.body", "body": b"ok"}


class Scoreboard:
    """Three counters in a file's memory: calls in flight, the most there have been, calls finished."""

    __slots__ = ("_cells", "_memory", "path")

    def __init__(self, path: Path) -> None:
        """Of an existing scoreboard, or a new one."""
        with path.open("a+b") as file:
            file.truncate(8 * _FIELDS)  # what is there stays
            self._memory = mmap.mmap(file.fileno(), 8 * _FIELDS)
        self._cells = memoryview(self._memory).cast("q")
        self.path = path

    @classmethod
    def from_environment(cls) -> Self:
        return cls(Path(os.environ[_VARIABLE]))

    def environment(self) -> dict[str, str]:
        """Return the environment with which a server's process finds the backend."""
        return {_VARIABLE: str(self.path)}

    @property
    def in_flight(self) -> int:
        return self._cells[0]

    @property
    def peak(self) -> int:
        return self._cells[1]

    @property
    def finished(self) -> int:
        return self._cells[2]

    def begin(self) -> int:
        """One more call; how many there are now."""
        cells = self._cells
        number = cells[0] + 1
        cells[0] = number
        cells[1] = max(cells[1], number)
        return number

    def end(self) -> None:
        cells = self._cells
        cells[0] -= 1
        cells[2] += 1

    def forget_peak(self) -> None:
        """From now on."""
        self._cells[1] = self._cells[0]


class Backend:
    """An ASGI app that does nothing but call the backend.

    With ``dice`` calls take half of their time to one and a half, and no more and no less on average. All those that
    take the same end together, for timers know milliseconds, and then begin together, and so on.
    """

    __slots__ = ("_dice", "_scoreboard")

    def __init__(self, scoreboard: Scoreboard, dice: Random | None = None) -> None:
        self._scoreboard = scoreboard
        self._dice = dice

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        number = self._scoreboard.begin()
        try:
            service = SERVICE_S if self._dice is None else SERVICE_S * (0.5 + self._dice.random())
            await asyncio.sleep(service * max(1.0, number / PLACES) ** 1.5)
        finally:
            self._scoreboard.end()
        await send(_START)
        await send(_BODY)
