"""Plans: the schemas that can accept requests of an identity, by the name of the resource or path.

There are two indexes. The first is made once, from schemas to the users, groups and namespaces of service accounts that
they name, so that a new identity is only compared with schemas that can match it. The schemas that remain for one
identity are its *plan*: steps by the name of the resource, or by the first segment of the path. A plan ends with the
first step that accepts everything, so most plans are short.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from apf_middleware.classification.cache import BoundedCache
from apf_middleware.classification.digest import Identity, RequestDigest
from apf_middleware.classification.matching import NO_RESOURCE, SERVICE_ACCOUNT
from apf_middleware.classification.paths import head_of
from apf_middleware.classification.predicates import Predicate, compile_rule
from apf_middleware.classification.rules import (
    Conjunction,
    Field,
    GroupSubject,
    Operator,
    Rule,
    ServiceAccountSubject,
    UserSubject,
)
from apf_middleware.classification.schema import FlowSchema

if TYPE_CHECKING:
    from apf_middleware.classification.predicates import Alternative

__all__ = ["Plan", "SchemaIndex"]

_EVERYBODY = "everybody"
_PLANS_SHARED = 1024  # distinct sets of alternatives; identities with the same set share a plan
_Key = tuple[str, str]  # the kind of subject, and its name
_Step = tuple[int, Predicate | None]
_NamedStep = tuple[int, Predicate | None, frozenset[str] | None]


class _Steps:
    """Alternatives in the order of their schemas, narrowed by name when a name is first asked for."""

    __slots__ = ("_by_name", "_merged", "_unnamed")

    def __init__(self, steps: Iterable[_NamedStep]) -> None:
        unnamed: list[_Step] = []
        self._by_name: dict[str, list[_Step]] = {}
        for number, test, names in steps:
            if names is None:
                unnamed.append((number, test))
                if test is None:
                    break  # no request goes on
            for name in names or ():
                self._by_name.setdefault(name, []).append((number, test))
        self._unnamed = tuple(unnamed)
        self._merged: dict[str, tuple[_Step, ...]] = {}

    def named(self, name: str) -> tuple[_Step, ...]:
        """Return the alternatives for a request with this name."""
        merged = self._merged.get(name)
        if merged is not None:
            return merged
        own = self._by_name.get(name)
        if own is None:
            return self._unnamed  # not cached: clients can invent such names
        merged = self._merged[name] = tuple(sorted([*own, *self._unnamed], key=lambda step: step[0]))
        return merged


class _Side:
    """The alternatives of all schemas for requests about a resource, or for others."""

    __slots__ = ("_alternatives", "_of_schema", "_shared")

    def __init__(self, schemas: Sequence[FlowSchema], *, about_resource: bool) -> None:
        self._alternatives: list[tuple[int, Alternative]] = []
        self._of_schema: list[range] = []
        for number, schema in enumerate(schemas):
            first = len(self._alternatives)
            compiled = (compile_rule(rule, about_resource=about_resource) for rule in schema.rules)
            self._alternatives += [(number, alternative) for alternative in compiled if alternative is not None]
            self._of_schema.append(range(first, len(self._alternatives)))
        self._shared: BoundedCache[tuple[int, ...], _Steps] = BoundedCache(_PLANS_SHARED)

    def steps(self, candidates: Iterable[int], identity: Identity) -> _Steps:
        """Return the steps of these schemas for this identity; identities with the same steps share them."""
        chosen = []
        for schema in candidates:
            for place in self._of_schema[schema]:
                alternative = self._alternatives[place][1]
                if alternative.guard(identity):
                    chosen.append(place)
        key = tuple(chosen)
        steps = self._shared.get(key)
        if steps is None:
            listed = (self._alternatives[place] for place in chosen)
            steps = _Steps((number, one.test, one.names) for number, one in listed)
            self._shared.put(key, steps)
        return steps


class Plan:
    """The schemas that can accept requests of one identity."""

    __slots__ = ("_about_resource", "_others")

    def __init__(self, about_resource: _Steps, others: _Steps) -> None:
        self._about_resource = about_resource
        self._others = others

    def first(self, digest: RequestDigest) -> int | None:
        """Return the number of the first schema that accepts the request."""
        about = digest.resource
        if about is None:
            about = NO_RESOURCE
            steps = self._others.named(head_of(digest.path))
        else:
            steps = self._about_resource.named(about.resource)
        for number, test in steps:
            if test is None or test(digest, about):
                return number
        return None


class SchemaIndex:
    """Schemas in order of precedence, by the subjects that they name."""

    __slots__ = ("_about_resource", "_longest_account", "_numbers", "_others")

    def __init__(self, schemas: Sequence[FlowSchema]) -> None:
        self._about_resource = _Side(schemas, about_resource=True)
        self._others = _Side(schemas, about_resource=False)
        self._numbers: dict[_Key, list[int]] = {}
        for number, schema in enumerate(schemas):
            for key in {key for rule in schema.rules for key in _keys_of(rule)}:
                self._numbers.setdefault(key, []).append(number)
        self._longest_account = max((len(name) for kind, name in self._numbers if kind == "account"), default=0)

    def plan(self, identity: Identity) -> Plan:
        """Return the plan for an identity."""
        keys = [(_EVERYBODY, ""), ("user", identity.name), *(("group", group) for group in identity.groups)]
        if identity.name.startswith(SERVICE_ACCOUNT):
            # A namespace has no colon, but a subject can name one that has: each beginning may be one.
            end = identity.name.find(":", len(SERVICE_ACCOUNT)) + 1
            while 0 < end <= self._longest_account:
                keys.append(("account", identity.name[:end]))
                end = identity.name.find(":", end) + 1
        candidates = sorted({number for key in keys for number in self._numbers.get(key, ())})
        return Plan(self._about_resource.steps(candidates, identity), self._others.steps(candidates, identity))


def _keys_of(rule: Rule | Conjunction) -> set[_Key]:
    """Return the keys by which identities find the rule: each identity that it can accept has at least one."""
    if isinstance(rule, Conjunction):
        return _keys_of_conjunction(rule)
    keys: set[_Key] = set()
    for subject in rule.subjects:
        if isinstance(subject, ServiceAccountSubject):
            beginning = f"{SERVICE_ACCOUNT}{subject.namespace}:"
            keys.add(("account", beginning) if subject.name == "*" else ("user", beginning + subject.name))
        elif subject.name == "*":
            keys.add((_EVERYBODY, ""))
        elif isinstance(subject, UserSubject | GroupSubject):
            keys.add(("user" if isinstance(subject, UserSubject) else "group", subject.name))
    return keys


def _keys_of_conjunction(conjunction: Conjunction) -> set[_Key]:
    """Return the keys of one test of name or groups, which every accepted identity must pass."""
    for test in conjunction.tests:
        if test.inverted or test.operator is Operator.PATTERN_MATCH or test.field not in {Field.USER, Field.GROUPS}:
            continue
        kind = "user" if test.field is Field.USER else "group"
        values = test.values[:1] if test.operator is Operator.SUPER_SET else test.values  # it needs all of that set
        return {(kind, value) for value in values}
    return {(_EVERYBODY, "")}
