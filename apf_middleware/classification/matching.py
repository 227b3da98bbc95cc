"""The meaning of rules: whether a schema accepts a request, and if not, why.

This is the reference that `apf explain` uses; the classifier compiles the same rules for speed. Kubernetes' rules have
exactly the meaning that upstream's code gives them, also where it is loose: a literal URL ``/healthz`` also covers
everything below it, and ``*`` is a wildcard only as the single item of a list. HTTP rules cover any request, with a
resource or without.
"""

import re
from collections.abc import Sequence
from typing import Final, assert_never

from apf_middleware.classification.digest import Identity, RequestDigest, Resource
from apf_middleware.classification.paths import compile_templates
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
    ServiceAccountSubject,
    UserSubject,
    ValueMatch,
)
from apf_middleware.classification.schema import FlowSchema

__all__ = ["NO_RESOURCE", "SERVICE_ACCOUNT", "accepts", "host_matches", "plain_host", "why_not"]

NO_RESOURCE: Final = Resource("")
"""The resource of a request without one, for rules that read its parts."""

SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""The prefix of a service account's user name, followed by its namespace, a colon and its name."""


def accepts(rule: FlowSchema | Rule | Conjunction, digest: RequestDigest) -> bool:
    """Return whether a schema or one of its rules accepts a request."""
    return why_not(rule, digest) is None


def why_not(rule: FlowSchema | Rule | Conjunction, digest: RequestDigest) -> str | None:
    """Return why a schema or rule doesn't accept a request, in a few words; None if it does."""
    if isinstance(rule, FlowSchema):
        return _joined([why_not(one, digest) for one in rule.rules], "it has no rules")
    if isinstance(rule, Conjunction):
        failed = next((test for test in rule.tests if not _test_holds(test, digest)), None)
        return None if failed is None else f"{_describe(failed)} doesn't hold"
    return _why_not_rule(rule, digest)


def _joined(reasons: list[str | None], otherwise: str) -> str | None:
    """Return the reasons why no alternative accepts a request; None if one of them does."""
    if None in reasons:
        return None
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or otherwise


def _why_not_rule(rule: Rule, digest: RequestDigest) -> str | None:
    if not any(_subject_matches(subject, digest.identity) for subject in rule.subjects):
        return f"{digest.identity.name!r} in {_listed(digest.identity.groups)} is none of its subjects"
    reasons = [_why_not_http(http, digest) for http in rule.http_rules]
    if digest.resource is not None:
        about = digest.resource
        reasons += [_why_not_resource(one, digest.verb, about) for one in rule.resource_rules]
    else:
        reasons += [_why_not_path(one, digest.verb, digest.path) for one in rule.non_resource_rules]
    kind = "requests that aren't about a resource" if digest.resource is None else "resource requests"
    return _joined(reasons, f"it has no rule for {kind}")


def _subject_matches(subject: AnySubject, identity: Identity) -> bool:
    match subject:
        case UserSubject(name):
            return name in ("*", identity.name)
        case GroupSubject(name):
            return name == "*" or name in identity.groups
        case ServiceAccountSubject(namespace, "*"):
            return identity.name.startswith(f"{SERVICE_ACCOUNT}{namespace}:")
        case ServiceAccountSubject(namespace, name):
            return identity.name == f"{SERVICE_ACCOUNT}{namespace}:{name}"
    assert_never(subject)


def _lists(listed: tuple[str, ...], value: str) -> bool:
    return listed == ("*",) or value in listed


def _why_not_resource(rule: ResourceRule, verb: str, about: Resource) -> str | None:
    resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
    if not _lists(rule.verbs, verb):
        return f"the verb {verb!r} is not in {_listed(rule.verbs)}"
    if not _lists(rule.resources, resource):
        return f"the resource {resource!r} is not in {_listed(rule.resources)}"
    if not _lists(rule.api_groups, about.api_group):
        return f"the API group {about.api_group!r} is not in {_listed(rule.api_groups)}"
    if not about.namespace:
        return None if rule.cluster_scope else "it doesn't cover requests without a namespace"
    if not _lists(rule.namespaces, about.namespace):
        return f"the namespace {about.namespace!r} is not in {_listed(rule.namespaces)}"
    return None


