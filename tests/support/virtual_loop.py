"""An asyncio event loop that never waits: when nothing is left to do, the time of the next timer has come."""

import asyncio
import selectors

__all__ = ["VirtualLoop"]

_INSTANT = 1e-7


class _Selector(selectors.DefaultSelector):
    """Doesn't wait: time goes on by as much, and by a little with each look."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(timeout)
        self.now += max(timeout, _INSTANT)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is that of its selector."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now
