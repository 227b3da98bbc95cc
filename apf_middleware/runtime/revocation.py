"""The revocation by which a running request is asked for its seats; the handler decides what to do."""

import anyio

from apf_middleware.runtime.event_loop import EventLoop

__all__ = ["Revocation"]


class Revocation:
    """A flag for a handler to check (`is_set`) or to wait for (`wait`): its request is asked for its seats."""

    __slots__ = ("_event", "_is_set", "_loop", "is_allowed")

    def __init__(self) -> None:
        self.is_allowed: bool = False
        self._is_set = False
        self._event: anyio.Event | None = None
        self._loop: EventLoop | None = None

    def is_set(self) -> bool:
        """Return whether the request is asked for its seats."""
        return self._is_set

    async def wait(self) -> None:
        """Wait until the request is asked; a handler races this with its work, say in a task group."""
        if self._event is None:
            self._loop = EventLoop()
            self._event = anyio.Event()
        # Checked last: another thread that calls `set` before this line may not have found the event.
        if not self._is_set:
            await self._event.wait()

    def set(self) -> None:
        """Ask the request for its seats, from any thread; further calls do nothing."""
        self._is_set = True
        if self._event is None or self._loop is None:
            return
        if self._loop.is_here:
            self._event.set()
        else:
            self._loop.post(self._event.set)

    def __repr__(self) -> str:
        return f"<Revocation: {'asked' if self._is_set else 'not asked'}>"