def _why_not_path(rule: NonResourceRule, verb: str, path: str) -> str | None:
    if not _lists(rule.verbs, verb):
        return f"the verb {verb!r} is not in {_listed(rule.verbs)}"
    if not any(_url_matches(url, path) for url in rule.urls):
        return f"the path {path!r} is not in {_listed(rule.urls)}"
    return None


def _url_matches(url: str, path: str) -> bool:
    beginning = url.removesuffix("*")
    return url in ("*", path) or path.startswith(beginning if beginning.endswith("/") else beginning + "/")


def _why_not_http(rule: HttpRule, digest: RequestDigest) -> str | None:
    methods = rule.accepted_methods
    if methods and digest.method.upper() not in methods:
        return f"the method {digest.method!r} is not in {_listed(methods)}"
    if rule.paths and not compile_templates(rule.paths).fullmatch(digest.path):
        return f"the path {digest.path!r} matches none of {_listed(rule.paths)}"
    if rule.hosts and not any(host_matches(host, plain_host(digest.host)) for host in rule.hosts):
        return f"the host {digest.host!r} is not in {_listed(rule.hosts)}"
    if rule.criticality and digest.criticality not in rule.criticality:
        return f"the criticality {digest.criticality!r} is not in {_listed(rule.criticality)}"
    return _why_not_values(rule, digest)


def _why_not_values(rule: HttpRule, digest: RequestDigest) -> str | None:
    for match in rule.headers:
        value = digest.headers.get(match.name.lower())
        if not _value_matches(match, () if value is None else (value,)):
            return f"the header {match.name!r} doesn't meet the condition"
    for match in rule.query:
        if not _value_matches(match, every_value(digest.query, match.name)):
            return f"the query parameter {match.name!r} doesn't meet the condition"
    return None


def plain_host(host: str) -> str:
    """Return a host in lower case, without its port and without the final dot.

    All that follows a colon counts as the port, because most versions of Starlette route ``a.com:x`` like ``a.com``.
    """
    name = host.lower()
    if name.startswith("["):  # an IPv6 address has colons of its own
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].removesuffix(".")


def host_matches(pattern: str, host: str) -> bool:
    """Return whether a plain host equals the pattern, or is below it if the pattern begins with ``*.``."""
    pattern = plain_host(pattern)
    return host.endswith(pattern[1:]) and host != pattern[1:] if pattern.startswith("*.") else host == pattern


def _value_matches(match: ValueMatch, values: Sequence[str]) -> bool:
    if match.absent or not values:
        return match.absent and not values
    if match.pattern is None and not match.values:
        return True
    return any(
        value in match.values or (match.pattern is not None and re.fullmatch(match.pattern, value) is not None)
        for value in values
    )


def _values_of(field: Field, digest: RequestDigest) -> tuple[str, ...]:
    """Return the values that an atomic test reads: one value, or all groups."""
    identity, about = digest.identity, digest.resource or NO_RESOURCE
    match field:
        case Field.USER | Field.UID:
            return (identity.name if field is Field.USER else identity.uid,)
        case Field.GROUPS:
            return identity.groups
        case Field.VERB | Field.METHOD | Field.PATH:
            return (getattr(digest, field),)
        case Field.HOST:
            return (plain_host(digest.host),)
        case Field.API_GROUP | Field.VERSION:
            return (about.api_group if field is Field.API_GROUP else about.version,)
        case Field.RESOURCE | Field.SUBRESOURCE | Field.NAMESPACE | Field.NAME:
            return (getattr(about, field),)
    assert_never(field)


def _test_holds(test: AtomicTest, digest: RequestDigest) -> bool:
    values = _values_of(test.field, digest)
    match test.operator:
        case Operator.EQUALS | Operator.IN_SET:
            holds = any(value in test.values for value in values)
        case Operator.SUPER_SET:
            holds = set(values) >= set(test.values)
        case Operator.PATTERN_MATCH:
            holds = any(re.fullmatch(test.values[0], value) for value in values)
        case _:
            assert_never(test.operator)
    return holds is not test.inverted


def _describe(test: AtomicTest) -> str:
    inverse = f"not{test.operator[0].upper()}{test.operator[1:]}"
    return f"{test.field} {inverse if test.inverted else test.operator} {_listed(test.values)}"


def _listed(values: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, values[:5]))
    return f"[{shown}{', …' if len(values) > 5 else ''}]"
