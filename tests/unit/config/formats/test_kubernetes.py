"""Kubernetes manifests: what they mean, and the place of each rule that they break."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import AtomicTest as Atom
from apf_middleware.classification.rules import (
    Conjunction,
    Field,
    GroupSubject,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
)
from apf_middleware.config import Configuration, ConfigurationError, Level, Queuing, load, load_text, read_source
from apf_middleware.config.emit import convert, emit
from apf_middleware.config.formats.versions import KUBERNETES_GROUP, ZERO_SHARES
from apf_middleware.config.problems import Problems
from apf_middleware.fairqueuing.sharing.limits import LevelShares

DATA = Path(__file__).parents[1] / "data"

SCHEMA = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: s
spec:
  priorityLevelConfiguration:
    name: exempt
  matchingPrecedence: 500
  distinguisherMethod:
    type: ByUser
  rules:
  - subjects:
    - kind: User
      user:
        name: alice
    - kind: ServiceAccount
      serviceAccount:
        namespace: ns
        name: sa
    resourceRules:
    - verbs: [get]
      apiGroups: [""]
      resources: [pods]
      namespaces: [ns]
    nonResourceRules:
    - verbs: [get]
      nonResourceURLs: [/a/*]
status:
  conditions:
  - type: Dangling
"""

LEVEL = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata:
  name: l
  annotations: {}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 30
    lendablePercent: 10
    borrowingLimitPercent: 20
    limitResponse:
      type: Queue
      queuing:
        queues: 64
        handSize: 6
        queueLengthLimit: 50
status:
  conditions:
  - type: A
"""

EXEMPT = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata:
  name: exempt
spec:
  type: Exempt
  exempt:
    nominalConcurrencyShares: 5
    lendablePercent: 50
"""

REJECT = "    limitResponse:\n      type: Reject\n"
QUEUE = LEVEL[LEVEL.index("    limitResponse") : LEVEL.index("status")]
LIMITED = LEVEL[LEVEL.index("  limited") : LEVEL.index("status")]
SUBJECTS = SCHEMA[SCHEMA.index("    - kind: User") : SCHEMA.index("    resourceRules")]

