"""The keys of cached decisions: the facts of a request that the rules read.

Two requests that agree on all of these facts have the same schema. Caller and verb are always among them, and so is the
path for requests without a resource and the parts of the resource for the others. Any other fact is only included if
some rule reads it: the rules of Kubernetes' schemas don't read the name of a resource, so with them all pods of a
namespace are one entry.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.rules import Conjunction, Field, HttpRule
from apf_middleware.classification.schema import FlowSchema

__all__ = ["compile_keys", "facts_of", "looks_at_uid"]

Key = Callable[[RequestDigest], tuple[object, ...]]
Fact = tuple[str, str]
"""A kind of fact and its name: an attribute of the digest, a header or a query parameter."""

_ABSENT = ()  # unlike the empty string
_UID: Fact = ("attribute", "identity.uid")
_OF_FIELDS: dict[Field, Fact] = {
    Field.UID: _UID,
    Field.METHOD: ("attribute", "method"),
    Field.PATH: ("attribute", "path"),
    Field.HOST: ("attribute", "host"),
    Field.VERSION: ("attribute", "resource.version"),
    Field.NAME: ("attribute", "resource.name"),
}


def facts_of(schemas: Iterable[FlowSchema]) -> frozenset[Fact]:
    """Return the facts that the rules read in addition to those that each key contains."""
    facts: set[Fact] = set()
    for schema in schemas:
        for rule in schema.rules:
            if isinstance(rule, Conjunction):
                facts |= {_OF_FIELDS[test.field] for test in rule.tests if test.field in _OF_FIELDS}
            else:
                facts |= {fact for http in rule.http_rules for fact in _of_http_rule(http)}
    return frozenset(facts)


def looks_at_uid(facts: frozenset[Fact]) -> bool:
    """Return whether the rules read UIDs, so that two identities can differ by their UID alone."""
    return _UID in facts


def _of_http_rule(rule: HttpRule) -> set[Fact]:
    facts = {("header", match.name.lower()) for match in rule.headers}
    facts |= {("query", match.name) for match in rule.query}
    asked_for = ("method", rule.methods), ("path", rule.paths), ("host", rule.hosts), ("criticality", rule.criticality)
    for name, asked in asked_for:
        if asked:
            facts.add(("attribute", name))
    return facts


def compile_keys(facts: frozenset[Fact]) -> tuple[Key, Key]:
    """Return the functions from a digest to its cache key, without a resource and with one.

    Name and groups come first, and all parts have a length. A key with a resource never equals one without, because it
    has more parts: four of the resource, but not always the path.
    """
    caller = ("identity.name", "identity.groups")
    attributes = {name for kind, name in facts if kind == "attribute"}
    plain = {name for name in attributes if not name.startswith("resource.")} | {"verb", "path"}
    about = attributes | {"verb", "resource.api_group", "resource.resource", "resource.subresource"}
    about |= {"resource.namespace"}
    headers = sorted(name for kind, name in facts if kind == "header")
    queries = sorted(name for kind, name in facts if kind == "query")
    return (
        _with_values(attrgetter(*caller, *sorted(plain)), headers, queries),
        _with_values(attrgetter(*caller, *sorted(about)), headers, queries),
    )


def _with_values(attributes: Key, headers: list[str], queries: list[str]) -> Key:
    if not headers and not queries:
        return attributes

    def key(digest: RequestDigest) -> tuple[object, ...]:
        return (
            *attributes(digest),
            *[digest.headers.get(name, _ABSENT) for name in headers],
            *[digest.query.get(name, _ABSENT) for name in queries],
        )

    return key
