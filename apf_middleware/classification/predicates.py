"""Rules compiled for speed: guards on the identity, and closures for the rest of the request.

A schema's alternatives (its rules) are compiled separately for requests with a resource and for others. Each becomes a
*guard* on the identity, which is evaluated once per identity instead of once per request, and a *test* of the request.
Each test has *names*, of which a request must have one: a resource or the first segment of a path; None means any. The
names only narrow the search, and the test decides. matching.py defines the meaning of rules.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from apf_middleware.classification.digest import Identity, RequestDigest, Resource
from apf_middleware.classification.matching import SERVICE_ACCOUNT, host_matches, plain_host
from apf_middleware.classification.paths import compile_templates, head_of, heads_of_templates, heads_of_urls
from apf_middleware.classification.query import every_value
from apf_middleware.classification.rules import (
    AnySubject,
    AtomicTest,
    Conjunction,
    Field,
    GroupSubject,
    HttpRule,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    UserSubject,
    ValueMatch,
)
from apf_middleware.copying import Value

__all__ = ["Alternative", "compile_rule"]

Predicate = Callable[[RequestDigest, Resource], bool]
Guard = Callable[[Identity], bool]

_IDENTITY_FIELDS = frozenset({Field.USER, Field.UID, Field.GROUPS})
"""The fields of atomic tests that belong to the identity."""

_RESOURCE_FIELDS = frozenset(
    {Field.API_GROUP, Field.VERSION, Field.RESOURCE, Field.SUBRESOURCE, Field.NAMESPACE, Field.NAME}
)
_ATTRIBUTES = {
    Field.USER: "name",
    Field.UID: "uid",
    Field.API_GROUP: "api_group",
    Field.VERSION: "version",
    Field.RESOURCE: "resource",
    Field.SUBRESOURCE: "subresource",
    Field.NAMESPACE: "namespace",
    Field.NAME: "name",
    Field.VERB: "verb",
    Field.METHOD: "method",
    Field.PATH: "path",
}


@dataclass(frozen=True, slots=True)
class Alternative(Value):
    """One way to be accepted: ``guard`` holds for the identity, and ``test`` (None: always) for the request."""

    guard: Guard
    test: Predicate | None
    names: frozenset[str] | None


def compile_rule(rule: Rule | Conjunction, *, about_resource: bool) -> Alternative | None:
    """Compile the rule for requests about a resource or for others; return None if it accepts none of them."""
    if isinstance(rule, Conjunction):
        return _compile_conjunction(rule, about_resource=about_resource)
    compiled: list[tuple[Predicate | None, frozenset[str] | None]]
    if about_resource:
        # Requests about resources are looked up by resource, not by path, so an HTTP rule is listed for all resources.
        compiled = [_compile_resource_rule(one) for one in rule.resource_rules]
        compiled += [(_compile_http_rule(http), None) for http in rule.http_rules]
    else:
        compiled = [_compile_path_rule(one) for one in rule.non_resource_rules]
        compiled += [(_compile_http_rule(http), heads_of_templates(http.paths or ("*",))) for http in rule.http_rules]
    if not compiled:
        return None
    names = _union(names for _, names in compiled)
    return Alternative(_compile_subjects(rule.subjects), _any_of([test for test, _ in compiled]), names)


def _union(several: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    union: frozenset[str] = frozenset()
    for names in several:
        if names is None:
            # an alternative without names can accept any request
            return None
        union |= names
    return union


def _any_of(tests: list[Predicate | None]) -> Predicate | None:
    predicates = [test for test in tests if test is not None]
    # one of the tests always holds
    if len(predicates) < len(tests):
        return None
    if len(predicates) == 1:
        return predicates[0]

    def holds(digest: RequestDigest, about: Resource) -> bool:
        for predicate in predicates:  # noqa: SIM110 - a loop takes half the time of any()
            if predicate(digest, about):
                return True
        return False

    return holds


def _compile_subjects(subjects: tuple[AnySubject, ...]) -> Guard:
    users, groups, accounts = set(), set(), []
    for subject in subjects:
        if isinstance(subject, UserSubject):
            users.add(subject.name)
        elif isinstance(subject, GroupSubject):
            groups.add(subject.name)
        elif subject.name == "*":
            accounts.append(f"{SERVICE_ACCOUNT}{subject.namespace}:")
        else:
            users.add(f"{SERVICE_ACCOUNT}{subject.namespace}:{subject.name}")
    # Only the subjects User * and Group * add this text: the names of service accounts get a prefix above.
    if "*" in users or "*" in groups:
        return lambda _: True
    beginnings = tuple(accounts)

    def asks(identity: Identity) -> bool:
        return identity.name in users or not groups.isdisjoint(identity.groups) or identity.name.startswith(beginnings)

    return asks


def _as_set(listed: tuple[str, ...]) -> frozenset[str] | None:
    """Return the items as a set, or None if they match everything."""
    return None if listed == ("*",) else frozenset(listed)


def _compile_resource_rule(rule: ResourceRule) -> tuple[Predicate | None, frozenset[str] | None]:
    verbs, groups, resources = _as_set(rule.verbs), _as_set(rule.api_groups), _as_set(rule.resources)
    namespaces, cluster_scope = _as_set(rule.namespaces), rule.cluster_scope
    # A plan is looked up by the resource alone, so ``pods/status`` must be found under ``pods``, too.
    names = None if resources is None else frozenset({*resources, *(name.partition("/")[0] for name in resources)})
    if verbs is None and groups is None and resources is None and namespaces is None and cluster_scope:
        return None, names

    def holds(digest: RequestDigest, about: Resource) -> bool:
        if verbs is not None and digest.verb not in verbs:
            return False
        if resources is not None:
            resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
            if resource not in resources:
                return False
        if groups is not None and about.api_group not in groups:
            return False
        if not about.namespace:  # namespaces, even *, don't cover requests without one
            return cluster_scope
        return namespaces is None or about.namespace in namespaces

    return holds, names


def _compile_path_rule(rule: NonResourceRule) -> tuple[Predicate | None, frozenset[str] | None]:
    verbs = _as_set(rule.verbs)
    everything = "*" in rule.urls
    if everything and verbs is None:
        return None, None
    # As in upstream, a pattern covers its literal path and everything below it, with or without a star.
    urls = frozenset(rule.urls)
    beginnings = tuple({url.removesuffix("*").removesuffix("/") + "/" for url in rule.urls})

    def holds(digest: RequestDigest, about: Resource) -> bool:  # noqa: ARG001 - all predicates take both
        if verbs is not None and digest.verb not in verbs:
            return False
        return everything or digest.path in urls or digest.path.startswith(beginnings)

    return holds, None if everything else heads_of_urls(rule.urls)


def _compile_http_rule(rule: HttpRule) -> Predicate | None:
    tests: list[Predicate] = []
    methods = frozenset(rule.accepted_methods)
    if methods:
        tests.append(lambda digest, _: digest.method.upper() in methods)
    if rule.paths and "*" not in rule.paths:
        matches = compile_templates(rule.paths).fullmatch
        tests.append(lambda digest, _: matches(digest.path) is not None)
    if rule.hosts:
        tests.append(_compile_hosts(rule.hosts))
    if rule.criticality:
        accepted = frozenset(rule.criticality)
        tests.append(lambda digest, _: digest.criticality in accepted)
    tests += [_compile_header(match) for match in rule.headers]
    tests += [_compile_parameter(match) for match in rule.query]
    return _all_of(tests)


def _all_of(tests: list[Predicate]) -> Predicate | None:
    if len(tests) <= 1:
        return tests[0] if tests else None

    def holds(digest: RequestDigest, about: Resource) -> bool:
        for test in tests:  # noqa: SIM110 - a loop takes half the time of all()
            if not test(digest, about):
                return False
        return True

    return holds


def _compile_hosts(hosts: tuple[str, ...]) -> Predicate:
    def holds(digest: RequestDigest, about: Resource) -> bool:  # noqa: ARG001 - all predicates take both
        host = plain_host(digest.host)
        return any(host_matches(pattern, host) for pattern in hosts)

    return holds


def _compile_value(match: ValueMatch) -> Callable[[str], bool]:
    """Return a test of one value that a request has."""
    if match.absent:
        return lambda _: False
    values = frozenset(match.values)
    if match.pattern is None:
        return values.__contains__ if values else lambda _: True
    fits = re.compile(match.pattern).fullmatch
    return lambda value: value in values or fits(value) is not None


def _compile_header(match: ValueMatch) -> Predicate:
    name, absent, test = match.name.lower(), match.absent, _compile_value(match)

    def holds(digest: RequestDigest, about: Resource) -> bool:  # noqa: ARG001 - all predicates take both
        value = digest.headers.get(name)
        return absent if value is None else test(value)

    return holds


def _compile_parameter(match: ValueMatch) -> Predicate:
    name, absent, test = match.name, match.absent, _compile_value(match)

    def holds(digest: RequestDigest, about: Resource) -> bool:  # noqa: ARG001 - all predicates take both
        values = every_value(digest.query, name)
        return any(map(test, values)) if values else absent

    return holds


def _compile_conjunction(conjunction: Conjunction, *, about_resource: bool) -> Alternative:
    guards = [_compile_test(test) for test in conjunction.tests if test.field in _IDENTITY_FIELDS]
    others = [test for test in conjunction.tests if test.field not in _IDENTITY_FIELDS]

    def guard(identity: Identity) -> bool:
        return all(holds(_identity_values(identity, field)) for field, holds in guards)

    # Several tests of one field must all hold, so the names that can match are their intersection.
    named = Field.RESOURCE if about_resource else Field.PATH
    names: frozenset[str] | None = None
    for test in others:
        if test.field is named and not test.inverted and test.operator in {Operator.EQUALS, Operator.IN_SET}:
            found = frozenset(test.values if about_resource else map(head_of, test.values))
            names = found if names is None else names & found
    return Alternative(guard, _all_of([_compile_request_test(test) for test in others]), names)


def _identity_values(identity: Identity, field: Field) -> tuple[str, ...]:
    return identity.groups if field is Field.GROUPS else (getattr(identity, _ATTRIBUTES[field]),)


def _compile_test(test: AtomicTest) -> tuple[Field, Callable[[tuple[str, ...]], bool]]:
    values, inverted = frozenset(test.values), test.inverted
    if test.operator is Operator.PATTERN_MATCH:
        match = re.compile(test.values[0]).fullmatch
        return test.field, lambda found: any(map(match, found)) is not inverted
    if test.operator is Operator.SUPER_SET:
        return test.field, lambda found: values.issubset(found) is not inverted
    return test.field, lambda found: values.isdisjoint(found) is inverted


def _compile_request_test(test: AtomicTest) -> Predicate:
    field, holds = _compile_test(test)
    if field is Field.HOST:
        return lambda digest, _: holds((plain_host(digest.host),))
    read = attrgetter(_ATTRIBUTES[field])
    if field in _RESOURCE_FIELDS:
        return lambda _, about: holds((read(about),))
    return lambda digest, _: holds((read(digest),))
