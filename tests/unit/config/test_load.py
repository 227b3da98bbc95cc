"""All problems of a document are reported together, in the words of its format."""

import re
from pathlib import Path

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.emit import emit
from apf_middleware.config.load import read, read_source

KUBERNETES = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: s}
spec:
  priorityLevelConfiguration: {name: l}
  rules:
  - subjects: [{kind: User, user: {name: a}, group: {name: b}}]
    resourceRules:
    - verbs: [gett]
      namespaces: ["*", a]
    - verbs: [get]
      apiGroups: [""]
      resources: [pods]
      nonResourceURLs: [/a]
    nonResourceRules:
    - verbs: [gett]
      nonResourceURLs: [bad]
    - verbs: [get]
      nonResourceURLs: [/]
      namespaces: ["*"]
  - subjects: [{kind: Userr}]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: l}
spec:
  type: Limited
  exempt: {lendablePercent: 5}
  limited:
    lendablePercent: 120
    limitResponse: {type: Reject, queuing: {handSize: 3, queues: 2}}
"""

APF = """apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: m}
spec: {type: Exempt, shares: x, weight: 3, queuing: {handSize: 4}, streams: {releaseAtStart: true}, minSeats: 3}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: f}
spec:
  level: m
  rules:
  - subjects: [{}]
    httpRules: [{methods: [get], paths: 3, hosts: [A]}]
  - subjects: []
