"""Validation of schemas and distinguishers."""

from typing import Any

import pytest

from apf_middleware.classification import (
    Distinguisher,
    FlowSchema,
    FlowWeights,
    Source,
)
from apf_middleware.exceptions import InvalidValueError
from tests.support.builds import raises_for_wrong_type


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"source": Source.HEADER}, "argument of header is ''"),
        ({"source": Source.PATH_PARAMETER}, "argument of pathParameter is ''"),
        ({"source": Source.USER, "argument": "x"}, "argument is 'x', but the source user takes none"),
        ({"source": Source.GROUP}, "groups is (), but the source group, and no other, needs at least one"),
        ({"source": Source.USER, "groups": ("a",)}, "groups is ('a',)"),
        ({"source": Source.GROUP, "groups": ("",)}, "group is ''"),
        ({"source": Source.GROUP, "groups": ("a*b",)}, "group is 'a*b', but * can only be its end"),
        ({"source": Source.CLIENT_ADDRESS, "prefix_v4": 33}, "prefix_v4 is 33, but it must be at most 32"),
        ({"source": Source.CLIENT_ADDRESS, "prefix_v4": -1}, "prefix_v4 is -1, but it must be at least 0"),
        ({"source": Source.CLIENT_ADDRESS, "prefix_v6": 129}, "prefix_v6 is 129, but it must be at most 128"),
        ({"source": Source.CALLABLE}, "function is None"),
        ({"source": Source.CALLABLE, "function": "x"}, "function is 'x'"),
        ({"source": Source.USER, "function": str}, "function is <class 'str'>"),
        ({"source": Source.USER, "transform": "("}, "transform is '(', but it must be a regular expression: missing )"),
        ({"source": Source.USER, "transform": "x"}, "it must have one capturing group, not 0"),
        ({"source": Source.USER, "transform": "(x)(y)"}, "it must have one capturing group, not 2"),
    ],
)
def test_an_invalid_distinguisher_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Distinguisher(**how)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"source": "user-agent"}, "source is 'user-agent', but it must be one of user, namespace"),
        ({"source": Source.QUERY, "argument": 7}, "argument of query is 7"),
        ({"source": Source.CLIENT_ADDRESS, "prefix_v6": "56"}, "prefix_v6 is '56', but it must be an integer"),
        ({"source": Source.USER, "transform": 7}, "transform is 7"),
    ],
)
def test_a_part_of_a_wrong_type_is_refused(how: dict[str, Any], message: str) -> None:
    with raises_for_wrong_type(message):
        Distinguisher(**how)


def test_flows_without_names_can_not_have_weights_by_name() -> None:
    assert FlowSchema("s", "l", weights=FlowWeights(2, groups=(("gold", 4),))).weights is not None
    with pytest.raises(InvalidValueError, match=r"weights of the schema 's' is .*, but without a distinguisher"):
        FlowSchema("s", "l", weights=FlowWeights(flows=(("gold", 4),)))
