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
        (lambda: FlowSchema("s", "l", True), "precedence of the schema 's' is True, but it must be an integer"),  # noqa: FBT003
    ],
)
def test_an_invalid_rule_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()

    assert message in str(caught.value)
