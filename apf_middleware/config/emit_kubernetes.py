"""Domain objects as manifests of flowcontrol.apiserver.k8s.io/v1, as far as those can say what they mean.

Of the KEP's alternatives only those can be said that ask who it is, and only where that means exactly the same.
"""

from dataclasses import replace
from typing import Any, Final

from apf_middleware.classification import FlowSchema, Source
from apf_middleware.classification.rules import (
    AnySubject,
    Conjunction,
    Field,
    GroupSubject,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    UserSubject,
)
from apf_middleware.config.emit_apf import match_part, queuing_part, rule_parts
from apf_middleware.config.estimation import EstimateSettings
from apf_middleware.config.formats.kubernetes import GROUP
from apf_middleware.config.merge import settle_slow_clients
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import Place, Problems
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.settings import as_mapping
from apf_middleware.config.values import written_duration

__all__ = ["level_manifest", "schema_manifest", "unsaid_settings"]

_SOURCES: Final = {Source.USER: "ByUser", Source.NAMESPACE: "ByNamespace"}
_ALL_RESOURCES: Final = ResourceRule(("*",), ("*",), ("*",), ("*",), cluster_scope=True)
_ALL_PATHS: Final = NonResourceRule(("*",), ("*",))


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def unsaid_settings(settings: ServerSettings, problems: Problems) -> None:
    """Warn of settings of the server, which v1 can't express."""
    plain = settle_slow_clients(
        ServerSettings(defaults=settings.defaults, backstops=settings.backstops, resolver=settings.resolver)
    )
    if settings != plain:
        problems.warn(Place("<server>"), "v1 has no words for the server's settings", hint="Keep the Server document")


def level_manifest(level: Level, problems: Problems) -> dict[str, Any]:
    """Return a level as a PriorityLevelConfiguration."""
    place = Place(f"<level {level.name}>")
    unsaid = {
        "minSeats": level.min_seats,
        "maxSeats": level.max_seats,
        "waitLimit": None if level.wait_limit_ns is None else written_duration(level.wait_limit_ns),
        "gates": list(level.gates) or None,
        "streams": as_mapping(level.streams) or None,
        "queuing.queues": "exact" if level.queuing and level.queuing.exact else None,
        "parent": level.parent,
        "priority": level.priority or None,
        "reclaimable": None if level.reclaimable else False,
        "dequeueStrategy": None if level.dequeue_strategy == "traverse" else level.dequeue_strategy,
        "state": None if level.state == "open" else level.state.capitalize(),
    }
    for field, value in unsaid.items():
        if value is not None:
            problems.error(place, "v1 can't say this", field=field, value=value)
    shares = level.shares
    seats: dict[str, Any] = {"nominalConcurrencyShares": shares.shares, "lendablePercent": shares.lendable_percent}
    if level.exempt != (level.name == "exempt"):
        rule = "in v1 the level 'exempt', and no other, is exempt"
        problems.error(place, rule, field="type", value="Exempt" if level.exempt else "Limited")
    if level.exempt:
        return _manifest("PriorityLevelConfiguration", level.name, {"type": "Exempt", "exempt": seats})
    if shares.borrowing_percent is not None:
        seats["borrowingLimitPercent"] = shares.borrowing_percent
    seats["limitResponse"] = (
        {"type": "Queue", "queuing": queuing_part(level.queuing)} if level.queuing else {"type": "Reject"}
    )
    return _manifest("PriorityLevelConfiguration", level.name, {"type": "Limited", "limited": seats})


def schema_manifest(schema: FlowSchema, problems: Problems, estimate: EstimateSettings | None = None) -> dict[str, Any]:
    """Return a schema as a FlowSchema; an estimate is a warning, because it doesn't change where requests belong."""
    place, told = Place(f"<schema {schema.name}>"), schema.distinguisher
    spec: dict[str, Any] = {
        "priorityLevelConfiguration": {"name": schema.level},
        "matchingPrecedence": schema.precedence,
    }
    if estimate is not None:
        rule, hint = "v1 has no words for what requests cost, so this is left out", "Keep the FlowSchema of apf/v1"
        problems.warn(place, rule, field="estimate", value=as_mapping(estimate), hint=hint)
    if told is not None:
        if told.source not in _SOURCES:
            rule = "v1 tells flows apart by user or namespace only"
            problems.error(place, rule, field="distinguisher.source", value=str(told.source))
        if told.transform is not None:
            problems.error(place, "v1 can't say this", field="distinguisher.transform", value=told.transform)
        spec["distinguisherMethod"] = {"type": _SOURCES.get(told.source, "ByUser")}
    spec["rules"] = []
    for number, one in enumerate(schema.rules):
        said = _said_as_rule(one) if isinstance(one, Conjunction) else one
        if isinstance(one, Conjunction) and said is None:
            problems.error(place, "v1 can't say these tests", field=f"match[{number}]", value=match_part(one))
        if said is None:
            continue
        if said.http_rules:
            value = rule_parts(said)["httpRules"]
            problems.error(place, "v1 can't say this", field=f"rules[{number}].httpRules", value=value)
        spec["rules"].append(_rule_part(said))
    return _manifest("FlowSchema", schema.name, spec)


def _said_as_rule(alternative: Conjunction) -> Rule | None:
    """Return a rule that accepts exactly the same requests, if there is one."""
    whole = Rule((UserSubject("*"),), (_ALL_RESOURCES,), (_ALL_PATHS,))
    if not alternative.tests:
        return whole
    if len(alternative.tests) > 1 or alternative.tests[0].inverted:
        return None
    test = alternative.tests[0]
    if "*" in test.values or test.operator is Operator.PATTERN_MATCH:
        return None
    subjects: tuple[AnySubject, ...] = ()
    if test.operator is not Operator.SUPER_SET or len(test.values) == 1:  # one of them will do
        if test.field is Field.USER:
            subjects = tuple(map(UserSubject, test.values))
        elif test.field is Field.GROUPS:
            subjects = tuple(map(GroupSubject, test.values))
    return replace(whole, subjects=subjects) if subjects and all(test.values) else None


def _rule_part(rule: Rule) -> dict[str, Any]:
    parts = {key: value for key, value in rule_parts(rule).items() if value and key != "httpRules"}
    return {"subjects": [_subject(one) for one in rule.subjects], **parts}


def _subject(subject: AnySubject) -> dict[str, Any]:
    if isinstance(subject, UserSubject):
        return {"kind": "User", "user": {"name": subject.name}}
    if isinstance(subject, GroupSubject):
        return {"kind": "Group", "group": {"name": subject.name}}
    account = {"namespace": subject.namespace, "name": subject.name}
    return {"kind": "ServiceAccount", "serviceAccount": account}
