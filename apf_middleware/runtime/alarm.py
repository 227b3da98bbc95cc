"""A timer that works on asyncio and on trio.

An alarm is set only while there is something that changes with time alone: seats that linger, a limit that has to be
adjusted, numbers to be published. An idle server therefore has no timers. Without an event loop, no timer is set.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Alarm", "AnyAlarm"]

_SECOND: Final = 10**9


class AnyAlarm(Protocol):
    """An alarm for any clock, also a virtual one."""

    def ask(self, at: int) -> None:
        """Ring at ``at``, unless the alarm rings sooner anyway."""
        ...


class Alarm:
    """Call ``ring`` once at the earliest of the times that were asked for; ``now`` is the clock, in nanoseconds."""

    __slots__ = ("_at", "_handle", "_loop", "_now", "_ring")

    def __init__(self, ring: Callable[[], None], now: Callable[[], int]) -> None:
        self._ring = ring
        self._now = now
        self._at: int | None = None
        self._loop: object = None  # asyncio's loop or trio's token
        self._handle: asyncio.TimerHandle | None = None

    def ask(self, at: int) -> None:
        """Ring at ``at``, unless the alarm rings sooner anyway."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._ask_trio(at)
            return
        # A timer of another loop doesn't count: that loop may have ended, and its timers with it.
        if self._at is not None and self._loop is loop:
            if self._at <= at:
                return
            if self._handle is not None:
                self._handle.cancel()
        self._at, self._loop = at, loop
        self._handle = loop.call_later(max(0, at - self._now()) / _SECOND, self._fire, at)

    def _fire(self, at: int) -> None:
        if self._at == at:  # otherwise an earlier time was asked for since, or the alarm was cancelled
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
        """Forget the time that was asked for."""
        if self._handle is not None:
            self._handle.cancel()
        self._at = self._handle = None

    def __repr__(self) -> str:
        return f"<Alarm at {self._at}>"
