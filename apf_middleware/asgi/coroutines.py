"""Coroutines of Python code, which say whether they wait. Compiled ones don't, so this module isn't compiled."""

from collections.abc import Awaitable

__all__ = ["as_coroutine"]


async def as_coroutine(call: Awaitable[None]) -> None:
    """Await ``call``."""
    await call
