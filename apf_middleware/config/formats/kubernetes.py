"""Kubernetes' own manifests (flowcontrol.apiserver.k8s.io, v1alpha1 to v1), as ``kubectl get -o yaml`` prints them.

The versions differ in how they write shares. v1alpha1, v1beta1 and v1beta2 call them assuredConcurrencyShares. Up to
v1beta3, zero means "not set", except in v1beta3 with a certain annotation. All other fields are the same in all
versions.

Configurations are written as manifests of v1, as far as v1 can express them. It can express an alternative in the KEP's
form only if this tests nothing but the caller, and a rule exists with exactly the same meaning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import ConfigDict
from pydantic import Field as Declared

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import (
    AnySubject,
    Conjunction,
    Field,
    GroupSubject,
    Operator,
    Rule,
    UserSubject,
)
from apf_middleware.config.covering import ANY_REQUEST
from apf_middleware.config.estimation import EstimateSettings
from apf_middleware.config.flow_weights import given_weights
from apf_middleware.config.formats.apf import DEFAULT_SHARES, level_spec
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.predicates import match_part
from apf_middleware.config.formats.queuing import QueuingModel
from apf_middleware.config.formats.rules import (
    AnyNonResourceRule,
    AnyResourceRule,
    AnyServiceAccount,
    NameModel,
    precedence_rules,
)
from apf_middleware.config.formats.versions import ASSURED, KUBERNETES_GROUP, ZERO_SHARES
from apf_middleware.config.http_rules import AnyHttpRule
from apf_middleware.config.model import BuiltFrom, parse, report, without_nulls
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import Absent, Place, Problems
from apf_middleware.config.settings import Rules, Settings, Violation, as_mapping, make_unchecked
from apf_middleware.config.values import Amount, DnsSubdomain, NonEmpty, Percent
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.durations import written_duration
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.frozen import frozen

__all__ = [
    "define",
    "level_manifest",
    "schema_manifest",
]

_SOURCES: Final = {"ByUser": Source.USER, "ByNamespace": Source.NAMESPACE}
_METHODS: Final = {source: method for method, source in _SOURCES.items()}
_IN_V1: Final = frozenset({"type", "shares", "lendablePercent", "borrowingLimitPercent", "response", "queuing"})
_LENIENT: Final = ConfigDict(**{**Settings.__pydantic_config__, "extra": "ignore"})
"""For parts to which the API server adds fields that are ignored here."""


@frozen
class _Metadata(Settings):
    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT

    name: DnsSubdomain
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@frozen
class _Condition(Settings):
    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT

    type: NonEmpty


@frozen
class _Status(Settings):
    conditions: Annotated[tuple[_Condition, ...], Declared(strict=False)] = ()

    def rules(self) -> Iterator[Violation]:
        seen: set[str] = set()
        for place, condition in enumerate(self.conditions):
            if condition.type in seen:
                yield Violation(("conditions", place, "type"), condition.type, "another condition has the same type")
            seen.add(condition.type)


@frozen
class _Named(Settings):
    name: NonEmpty


@frozen
class _Subject(Settings):
    kind: Literal["User", "Group", "ServiceAccount"]
    user: Annotated[UserSubject, BuiltFrom(_Named, UserSubject)] | None = None
    group: Annotated[GroupSubject, BuiltFrom(_Named, GroupSubject)] | None = None
    service_account: AnyServiceAccount | None = None

    def rules(self) -> Iterator[Violation]:
        wanted = f"{self.kind[0].lower()}{self.kind[1:]}"
        given = {"user": self.user, "group": self.group, "serviceAccount": self.service_account}
        for member, value in given.items():
            if member == wanted and value is None:
                hint = f"Write {member}: {{{'namespace: …, ' if member == 'serviceAccount' else ''}name: …}}"
                yield Violation((member,), Absent.ABSENT, f"it is required for the kind {self.kind}", hint)
            elif member != wanted and value is not None:
                hint = f"Remove it, or change the kind {self.kind}"
                yield Violation((member,), value, f"only {wanted} belongs to the kind {self.kind}", hint)

    def built(self) -> AnySubject:
        return self.user or self.group or self.service_account or UserSubject("")

    @classmethod
    def of(cls, subject: AnySubject) -> "_Subject":
        if isinstance(subject, UserSubject):
            return cls("User", user=subject)
        if isinstance(subject, GroupSubject):
            return cls("Group", group=subject)
        return cls("ServiceAccount", service_account=subject)


_AnySubject = Annotated[AnySubject, BuiltFrom(_Subject, read=_Subject.built, write=_Subject.of)]


@frozen
class _Rule(Settings):
    always_written: ClassVar[frozenset[str]] = frozenset({"subjects"})

    subjects: Annotated[tuple[_AnySubject, ...], Declared(strict=False)] = ()
    resource_rules: Annotated[tuple[AnyResourceRule, ...], Declared(strict=False)] = ()
    non_resource_rules: Annotated[tuple[AnyNonResourceRule, ...], Declared(strict=False)] = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._subject_rules, self._part_rules)

    def _subject_rules(self) -> Iterator[Violation]:
        if not self.subjects:
            hint = "For all callers, write {kind: Group, group: {name: '*'}}"
            yield Violation(("subjects",), Absent.ABSENT, "a rule must have at least one subject", hint)

    def _part_rules(self) -> Iterator[Violation]:
        if not self.resource_rules and not self.non_resource_rules:
            rule = "a rule must have resourceRules or nonResourceRules"
            yield Violation(("resource_rules",), Absent.ABSENT, rule, "Write both for requests of all kinds")


_AnyRule = Annotated[Rule, BuiltFrom(_Rule, Rule)]


@frozen
class _DistinguisherMethod(Settings):
    type: Literal["ByUser", "ByNamespace"]


@frozen
class _FlowSchemaSpec(Settings):
    priority_level_configuration: NameModel
    matching_precedence: int = 1000
    distinguisher_method: _DistinguisherMethod | None = None
    rules_: Annotated[tuple[_AnyRule, ...], Declared(strict=False, alias="rules")] = ()


@frozen
class _FlowSchema(Settings):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: _FlowSchemaSpec
    status: _Status | None = None

    def built(self) -> FlowSchema:
        spec = self.spec
        method = spec.distinguisher_method
        return FlowSchema(
            self.metadata.name,
            spec.priority_level_configuration.name,
            spec.matching_precedence or 1000,
            spec.rules_,
            Distinguisher(_SOURCES[method.type]) if method else None,
        )


@frozen
class _LimitResponse(Settings):
    type: Literal["Queue", "Reject"]
    queuing: QueuingModel | None = None

    def rules(self) -> Iterator[Violation]:
        if self.type == "Queue" and self.queuing is None:
            rule = "it is required where the type is Queue"
            yield Violation(("queuing",), Absent.ABSENT, rule, "queuing: {} is enough")
        if self.type == "Reject" and self.queuing is not None:
            rule = "it must be absent where the type is Reject"
            yield Violation(("queuing",), self.queuing, rule, "Remove it, or write type: Queue")


@frozen
class _Limited(Settings):
    always_written: ClassVar[frozenset[str]] = frozenset({"lendable_percent"})

    limit_response: _LimitResponse
    nominal_concurrency_shares: Amount | None = None
    assured_concurrency_shares: Amount | None = None
    lendable_percent: Percent = 0
    borrowing_limit_percent: Amount | None = None


@frozen
class _Exempt(Settings):
    always_written: ClassVar[frozenset[str]] = frozenset({"nominal_concurrency_shares", "lendable_percent"})

    nominal_concurrency_shares: Amount = 0
    lendable_percent: Percent = 0


@frozen
class _LevelSpec(Settings):
    type: Literal["Exempt", "Limited"]
    limited: _Limited | None = None
    exempt: _Exempt | None = None

    def rule_sets(self) -> Iterable[Rules]:
        return (self._limited_rules, self._exempt_rules)

    def _limited_rules(self) -> Iterator[Violation]:
        if self.type == "Exempt" and self.limited is not None:
            yield Violation(("limited",), self.limited, "it must be absent where the type is Exempt", "Remove it")
        if self.type == "Limited" and self.limited is None:
            hint = "limited: {limitResponse: {type: Reject}} is enough"
            yield Violation(("limited",), Absent.ABSENT, "it is required where the type is Limited", hint)

    def _exempt_rules(self) -> Iterator[Violation]:
        if self.type == "Limited" and self.exempt is not None:
            yield Violation(("exempt",), self.exempt, "it must be absent where the type is Limited", "Remove it")


@frozen
class _Level(Settings):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: _LevelSpec
    status: _Status | None = None

    def built(self) -> Level:
        name, limited = self.metadata.name, self.spec.limited
        if limited is None:
            exempt = self.spec.exempt or _Exempt()
            return Level(name, LevelShares(exempt.nominal_concurrency_shares, exempt.lendable_percent, exempt=True))
        version = self.api_version.rpartition("/")[2]
        keeps_zero = version == "v1" or (version not in ASSURED and ZERO_SHARES in self.metadata.annotations)
        shares = limited.assured_concurrency_shares if version in ASSURED else limited.nominal_concurrency_shares
        if shares is None or (shares == 0 and not keeps_zero):
            shares = DEFAULT_SHARES
        queuing = limited.limit_response.queuing
        return Level(
            name,
            LevelShares(shares, limited.lendable_percent, limited.borrowing_limit_percent),
            queuing.built() if queuing else None,
        )


def define(document: Document, problems: Problems) -> Definition | None:
    """Return the definition of a document with an apiVersion of this group; None if the document has errors."""
    raw = document.root.plain()
    if not isinstance(raw, dict):
        return None
    model: type[_FlowSchema | _Level] = _FlowSchema if raw["kind"] == "FlowSchema" else _Level
    data = cast("dict[str, object]", without_nulls(model, raw))
    version = str(data["apiVersion"]).rpartition("/")[2]
    found = list(_schema_rules(data) if model is _FlowSchema else _level_rules(data, version))
    for one in found:
        report(document, problems, one)
    read = parse(model, data, document, problems)
    return None if read is None or found else Definition(read.built(), document, "kubernetes")


def _at(data: object, *path: str) -> Any:  # noqa: ANN401 (the type isn't checked yet)
    """Return the value at ``path`` in a document that may have any shape."""
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data


def _schema_rules(data: Mapping[str, object]) -> Iterator[Violation]:
    """Yield the broken rules between name and spec, even if other parts are invalid."""
    name, precedence = _at(data, "metadata", "name"), _at(data, "spec", "matchingPrecedence")
    yield from precedence_rules(("spec", "matchingPrecedence"), name, precedence or None)


def _level_rules(data: Mapping[str, object], version: str) -> Iterator[Violation]:
    name, kind = _at(data, "metadata", "name"), _at(data, "spec", "type")
    path = ("spec", "type")
    if name == "exempt" and kind == "Limited":
        yield Violation(path, kind, "the level 'exempt' must have the type Exempt", "Take another name, or this type")
    if kind == "Exempt" and isinstance(name, str) and name != "exempt":
        hint = "Take type: Limited, or let schemas refer to the level 'exempt'"
        yield Violation(path, kind, "only the level 'exempt' may have the type Exempt", hint)
    limited = _at(data, "spec", "limited")
    unknown, hint = "assuredConcurrencyShares", "From v1beta3 on it is called nominalConcurrencyShares"
    if version in ASSURED:
        unknown, hint = "nominalConcurrencyShares", "Before v1beta3 it is called assuredConcurrencyShares"
    if isinstance(limited, Mapping) and unknown in limited:
        yield Violation(("spec", "limited", unknown), limited[unknown], "there is no such key here", hint)
    annotations = _at(data, "metadata", "annotations")
    if version == "v1" and isinstance(annotations, Mapping) and ZERO_SHARES in annotations:
        hint = "Remove it: in v1 zero shares mean zero"
        at = ("metadata", "annotations", ZERO_SHARES)
        yield Violation(at, annotations[ZERO_SHARES], "this annotation belongs to v1beta3", hint)


def level_manifest(level: Level, problems: Problems) -> dict[str, Any]:
    """Return a level as a PriorityLevelConfiguration."""
    place, shares, queuing = Place(f"<level {level.name}>"), level.shares, level.queuing
    beyond = {key: value for key, value in level_spec(level).items() if key not in _IN_V1}
    if queuing and queuing.exact:
        beyond["queuing.queues"] = "exact"
    for key, value in beyond.items():
        problems.error(place, "v1 can't express this", field=key, value=value)
    if level.exempt != (level.name == "exempt"):
        rule = "in v1 the level 'exempt', and no other, is exempt"
        problems.error(place, rule, field="type", value="Exempt" if level.exempt else "Limited")
    spec: dict[str, object] = {"type": "Exempt", "exempt": _Exempt(shares.shares, shares.lendable_percent)}
    if not level.exempt:
        numbers = {} if queuing is None else {name: getattr(queuing, name) for name in QueuingModel.always_written}
        response: dict[str, object] = {"type": "Reject"}
        if queuing is not None:
            response = {"type": "Queue", "queuing": make_unchecked(QueuingModel, numbers)}
        limited = {
            "nominal_concurrency_shares": shares.shares,
            "lendable_percent": shares.lendable_percent,
            "borrowing_limit_percent": shares.borrowing_percent,
            "limit_response": make_unchecked(_LimitResponse, response),
        }
        spec = {"type": "Limited", "limited": make_unchecked(_Limited, limited)}
    return _manifest("PriorityLevelConfiguration", level.name, as_mapping(make_unchecked(_LevelSpec, spec)))


def schema_manifest(schema: FlowSchema, problems: Problems, estimate: EstimateSettings | None) -> dict[str, Any]:
    """Return a schema as a FlowSchema.

    An estimate, a weight, a criticality or a deadline is a warning, because it doesn't change which requests match.
    """
    place, distinguisher = Place(f"<schema {schema.name}>"), schema.distinguisher
    spec: dict[str, Any] = {
        "priorityLevelConfiguration": {"name": schema.level},
        "matchingPrecedence": schema.precedence,
    }
    if estimate is not None:
        rule, hint = "v1 can't express the cost of requests, so this is left out", "Keep the FlowSchema of apf/v1"
        problems.warn(place, rule, field="estimate", value=as_mapping(estimate), hint=hint)
    _warn_of_additions(schema, problems, place)
    if distinguisher is not None:
        if distinguisher.source not in _METHODS:
            rule = "v1 tells flows apart by user or namespace only"
            problems.error(place, rule, field="distinguisher.source", value=str(distinguisher.source))
        if distinguisher.transform is not None:
            value = distinguisher.transform
            problems.error(place, "v1 can't express this", field="distinguisher.transform", value=value)
        spec["distinguisherMethod"] = {"type": _METHODS.get(distinguisher.source, "ByUser")}
    spec["rules"] = list(_written_rules(schema, problems, place))
    return _manifest("FlowSchema", schema.name, spec)


def _warn_of_additions(schema: FlowSchema, problems: Problems, place: Place) -> None:
    """Warn of settings that v1 doesn't have and that don't change which requests match, one by one."""
    rule, hint = "in v1 all flows have equal weights, so this is left out", "Keep the FlowSchema of apf/v1"
    for key, value in given_weights(schema.weights).items():
        problems.warn(place, rule, field=key, value=value, hint=hint)
    rule = "v1 can't express this, so it is left out"
    if schema.criticality:
        problems.warn(place, rule, field="criticality", value=schema.criticality, hint=hint)
    if schema.deadline_ns is not None:
        problems.warn(place, rule, field="deadline", value=written_duration(schema.deadline_ns), hint=hint)


def _written_rules(schema: FlowSchema, problems: Problems, place: Place) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(schema.rules):
        rule = _equivalent_rule(one) if isinstance(one, Conjunction) else one
        if isinstance(one, Conjunction) and rule is None:
            problems.error(place, "v1 can't express these tests", field=f"match[{number}]", value=match_part(one))
        if rule is None:
            continue
        if rule.http_rules:
            value = [as_mapping(http, AnyHttpRule) for http in rule.http_rules]
            problems.error(place, "v1 can't express this", field=f"rules[{number}].httpRules", value=value)
        yield as_mapping(rule, _AnyRule)


def _equivalent_rule(alternative: Conjunction) -> Rule | None:
    """Return a rule that accepts exactly the same requests, if there is one."""
    if not alternative.tests:
        return ANY_REQUEST
    if len(alternative.tests) > 1 or alternative.tests[0].inverted:
        return None
    test = alternative.tests[0]
    if "*" in test.values or test.operator is Operator.PATTERN_MATCH:
        return None
    subjects: tuple[AnySubject, ...] = ()
    if test.operator is not Operator.SUPER_SET or len(test.values) == 1:  # one match suffices, as with subjects
        if test.field is Field.USER:
            subjects = tuple(map(UserSubject, test.values))
        elif test.field is Field.GROUPS:
            subjects = tuple(map(GroupSubject, test.values))
    return replace(ANY_REQUEST, subjects=subjects) if subjects and all(test.values) else None


def _manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{KUBERNETES_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
