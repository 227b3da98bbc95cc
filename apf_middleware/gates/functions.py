"""Checks of the functions that an app gives to its gates: which of them are asynchronous, and what they may return.

Most of them are called within a step, which awaits nothing. A function that is asynchronous by mistake returns a
coroutine there: a key that no other request has, or a lease that never comes back. So the gate would seem to work.
"""

import inspect
from collections.abc import Callable

from apf_middleware.exceptions import InvalidValueError

__all__ = ["is_asynchronous", "is_unfinished", "require_plain"]


def is_asynchronous(function: object) -> bool:
    """Return whether ``function`` is a coroutine function, or an object with an ``async def __call__``."""
    call = getattr(function, "__call__", None)  # noqa: B004 - it may be asynchronous
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def require_plain(name: str, function: Callable[..., object]) -> None:
    """Raise InvalidValueError if ``function`` can't be called, is asynchronous, or is a generator function."""
    if not callable(function):
        raise InvalidValueError(name, function, "it must be a function")
    if is_asynchronous(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidValueError(name, function, "it isn't awaited", "Define it with def, and return the result")


def is_unfinished(result: object) -> bool:
    """Return whether ``result`` isn't the result of a function but something that would have to run first."""
    return inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)
