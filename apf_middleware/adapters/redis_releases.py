"""The return of leases to Redis, repeated with pauses until it succeeds or the lease comes free by itself.

A return that is sent only once is lost if Redis pauses, fails over or is restarted at that moment. The place is then
unused for the rest of the time for which it may be held.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["MOST_PENDING", "PendingRelease", "PendingReleases"]

MOST_PENDING: Final = 10_000
"""The maximum number of pending releases of a gate.

Beyond it the oldest withdrawals are dropped, or, if there are none, the oldest other releases, whose leases come free
when their time is up.
"""

_LOG: Final = logging.getLogger("apf_middleware")
_NOT_GIVEN_BACK: Final = "apf.not-given-back"
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
_LAST_CHANCE: Final = 2.0  # seconds, when the server stops


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class PendingRelease:
    """Something to give back: ``send`` is called, and again after an error before the event loop's time ``until``.

    ``then`` is called when Redis has it back, or when the time has come. It is a call of its own in the event loop, so
    an error there doesn't stop other releases. A withdrawal is for something that may never have been taken.
    """

    send: Callable[[], Awaitable[object]]
    until: float = 0.0
    then: Callable[[], None] = _nothing
    is_withdrawal: bool = False


class PendingReleases:
    """The pending releases of the gate ``name``, sent ``at_once`` at a time: the oldest first, and withdrawals last."""

    def __init__(self, name: str, at_once: int) -> None:
        self._name = name
        self._at_once = at_once
        self._releases: deque[PendingRelease] = deque()
        self._withdrawals: deque[PendingRelease] = deque()
        self._sending = 0
        self._task: asyncio.Task[None] | None = None
        self._hurry: asyncio.Event = asyncio.Event()
        self._random = Random()  # noqa: S311 - for the jitter of pauses, not for security

    def __len__(self) -> int:
        return self._waiting + self._sending

    @property
    def _waiting(self) -> int:
        return len(self._releases) + len(self._withdrawals)

    def add(self, one: PendingRelease) -> None:
        """Give ``one`` back as soon as possible, in a task."""
        loop = asyncio.get_running_loop()
        self._queue_of(one).append(one)
        self._drop_excess()
        # A task of another loop, which has ended, would never send anything; its event belongs to that loop, too.
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._hurry = asyncio.Event()
            # not in the context of the request that happens to give something back first
            self._task = loop.create_task(self._work(), name=f"apf: give back to {self._name}", context=Context())

    def _queue_of(self, one: PendingRelease) -> deque[PendingRelease]:
        return self._withdrawals if one.is_withdrawal else self._releases

    def _drop_excess(self) -> None:
        while self._waiting > MOST_PENDING:
            (self._withdrawals or self._releases).popleft()

    async def _work(self) -> None:
        failures = 0
        while self._waiting:
            batch = [(self._releases or self._withdrawals).popleft() for _ in range(min(self._at_once, self._waiting))]
            self._sending = len(batch)
            done = await asyncio.gather(*(self._attempt(one) for one in batch))
            self._sending = 0
            left = [one for one, is_done in zip(batch, done, strict=True) if not is_done]
            for one in reversed(left):
                self._queue_of(one).appendleft(one)
            self._drop_excess()
            failures = failures + 1 if left else 0
            if left:
                await self._pause(failures)

    async def _attempt(self, one: PendingRelease) -> bool:
        """Return whether nothing is left to do for ``one``."""
        loop = asyncio.get_running_loop()
        is_late = 0 < one.until <= loop.time()
        if not is_late:
            try:
                await one.send()
            except Exception:  # noqa: BLE001 - whatever redis-py and the network raise
                if loop.time() < one.until:
                    return False
        loop.call_soon(one.then)
        return True

    async def _pause(self, failures: int) -> None:
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 16))
        try:
            async with asyncio.timeout(seconds * (0.75 + self._random.random() / 2)):
                await self._hurry.wait()
        except TimeoutError:
            return
        # After the call of `aclose`, the wait ends at once. This pause keeps the loop from being busy all the time.
        await asyncio.sleep(_FIRST_PAUSE)

    async def aclose(self) -> None:
        """Send the pending releases without long pauses, for a bounded time, and then give up."""
        task, self._task = self._task, None
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return
        self._hurry.set()
        await asyncio.wait({task}, timeout=_LAST_CHANCE)
        if not task.done():
            # counted before the task is cancelled, because it then forgets what it is sending
            left = len(self)
            while not task.done():
                task.cancel()
                # again, because `asyncio.wait_for`, which redis-py uses, may lose a cancellation before Python 3.12
                await asyncio.wait({task}, timeout=_FIRST_PAUSE)
            extra = {"event": _NOT_GIVEN_BACK, "apf": {"gate": self._name, "count": left}}
            _LOG.warning("%s gate=%s count=%s", _NOT_GIVEN_BACK, self._name, left, extra=extra)

    def __repr__(self) -> str:
        return f"<PendingReleases of {self._name!r}: {len(self)} pending>"
