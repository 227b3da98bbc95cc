"""Domain objects as documents of ``apf/v1``. What has its default isn't written."""

from collections.abc import Sequence
from typing import Any, Final

from apf_middleware.classification import Distinguisher, FlowSchema
from apf_middleware.classification.rules import (
    AnySubject,
    AtomicTest,
    Conjunction,
    GroupSubject,
    Rule,
    UserSubject,
)
from apf_middleware.config.estimation import ComputedEstimate, EstimateSettings
from apf_middleware.config.formats.apf import VERSION
from apf_middleware.config.formats.predicates import OPERANDS, OPERATORS
from apf_middleware.config.formats.queuing import BACKFILL
from apf_middleware.config.formats.rules import AnyNonResourceRule, AnyResourceRule
from apf_middleware.config.http_rules import AnyDistinguisher, AnyHttpRule
from apf_middleware.config.objects import Level, Queuing
from apf_middleware.config.problems import Place, Problems
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.settings import as_mapping
from apf_middleware.config.values import callable_name, written_duration

__all__ = [
    "level_document",
    "match_part",
    "queuing_part",
    "rule_parts",
    "schema_document",
    "server_document",
]

_NAMELESS: Final = "only a callable that can be imported by its name can be written"
_NAME_IT: Final = "Define it at the top of a module"
_OPERATOR_NAMES: Final = {meaning: name for name, meaning in OPERATORS.items()}


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _said(**given: Any) -> dict[str, Any]:  # noqa: ANN401 (values of any kind)
    """Return the given values without those that are empty or None."""
    return {key: value for key, value in given.items() if value not in (None, (), [], {}, "")}


def server_document(settings: ServerSettings, problems: Problems) -> dict[str, Any]:
    """Return all settings, so that none depends on what other documents say."""
    place = Place("<server>")
    spec = as_mapping(settings)
    for number, route in enumerate(settings.routes):
        if not _is_named(route.estimate, problems, place, f"routes[{number}].estimate"):
            del spec["routes"][number]["estimate"]
    if not _is_named(settings.estimation.default, problems, place, "estimation.default"):
        spec["estimation"].pop("default", None)
    return _document("Server", "server", {key: value for key, value in spec.items() if value not in ([], {})})


def queuing_part(queuing: Queuing) -> dict[str, Any]:
    """Return the numbers of queues, as far as v1 has them too."""
    return {
        "queues": queuing.queues,
        "handSize": queuing.hand_size,
        "queueLengthLimit": queuing.queue_length_limit,
    }


def _level_queuing_part(queuing: Queuing) -> dict[str, Any]:
    part = queuing_part(queuing)
    if queuing.exact:
        part |= {"queues": "exact", "maxQueues": queuing.exact, "sharedQueues": queuing.queues}
    return part | ({} if queuing.backfill == BACKFILL else {"backfill": queuing.backfill})


def level_document(level: Level) -> dict[str, Any]:
    """Return a level as a PriorityLevel."""
    shares = level.shares
    spec: dict[str, Any] = {"type": "Exempt"} if level.exempt else {}
    spec["shares"] = shares.shares
    spec |= _said(lendablePercent=shares.lendable_percent or None, borrowingLimitPercent=shares.borrowing_percent)
    spec |= _said(minSeats=level.min_seats, maxSeats=level.max_seats, gates=list(level.gates))
    spec |= _said(streams=as_mapping(level.streams))
    if not level.exempt:
        spec |= {"queuing": _level_queuing_part(level.queuing)} if level.queuing else {"response": "Reject"}
    if level.wait_limit_ns is not None:
        spec["waitLimit"] = written_duration(level.wait_limit_ns)
    spec |= _said(parent=level.parent, priority=level.priority or None)
    if not level.reclaimable:
        spec["reclaimable"] = False
    if level.dequeue_strategy != "traverse":
        spec["dequeueStrategy"] = level.dequeue_strategy
    if level.state != "open":
        spec["state"] = level.state.capitalize()
    return _document("PriorityLevel", level.name, spec)


def schema_document(
    schema: FlowSchema, problems: Problems, estimate: EstimateSettings | None = None, gates: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a schema as a FlowSchema; a callable without an importable name can't be written."""
    spec: dict[str, Any] = {"level": schema.level, "precedence": schema.precedence}
    if schema.distinguisher:
        spec["distinguisher"] = _distinguisher(f"<schema {schema.name}>", schema.distinguisher, problems)
    if schema.queue:
        spec["queue"] = _distinguisher(f"<schema {schema.name}>", schema.queue, problems)
    spec |= _estimate(estimate, problems, Place(f"<schema {schema.name}>"), "estimate")
    if not schema.rules:
        spec["rules"] = []
    spec |= _said(
        gates=list(gates),
        rules=[_rule(rule) for rule in schema.rules if isinstance(rule, Rule)],
        match=[match_part(rule) for rule in schema.rules if isinstance(rule, Conjunction)],
    )
    return _document("FlowSchema", schema.name, spec)


def _distinguisher(place: str, distinguisher: Distinguisher, problems: Problems) -> dict[str, Any]:
    part: dict[str, Any] = as_mapping(distinguisher, AnyDistinguisher)
    if distinguisher.function is not None and part.get("callable") is None:
        part.pop("callable")
        value = distinguisher.function
        problems.error(Place(place), _NAMELESS, field="distinguisher.callable", value=value, hint=_NAME_IT)
    return part


def _estimate(settings: EstimateSettings | None, problems: Problems, place: Place, field: str) -> dict[str, Any]:
    """Return the key ``estimate``; nothing, and a problem at ``field``, if it is a function that can't be written."""
    if settings is None or not _is_named(settings, problems, place, field):
        return {}
    return {"estimate": as_mapping(settings)}


def _is_named(settings: EstimateSettings | None, problems: Problems, place: Place, field: str) -> bool:
    """Report a function that can't be imported by its name."""
    if not isinstance(settings, ComputedEstimate) or callable_name(settings.function) is not None:
        return True
    problems.error(place, _NAMELESS, field=f"{field}.callable", value=settings.function, hint=_NAME_IT)
    return False


def _rule(rule: Rule) -> dict[str, Any]:
    everybody = rule.subjects == (UserSubject("*"),)
    return _said(
        subjects=None if everybody else [_subject(one) for one in rule.subjects],
        **rule_parts(rule),
    )


def rule_parts(rule: Rule) -> dict[str, list[dict[str, Any]]]:
    """Return the rules about operations, of which v1 has all but the last in the same form."""
    return {
        "resourceRules": [as_mapping(one, AnyResourceRule) for one in rule.resource_rules],
        "nonResourceRules": [as_mapping(one, AnyNonResourceRule) for one in rule.non_resource_rules],
        "httpRules": [as_mapping(one, AnyHttpRule) for one in rule.http_rules],
    }


def _subject(subject: AnySubject) -> dict[str, Any]:
    if isinstance(subject, UserSubject):
        return {"user": subject.name}
    if isinstance(subject, GroupSubject):
        return {"group": subject.name}
    return {"serviceAccount": {"namespace": subject.namespace, "name": subject.name}}


def match_part(alternative: Conjunction) -> dict[str, Any]:
    """Return one alternative of the KEP's form as it is written."""
    return {"and": list(map(_test, alternative.tests))}


def _test(test: AtomicTest) -> dict[str, Any]:
    operand = OPERANDS[test.operator]
    values = list(test.values) if operand == "set" else test.values[0]
    return {_OPERATOR_NAMES[test.operator, test.inverted]: {"field": str(test.field), operand: values}}
