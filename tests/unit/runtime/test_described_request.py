"""Explanations of described requests: identities, queries, hosts, and requests that need no seats."""

import pytest

from apf_middleware import testing
from apf_middleware.config import load, load_text
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.described_request import DescribedRequest, explain_request

CONFIG = load_text("""
apiVersion: apf/v1
kind: Server
spec: {seats: 4, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1, queuing: {queues: 8, handSize: 2, queueLengthLimit: 3}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-host}
spec: {level: crowd, precedence: 10, rules: [{httpRules: [{hosts: [shop.example]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-header}
spec:
  level: crowd
  precedence: 20
  distinguisher: {source: header, name: x-tenant}
  rules: [{httpRules: [{headers: [{name: x-tenant}]}]}]
""")

PATHS = load_text("""
apiVersion: apf/v1
kind: Server
spec: {defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: by-path}
spec: {level: crowd, rules: [{httpRules: [{paths: [/a!b/c, /]}]}]}
""")


@pytest.mark.parametrize(
    ("request_", "schema", "flow"),
    [
        (DescribedRequest("GET", "http://shop.example/orders"), "by-host", ""),
        (DescribedRequest("get", "/orders", headers={"host": "shop.example"}), "by-host", ""),
        (DescribedRequest("GET", "/orders", headers={"x-tenant": "acme"}), "by-header", "acme"),
        (DescribedRequest("GET", "/orders", "alice"), "catch-all", ""),
    ],
)
def test_the_first_schema_that_matches_is_named(request_: DescribedRequest, schema: str, flow: str) -> None:
    facts = explain_request(CONFIG, request_)

    assert (facts["schema"], facts["flow"]) == (schema, flow)


@pytest.mark.parametrize("url", ["/a!b/c", "/a%21b/%63", "/a%21b%2Fc%0A?x#y", "http://host/a%21b/c#y"])
def test_a_path_is_decoded_as_servers_do(url: str) -> None:
    assert explain_request(PATHS, DescribedRequest("GET", url))["schema"] == "by-path"


@pytest.mark.parametrize("url", ["//by-path", "///a!b/c", "/a%2521b/c"])
def test_another_path_is_another_path(url: str) -> None:
    assert explain_request(PATHS, DescribedRequest("GET", url))["schema"] == "catch-all"


def test_those_before_it_are_listed_with_their_reasons() -> None:
    passed = explain_request(CONFIG, DescribedRequest("GET", "/orders"))["passed_over"]

    assert isinstance(passed, list)
    assert [one["schema"] for one in passed][-2:] == ["by-host", "by-header"]
    assert all(one["why"] for one in passed)


@pytest.mark.parametrize(
    ("user", "groups", "name", "known"),
    [
        ("", ("a",), "system:anonymous", ("a", "system:unauthenticated")),
        ("alice", ("a", "a"), "alice", ("a", "system:authenticated")),
        (
            "system:serviceaccount:shop:cart",
            (),
            "system:serviceaccount:shop:cart",
            ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
    ],
)
def test_a_user_has_the_groups_that_follow_from_the_name(
    user: str, groups: tuple[str, ...], name: str, known: tuple[str, ...]
) -> None:
    identity = DescribedRequest("GET", "/", user, groups).identity

    assert (identity.name, identity.groups) == (name, known)


@pytest.mark.parametrize(("url", "rule"), [("orders", "doesn't begin with a slash"), ("http://[", "it is no URL")])
def test_a_bad_url_is_named(url: str, rule: str) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        explain_request(CONFIG, DescribedRequest("GET", url))


def test_requests_that_kubernetes_serves_without_seats_are_not_classified() -> None:
    spec = "{seats: 4, resolver: kubernetes, defaults: kubernetes}"
    config = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n")
    facts = explain_request(config, DescribedRequest("GET", "/api/v1/namespaces/a/pods/b/log?follow=1"))

    assert "without a seat" in str(facts["served"])
    assert "schema" not in facts


def test_a_test_of_a_user_finds_the_place_of_a_request() -> None:
    plans = load("examples/config/plans.yaml")
    found = testing.explain_request(plans, testing.DescribedRequest("GET", "/", user="alice", groups=("plan:gold",)))
    assert (found["level"], found["flow"], found["weight"]) == ("customers", "alice", 4)


@pytest.mark.parametrize("name", ["x-tenant", "X-Tenant"])
def test_names_of_headers_may_be_written_in_any_case(name: str) -> None:
    found = explain_request(CONFIG, DescribedRequest("GET", "/", headers={name: "acme"}))
    assert (found["schema"], found["flow"]) == ("by-header", "acme")
