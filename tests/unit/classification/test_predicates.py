"""The parts of a request that rules and atomic tests compare."""

from dataclasses import replace

import pytest

from apf_middleware.classification import AtomicTest as Atom  # under its own name pytest would collect it
from apf_middleware.classification import (
    Conjunction,
    Field,
    Operator,
    ValueMatch,
    accepts,
    why_not,
)
from tests.support.rules import PATH, PODS, http


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("api.example.com", True),
        ("API.example.com", True),
        ("*.example.com", True),
        ("*.com", True),
        ("example.com", False),
        ("*.api.example.com", False),
        ("*.xample.com", False),
    ],
)
def test_a_host_is_compared_without_case_and_port(pattern: str, covered: bool) -> None:  # noqa: FBT001
    assert accepts(http(hosts=(pattern,)), PATH) is covered


@pytest.mark.parametrize(
    "host", ["x.de:80", "x.de:", "X.DE.:80", "x.de:abc", "x.de:80:80", "x.de:]", "x.de: 80", "x.de."]
)
def test_a_port_that_is_none_evades_no_rule_for_a_host(host: str) -> None:
    rule = http(hosts=("x.de", "*.de"))

    assert accepts(http(hosts=("x.de",)), replace(PATH, host=host))
    assert accepts(rule, replace(PATH, host=f"a.{host}"))
    assert accepts(http(hosts=("[::1]",)), replace(PATH, host="[::1]:80"))
    assert not accepts(http(hosts=("[::1]",)), replace(PATH, host="[::2]:80"))


@pytest.mark.parametrize(
    ("match", "accepted"),
    [
        (ValueMatch("X-A"), ("", "v", "vv")),
        (ValueMatch("x-a", values=("v", "w")), ("v",)),
        (ValueMatch("x-a", pattern="v+"), ("v", "vv")),
        (ValueMatch("x-a", values=("",), pattern="v"), ("", "v")),
        (ValueMatch("x-a", absent=True), (None,)),
    ],
)
def test_header_rules(match: ValueMatch, accepted: tuple[str | None, ...]) -> None:
    for value in (None, "", "v", "vv"):
        digest = replace(PATH, headers={} if value is None else {"x-a": value})

        assert accepts(http(headers=(match,)), digest) is (value in accepted)


def test_a_host_wildcard_needs_a_name_before_it() -> None:
    rule = http(hosts=("*.example.com",))

    assert not accepts(rule, replace(PATH, host="example.com"))
    assert not accepts(rule, replace(PATH, host=".example.com"))
    assert accepts(rule, replace(PATH, host="a.b.example.com."))


def test_query_parameters_have_case() -> None:
    rule = http(query=(ValueMatch("Key"),))

    assert accepts(rule, replace(PATH, query={"Key": ""}))
    assert not accepts(rule, replace(PATH, query={"key": ""}))


def test_an_http_rule_covers_resource_requests_too() -> None:
    assert accepts(http(methods=("get",)), PODS)
    assert not accepts(http(methods=("POST", "PUT")), PODS)


@pytest.mark.parametrize(
    ("methods", "accepted"), [(("GET",), True), (("get", "POST"), True), (("POST",), False), (("HEAD",), True)]
)
def test_get_includes_head(methods: tuple[str, ...], *, accepted: bool) -> None:
    assert accepts(http(methods=methods), replace(PATH, method="HEAD")) is accepted
    assert (why_not(http(methods=methods), replace(PATH, method="HEAD")) is None) is accepted


def test_head_does_not_include_get() -> None:
    assert not accepts(http(methods=("HEAD",)), replace(PATH, method="GET"))


@pytest.mark.parametrize(
    ("field", "operator", "values", "holds"),
    [
        (Field.USER, Operator.EQUALS, ("ann",), True),
        (Field.USER, Operator.SUPER_SET, ("ann",), True),
        (Field.USER, Operator.SUPER_SET, ("ann", "bob"), False),
        (Field.USER, Operator.PATTERN_MATCH, ("a.*",), True),
        (Field.USER, Operator.PATTERN_MATCH, ("a",), False),
        (Field.GROUPS, Operator.SUPER_SET, ("ops", "dev"), True),
        (Field.GROUPS, Operator.SUPER_SET, ("ops", "qa"), False),
        (Field.GROUPS, Operator.EQUALS, ("ops",), True),
        (Field.GROUPS, Operator.IN_SET, ("qa", "dev"), True),
        (Field.GROUPS, Operator.PATTERN_MATCH, ("d.v",), True),
        (Field.RESOURCE, Operator.IN_SET, ("nodes", "pods"), True),
        (Field.SUBRESOURCE, Operator.EQUALS, ("log",), True),
        (Field.NAMESPACE, Operator.EQUALS, ("ns2",), False),
        (Field.NAME, Operator.EQUALS, ("p",), True),
        (Field.VERSION, Operator.EQUALS, ("v1",), True),
        (Field.API_GROUP, Operator.EQUALS, ("",), True),
        (Field.HOST, Operator.EQUALS, ("api.example.com",), True),
        (Field.METHOD, Operator.EQUALS, ("GET",), True),
        (Field.VERB, Operator.EQUALS, ("get",), True),
        (Field.PATH, Operator.PATTERN_MATCH, ("/healthz/.*",), True),
        (Field.UID, Operator.EQUALS, ("",), True),
    ],
)
def test_each_atomic_test_has_its_inverse(
    field: Field, operator: Operator, values: tuple[str, ...], *, holds: bool
) -> None:
    assert accepts(Conjunction((Atom(field, operator, values),)), PODS) is holds
    assert accepts(Conjunction((Atom(field, operator, values, inverted=True),)), PODS) is not holds


def test_a_request_without_a_resource_has_empty_parts() -> None:
    assert accepts(Conjunction((Atom(Field.NAMESPACE, Operator.EQUALS, ("",)),)), PATH)
