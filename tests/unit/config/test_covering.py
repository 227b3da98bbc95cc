"""Schemas that other schemas cover."""

import pytest

from tests.support.linted_documents import ALICE, BOB, EVERYTHING, schema, warnings

ALICE_READS = "{subjects: [{user: alice}], httpRules: [{methods: [GET]}]}"
BOTH = "{subjects: [{group: 'system:authenticated'}, {group: 'system:unauthenticated'}], httpRules: [{paths: ['/*']}]}"
RESOURCES = "resourceRules: [{verbs: %s, apiGroups: ['*'], resources: %s, namespaces: %s, clusterScope: %s}]"
PODS = "{subjects: [{user: alice}], " + RESOURCES % ("[get]", "[pods]", "[a]", "false") + "}"
ALL_RESOURCES = "{subjects: [{group: '*'}], " + RESOURCES % ("['*']", "['*']", "['*']", "true") + "}"
CLUSTER = "{subjects: [{user: alice}], " + RESOURCES % ("[get]", "[pods]", "[]", "true") + "}"
NAMESPACED = "{subjects: [{user: alice}], " + RESOURCES % ("['*']", "['*']", "['*']", "false") + "}"
URLS = "{subjects: [{user: alice}], nonResourceRules: [{verbs: [get], nonResourceURLs: [%s]}]}"
ACCOUNT = "{subjects: [{serviceAccount: {namespace: a, name: %s}}], httpRules: [{}]}"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (ALICE, ALICE),
        (ALICE, ALICE_READS),
        (f"{ALICE}, {BOB}", "{subjects: [{user: alice}, {user: bob}], httpRules: [{paths: [/x]}]}"),
        (BOTH, BOB),
        (ALICE, PODS),
        (ALL_RESOURCES, PODS),
        (NAMESPACED, PODS),
        (URLS % "/a, /b", URLS % "/b"),
        (ACCOUNT % "'*'", ACCOUNT % "b"),
        (EVERYTHING, ALICE),
    ],
)
def test_a_covered_schema_is_reported(earlier: str, later: str) -> None:
    found = warnings(schema("first", 10, earlier) + schema("second", 20, later))

    assert any(one.startswith("3 spec.precedence: this schema never matches: 'first' covers it") for one in found), (
        found
    )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (ALICE, BOB),
        (ALICE_READS, ALICE),
        (PODS, ALICE),
        (NAMESPACED, CLUSTER),
        (ALL_RESOURCES, ALICE),
        (URLS % "/b", URLS % "/a, /b"),
        (ACCOUNT % "b", ACCOUNT % "'*'"),
        (ALICE, f"{ALICE}, {BOB}"),
        (ALICE, "{subjects: [{user: alice}, {user: bob}], httpRules: [{}]}"),
    ],
)
def test_what_may_match_is_left_alone(earlier: str, later: str) -> None:
    assert warnings(schema("first", 10, earlier) + schema("second", 20, later), more="resolver: kubernetes") == []


def test_a_catch_all_that_is_not_last_is_reported() -> None:
    found = warnings(schema("all", 10, EVERYTHING) + schema("b", 20, BOB) + schema("c", 30, ALICE))

    assert "2 spec.precedence: this schema takes every request, so 2 later schemas can't match" in found
    assert len(found) == 3
    assert warnings(schema("b", 20, BOB) + schema("all", 30, EVERYTHING)) == []


def test_tests_cover_when_they_are_fewer() -> None:
    text = """\
---
kind: FlowSchema
meta: {name: a}
spec: {requestPriority: {name: system-top}, matchingPriority: 5, match: [equals: {field: user, value: x}]}
---
kind: FlowSchema
meta: {name: b}
spec:
  requestPriority: {name: system-top}
  match:
  - and: [{equals: {field: user, value: x}}, {equals: {field: verb, value: get}}]
"""
    assert [one.split(":")[0] for one in warnings(text)] == ["3 spec.matchingPriority"]
