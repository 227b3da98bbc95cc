"""Writing configurations, and reading them again."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import AtomicTest as Atom
from apf_middleware.classification.rules import Conjunction, Field, GroupSubject, Operator, Rule, UserSubject
from apf_middleware.config import Configuration, ConfigurationError, load, load_text
from apf_middleware.config.emit import Target, convert, emit
from apf_middleware.config.estimation import ComputedEstimate, EstimationSettings
from apf_middleware.config.merge import Defaults
from apf_middleware.config.problems import Problems
from apf_middleware.config.server import Route

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("defaults", ["web", "kubernetes", "none"])
def test_our_own_form_says_everything(defaults: Defaults) -> None:
    configuration = load(defaults=defaults)

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize("name", ["kep-example.yaml", "kubectl.yaml"])
def test_other_formats_become_ours(name: str) -> None:
    configuration = load(DATA / name)

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize("paths", [[], [DATA / "kubectl.yaml"]])
def test_v1_says_what_kubernetes_knows(paths: list[Path]) -> None:
    configuration = load(*paths, defaults="kubernetes")
    again = load_text(emit(configuration, "v1"), defaults="kubernetes")

    assert (again.levels, again.schemas) == (configuration.levels, configuration.schemas)


def test_what_is_told_of_requests_is_written() -> None:
    told = "apiVersion: apf/v1\nkind: Server\nspec: {telemetry: {tracing: true}, responses: {serverTiming: true}}"
    written = emit(load_text(told))

    assert load_text(written) == load_text(told)
    assert "telemetry:\n    tracing: true\n" in written
    assert "responses:\n    serverTiming: true\n" in written
    assert "telemetry" not in emit(load())


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


def test_a_callable_is_written_by_its_name() -> None:
    base = load(defaults="none")

    def written(distinguisher: Distinguisher) -> str:
        schema = FlowSchema("s", "exempt", 5, (Conjunction(),), distinguisher)
        return emit(Configuration(base.levels, (schema,), base.server))

    assert "callable: builtins:repr" in written(Distinguisher(Source.CALLABLE, function=repr))
    with pytest.raises(ConfigurationError, match=r"<schema s>: error: distinguisher\.callable"):
        written(Distinguisher(Source.CALLABLE, function=lambda digest: digest.path))


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


def test_a_function_without_a_name_is_an_error_wherever_it_estimates() -> None:
    def nameless(*_: object) -> int:
        return 2

    base = load(defaults="none")
    schema = FlowSchema("s", "exempt", 5, (Conjunction(),))
    computed = ComputedEstimate(nameless)
    routes = (Route("/a", "a"), Route("/b", "b", estimate=computed))
    server = replace(base.server, routes=routes, estimation=EstimationSettings(default=computed, cap=False))
    problems = Problems()
    written = convert(Configuration(base.levels, (schema,), server, {"s": computed}), "apf", problems)

    assert {(one.place.file, one.field) for one in problems.errors} == {
        ("<schema s>", "estimate.callable"),
        ("<server>", "routes[1].estimate.callable"),
        ("<server>", "estimation.default.callable"),
    }
    assert all(one.hint and "imported by its name" in one.rule for one in problems)
    assert "callable" not in written
    assert "cap: false" in written


def test_a_function_with_a_name_is_written_wherever_it_estimates() -> None:
    base = load(defaults="none")
    computed = ComputedEstimate(os.path.getsize)
    server = replace(
        base.server, routes=(Route("/a", "a", estimate=computed),), estimation=EstimationSettings(computed)
    )
    written = emit(Configuration(base.levels, base.schemas, server, {base.schemas[0].name: computed}))

    assert written.count("callable: genericpath:getsize") == 3
    assert load_text(written).server == server


LABELLED = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: PriorityLevelConfiguration
metadata:
  name: reports
  labels: {app.kubernetes.io/part-of: shop, "number": "1"}
  annotations:
    include.release.openshift.io/ibm-cloud-managed: "true"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: ""
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: reports, annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}, uid: a, generation: 3}
spec: {priorityLevelConfiguration: {name: reports}, rules: []}
---
apiVersion: apf/v1
kind: Server
metadata: {labels: {team: platform}}
spec: {defaults: none, resolver: kubernetes}
"""


@pytest.mark.parametrize("target", ["apf", "v1"])
def test_labels_and_annotations_are_kept(target: Target) -> None:
    configuration = load_text(LABELLED)
    documents = {
        (one["kind"], one["metadata"]["name"]): one["metadata"]
        for one in yaml.safe_load_all(emit(configuration, target))
    }

    level = documents["PriorityLevel" if target == "apf" else "PriorityLevelConfiguration", "reports"]
    assert level["labels"] == {"app.kubernetes.io/part-of": "shop", "number": "1"}
    assert level["annotations"] == {"include.release.openshift.io/ibm-cloud-managed": "true"}
    assert documents["FlowSchema", "reports"]["annotations"] == {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    assert target == "v1" or documents["Server", "server"]["labels"] == {"team": "platform"}
    again = load_text(emit(configuration, target)).metadata
    assert {key: again[key] for key in again if key[0] != "server"} == {
        key: found for key, found in configuration.metadata.items() if key[0] != "server"
    }


def test_a_schema_that_takes_nothing_can_be_written() -> None:
    configuration = load_text(LABELLED)

    assert load_text(emit(configuration)) == configuration
    assert "rules: []" in emit(configuration)
