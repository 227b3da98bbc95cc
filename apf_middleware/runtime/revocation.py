"""How a running request learns that it is asked to give way; what it does about that is its handler's business."""

import asyncio

import anyio

__all__ = ["Revocation"]


class Revocation:
    """Whether a request is asked to give way, for its handler to look at (`is_set`) or to wait for (`wait`)."""

    __slots__ = ("_event", "_is_set", "_loop")

    def __init__(self) -> None:
        self._is_set = False
        self._event: anyio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        """Until it is asked; a handler races this with its work, say in a task group."""
        if self._is_set:
            return
        if self._event is None:
            self._event = anyio.Event()
            self._loop = _running_loop()
        await self._event.wait()

    def set(self) -> None:
        """Ask; again does nothing."""
        self._is_set = True
        if self._event is None:
            return
        if self._loop is not None and _running_loop() is not self._loop:
            self._loop.call_soon_threadsafe(self._event.set)
        else:
            self._event.set()

    def __repr__(self) -> str:
        return f"<Revocation: {'asked' if self._is_set else 'not asked'}>"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
