"""Validation of weights."""

import math
from typing import Any

import pytest

from apf_middleware.classification import FlowWeights
from apf_middleware.exceptions import InvalidValueError
from tests.support.builds import raises_for_wrong_type


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"default": 0}, "default is 0"),
        ({"default": 1001}, "but it must be a number from 0.01 to 1000"),
        ({"default": math.nan}, "default is nan"),
        ({"flows": (("gold", 0.001),)}, "weight of 'gold' in flows is 0.001, but it must be a number from 0.01 to"),
        ({"flows": (("a*b", 2),)}, "flows is 'a*b', but * can only be its end, as in tenant-*"),
        ({"groups": (("*-gold", 2),)}, "groups is '*-gold', but * can only be its end"),
        ({"flows": (("gold", 2), ("gold", 3))}, "flows is 'gold', but it must not be listed more than once"),
        ({"groups": (("", 2),)}, "group with a weight is ''"),
        ({"groups": (("plan:gold", -4),)}, "weight of 'plan:gold' in groups is -4"),
        ({"function": "x"}, "function is 'x', but it must be callable"),
    ],
)
def test_invalid_weights_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        FlowWeights(**how)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"default": "2"}, "default is '2', but it must be a number from 0.01 to 1000"),
        ({"flows": (("gold", "4"),)}, "weight of 'gold' in flows is '4'"),
    ],
)
def test_a_weight_of_a_wrong_type_is_refused(how: dict[str, Any], message: str) -> None:
    with raises_for_wrong_type(message):
        FlowWeights(**how)


def test_the_least_and_the_most_weight_are_allowed() -> None:
    assert FlowWeights(0.01, (("", 1000), ("*", 0.01)), (("*", 1000),)).default == 0.01


def test_a_flow_may_be_named_by_the_empty_string() -> None:
    """It is the flow of the requests without the distinguisher's value."""
    assert FlowWeights(flows=(("", 0.5),)).flows == (("", 0.5),)
