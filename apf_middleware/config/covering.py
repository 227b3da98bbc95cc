"""A test for schemas that an earlier schema certainly covers: it takes each request that they would take.

The answer yes is certain; the answer no may be wrong, because not all cases can be seen from the rules alone. Each part
of the later schema's rules must lie within one part of the earlier one's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from apf_middleware.classification import ANONYMOUS, FlowSchema
from apf_middleware.classification.digest import AUTHENTICATED_GROUP
from apf_middleware.classification.rules import (
    AnySubject,
    Conjunction,
    GroupSubject,
    HttpRule,
    NonResourceRule,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
)

__all__ = ["ANY_REQUEST", "covers", "size_of", "take_everything", "takes_everything"]

ANY_REQUEST: Final = Rule(
    (UserSubject("*"),),
    (ResourceRule(("*",), ("*",), ("*",), ("*",), cluster_scope=True),),
    (NonResourceRule(("*",), ("*",)),),
)
"""The rule that every request meets."""

_Part = ResourceRule | NonResourceRule | HttpRule

_EVERYBODY: Final = {UserSubject("*"), GroupSubject("*")}
_EITHER: Final = {GroupSubject(AUTHENTICATED_GROUP), *map(GroupSubject, ANONYMOUS.groups)}


def size_of(schema: FlowSchema) -> int:
    """Return the number of parts of the schema's rules, which determines the cost of a comparison."""
    return sum(
        len(rule.tests) + 1
        if isinstance(rule, Conjunction)
        else len(rule.subjects) * (len(rule.resource_rules) + len(rule.non_resource_rules) + len(rule.http_rules))
        for rule in schema.rules
    )


def takes_everything(schema: FlowSchema) -> bool:
    """Return whether the schema takes every request, given that each is either authenticated or not."""
    return covers(schema, FlowSchema("everything", "any", rules=(ANY_REQUEST,)))


def take_everything(schemas: Sequence[FlowSchema]) -> bool:
    """Return whether one of the ``schemas`` takes all authenticated requests, and one of them all others."""
    return all(
        any(
            covers(schema, FlowSchema("group", "any", rules=(replace(ANY_REQUEST, subjects=(group,)),)))
            for schema in schemas
        )
        for group in _EITHER
    )


def covers(earlier: FlowSchema, later: FlowSchema) -> bool:
    """Return whether ``earlier`` certainly takes all requests of ``later``; a schema without rules isn't covered."""
    return bool(later.rules) and all(_rule_covered(earlier.rules, rule) for rule in later.rules)


def _rule_covered(earlier: Sequence[Rule | Conjunction], later: Rule | Conjunction) -> bool:
    for one in earlier:
        fewer = isinstance(later, Conjunction) and isinstance(one, Conjunction) and set(one.tests) <= set(later.tests)
        if fewer or one == Conjunction():
            return True
    if isinstance(later, Conjunction):
        return _rule_covered([rule for rule in earlier if isinstance(rule, Rule)], ANY_REQUEST)
    rules = [rule for rule in earlier if isinstance(rule, Rule)]
    parts: list[_Part] = [*later.resource_rules, *later.non_resource_rules, *later.http_rules]
    return all(_part_covered(rules, subject, part) for subject in later.subjects for part in parts)


def _part_covered(earlier: Sequence[Rule], subject: AnySubject, part: _Part) -> bool:
    fitting = [rule for rule in earlier if _subject_covered(rule.subjects, subject)]
    if isinstance(part, ResourceRule):
        candidates = [one for rule in fitting for one in rule.resource_rules]
        return _any_http(fitting) or any(_resource_covered(one, part) for one in candidates)
    if isinstance(part, NonResourceRule):
        return _any_http(fitting) or any(
            _listed(one.verbs, part.verbs) and _listed(one.urls, part.urls)
            for rule in fitting
            for one in rule.non_resource_rules
        )
    if any(one == part or _is_any(one) for rule in fitting for one in rule.http_rules):
        return True
    # An HTTP rule takes requests with and without a resource, so both kinds must be covered.
    everything: list[_Part] = [*ANY_REQUEST.resource_rules, *ANY_REQUEST.non_resource_rules]
    return all(_part_covered(earlier, subject, whole) for whole in everything)


def _any_http(rules: Sequence[Rule]) -> bool:
    return any(_is_any(one) for rule in rules for one in rule.http_rules)


def _is_any(rule: HttpRule) -> bool:
    return rule == HttpRule() or (rule == HttpRule(paths=rule.paths) and not {"*", "/*"}.isdisjoint(rule.paths))


def _subject_covered(earlier: Sequence[AnySubject], later: AnySubject) -> bool:
    if later in earlier or _EVERYBODY & set(earlier) or set(earlier) >= _EITHER:
        return True
    return isinstance(later, ServiceAccountSubject) and ServiceAccountSubject(later.namespace, "*") in earlier


def _resource_covered(earlier: ResourceRule, later: ResourceRule) -> bool:
    return (
        _listed(earlier.verbs, later.verbs)
        and _listed(earlier.api_groups, later.api_groups)
        and _listed(earlier.resources, later.resources)
        and (earlier.cluster_scope or not later.cluster_scope)
        and (not later.namespaces or _listed(earlier.namespaces, later.namespaces))
    )


def _listed(earlier: Sequence[str], later: Sequence[str]) -> bool:
    return earlier == ("*",) or set(later) <= set(earlier)
