"""An asyncio event loop without real waiting: when nothing is left to do, the time of the next timer has come.

Sockets between two ends in this loop work, because what one end writes can be read by the other at once. Before time
passes the loop looks once more, for a moment of real time, whether the system has delivered something.
"""

import asyncio
import selectors

__all__ = ["VirtualLoop"]

_INSTANT = 1e-7
_DELIVERY = 0.001  # real seconds


class _Selector(selectors.DefaultSelector):
    """Lets time pass instead of waiting, and a little with each look."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(timeout)
        self.now += _INSTANT
        has_sockets = timeout > 0 and len(self.get_map()) > 1  # the loop has one of its own
        found = super().select(_DELIVERY if has_sockets else 0)
        if not found:
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is that of its selector."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def stall(self, seconds: float) -> None:
        """Let time pass in which nothing happens, as if the process stood still."""
        self._clock.now += seconds