"""


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            KUBERNETES,
            {
                "spec.rules[0].subjects[0].group",
                "spec.rules[0].resourceRules[0].verbs",
                "spec.rules[0].resourceRules[0].apiGroups",
                "spec.rules[0].resourceRules[0].resources",
                "spec.rules[0].resourceRules[0].namespaces",
                "spec.rules[0].resourceRules[1].nonResourceURLs",
                "spec.rules[0].resourceRules[1].namespaces",
                "spec.rules[0].nonResourceRules[0].verbs",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]",
                "spec.rules[0].nonResourceRules[1].namespaces",
                "spec.rules[1].subjects[0].kind",
                "spec.rules[1].resourceRules",
                "spec.exempt",
                "spec.limited.lendablePercent",
                "spec.limited.limitResponse.queuing.handSize",
            },
        ),
        (
            APF,
            {
                "spec.shares",
                "spec.queuing",
                "spec.streams",
                "spec.minSeats",
                "spec.rules[0].subjects[0]",
                "spec.rules[0].httpRules[0].methods[0]",
                "spec.rules[0].httpRules[0].paths",
                "spec.rules[0].httpRules[0].hosts[0]",
                "spec.rules[1].subjects",
                "spec.rules[1].httpRules",
            },
        ),
    ],
    ids=["kubernetes", "apf"],
)
def test_no_problem_hides_another(text: str, fields: set[str]) -> None:
    problems = read_source(text).errors

    assert {problem.field for problem in problems} == fields
    assert len(problems) == len(fields)


def test_a_rule_that_needs_an_unreadable_field_is_not_checked() -> None:
    """Whether namespaces must be there can't be known while clusterScope can't be read."""
    text = KUBERNETES.replace('      namespaces: ["*", a]\n', "      clusterScope: yes\n")

    fields = [problem.field for problem in read_source(text).errors]

    assert "spec.rules[0].resourceRules[0].clusterScope" in fields
    assert "spec.rules[0].resourceRules[0].namespaces" not in fields


@pytest.mark.parametrize(
    ("misplaced", "hint"),
    [
        ("nonResourceURLs", "Move it to a rule of nonResourceRules"),
        ("namespaces", "Move it to a rule of resourceRules"),
    ],
)
def test_a_field_of_the_other_kind_of_rule_points_there(misplaced: str, hint: str) -> None:
    [problem] = [one for one in read_source(KUBERNETES).errors if misplaced in one.field and "no such key" in one.rule]

    assert problem.hint == hint


UNSAYABLE = """apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec: {waitLimit: 5s, state: Paused, queuing: {handSize: 4}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: l
  estimate: {source: constant, seats: 3}
  rules: [{httpRules: [{methods: [GET], paths: [/a]}]}]
  match: [{and: [{equals: {field: path, value: /b}}]}]
"""


def test_what_v1_cannot_express_is_shown_as_it_is_written() -> None:
    with pytest.raises(ConfigurationError) as caught:
        emit(load_text(UNSAYABLE), "v1")

    text = str(caught.value)
    assert "waitLimit is '5s'" in text
    assert "state is 'Paused'" in text
    assert "rules[0].httpRules is [{methods: ['GET'], paths: ['/a']}]" in text
    assert "match[1] is {and: [{equals: {field: 'path', value: '/b'}}]}" in text
    assert "estimate is {" in text


@pytest.mark.parametrize("text", [KUBERNETES, APF, UNSAYABLE.replace("seats: 3", "seats: 0")])
def test_messages_have_no_names_of_python(text: str) -> None:
    """No attributes with underscores, no constructors, no True and None."""
    for problem in read_source(text).problems:
        leak = re.search(r"\b[a-z]+_[a-z_]+\b|\b[A-Z][A-Za-z]+\(|\b(True|False|None)\b", str(problem))
        assert leak is None, str(problem)


def test_one_path_is_read_like_a_list_of_one(tmp_path: Path) -> None:
    path = tmp_path / "apf.yaml"
    path.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 7}\n")

    for paths in (path, str(path), [path]):
        assert read(paths).unwrap().server.seats == 7


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{loadReport: }", "spec.loadReport is null, but there is no such key here. Did you mean loadReports?"),
        ("{trustedProxies: {hop: }}", "spec.trustedProxies.hop is null, but there is no such key here"),
        ("{deadlines: {headers: {x-limit: }}}", "spec.deadlines.headers.x-limit is null, but it must be 'grpc'"),
        (
            "{authentication: [{type: jwt, algorithms: [RS256], keyFile: key.pem, requiredClaims: {hd: }}]}",
            "spec.authentication[0].requiredClaims.hd is null, but it must be text",
        ),
    ],
)
def test_only_known_keys_may_have_no_value(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n", "apf.yaml")

    assert f"apf.yaml:3 (document 1): error: {said}" in str(caught.value)


def test_a_known_key_without_a_value_counts_as_missing() -> None:
    text = "apiVersion: apf/v1\nkind: Server\nspec: {seats: , metrics: {path: }, fleet: , queues: {groups: }}\n"

    assert load_text(text) == load_text("")


@pytest.mark.parametrize(
    "spec",
    [
        "{fleet: {redis: {password: hunter2}}}",
        "{fleet: {rediss: {password: hunter2}}}",
        "{authentication: [{type: tokens, file: f, tokens: [hunter2]}]}",
        "{authentication: [{type: jwt, issuer: i, audience: [a], jwksURL: 'https://me:hunter2@example.com/keys'}]}",
        "{fleet: {name: shop, url: 'redis://:hunter2@cache/0'}}",
        "{fleet: {name: shop, urls: ['redis://:a/b@hunter2@cache/0', 'redis://cache/0?db=1&password=hunter2']}}",
        "{flet: {store: 'redis://:hunter2@cache/0'}}",
        "{flet: 'redis://:%shunter2@cache/0'}" % ("x" * 100),
    ],
)
def test_secrets_of_unknown_keys_are_not_shown(spec: str) -> None:
    errors = read_source(f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n").errors

    assert any("there is no such key here" in str(error) for error in errors)
    assert not any("hunter2" in str(error) or "hunter2" in str(error.as_dict()) for error in errors)


def test_an_address_without_a_password_is_shown() -> None:
    [error] = read_source("apiVersion: apf/v1\nkind: Server\nspec: {uri: 'redis://cache/0?db=1', a: x@y}\n").errors[1:]

    assert "spec.uri is 'redis://cache/0?db=1', but" in str(error)
