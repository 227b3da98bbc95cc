"""Copying and pickling, the same in both builds.

The compiled build keeps attributes outside of ``__dict__`` and slots. By default, copies of its objects would lose what
a subclass adds, and copies of frozen objects would fail.
"""

from dataclasses import fields
from typing import Any

__all__ = ["Value", "get_state", "set_state"]

_OF_PYTHON = frozenset({"__dict__", "__weakref__"})


class Value:
    """The base class of dataclasses without further state: a copy is made by the constructor."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        instance: Any = self  # a dataclass
        return type(self), tuple(getattr(self, field.name) for field in fields(instance) if field.init)


def get_state(instance: object) -> dict[str, object]:
    """Return the attributes that ``instance`` has, by name: the result of its ``__getstate__``."""
    names = dict.fromkeys(getattr(instance, "__dict__", ()))
    for one in type(instance).__mro__:
        names |= dict.fromkeys(vars(one).get("__mypyc_attrs__", ()))
        slots = vars(one).get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    return {name: getattr(instance, name) for name in names if name not in _OF_PYTHON and hasattr(instance, name)}


def set_state(instance: object, state: dict[str, object]) -> None:
    """Set the attributes of a new ``instance``: what its ``__setstate__`` does."""
    for name, value in state.items():
        setattr(instance, name, value)
