"""Copies of values and of attributes; what can be copied in both builds is in integration/test_both_builds.py."""

from apf_middleware.copying import get_state, set_state
from apf_middleware.fairqueuing import Work


class Slotted:
    __slots__ = ("__weakref__", "a", "unset")


class Named(Slotted):
    __slots__ = "b"  # noqa: PLC0205 - Python allows it


class Open(Named):
    pass


def filled() -> Open:
    instance = Open()
    instance.a, instance.b = 1, 2  # type: ignore[attr-defined]
    vars(instance)["c"] = 3
    return instance


def test_a_state_has_the_attributes_of_all_classes() -> None:
    assert get_state(filled()) == {"a": 1, "b": 2, "c": 3}


def test_an_instance_without_attributes_has_an_empty_state() -> None:
    assert get_state(Slotted()) == {}
    assert get_state(object()) == {}


def test_a_state_that_is_set_is_the_same() -> None:
    made = Open()
    set_state(made, get_state(filled()))

    assert get_state(made) == {"a": 1, "b": 2, "c": 3}
    assert not hasattr(made, "unset")


def test_a_value_is_made_again_by_its_constructor() -> None:
    """What the constructor computes isn't among its arguments."""
    kind, arguments = Work(2, 3, 5).__reduce__()

    assert (kind, arguments) == (Work, (2, 3, 5))