# text, (what is there, what instead), line, field, a part of the rule
BROKEN: list[tuple[str, tuple[str, str], int, str, str]] = [
    (SCHEMA, ("name: s\n", "name: S_1\n"), 4, "metadata.name", "DNS name"),
    (SCHEMA, ("name: s\n", "name: " + "s" * 254 + "\n"), 4, "metadata.name", "at most 253"),
    (SCHEMA, ("name: s\n", "labels: {}\n"), 3, "metadata.name", "required"),
    (SCHEMA, ("matchingPrecedence: 500", "matchingPrecedence: -1"), 8, "spec.matchingPrecedence", "from 1 to 10000"),
    (SCHEMA, ("matchingPrecedence: 500", "matchingPrecedence: 10001"), 8, "spec.matchingPrecedence", "from 1 to 10000"),
    (SCHEMA, ("matchingPrecedence: 500", "matchingPrecedence: 1"), 8, "spec.matchingPrecedence", "reserved"),
    (SCHEMA, ("matchingPrecedence: 500", "matchingPrecedence: '5'"), 8, "spec.matchingPrecedence", "whole number"),
    (SCHEMA, ("type: ByUser", "type: ByGroup"), 10, "spec.distinguisherMethod.type", "'ByUser' or 'ByNamespace'"),
    (SCHEMA, ("name: exempt", "name: ''"), 7, "spec.priorityLevelConfiguration.name", "DNS name"),
    (SCHEMA, ("name: exempt", "name: a b"), 7, "spec.priorityLevelConfiguration.name", "DNS name"),
    (SCHEMA, (SUBJECTS, "      []\n"), 12, "spec.rules[0].subjects", "at least one subject"),
    (
        SCHEMA,
        (SCHEMA[SCHEMA.index("    resourceRules") :], ""),
        12,
        "spec.rules[0].resourceRules",
        "resourceRules or nonResourceRules",
    ),
    (SCHEMA, ("kind: User", "kind: Person"), 13, "spec.rules[0].subjects[0].kind", "'User', 'Group' or"),
    (SCHEMA, ("kind: User", "kind: Group"), 13, "spec.rules[0].subjects[0].group", "required for the kind Group"),
    (SCHEMA, ("kind: User", "kind: Group"), 14, "spec.rules[0].subjects[0].user", "only group belongs"),
    (SCHEMA, ("name: alice", "name: ''"), 15, "spec.rules[0].subjects[0].user.name", "not be empty"),
    (SCHEMA, ("name: sa", "name: S!"), 19, "spec.rules[0].subjects[1].serviceAccount.name", "service account's name"),
    (
        SCHEMA,
        ("namespace: ns", "namespace: n.s"),
        18,
        "spec.rules[0].subjects[1].serviceAccount.namespace",
        "DNS label",
    ),
    (
        SCHEMA,
        ("namespace: ns", "namespace: '*'"),
        18,
        "spec.rules[0].subjects[1].serviceAccount.namespace",
        "DNS label",
    ),
    (SCHEMA, ("namespace: ns\n", "\n"), 17, "spec.rules[0].subjects[1].serviceAccount.namespace", "required"),
    (SCHEMA, ("verbs: [get]\n      api", "verbs: []\n      api"), 21, "spec.rules[0].resourceRules[0].verbs", "empty"),
    (
        SCHEMA,
        ("verbs: [get]\n      api", "verbs: [get, '*']\n      api"),
        21,
        "spec.rules[0].resourceRules[0].verbs",
        "alone",
    ),
    (
        SCHEMA,
        ("verbs: [get]\n      api", "verbs: [post]\n      api"),
        21,
        "spec.rules[0].resourceRules[0].verbs",
        "one of",
    ),
    (
        SCHEMA,
        ("verbs: [get]\n      api", "verbs: [get, get]\n      api"),
        21,
        "spec.rules[0].resourceRules[0].verbs",
        "once",
    ),
    (
        SCHEMA,
        ("verbs: [get]\n      non", "verbs: [head]\n      non"),
        26,
        "spec.rules[0].nonResourceRules[0].verbs",
        "one of",
    ),
    (SCHEMA, ('apiGroups: [""]', "apiGroups: []"), 22, "spec.rules[0].resourceRules[0].apiGroups", "empty"),
    (SCHEMA, ('apiGroups: [""]', "apiGroups: [a, '*']"), 22, "spec.rules[0].resourceRules[0].apiGroups", "alone"),
    (SCHEMA, ("resources: [pods]", "resources: []"), 23, "spec.rules[0].resourceRules[0].resources", "empty"),
    (SCHEMA, ("resources: [pods]", "resources: ['*', a]"), 23, "spec.rules[0].resourceRules[0].resources", "alone"),
    (SCHEMA, ("resources: [pods]", "resources: [a, a]"), 23, "spec.rules[0].resourceRules[0].resources", "once"),
    (SCHEMA, ("namespaces: [ns]", "namespaces: []"), 24, "spec.rules[0].resourceRules[0].namespaces", "clusterScope"),
    (SCHEMA, ("namespaces: [ns]", "namespaces: [a, '*']"), 24, "spec.rules[0].resourceRules[0].namespaces", "alone"),
    (
        SCHEMA,
        ("namespaces: [ns]", "namespaces: [n.s]"),
        24,
        "spec.rules[0].resourceRules[0].namespaces[0]",
        "DNS label",
    ),
    (SCHEMA, ("[/a/*]", "[]"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs", "empty"),
    (SCHEMA, ("[/a/*]", "[/a, '*']"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs", "alone"),
    (SCHEMA, ("[/a/*]", "[a]"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", "start with '/'"),
    (SCHEMA, ("[/a/*]", "['/a b']"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", "space"),
    (SCHEMA, ("[/a/*]", "[/, /a//b]"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]", "'//'"),
    (SCHEMA, ("[/a/*]", "[/hea*]"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", "last segment"),
    (SCHEMA, ("[/a/*]", "[/*/*]"), 27, "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", "only one"),
    (SCHEMA, ("- type: Dangling", "- type: Dangling\n  - type: Dangling"), 31, "status.conditions[1].type", "same"),
    (SCHEMA, ("- type: Dangling", "- type: ''"), 30, "status.conditions[0].type", "empty"),
    (SCHEMA, ("name: s\n", "name: exempt\n"), 4, "metadata.name", "can't be changed"),
    (SCHEMA, ("name: s\n", "name: catch-all\n"), 4, "metadata.name", "can't be changed"),
    (SCHEMA, ("matchingPrecedence", "matchingPrecedense"), 8, "spec.matchingPrecedense", "no such key"),
    (LEVEL, ("name: l\n", "name: exempt\n"), 7, "spec.type", "must have the type Exempt"),
    (EXEMPT, ("name: exempt", "name: other"), 6, "spec.type", "only the level 'exempt'"),
    (LEVEL, ("type: Limited", "type: ''"), 7, "spec.type", "'Exempt' or 'Limited'"),
    (LEVEL, ("type: Limited\n", "\n"), 6, "spec.type", "required"),
    (EXEMPT, ("type: Exempt\n", "type: Exempt\n" + LIMITED), 7, "spec.limited", "absent where the type is Exempt"),
    (EXEMPT, ("Shares: 5", "Shares: -5"), 8, "spec.exempt.nominalConcurrencyShares", "at least 0"),
    (EXEMPT, ("Percent: 50", "Percent: 101"), 9, "spec.exempt.lendablePercent", "at most 100"),
    (LEVEL, ("type: Limited\n", "type: Limited\n  exempt: {}\n"), 8, "spec.exempt", "absent where the type is Limited"),
    (LEVEL, (LIMITED, ""), 6, "spec.limited", "required where the type is Limited"),
    (LEVEL, ("Shares: 30", "Shares: -1"), 9, "spec.limited.nominalConcurrencyShares", "at least 0"),
    (LEVEL, ("Shares: 30", "Shares: 3000000000"), 9, "spec.limited.nominalConcurrencyShares", "at most 2147483647"),
    (LEVEL, ("lendablePercent: 10", "lendablePercent: 101"), 10, "spec.limited.lendablePercent", "at most 100"),
    (LEVEL, ("lendablePercent: 10", "lendablePercent: -1"), 10, "spec.limited.lendablePercent", "at least 0"),
    (LEVEL, ("LimitPercent: 20", "LimitPercent: -1"), 11, "spec.limited.borrowingLimitPercent", "at least 0"),
    (
        LEVEL,
        ("type: Queue", "type: Reject"),
        14,
        "spec.limited.limitResponse.queuing",
        "absent where the type is Reject",
    ),
    (LEVEL, (QUEUE, REJECT.replace("Reject", "Queue")), 12, "spec.limited.limitResponse.queuing", "required"),
    (LEVEL, ("type: Queue", "type: Wait"), 13, "spec.limited.limitResponse.type", "'Queue' or 'Reject'"),
    (LEVEL, (QUEUE, ""), 8, "spec.limited.limitResponse", "required"),
    (LEVEL, ("Limit: 50", "Limit: -1"), 17, "spec.limited.limitResponse.queuing.queueLengthLimit", "at least 1"),
    (LEVEL, ("queues: 64", "queues: -1"), 15, "spec.limited.limitResponse.queuing.queues", "from 1 to 10000000"),
    (LEVEL, ("queues: 64", "queues: 10000001"), 15, "spec.limited.limitResponse.queuing.queues", "from 1 to 10000000"),
    (LEVEL, ("handSize: 6", "handSize: -1"), 16, "spec.limited.limitResponse.queuing.handSize", "at least 1"),
    (LEVEL, ("handSize: 6", "handSize: 65"), 16, "spec.limited.limitResponse.queuing.handSize", "not exceed the 64"),
    (LEVEL, ("handSize: 6", "handSize: 11"), 16, "spec.limited.limitResponse.queuing.handSize", "66 bits"),
    (LEVEL, ("name: l\n", "name: catch-all\n"), 4, "metadata.name", "can't be changed"),
    (
        LEVEL,
        ("annotations: {}", f"annotations: {{{ZERO_SHARES}: ''}}"),
        5,
        f"metadata.annotations.{ZERO_SHARES}",
        "v1beta3",
    ),
    (LEVEL, ("- type: A", "- type: A\n  - type: A"), 21, "status.conditions[1].type", "has the same type"),
    (LEVEL, ("- type: A", "- status: 'True'"), 20, "status.conditions[0].type", "required"),
    (
        LEVEL,
        ("nominalConcurrencyShares", "assuredConcurrencyShares"),
        9,
        "spec.limited.assuredConcurrencyShares",
        "no such key",
    ),
]

STRUCTURE = [
    one
    for one in BROKEN
    if any(
        part in one[4]
        for part in ("absent where", "required where", "for the kind", "at least one", "or nonResourceRules")
    )
]
"""Parts of a manifest that don't fit each other."""


@pytest.mark.parametrize("text", [SCHEMA, LEVEL, EXEMPT])
def test_valid_documents_load(text: str) -> None:
    assert read_source(text).errors == ()


@pytest.mark.parametrize(("text", "change", "line", "field", "rule"), BROKEN, ids=lambda value: str(value)[:50])
def test_each_rule_is_reported_with_its_place(
    text: str, change: tuple[str, str], line: int, field: str, rule: str
) -> None:
    assert text.count(change[0]) >= 1
    # A second document shows that the document's number is reported, and that the rest is still read.
    reading = read_source(f"{text.replace(*change, 1)}---\napiVersion: x\n", "f.yaml")

    found = [one for one in reading.errors if one.field == field and rule in one.rule]
    assert [(one.place.file, one.place.document, one.place.line) for one in found] == [("f.yaml", 1, line)], reading
    assert any(one.place.document == 2 for one in reading.errors)


def test_all_problems_of_a_document_are_reported_at_once() -> None:
    text = (
        SCHEMA.replace("500", "1")
        .replace("ByUser", "By")
        .replace("alice", "''")
        .replace("[pods]", "[]")
        .replace("name: s\n", "name: S\n")
    )

    fields = {problem.field for problem in read_source(text).errors}

    assert fields == {
        "metadata.name",
        "spec.matchingPrecedence",
        "spec.distinguisherMethod.type",
        "spec.rules[0].subjects[0].user.name",
        "spec.rules[0].resourceRules[0].resources",
    }


def test_a_misspelt_key_gets_a_hint() -> None:
    [problem] = read_source(LEVEL.replace("handSize", "handsize")).errors

    assert problem.hint == "Did you mean handSize?"


def test_what_kubectl_prints_is_understood() -> None:
    configuration = load(DATA / "kubectl.yaml")

    assert configuration.levels["reports"] == Level("reports", LevelShares(15, 25, 50), Queuing(32, 4, 30))
    assert configuration.schemas[1] == FlowSchema(
        "reports",
        "reports",
        700,
        (
            Rule(
                (ServiceAccountSubject("reporting", "*"), GroupSubject("analysts")),
                (ResourceRule(("get", "list"), ("",), ("pods/log",), ("*",), cluster_scope=True),),
                (NonResourceRule(("*",), ("/reports/*",)),),
            ),
        ),
        Distinguisher(Source.USER),
    )
    assert [schema.name for schema in configuration.schemas] == ["exempt", "reports", "catch-all"]


@pytest.mark.parametrize(
    ("version", "given", "annotated", "shares"),
    [
        ("v1", "nominalConcurrencyShares: 0", False, 0),
        ("v1", "lendablePercent: 0", False, 30),
        ("v1", "nominalConcurrencyShares: null", False, 30),
        ("v1beta3", "nominalConcurrencyShares: 0", False, 30),
        ("v1beta3", "nominalConcurrencyShares: 0", True, 0),
        ("v1beta3", "nominalConcurrencyShares: 7", True, 7),
        ("v1beta2", "assuredConcurrencyShares: 0", False, 30),
        ("v1beta2", "assuredConcurrencyShares: 7", False, 7),
        ("v1beta1", "assuredConcurrencyShares: 7", False, 7),
        ("v1alpha1", "assuredConcurrencyShares: 7", False, 7),
        ("v1alpha1", "assuredConcurrencyShares: 0x10", False, 16),
        ("v1alpha1", "lendablePercent: 0", False, 30),
    ],
)
def test_versions_say_shares_in_their_own_ways(version: str, given: str, annotated: bool, shares: int) -> None:  # noqa: FBT001
    annotations = f"{{{ZERO_SHARES}: ''}}" if annotated else "{}"
    text = f"""
        apiVersion: {KUBERNETES_GROUP}/{version}
        kind: PriorityLevelConfiguration
        metadata: {{name: l, annotations: {annotations}}}
        spec: {{type: Limited, limited: {{{given}, limitResponse: {{type: Reject}}}}}}
    """
    reading = read_source(textwrap.dedent(text))

    assert reading.unwrap().levels["l"].shares == LevelShares(shares)


def test_zero_means_the_default_where_upstream_says_so() -> None:
    text = (
        LEVEL.replace("queues: 64", "queues: 0").replace("handSize: 6", "handSize: 0").replace("Limit: 50", "Limit: 0")
    )

    assert read_source(text).unwrap().levels["l"].queuing == Queuing(64, 8, 50)
    schemas = read_source(SCHEMA.replace("500", "0")).unwrap().schemas
    assert [schema.precedence for schema in schemas if schema.name == "s"] == [1000]


def test_exempt_may_differ_in_what_it_lends() -> None:
    assert read_source(EXEMPT).unwrap().levels["exempt"].shares == LevelShares(5, 50, exempt=True)


@pytest.mark.parametrize("kind", ["FlowSchema", "PriorityLevelConfiguration"])
def test_typed_lists_imply_kind_and_version(kind: str) -> None:
    text = SCHEMA if kind == "FlowSchema" else LEVEL
    item: Any = "\n".join(text.splitlines()[2:])
    whole = f"apiVersion: {KUBERNETES_GROUP}/v1\nkind: {kind}List\nitems:\n- {textwrap.indent(item, '  ').lstrip()}\n"

    reading = read_source(whole)
    assert reading.errors == ()
    broken = read_source(whole.replace("name: exempt", "name: X").replace("Shares: 30", "Shares: -1"))
    assert broken.errors[0].field.startswith("items[0].spec.")


@pytest.mark.parametrize("paths", [[], [DATA / "kubectl.yaml"]])
def test_v1_has_the_fields_of_kubernetes(paths: list[Path]) -> None:
    configuration = load(*paths, defaults="kubernetes")
    again = load_text(emit(configuration, "v1"), defaults="kubernetes")

    assert (again.levels, again.schemas) == (configuration.levels, configuration.schemas)


def test_what_v1_cannot_express_is_reported_by_object_and_field() -> None:
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
def test_alternative_subjects_can_be_expressed_in_v1(tests: tuple[Atom, ...], subjects: tuple[object, ...]) -> None:
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


def test_criticality_and_deadline_are_left_out_of_v1_with_warnings() -> None:
    text = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  criticality: sheddable
  deadline: 90s
  rules: [{nonResourceRules: [{verbs: [get], nonResourceURLs: [/x]}]}]
---
apiVersion: apf/v1
kind: Server
spec: {defaults: none}
"""
    problems = Problems()
    written = convert(load_text(text), "v1", problems)

    assert problems.errors == ()
    assert {one.field: one.value for one in problems} == {"criticality": "sheddable", "deadline": "90s"}
    assert "criticality" not in written
    assert "deadline" not in written


def test_weights_are_left_out_of_v1_with_warnings() -> None:
    text = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  distinguisher: {source: user}
  weight: 2
  weights: {gold: 4}
  groupWeights: {"plan:*": 3}
  weightFunction: builtins:hash
  rules: [{nonResourceRules: [{verbs: [get], nonResourceURLs: [/x]}]}]
---
apiVersion: apf/v1
kind: Server
spec: {defaults: none}
"""
    problems = Problems()
    written = convert(load_text(text), "v1", problems)

    assert problems.errors == ()
    assert {one.place.file for one in problems} == {"<schema s>"}
    assert {one.field: one.value for one in problems} == {
        "weight": 2,
        "weights": {"gold": 4},
        "groupWeights": {"plan:*": 3},
        "weightFunction": "builtins:hash",
    }
    assert all("equal weights" in one.rule for one in problems)
    assert "name: s\n" in written
    assert "eight" not in written


@pytest.mark.parametrize(("text", "change", "_line", "field", "_rule"), STRUCTURE)
def test_errors_between_parts_of_a_manifest_tell_the_next_step(
    text: str, change: tuple[str, str], _line: int, field: str, _rule: str
) -> None:
    [problem] = [one for one in read_source(text.replace(*change, 1)).problems if one.field == field]

    assert problem.hint
