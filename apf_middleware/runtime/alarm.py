"""A call at a later time, on whichever event loop runs: the one timer that isn't a waiting request's own.

It is set only while there is something that time alone changes: seats that linger, a limit that is to be adjusted,
numbers to be published. Nothing runs otherwise, and nothing is set where no event loop runs.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Alarm", "AnyAlarm"]

_SECOND: Final = 10**9


class AnyAlarm(Protocol):
    """What calls at a later time, wherever time comes from."""

    def ask(self, at: int) -> None: ...


class Alarm:
    """Calls ``ring`` once at the earliest of the times that were asked for; ``now`` is the clock, in nanoseconds."""

    __slots__ = ("_at", "_handle", "_loop", "_now", "_ring")

    def __init__(self, ring: Callable[[], None], now: Callable[[], int]) -> None:
        self._ring = ring
        self._now = now
        self._at: int | None = None
        self._loop: object = None  # asyncio's loop or trio's token
        self._handle: asyncio.TimerHandle | None = None

    def ask(self, at: int) -> None:
        """Ring at ``at``, unless it rings sooner anyway."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._ask_trio(at)
            return
        if self._at is not None and self._loop is loop:  # another loop may have ended with its timers
            if self._at <= at:
                return
            if self._handle is not None:
                self._handle.cancel()
        self._at, self._loop = at, loop
        self._handle = loop.call_later(max(0, at - self._now()) / _SECOND, self._fire, at)

    def _fire(self, at: int) -> None:
        if self._at == at:
            self._at = None
            self._handle = None
            self._ring()

    def _ask_trio(self, at: int) -> None:
        try:
            from trio.lowlevel import current_trio_token, spawn_system_task  # noqa: PLC0415 - only for apps on trio

            token = current_trio_token()
        except (ImportError, RuntimeError):  # no event loop runs
            return
        if self._at is not None and self._loop is token and self._at <= at:
            return
        self._at, self._loop, self._handle = at, token, None
        spawn_system_task(self._sleep_and_fire, at)

    async def _sleep_and_fire(self, at: int) -> None:
        from trio import sleep  # noqa: PLC0415

        await sleep(max(0, at - self._now()) / _SECOND)
        self._fire(at)

    def cancel(self) -> None:
        """Don't ring."""
        if self._handle is not None:
            self._handle.cancel()
        self._at = self._handle = None

    def __repr__(self) -> str:
        return f"<Alarm at {self._at}>"
