"""Validation of rules."""

from collections.abc import Callable

import pytest

from apf_middleware.classification import AtomicTest as Atom  # pytest would collect it under its own name
from apf_middleware.classification import (
    Field,
    FlowSchema,
    HttpRule,
    Operator,
    ValueMatch,
)
from apf_middleware.exceptions import InvalidValueError
from tests.support.builds import BOOL_FOR_A_NUMBER, raises_for_wrong_type


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ValueMatch(""), "name of a header or query parameter is ''"),
        (lambda: ValueMatch("a", pattern="["), "pattern of 'a' is '[', but it must be a regular expression"),
        (lambda: ValueMatch("a", values=("x",), absent=True), "'a' can't be absent and have a certain value"),
        (lambda: HttpRule(paths=("a",)), "path template is 'a'"),
        (lambda: HttpRule(methods=("",)), "method is ''"),
        (lambda: HttpRule(hosts=("a.*",)), "host is 'a.*', but * can only be its beginning"),
        (lambda: HttpRule(hosts=("",)), "host is ''"),
        (lambda: Atom(Field.USER, Operator.EQUALS, ("a", "b")), "values of equals is ('a', 'b')"),
        (lambda: Atom(Field.USER, Operator.IN_SET, ()), "values of inSet is (), but there must be at least one"),
        (lambda: Atom(Field.USER, Operator.PATTERN_MATCH, ()), "there must be exactly one"),
        (lambda: Atom(Field.USER, Operator.PATTERN_MATCH, ("*",)), "pattern for user is '*'"),
        (lambda: FlowSchema("", "l"), "name of a schema is ''"),
        (lambda: FlowSchema("s", ""), "level of the schema 's' is ''"),
    ],
)
def test_an_invalid_rule_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()

    assert message in str(caught.value)


@pytest.mark.parametrize("precedence", [1.5, "1", None, BOOL_FOR_A_NUMBER])
def test_a_precedence_is_an_integer(precedence: int) -> None:
    with raises_for_wrong_type(r"precedence of the schema 's' is .*, but it must be an integer"):
        FlowSchema("s", "l", precedence)
