"""Configurations written as Kubernetes' v1."""

from pathlib import Path

import pytest

from apf_middleware.classification import FlowSchema
from apf_middleware.classification.rules import AtomicTest as Atom
from apf_middleware.classification.rules import Conjunction, Field, GroupSubject, Operator, Rule, UserSubject
from apf_middleware.config import Configuration, ConfigurationError, load, load_text
from apf_middleware.config.emit import convert, emit
from apf_middleware.config.problems import Problems

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("paths", [[], [DATA / "kubectl.yaml"]])
def test_v1_says_what_kubernetes_knows(paths: list[Path]) -> None:
    configuration = load(*paths, defaults="kubernetes")
    again = load_text(emit(configuration, "v1"), defaults="kubernetes")

    assert (again.levels, again.schemas) == (configuration.levels, configuration.schemas)


def test_what_v1_cannot_say_is_told_by_object_and_field() -> None:
    text = """\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec:
  minSeats: 1
  maxSeats: 2
  waitLimit: 5s
  gates: [a]
  streams: {maxOpen: 3}
  queuing: {queues: exact}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: free}
spec: {type: Exempt}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: l
  distinguisher: {source: header, name: a, transform: (a)}
  rules: [{httpRules: [{}]}]
  match: [notEquals: {field: user, value: a}]
---
apiVersion: apf/v1
kind: Server
spec: {seats: 7, defaults: none}
"""
    problems = Problems()
    convert(load_text(text), "v1", problems)

    assert {(one.place.file, one.field) for one in problems} == {
        ("<level l>", "minSeats"),
        ("<level l>", "maxSeats"),
        ("<level l>", "waitLimit"),
        ("<level l>", "gates"),
        ("<level l>", "streams"),
        ("<level l>", "queuing.queues"),
        ("<level free>", "type"),
        ("<schema s>", "distinguisher.source"),
        ("<schema s>", "distinguisher.transform"),
        ("<schema s>", "rules[0].httpRules"),
        ("<schema s>", "match[1]"),
        ("<server>", ""),
    }
    with pytest.raises(ConfigurationError, match="<level l>"):
        emit(load_text(text), "v1")


@pytest.mark.parametrize(
    ("tests", "subjects"),
    [
        ((), (UserSubject("*"),)),
        ((Atom(Field.USER, Operator.EQUALS, ("a",)),), (UserSubject("a"),)),
        ((Atom(Field.GROUPS, Operator.IN_SET, ("a", "b")),), (GroupSubject("a"), GroupSubject("b"))),
        ((Atom(Field.GROUPS, Operator.SUPER_SET, ("a",)),), (GroupSubject("a"),)),
    ],
)
def test_alternatives_about_subjects_can_be_said_in_v1(tests: tuple[Atom, ...], subjects: tuple[object, ...]) -> None:
    base = load(defaults="none")
    schema = FlowSchema("s", "exempt", 5, (Conjunction(tests),))
    written = emit(Configuration(base.levels, (schema,), base.server), "v1")

    [again] = [one for one in load_text(written).schemas if one.name == "s"]
    assert isinstance(again.rules[0], Rule)
    assert again.rules[0].subjects == subjects


def test_what_requests_cost_is_left_out_of_v1_with_a_warning() -> None:
    text = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec: {level: exempt, estimate: {seats: 3}, rules: [{nonResourceRules: [{verbs: [get], nonResourceURLs: [/x]}]}]}
---
apiVersion: apf/v1
kind: Server
spec: {defaults: none}
"""
    problems = Problems()
    written = convert(load_text(text), "v1", problems)

    [warned] = problems
    assert problems.errors == ()
    assert (warned.place.file, warned.field) == ("<schema s>", "estimate")
    assert "left out" in warned.rule
    assert "name: s\n" in written
    assert "estimate" not in written
