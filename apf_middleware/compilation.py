"""Hints for the compiled build of the package, which have no effect on the pure one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr  # mypyc finds it by this name; it isn't needed to run
else:
    _T = TypeVar("_T")

    def mypyc_attr(**_hints: object) -> Callable[[_T], _T]:
        """Return a decorator that changes nothing."""
        return lambda decorated: decorated
