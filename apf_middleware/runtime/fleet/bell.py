"""A bell that wakes the task that exchanges messages; it can be rung by any synchronous code in the event loop."""

import anyio

__all__ = ["Bell"]


class Bell:
    """Wake one task. The rings before it waits again are not lost."""

    __slots__ = ("_event", "_is_rung")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_rung = False

    def ring(self) -> None:
        """Wake the task that waits, or let its next wait end at once."""
        self._is_rung = True
        if self._event is not None:
            self._event.set()

    def silence(self) -> None:
        """Forget rings since the last wait."""
        self._is_rung = False

    async def wait(self, timeout_s: float) -> bool:
        """Wait until the bell has been rung since the last wait, but no longer than ``timeout_s``.

        Return whether it was rung.
        """
        if not self._is_rung:
            self._event = anyio.Event()
            with anyio.move_on_after(timeout_s):
                await self._event.wait()
            self._event = None
        is_rung, self._is_rung = self._is_rung, False
        return is_rung

    def __repr__(self) -> str:
        return f"<Bell{', rung' if self._is_rung else ''}>"
