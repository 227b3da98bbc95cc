from collections.abc import Callable
from dataclasses import replace

import pytest

from apf_middleware.classification import AtomicTest as Atom  # under its own name pytest would collect it
from apf_middleware.classification import (
    Conjunction,
    Field,
    FlowSchema,
    GroupSubject,
    HttpRule,
    Identity,
    NonResourceRule,
    Operator,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    UserSubject,
    ValueMatch,
    accepts,
    why_not,
)
from apf_middleware.exceptions import InvalidValueError

EVERYBODY = (UserSubject("*"),)
ANN = Identity("ann", ("dev", "ops"))
PATH = RequestDigest(ANN, "get", "/healthz/ping", host="Api.Example.com:8443")
PODS = replace(PATH, resource=Resource("pods", "", "v1", "log", "ns1", "p"))


def urls(*patterns: str) -> Rule:
    return Rule(EVERYBODY, non_resource_rules=(NonResourceRule(("*",), patterns),))


def http(**rule: tuple[object, ...]) -> Rule:
    return Rule(EVERYBODY, http_rules=(HttpRule(**rule),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["/healthz", "/healthz/", "/healthz/*", "/healthz/ping", "/", "/*", "*", "", "/healthz*"]
)
def test_a_url_also_covers_paths_below_it(url: str) -> None:
    assert accepts(urls(url), PATH)


@pytest.mark.parametrize("url", ["/health", "/health*", "/healthz/pin", "/healthz/ping/", "/healthz/ping/*", "healthz"])
def test_a_url_does_not_cover_a_part_of_a_segment(url: str) -> None:
    assert not accepts(urls(url), PATH)


def test_a_schema_without_rules_accepts_nothing() -> None:
    assert why_not(FlowSchema("s", "l"), PATH) == "it has no rules"


def test_an_empty_conjunction_accepts_everything() -> None:
    assert accepts(FlowSchema("s", "l", rules=(Conjunction(),)), PATH)
    assert accepts(Conjunction(), PODS)


@pytest.mark.parametrize(
    ("template", "path", "covered"),
    [
        ("/a/{x}", "/a/1", True),
        ("/a/{x}", "/a/", False),
        ("/a/{x}", "/a/1/", False),
        ("/a/{x}", "/a/1/2", False),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a//c", False),
        ("/a/*", "/a", True),
        ("/a/*", "/a/", True),
        ("/a/*", "/a/b/c", True),
        ("/a/*", "/ab", False),
        ("/a.b", "/axb", False),
        ("/{x}/*", "/a", True),
        ("/{x}/*", "/", False),
        ("/*", "/anything/at/all", True),
        ("*", "*", True),
        ("/", "/", True),
        ("/", "/a", False),
    ],
)
def test_a_template_covers_whole_segments(template: str, path: str, covered: bool) -> None:  # noqa: FBT001
    assert accepts(http(paths=(template,)), replace(PATH, path=path)) is covered


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
            "the header 'X-A' is not as it must be",
        ),
        (
            Conjunction((Atom(Field.USER, Operator.PATTERN_MATCH, ("an",)),)),
            PATH,
            "user patternMatch ['an'] doesn't hold",
        ),
        (http(hosts=("x",)), PATH, "the host 'Api.Example.com:8443' is not in ['x']"),
        (http(headers=(ValueMatch("X-A"),)), PATH, "the header 'X-A' is not as it must be"),
        (http(query=(ValueMatch("a"),)), PATH, "the query parameter 'a' is not as it must be"),
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


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ValueMatch(""), "name of a header or query parameter is ''"),
        (lambda: ValueMatch("a", pattern="["), "pattern of 'a' is '[', but it must be a regular expression"),
        (lambda: ValueMatch("a", values=("x",), absent=True), "'a' can't be absent and have a certain value"),
        (lambda: HttpRule(paths=("a",)), "path template is 'a'"),
        (lambda: HttpRule(methods=("",)), "method is ''"),
        (lambda: HttpRule(hosts=("a.*",)), "host is 'a.*', but * can only be its beginning"),
        (lambda: HttpRule(hosts=("",)), "host is ''"),
        (lambda: Atom(Field.USER, Operator.EQUALS, ("a", "b")), "values of equals is ('a', 'b')"),
        (lambda: Atom(Field.USER, Operator.IN_SET, ()), "values of inSet is (), but there must be at least one"),
        (lambda: Atom(Field.USER, Operator.PATTERN_MATCH, ()), "there must be exactly one"),
        (lambda: Atom(Field.USER, Operator.PATTERN_MATCH, ("*",)), "pattern for user is '*'"),
        (lambda: FlowSchema("", "l"), "name of a schema is ''"),
        (lambda: FlowSchema("s", ""), "level of the schema 's' is ''"),
        (lambda: FlowSchema("s", "l", True), "precedence of the schema 's' is True, but it must be an integer"),  # noqa: FBT003
    ],
)
def test_an_invalid_rule_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()

    assert told in str(caught.value)
