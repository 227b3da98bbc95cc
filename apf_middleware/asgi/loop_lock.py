"""A lock for tasks of one event loop after another, of asyncio or of trio, as in tests."""

from anyio import Lock

from apf_middleware.runtime.event_loop import EventLoop

__all__ = ["LoopLock"]


class LoopLock:
    """Has a lock for the event loop that runs now; one that was held when its loop ended hinders nobody any more."""

    __slots__ = ("_lock", "_loop")

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: EventLoop | None = None

    def here(self) -> Lock:
        """Return the lock, which is a new one if the event loop is another one than at the last call."""
        if self._loop is None or not self._loop.is_here:
            self._loop, self._lock = EventLoop(), Lock()  # a lock of anyio is one of asyncio or of trio
        return self._lock

    def __repr__(self) -> str:
        return f"<LoopLock: {self._lock!r} of {self._loop!r}>"
