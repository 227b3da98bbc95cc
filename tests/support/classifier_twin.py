"""The classifier's twin: a linear scan, written from the description of the rules and sharing no code with ours.

It looks at everything, remembers nothing and compiles nothing.
"""

import re
from collections.abc import Iterable, Sequence

from apf_middleware.classification import (
    AtomicTest,
    Conjunction,
    Distinguisher,
    FlowSchema,
    GroupSubject,
    HttpRule,
    Identity,
    NonResourceRule,
    RequestDigest,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
    ValueMatch,
)

__all__ = ["choose", "flow_of", "matches", "weight_of"]

ALL = ("*",)


def choose(schemas: Iterable[FlowSchema], digest: RequestDigest) -> FlowSchema | None:
    """Return the matching schema of the lowest precedence, then of the first name."""
    matching = [schema for schema in schemas if any(matches(rule, digest) for rule in schema.rules)]
    return min(matching, key=lambda schema: (schema.precedence, schema.name), default=None)


def matches(rule: Rule | Conjunction, digest: RequestDigest) -> bool:
    if isinstance(rule, Conjunction):
        return all(atom(test, digest) != test.inverted for test in rule.tests)
    if not any(is_subject(subject, digest.identity) for subject in rule.subjects):
        return False
    if any(http(one, digest) for one in rule.http_rules):
        return True
    if digest.resource is None:
        return any(path(one, digest) for one in rule.non_resource_rules)
    return any(resource(one, digest) for one in rule.resource_rules)


def is_subject(subject: object, identity: Identity) -> bool:
    if isinstance(subject, UserSubject):
        return subject.name in ("*", identity.name)
    if isinstance(subject, GroupSubject):
        return subject.name == "*" or subject.name in identity.groups
    assert isinstance(subject, ServiceAccountSubject)
    beginning = "system:serviceaccount:" + subject.namespace + ":"
    if subject.name == "*":
        return identity.name[: len(beginning)] == beginning
    return identity.name == beginning + subject.name


def one_of(allowed: Sequence[str], value: str) -> bool:
    return tuple(allowed) == ALL or any(value == one for one in allowed)


def resource(rule: ResourceRule, digest: RequestDigest) -> bool:
    about = digest.resource
    assert about is not None
    name = about.resource + ("/" + about.subresource if about.subresource else "")
    scope = one_of(rule.namespaces, about.namespace) if about.namespace != "" else rule.cluster_scope
    return (
        scope
        and one_of(rule.verbs, digest.verb)
        and one_of(rule.resources, name)
        and one_of(rule.api_groups, about.api_group)
    )


def path(rule: NonResourceRule, digest: RequestDigest) -> bool:
    if not one_of(rule.verbs, digest.verb):
        return False
    for pattern in rule.urls:
        prefix = pattern[:-1] if pattern[-1:] == "*" else pattern
        if prefix[-1:] != "/":
            prefix += "/"
        if pattern in ("*", digest.path) or digest.path[: len(prefix)] == prefix:
            return True
    return False


def http(rule: HttpRule, digest: RequestDigest) -> bool:
    methods = [method.lower() for method in rule.methods]
    if "get" in methods:
        methods.append("head")
    if methods and methods != ["*"] and digest.method.lower() not in methods:
        return False
    if rule.paths and not any(template(one, digest.path) is not None for one in rule.paths):
        return False
    if rule.hosts and not any(host(one, digest.host) for one in rule.hosts):
        return False
    headers = all(value(match, digest.headers.get(match.name.lower())) for match in rule.headers)
    return headers and all(value(match, digest.query.get(match.name)) for match in rule.query)


def template(pattern: str, asked: str) -> dict[str, str] | None:
    """Return the parameters if the template matches."""
    if pattern in ("*", "/*"):
        return {}
    expected, got = pattern.split("/"), asked.split("/")
    if expected[-1] == "*":
        del expected[-1]
        if len(got) < len(expected):
            return None
        got = got[: len(expected)]
    if len(expected) != len(got):
        return None
    found = {}
    for want, have in zip(expected, got, strict=True):
        if want == "*" or want.startswith("{"):
            if have == "":
                return None
            found[want.strip("{}")] = have
        elif want != have:
            return None
    return found


