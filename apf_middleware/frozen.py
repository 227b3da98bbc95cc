"""Frozen dataclasses that cost little to define.

For each frozen dataclass `dataclasses` compiles six functions. That takes most of a millisecond, and this package has
so many of them that a server would need longer to start. The dataclasses here share one set of functions. Their objects
take longer to create and to compare, so they suit settings and rows for people, but not the path of a request. Modules
that the compiled build compiles can't have them, because it compiles no class with a decorator that it doesn't know.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

__all__ = ["frozen"]

InstanceT = TypeVar("InstanceT")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[InstanceT]) -> type[InstanceT]:
    """Make a class a dataclass with slots that is immutable, and compared and hashed by its fields."""
    for name, method in _METHODS.items():
        setattr(kind, name, method)
    documentation = kind.__doc__
    kind.__doc__ = documentation or kind.__name__  # otherwise `dataclass` would compute a signature for it
    made = dataclass(init=False, repr=False, eq=False, slots=True)(kind)
    made.__doc__ = documentation
    return made


def _create(self: Any, *args: object, **named: object) -> None:  # noqa: ANN401 - of any class
    given = dict(zip(self.__match_args__, args, strict=False))
    accepted = {one.name for one in fields(self) if one.init}
    if len(given) < len(args) or given.keys() & named.keys() or named.keys() - accepted:
        raise TypeError(f"{type(self).__name__} got {len(args)} values and {sorted(named)}, but it has {accepted}")
    given |= named
    for one in fields(self):
        if one.name in given:
            value = given[one.name]
        elif one.default is not MISSING:
            value = one.default
        elif one.default_factory is not MISSING:
            value = one.default_factory()
        else:
            raise TypeError(f"{type(self).__name__} needs a value for {one.name}")
        object.__setattr__(self, one.name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _show(self: Any) -> str:  # noqa: ANN401
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _is_equal(self: Any, other: Any) -> object:  # noqa: ANN401
    if type(self) is not type(other):
        return NotImplemented
    compared = [one.name for one in fields(self) if one.compare]
    return tuple(getattr(self, name) for name in compared) == tuple(getattr(other, name) for name in compared)


def _hash(self: Any) -> int:  # noqa: ANN401
    hashed = (one.name for one in fields(self) if (one.compare if one.hash is None else one.hash))
    return hash(tuple(getattr(self, name) for name in hashed))


def _refuse_assignment(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _set_state(self: object, state: tuple[None, Mapping[str, object]]) -> None:
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "__delattr__": _refuse_deletion,
    "__eq__": _is_equal,
    "__hash__": _hash,
    "__init__": _create,
    "__repr__": _show,
    "__setattr__": _refuse_assignment,
    "__setstate__": _set_state,
}
