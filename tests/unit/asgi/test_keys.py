"""By what requests are remembered: all that a decision depends on, and nothing else."""

import pytest
from starlette.types import Scope

from apf_middleware.asgi.identity import build_chain
from apf_middleware.asgi.keys import Keys, length_of
from apf_middleware.config import load, load_text
from tests.integration.conversation import http_scope

RULES = """
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: one}}
spec:
  level: anonymous
  {distinguisher}
  rules:
  - httpRules: [{rule}]
"""


def keys(rule: str = "{}", distinguisher: str = "") -> Keys:
    configuration = load_text(RULES.format(rule=rule, distinguisher=distinguisher))
    return Keys(configuration, build_chain(configuration.server))


def differs(made: Keys, one: Scope, other: Scope) -> bool:
    return made.of_request(one) != made.of_request(other)


WHITE = http_scope("/a", "GET", {"host": "x", "x-plan": "gold"})


@pytest.mark.parametrize(
    ("rule", "distinguisher", "other"),
    [
        ("{}", "", http_scope("/b", "GET", {"host": "x", "x-plan": "gold"})),
        ("{}", "", http_scope("/a", "POST", {"host": "x", "x-plan": "gold"})),
        ("{}", "", {**WHITE, "client": ("10.0.0.1", 1)}),
        ("{}", "", {**WHITE, "root_path": "/mounted"}),
        ("{headers: [{name: X-Plan}]}", "", http_scope("/a", "GET", {"host": "x", "x-plan": "iron"})),
        ("{headers: [{name: X-Plan}]}", "", http_scope("/a", "GET", {"host": "x"})),
        ("{hosts: [y]}", "", http_scope("/a", "GET", {"host": "y", "x-plan": "gold"})),
        ("{query: [{name: q}]}", "", http_scope("/a?q=1", "GET", {"host": "x", "x-plan": "gold"})),
        ("{}", "distinguisher: {source: header, name: X-Plan}", http_scope("/a", "GET", {"x-plan": "iron"})),
        ("{}", "distinguisher: {source: query, name: q}", http_scope("/a?q=1", "GET", {"x-plan": "gold"})),
    ],
)
def test_what_a_decision_depends_on_counts(rule: str, distinguisher: str, other: Scope) -> None:
    assert differs(keys(rule, distinguisher), WHITE, other)


@pytest.mark.parametrize(
    "other",
    [
        http_scope("/a", "GET", {"host": "y", "x-plan": "iron", "more": "1"}),
        http_scope("/a?q=1"),
        {**WHITE, "client": ("127.0.0.1", 1), "state": {"a": 1}, "extensions": {"b": {}}},
    ],
)
def test_what_nobody_looks_at_does_not_count(other: Scope) -> None:
    assert not differs(keys(), WHITE, other)


def test_a_header_counts_only_for_the_methods_that_are_asked_for_it() -> None:
    made = Keys(load(), build_chain(load().server))  # where preflights are told by their headers
    origin = {"origin": "https://a", "access-control-request-method": "GET"}

    assert differs(made, http_scope("/", "OPTIONS"), http_scope("/", "OPTIONS", origin))
    assert not differs(made, http_scope("/"), http_scope("/", "GET", origin))


def test_the_whole_query_counts_where_a_cluster_is_spoken_to() -> None:
    configuration = load_text("apiVersion: apf/v1\nkind: Server\nmetadata: {name: s}\nspec: {resolver: kubernetes}")
    made = Keys(configuration, build_chain(configuration.server))

    assert differs(made, http_scope("/api/v1/pods"), http_scope("/api/v1/pods?watch=1"))


def test_nothing_is_remembered_where_a_callable_may_look_at_anything() -> None:
    made = keys(distinguisher="distinguisher: {source: callable, callable: 'tests.unit.asgi.test_keys:flow'}")

    assert not made.is_memorable
    assert keys().is_memorable


def flow(_digest: object) -> str:
    return "x"


def test_clients_that_invent_methods_do_not_fill_the_memory() -> None:
    made = keys()
    for number in range(1000):
        made.of_request(http_scope("/", f"M{number}"))

    assert len(made._by_method) <= 32


def test_the_length_of_a_key_is_that_of_all_its_texts() -> None:
    assert length_of(("GET", "/a", None, ((b"ab", b"cd"),), 7)) == 9
