"""Frozen dataclasses: the same as those of `dataclasses`."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from math import nan
from typing import Any

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen


@frozen
class Point:
    kind: str = field(default="point", kw_only=True)
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Twin:
    kind: str = field(default="point", kw_only=True)
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", compare=False, repr=False)


_Twin.__qualname__ = Point.__qualname__
POINT: type[Any] = Point
TWIN: type[Any] = _Twin


@frozen
class Positive:
    """A number."""

    number: float

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise InvalidValueError("number", self.number, "it must be positive")


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: kind(1),
        lambda kind: kind(1, 3, ["a"], "b"),
        lambda kind: kind(y=4, x=3, kind="other"),
        lambda kind: replace(kind(1), y=7),
        lambda kind: replace(kind(1, note="a"), x=7),
    ],
)
def test_objects_are_made_and_shown_as_those_of_dataclasses(make: Callable[[Any], Any]) -> None:
    made, twin = make(POINT), make(TWIN)

    assert repr(made) == repr(twin)
    assert [getattr(made, one.name) for one in fields(made)] == [getattr(twin, one.name) for one in fields(twin)]
    assert hash(made) == hash(twin)


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: kind(),
        lambda kind: kind(1, 2, [], "", "point"),
        lambda kind: kind(1, x=1),
        lambda kind: kind(1, z=1),
    ],
)
@pytest.mark.parametrize("kind", [POINT, TWIN])
def test_wrong_arguments_are_refused(make: Callable[[object], object], kind: object) -> None:
    with pytest.raises(TypeError, match=r"Point|__init__"):
        make(kind)


def test_fields_can_be_neither_assigned_nor_deleted() -> None:
    point: Any = Point(1)

    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2
    assert point == Point(1)


def test_objects_are_equal_by_the_fields_that_count() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert len({Point(1), Point(1, 2), Point(1, 3)}) == 2
    different: list[object] = [Point(2), Point(1, 3), TWIN(1), 1]
    assert all(one != Point(1) for one in different)
    assert Positive(nan) != Positive(float("nan"))
    assert Positive(nan) == Positive(nan)


def test_each_object_has_defaults_of_its_own() -> None:
    assert Point(1).tags is not Point(1).tags


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda point: pickle.loads(pickle.dumps(point))])  # noqa: S301
def test_objects_can_be_copied(copied: Callable[[Point], Point]) -> None:
    point = Point(1, 3, ["a"], "b", kind="c")

    assert repr(copied(point)) == repr(point)
    assert copied(point) == point


def test_values_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="positive"):
        Positive(-1)


def test_there_are_slots_and_no_invented_docstring() -> None:
    """Schemas of settings show docstrings."""
    assert not hasattr(Point(1), "__dict__")
    assert (Point.__doc__, Positive.__doc__) == (None, "A number.")
