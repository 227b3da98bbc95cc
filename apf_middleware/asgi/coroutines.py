"""Coroutines of Python code, which say whether they wait, and the marks of functions that return coroutines.

Compiled coroutines don't say whether they wait, and compiled functions can't be marked, so this module isn't compiled.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Final

__all__ = ["MARK_FOR_ASYNCIO", "MARK_FOR_INSPECT", "as_coroutine"]


async def as_coroutine(call: Awaitable[None]) -> None:
    """Await ``call``."""
    await call


def _mark_for_inspect() -> object:
    """Return the mark that `inspect` sets; its name there differs between versions of Python."""
    mark = getattr(inspect, "markcoroutinefunction", None)  # from Python 3.12 on
    return None if mark is None else getattr(mark(lambda: None), "_is_coroutine_marker", None)


MARK_FOR_ASYNCIO: Final[object] = getattr(asyncio.coroutines, "_is_coroutine", None)
"""The value of the attribute ``_is_coroutine`` by which asyncio knows a coroutine function."""

MARK_FOR_INSPECT: Final[object] = _mark_for_inspect()
"""The value of the attribute ``_is_coroutine_marker`` by which inspect knows one."""
