"""The KEP's predicates: alternatives, each of which is a list of atomic tests that must all hold.

An alternative is ``and:`` with a list, or a single test. The parts of a test are written in one of two places: inside
its operator (``superSet: {field: groups, set: [a]}``), or, as in the KEP's own examples, beside it (``superSet:``
without a value, followed by ``field:`` and ``set:``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from apf_middleware.classification.rules import AtomicTest, Conjunction, Operator
from apf_middleware.classification.rules import Field as TestField
from apf_middleware.config.model import parse, report, without_nulls
from apf_middleware.config.problems import Absent, Path, Problems
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Pattern, TextSet
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.frozen import frozen

__all__ = ["match_part", "read_match"]

_OPERATORS: Final[Mapping[str, tuple[Operator, bool]]] = {
    name: (operator, inverted)
    for operator in Operator
    for name, inverted in ((str(operator), False), (f"not{operator[0].upper()}{operator[1:]}", True))
}
"""An operator and whether it is inverted, by its name in YAML."""

_NAMES: Final = {meaning: name for name, meaning in _OPERATORS.items()}

_OPERANDS: Final[Mapping[Operator, str]] = {
    Operator.EQUALS: "value",
    Operator.IN_SET: "set",
    Operator.SUPER_SET: "set",
    Operator.PATTERN_MATCH: "pattern",
}
"""The key of the value that a test compares with."""


@frozen
class _Parts(Settings):
    """A test without its operator."""

    field: str
    value: str | None = None
    set_: Annotated[TextSet | None, Field(alias="set")] = None
    pattern: Pattern | None = None

    def rules(self) -> Iterator[Violation]:
        if self.field not in set(TestField):
            yield Violation(("field",), self.field, f"it must be one of {', '.join(sorted(TestField))}")
        if self.set_ is not None and not self.set_:
            yield Violation(("set_",), self.set_, "it must not be empty")

    def operands(self) -> dict[str, tuple[str, ...]]:
        """Return the values that are given, by key."""
        given = {
            "value": None if self.value is None else (self.value,),
            "set": None if self.set_ is None else tuple(self.set_),
            "pattern": None if self.pattern is None else (self.pattern,),
        }
        return {key: values for key, values in given.items() if values is not None}


def read_match(match: Sequence[object], document: Document, problems: Problems) -> tuple[Conjunction, ...] | None:
    """Return the alternatives in ``spec.match``; None if problems were found in them."""
    read = [_alternative(one, ("spec", "match", place), document, problems) for place, one in enumerate(match)]
    complete = tuple(one for one in read if one is not None)
    return complete if len(complete) == len(read) else None


def _alternative(given: object, path: Path, document: Document, problems: Problems) -> Conjunction | None:
    if isinstance(given, Mapping) and "and" in given:
        tests = given["and"]
        for key in given.keys() - {"and"}:
            report(document, problems, Violation((*path, key), given[key], "nothing may stand beside 'and'"))
        if not isinstance(tests, list):
            hint = "Write 'and: []' to match everything"
            report(document, problems, Violation((*path, "and"), tests, "it must be a list of tests", hint))
            return None
        read = [_test(one, (*path, "and", place), document, problems) for place, one in enumerate(tests)]
        if len(given) > 1:
            return None
    else:
        read = [_test(given, path, document, problems)]
    complete = tuple(one for one in read if one is not None)
    return Conjunction(complete) if len(complete) == len(read) else None


def _test(given: object, path: Path, document: Document, problems: Problems) -> AtomicTest | None:
    operators = [key for key in given if key in _OPERATORS] if isinstance(given, Mapping) else []
    if not isinstance(given, Mapping) or len(operators) != 1:
        rule = f"it must be a test with exactly one of {', '.join(_OPERATORS)}"
        report(document, problems, Violation(path, given, rule, "Or 'and:' with a list of tests"))
        return None
    name = operators[0]
    beside = {key: value for key, value in given.items() if key != name}
    inside = given[name]
    if inside is not None and (beside or not isinstance(inside, Mapping)):
        rule = "its parts must stand either all inside it, or all beside it while it has no value"
        report(document, problems, Violation((*path, name), inside, rule))
        return None
    data, root = (beside, path) if inside is None else (inside, (*path, name))
    parts = parse(_Parts, without_nulls(_Parts, data), document, problems, root)
    return None if parts is None else _built(name, parts, root, document, problems)


def _built(name: str, parts: _Parts, path: Path, document: Document, problems: Problems) -> AtomicTest | None:
    operator, inverted = _OPERATORS[name]
    wanted = _OPERANDS[operator]
    given = parts.operands()
    wrong = [
        Violation((*path, key), values, f"{name} takes {wanted} instead")
        for key, values in given.items()
        if key != wanted
    ]
    if wanted not in given:
        wrong.append(Violation((*path, wanted), Absent.ABSENT, f"{name} requires it"))
    for one in wrong:
        report(document, problems, one)
    return None if wrong else AtomicTest(TestField(parts.field), operator, given[wanted], inverted)


def match_part(alternative: Conjunction) -> dict[str, Any]:
    """Return an alternative as a document writes it."""
    return {"and": list(map(_written, alternative.tests))}


def _written(test: AtomicTest) -> dict[str, Any]:
    operand = _OPERANDS[test.operator]
    values = list(test.values) if operand == "set" else test.values[0]
    return {_NAMES[test.operator, test.inverted]: {"field": str(test.field), operand: values}}
