"""What compiled modules need to behave as in the pure build, in which none of it has an effect.

This module is never compiled.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr", "quotient"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr  # mypyc finds it by this name; it isn't needed to run
else:
    _T = TypeVar("_T")

    def mypyc_attr(**_hints: object) -> Callable[[_T], _T]:
        """Return a decorator that changes nothing."""
        return lambda decorated: decorated


def quotient(numerator: int, denominator: int) -> float:
    """Return the quotient of two integers, rounded once; compiled, ``/`` rounds both to 53 bits before it divides."""
    return numerator / denominator
