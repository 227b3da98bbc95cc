"""Rules and schemas: whether they accept a request, and why not."""

from dataclasses import replace

import pytest

from apf_middleware.classification import AtomicTest as Atom  # under its own name pytest would collect it
from apf_middleware.classification import (
    Conjunction,
    Field,
    FlowSchema,
    GroupSubject,
    Operator,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    ValueMatch,
    accepts,
    why_not,
)
from tests.support.rules import EVERYBODY, PATH, PODS, http, urls


def test_a_schema_without_rules_accepts_nothing() -> None:
    assert why_not(FlowSchema("s", "l"), PATH) == "it has no rules"


def test_an_empty_conjunction_accepts_everything() -> None:
    assert accepts(FlowSchema("s", "l", rules=(Conjunction(),)), PATH)
    assert accepts(Conjunction(), PODS)


PODS_RULE = ResourceRule(("get",), ("",), ("pods",), ("ns1",))


@pytest.mark.parametrize(
    ("rule", "digest", "reason"),
    [
        (Rule((GroupSubject("qa"),), (PODS_RULE,)), PODS, "'ann' in ['dev', 'ops'] is none of its subjects"),
        (Rule(EVERYBODY, (PODS_RULE,)), PODS, "the resource 'pods/log' is not in ['pods']"),
        (Rule(EVERYBODY, (PODS_RULE,)), replace(PODS, verb="list"), "the verb 'list' is not in ['get']"),
        (Rule(EVERYBODY, (PODS_RULE,)), PATH, "it has no rule for requests that aren't about a resource"),
        (urls("/x"), PODS, "it has no rule for resource requests"),
        (urls("/x"), PATH, "the path '/healthz/ping' is not in ['/x']"),
        (
            Rule(EVERYBODY, (PODS_RULE,)),
            replace(PODS, resource=Resource("pods", "apps")),
            "the API group 'apps' is not in ['']",
        ),
        (
            Rule(EVERYBODY, (PODS_RULE,)),
            replace(PODS, resource=Resource("pods")),
            "it doesn't cover requests without a namespace",
        ),
        (
            Rule(EVERYBODY, (PODS_RULE,)),
            replace(PODS, resource=Resource("pods", namespace="x")),
            "the namespace 'x' is not in ['ns1']",
        ),
        (http(methods=("put",)), PATH, "the method 'GET' is not in ['PUT']"),
        (http(paths=("/a", "/b")), PATH, "the path '/healthz/ping' matches none of ['/a', '/b']"),
        (http(paths=("/healthz",)), PATH, "the path '/healthz/ping' matches none of ['/healthz']"),
        (
            http(headers=(ValueMatch("X-A", pattern="a"),)),
            replace(PATH, headers={"x-a": "ab"}),
            "the header 'X-A' doesn't meet the condition",
        ),
        (
            Conjunction((Atom(Field.USER, Operator.PATTERN_MATCH, ("an",)),)),
            PATH,
            "user patternMatch ['an'] doesn't hold",
        ),
        (http(hosts=("x",)), PATH, "the host 'Api.Example.com:8443' is not in ['x']"),
        (http(headers=(ValueMatch("X-A"),)), PATH, "the header 'X-A' doesn't meet the condition"),
        (http(query=(ValueMatch("a"),)), PATH, "the query parameter 'a' doesn't meet the condition"),
        (
            Conjunction((Atom(Field.USER, Operator.IN_SET, ("ann",), inverted=True),)),
            PATH,
            "user notInSet ['ann'] doesn't hold",
        ),
        (urls(*"123456"), PATH, "the path '/healthz/ping' is not in ['1', '2', '3', '4', '5', …]"),
    ],
)
def test_the_reason_says_what_did_not_match(rule: Rule | Conjunction, digest: RequestDigest, reason: str) -> None:
    assert why_not(rule, digest) == reason
    assert why_not(FlowSchema("s", "l", rules=(rule, rule)), digest) == reason
