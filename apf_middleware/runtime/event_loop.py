"""A handle to the running event loop (asyncio or trio), for use by other threads and signal handlers."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from apf_middleware.exceptions import BlockedLoopError

if TYPE_CHECKING:
    from trio.lowlevel import TrioToken

__all__ = ["PATIENCE_S", "EventLoop", "HomeLoop", "is_asyncio"]

PATIENCE_S: Final = 5.0
"""The time limit of a call from another thread to the event loop: half of Prometheus' default scrape timeout."""

_LOOK_S: Final = 0.1  # the interval at which a waiting thread checks that the loop still runs (only on asyncio)

T = TypeVar("T")


class EventLoop:
    """A handle to the event loop of the thread that creates it; RuntimeError if no loop runs there."""

    __slots__ = ("_loop", "_thread_id", "_token")

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._token: TrioToken | None = None
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._token = _running_trio()

    @classmethod
    def running(cls) -> "EventLoop | None":
        """Return a handle to the event loop of the calling thread, or None if no loop runs there."""
        try:
            return cls()
        except RuntimeError:
            return None

    @property
    def is_here(self) -> bool:
        """True if this loop runs in the calling thread now."""
        if self._token is None:
            return asyncio._get_running_loop() is self._loop  # noqa: SLF001 - get_running_loop() raises without a loop
        try:
            return _running_trio() is self._token
        except RuntimeError:
            return False

    @property
    def is_of_another_thread(self) -> bool:
        """True if this loop runs, or has run, in another thread than the caller's."""
        return self._thread_id != threading.get_ident()

    @property
    def is_trio(self) -> bool:
        """True if this is a loop of trio."""
        return self._token is not None

    def _is_running(self) -> bool:
        return self._loop is None or self._loop.is_running()

    def post(self, function: Callable[[], object]) -> bool:
        """Schedule a call of ``function`` in the event loop; return False if the loop has ended.

        Threads and signal handlers may call this.
        """
        try:
            if self._token is not None:
                self._token.run_sync_soon(function)
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # trio's RunFinishedError is one, too
            return False
        return True

    def call(self, function: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """Return the result of ``function``, which is called in the thread of the event loop.

        If the calling thread is the loop's own, or the loop has ended, ``function`` is called directly. Raise
        BlockedLoopError if the loop doesn't call it within ``patience_s``. If the loop ends during the wait, this is
        noticed only on asyncio; on trio, BlockedLoopError is raised.
        """
        if threading.get_ident() == self._thread_id:
            return function()
        result: Future[T] = Future()
        if not self._is_running() or not self.post(lambda: _run(function, result)):
            return function()
        for _ in range(max(1, round(patience_s / _LOOK_S))):
            try:
                return result.result(_LOOK_S)
            except TimeoutError:
                if result.done():  # the result came just now, or the error is the function's own
                    return result.result()
                if not self._is_running() and result.cancel():
                    return function()
        if result.cancel():
            raise BlockedLoopError(patience_s)
        return result.result()

    def __repr__(self) -> str:
        return f"<EventLoop {self._loop or self._token!r}>"


class HomeLoop:
    """The event loop that serves requests, for what an app does in other threads."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: EventLoop | None = None

    def find(self) -> None:
        """Remember the event loop of this thread as the one that serves requests."""
        if self._loop is None or not self._loop.is_here:
            self._loop = EventLoop.running()

    def post(self, function: Callable[[], object]) -> None:
        """Schedule a call of ``function`` in the event loop, from any thread; do nothing before the first request."""
        if self._loop is not None:
            self._loop.post(function)

    def is_elsewhere(self) -> bool:
        """Return whether the loop is that of another thread, and no event loop runs in the calling one."""
        return self._loop is not None and self._loop.is_of_another_thread and EventLoop.running() is None

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of ``function``, which is called in the thread of the event loop.

        A thread with an event loop of its own doesn't wait long, because two loops that wait for each other would never
        end. It then calls ``function`` itself, while the other loop stands still.
        """
        loop = self._loop
        if loop is None or not loop.is_of_another_thread:
            return function()
        if EventLoop.running() is None:
            return loop.call(function)
        try:
            return loop.call(function, _LOOK_S)
        except BlockedLoopError:
            return function()

    def __repr__(self) -> str:
        return f"<HomeLoop {self._loop!r}>"


def _run(function: Callable[[], T], result: "Future[T]") -> None:
    if not result.set_running_or_notify_cancel():
        return  # the caller has stopped waiting
    try:
        result.set_result(function())
    except BaseException as error:  # noqa: BLE001 - it is raised in the calling thread
        result.set_exception(error)


def is_asyncio() -> bool:
    """Return whether an event loop of asyncio runs in this thread; otherwise, it is one of trio."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - get_running_loop() raises without a loop


def _running_trio() -> Any:  # noqa: ANN401 - trio may not be installed
    try:
        from trio.lowlevel import current_trio_token  # noqa: PLC0415 - only an app on trio must have it
    except ImportError:
        raise RuntimeError("No event loop runs in this thread") from None
    return current_trio_token()
