"""Slow functions in threads that don't belong to the app."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

__all__ = ["run_in_own_thread"]

T = TypeVar("T")


async def run_in_own_thread(function: Callable[[], T]) -> T:
    """Return the result of a slow function, which runs in a thread at once.

    The app's handlers may use up all threads that anyio lends by default, and under overload many more of them wait for
    one. What an operator asks for must not wait behind them.
    """
    return await run_sync(function, limiter=CapacityLimiter(1))