def host(pattern: str, asked: str) -> bool:
    asked = re.sub(r":[0-9]*$", "", asked.lower())
    asked = asked.removesuffix(".")
    if pattern.startswith("*."):
        return len(asked) >= len(pattern) and asked.endswith(pattern[1:].lower())
    return asked == pattern.lower()


def value(match: ValueMatch, got: str | None) -> bool:
    if match.absent or got is None:
        return match.absent and got is None
    if not match.values and match.pattern is None:
        return True
    return got in match.values or (match.pattern is not None and re.fullmatch(match.pattern, got) is not None)


def atom(test: AtomicTest, digest: RequestDigest) -> bool:
    about = digest.resource
    values: dict[str, list[str]] = {
        "user": [digest.identity.name],
        "uid": [digest.identity.uid],
        "groups": list(digest.identity.groups),
        "verb": [digest.verb],
        "method": [digest.method],
        "path": [digest.path],
        "host": [re.sub(r":[0-9]*$", "", digest.host.lower()).removesuffix(".")],
        "apiGroup": [about.api_group if about else ""],
        "apiVersion": [about.version if about else ""],
        "resource": [about.resource if about else ""],
        "subresource": [about.subresource if about else ""],
        "namespace": [about.namespace if about else ""],
        "name": [about.name if about else ""],
    }
    have = values[test.field.value]
    if test.operator.value == "superSet":
        return all(one in have for one in test.values)
    if test.operator.value == "patternMatch":
        return any(re.fullmatch(test.values[0], one) is not None for one in have)
    return any(one in test.values for one in have)


def flow_of(schema: FlowSchema, digest: RequestDigest) -> str:
    """Return the distinguisher, except for addresses and callables."""
    if schema.distinguisher is None:
        return ""
    raw = source(schema, schema.distinguisher, digest)
    if schema.distinguisher.transform is None:
        return raw
    found = re.fullmatch(schema.distinguisher.transform, raw)
    return (found.group(1) or "") if found else ""


def source(schema: FlowSchema, how: Distinguisher, digest: RequestDigest) -> str:
    if how.source.value == "group":
        wanted = [re.escape(group).replace(r"\*", ".*") for group in how.groups]
        found = [one for one in digest.identity.groups if any(re.fullmatch(want, one) for want in wanted)]
        return found[0] if found else ""
    if how.source.value == "pathParameter":
        return path_parameter(schema, how.argument, digest)
    return {
        "user": digest.identity.name,
        "namespace": digest.resource.namespace if digest.resource else "",
        "header": digest.headers.get(how.argument.lower(), ""),
        "query": digest.query.get(how.argument, ""),
    }[how.source.value]


def path_parameter(schema: FlowSchema, name: str, digest: RequestDigest) -> str:
    if name in digest.path_parameters:
        return digest.path_parameters[name]
    for rule in schema.rules:
        for one in rule.http_rules if isinstance(rule, Rule) else ():
            for pattern in one.paths:
                found = template(pattern, digest.path) or {}
                if name in found:
                    return found[name]
    return ""


def weight_of(schema: FlowSchema, digest: RequestDigest) -> float:
    """Return the weight: by the function, by the groups, by the name of the flow, or the schema's own."""
    weights = schema.weights
    if weights is None:
        return 1
    own = weights.function(digest) if weights.function else None
    if own is not None:
        return own
    of_groups = [named(weights.groups, group) for group in digest.identity.groups]
    known = [weight for weight in of_groups if weight is not None]
    if known:
        return max(known)
    of_flow = named(weights.flows, flow_of(schema, digest))
    return weights.default if of_flow is None else of_flow


def named(entries: Sequence[tuple[str, float]], name: str) -> float | None:
    """Return the weight of the entry that fits the name best: the name itself, or else the longest pattern."""
    exact = [weight for entry, weight in entries if entry == name and not entry.endswith("*")]
    fitting = [
        (len(entry), weight)
        for entry, weight in entries
        if entry.endswith("*") and re.match(re.escape(entry[:-1]), name)
    ]
    return exact[0] if exact else max(fitting)[1] if fitting else None
