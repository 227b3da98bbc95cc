"""Atomic tests of the proposal's format."""

import pytest

from apf_middleware.classification.rules import AtomicTest as Atom
from apf_middleware.classification.rules import Conjunction, Field, Operator
from apf_middleware.config import load_text
from tests.support.kep_documents import LEVEL, SCHEMA


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        ("equals", "value: a", (Operator.EQUALS, ("a",), False)),
        ("notEquals", "value: a", (Operator.EQUALS, ("a",), True)),
        ("inSet", "set: [a, b]", (Operator.IN_SET, ("a", "b"), False)),
        ("notInSet", "set: [a, b]", (Operator.IN_SET, ("a", "b"), True)),
        ("superSet", "set: [a]", (Operator.SUPER_SET, ("a",), False)),
        ("notSuperSet", "set: [a]", (Operator.SUPER_SET, ("a",), True)),
        ("patternMatch", "pattern: a.*", (Operator.PATTERN_MATCH, ("a.*",), False)),
        ("notPatternMatch", "pattern: a.*", (Operator.PATTERN_MATCH, ("a.*",), True)),
    ],
)
@pytest.mark.parametrize(
    "form", ["- {op}: {{field: groups, {operand}}}", "- {op}:\n      field: groups\n      {operand}"]
)
def test_each_operator_has_two_forms(
    form: str, operator: str, operand: str, expected: tuple[Operator, tuple[str, ...], bool]
) -> None:
    test = form.format(op=operator, operand=operand)
    text = SCHEMA.replace("- equals: {field: user, value: alice}", test) + "---\n" + LEVEL

    [schema] = [one for one in load_text(text).schemas if one.name == "s"]

    assert schema.rules == (Conjunction((Atom(Field.GROUPS, *expected),)),)
