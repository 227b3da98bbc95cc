"""The facts that a configuration reads, and what of them stays readable."""

import pytest

from apf_middleware.asgi.recording import NeededFacts
from apf_middleware.config import load_text

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  defaults: none
  criticality: {headers: {x-criticality: name}}
  deadlines: {headers: {x-timeout: milliseconds}}
  routes:
  - {path: "/tenants/{namespace}/orders/{name}", resource: orders}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: gold}
spec:
  level: crowd
  distinguisher: {source: header, name: X-Tenant}
  rules:
  - subjects:
    - {user: alice}
    - {group: staff}
    httpRules:
    - paths: ["/reports/*"]
      hosts: ["*.example.com"]
      headers:
      - {name: X-Plan, values: [gold]}
      - {name: X-Kind, pattern: "batch-.*"}
      - {name: Authorization, pattern: ".*"}
      query: [{name: dry, values: ["1"]}]
"""


@pytest.fixture
def facts() -> NeededFacts:
    return NeededFacts(load_text(CONFIG), [b"x-token"])


def test_names_of_the_configuration_are_known(facts: NeededFacts) -> None:
    assert facts.names_user("alice")
    assert facts.names_user("system:anonymous")
    assert not facts.names_user("bob")
    assert not facts.names_user("system:serviceaccount:shop:api")
    assert facts.names_group("staff")
    assert facts.names_group("system:authenticated")
    assert not facts.names_group("customers")
    assert facts.hosts == {"*.example.com"}
    assert facts.reads_hosts
    assert {"tenants", "orders", "reports"} <= facts.words


def test_only_headers_and_parameters_that_are_read_are_needed(facts: NeededFacts) -> None:
    assert set(facts.headers) == {"x-tenant", "x-plan", "x-kind", "x-criticality", "x-timeout", "authorization"}
    assert set(facts.query) == {"dry"}


@pytest.mark.parametrize(
    ("name", "value", "shows"),
    [
        ("x-plan", "gold", True),
        ("x-plan", "platinum", False),
        ("x-kind", "batch-7", False),
        ("x-kind", "other", False),
        ("x-tenant", "acme", False),
        ("x-criticality", "sheddable", True),
        ("x-timeout", "100", True),
        ("authorization", "Bearer secret", False),
    ],
)
def test_values_that_rules_name_are_readable_and_those_of_patterns_and_identities_are_not(
    facts: NeededFacts, name: str, value: str, *, shows: bool
) -> None:
    assert facts.shows_header(name, value) is shows


def test_credentials_are_secrets(facts: NeededFacts) -> None:
    assert [name for name in ("authorization", "cookie", "x-token", "x-plan") if facts.is_secret(name)] == [
        "authorization",
        "cookie",
        "x-token",
    ]


def test_parameters_are_readable_if_a_rule_names_them(facts: NeededFacts) -> None:
    assert facts.shows_parameter("dry", "1")
    assert not facts.shows_parameter("dry", "2")


def test_the_rules_of_the_proposal_are_read_too() -> None:
    facts = NeededFacts(
        load_text(
            """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: some}
spec:
  level: crowd
  distinguisher: {source: query, name: tenant}
  match:
  - and:
    - equals: {field: user, value: alice}
    - inSet: {field: groups, set: [staff, guests]}
    - equals: {field: host, value: shop.example.com}
    - equals: {field: path, value: /reports/daily}
    - patternMatch: {field: user, pattern: "b.*"}
"""
        )
    )

    assert facts.users >= {"alice"}
    assert facts.groups >= {"staff", "guests"}
    assert facts.hosts == {"shop.example.com"}
    assert {"reports", "daily"} <= facts.words
    assert set(facts.query) == {"tenant"}
    assert "b.*" not in facts.users


def test_what_the_paths_of_kubernetes_say_in_a_query_is_needed() -> None:
    facts = NeededFacts(load_text("apiVersion: apf/v1\nkind: Server\nspec: {defaults: kubernetes}"))

    assert facts.shows_parameter("watch", "true")
    assert not facts.shows_parameter("watch", "acme")
    assert not facts.shows_parameter("fieldSelector", "metadata.name=acme")
