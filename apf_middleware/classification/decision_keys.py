"""The keys of cached decisions: the facts of a request that the rules read.

Two requests that agree on all of these facts have the same schema. Caller and verb are always among them, and so is the
path for requests without a resource and the parts of the resource for the others. Any other fact is only included if
some rule reads it: the rules of Kubernetes' schemas don't read the name of a resource, so with them all pods of a
namespace are one entry.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.query import every_value
from apf_middleware.classification.rules import Conjunction, Field, HttpRule
from apf_middleware.classification.schema import FlowSchema

__all__ = ["DecisionKeys"]

Key = tuple[object, ...]
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


class DecisionKeys:
    """Compute the keys of requests, for the rules of ``schemas``.

    Name and groups come first, and all parts have a length. A key with a resource never equals one without, because it
    has more parts: four of the resource, but not always the path. ``include_uid`` is True if two identities can differ
    by their UID alone.
    """

    __slots__ = ("_more", "_more_about_resource", "include_uid")

    def __init__(self, schemas: Iterable[FlowSchema]) -> None:
        facts = _facts_of(schemas)
        self.include_uid: bool = _UID in facts
        attributes = {name for kind, name in facts if kind == "attribute"}
        headers = sorted(name for kind, name in facts if kind == "header")
        queries = sorted(name for kind, name in facts if kind == "query")
        plain = sorted(name for name in attributes if name != "path" and not name.startswith("resource."))
        self._more = _values(plain, headers, queries)
        self._more_about_resource = _values(sorted(attributes), headers, queries)

    def of(self, digest: RequestDigest) -> Key:
        """Return the key of a request."""
        caller, about = digest.identity, digest.resource
        if about is None:
            key: Key = (caller.name, caller.groups, digest.verb, digest.path)
            more = self._more
        else:
            resource, group = about.resource, about.api_group
            key = (caller.name, caller.groups, digest.verb, group, resource, about.subresource, about.namespace)
            more = self._more_about_resource
        return key if more is None else key + more(digest)


def _values(attributes: list[str], headers: list[str], queries: list[str]) -> Callable[[RequestDigest], Key] | None:
    """Return a function that returns these facts of a request; None if there are none."""
    if not attributes and not headers and not queries:
        return None
    getters = [attrgetter(name) for name in attributes]

    def values(digest: RequestDigest) -> Key:
        return (
            *[getter(digest) for getter in getters],
            *[digest.headers.get(name, _ABSENT) for name in headers],
            *[tuple(every_value(digest.query, name)) for name in queries],
        )

    return values


def _facts_of(schemas: Iterable[FlowSchema]) -> frozenset[Fact]:
    """Return the facts that the rules read in addition to those that each key contains."""
    facts: set[Fact] = set()
    for schema in schemas:
        for rule in schema.rules:
            if isinstance(rule, Conjunction):
                facts |= {_OF_FIELDS[test.field] for test in rule.tests if test.field in _OF_FIELDS}
            else:
                facts |= {fact for http in rule.http_rules for fact in _of_http_rule(http)}
    return frozenset(facts)


def _of_http_rule(rule: HttpRule) -> set[Fact]:
    facts = {("header", match.name.lower()) for match in rule.headers}
    facts |= {("query", match.name) for match in rule.query}
    asked_for = ("method", rule.methods), ("path", rule.paths), ("host", rule.hosts), ("criticality", rule.criticality)
    for name, asked in asked_for:
        if asked:
            facts.add(("attribute", name))
    return facts
