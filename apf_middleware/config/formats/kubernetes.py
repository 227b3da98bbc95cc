"""Kubernetes' own manifests (flowcontrol.apiserver.k8s.io, v1alpha1 to v1), as ``kubectl get -o yaml`` prints them.

The versions differ in how they say shares. v1alpha1, v1beta1 and v1beta2 call them assuredConcurrencyShares; up to
v1beta3 zero meant "not set", unless in v1beta3 an annotation keeps it. The rest has been the same all along.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import AnySubject, GroupSubject, Rule, ServiceAccountSubject, UserSubject
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.rules import (
    AnyNonResourceRule,
    AnyResourceRule,
    NameModel,
    QueuingModel,
    precedence_rules,
)
from apf_middleware.config.model import Model, as_written, parse, report, without_nulls
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import Absent, Problems
from apf_middleware.config.settings import Violation
from apf_middleware.config.values import (
    Amount,
    DnsLabel,
    DnsSubdomain,
    NonEmpty,
    Percent,
    is_subdomain,
)
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.sharing.limits import LevelShares

__all__ = ["ASSURED", "FORMAT", "GROUP", "KINDS", "VERSIONS", "ZERO_SHARES", "define"]

ASSURED: Final = frozenset({"v1alpha1", "v1beta1", "v1beta2"})
"""Versions that call shares assuredConcurrencyShares."""

FORMAT: Final = "kubernetes"
GROUP: Final = "flowcontrol.apiserver.k8s.io"
VERSIONS: Final = ("v1", "v1beta3", "v1beta2", "v1beta1", "v1alpha1")
KINDS: Final = ("FlowSchema", "PriorityLevelConfiguration")

ZERO_SHARES: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""With this annotation a v1beta3 level's zero shares mean zero."""

_DEFAULT_SHARES: Final = 30


class _Metadata(Model):
    """Of all that the server writes here only these matter."""

    model_config = ConfigDict(extra="ignore")

    name: DnsSubdomain
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class _Condition(Model):
    model_config = ConfigDict(extra="ignore")

    type: NonEmpty


class _Status(Model):
    conditions: list[_Condition] = Field(default_factory=list)

    def rules(self) -> Iterator[Violation]:
        seen: set[str] = set()
        for place, condition in enumerate(self.conditions):
            if condition.type in seen:
                yield Violation(("conditions", place, "type"), condition.type, "each condition type must be there once")
            seen.add(condition.type)


class _ServiceAccount(Model):
    namespace: DnsLabel
    name: NonEmpty

    def rules(self) -> Iterator[Violation]:
        if self.name != "*" and not is_subdomain(self.name):
            yield Violation(("name",), self.name, "it must be '*' or a service account's name, which is a DNS name")


class _Named(Model):
    name: NonEmpty


class _Subject(Model):
    kind: Literal["User", "Group", "ServiceAccount"]
    user: _Named | None = None
    group: _Named | None = None
    service_account: _ServiceAccount | None = None

    def rules(self) -> Iterator[Violation]:
        members = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}
        given = {"user": self.user, "group": self.group, "serviceAccount": self.service_account}
        wanted = members[self.kind]
        for member, value in given.items():
            if member == wanted and value is None:
                yield Violation((member,), Absent.ABSENT, f"it is required for the kind {self.kind}")
            elif member != wanted and value is not None:
                hint = f"Remove it, or change the kind {self.kind}"
                yield Violation((member,), as_written(value), f"only {wanted} belongs to the kind {self.kind}", hint)

    def built(self) -> AnySubject:
        if self.user is not None:
            return UserSubject(self.user.name)
        if self.group is not None:
            return GroupSubject(self.group.name)
        account = self.service_account
        return ServiceAccountSubject(account.namespace, account.name) if account else UserSubject("")


class _Rule(Model):
    subjects: list[_Subject] = Field(default_factory=list)
    resource_rules: list[AnyResourceRule] = Field(default_factory=list)
    non_resource_rules: list[AnyNonResourceRule] = Field(default_factory=list)

    def rules(self) -> Iterator[Violation]:
        if not self.subjects:
            yield Violation(("subjects",), Absent.ABSENT, "a rule must have at least one subject")

    def _part_rules(self) -> Iterator[Violation]:
        if not self.resource_rules and not self.non_resource_rules:
            yield Violation(("resourceRules",), Absent.ABSENT, "a rule must have resourceRules or nonResourceRules")

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Violation]]]:
        return (self.rules, self._part_rules)

    def built(self) -> Rule:
        return Rule(
            tuple(subject.built() for subject in self.subjects),
            tuple(self.resource_rules),
            tuple(self.non_resource_rules),
        )


class _DistinguisherMethod(Model):
    type: Literal["ByUser", "ByNamespace"]


class _FlowSchemaSpec(Model):
    priority_level_configuration: NameModel
    matching_precedence: int = 1000
    distinguisher_method: _DistinguisherMethod | None = None
    rules_: list[_Rule] = Field(default_factory=list, alias="rules")


class _FlowSchema(Model):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: _FlowSchemaSpec
    status: _Status | None = None

    def built(self) -> FlowSchema:
        spec = self.spec
        sources = {"ByUser": Source.USER, "ByNamespace": Source.NAMESPACE}
        method = spec.distinguisher_method
        return FlowSchema(
            self.metadata.name,
            spec.priority_level_configuration.name,
            spec.matching_precedence or 1000,
            tuple(rule.built() for rule in spec.rules_),
            Distinguisher(sources[method.type]) if method else None,
        )


class _LimitResponse(Model):
    type: Literal["Queue", "Reject"]
    queuing: QueuingModel | None = None

    def rules(self) -> Iterator[Violation]:
        if self.type == "Queue" and self.queuing is None:
            yield Violation(
                ("queuing",), Absent.ABSENT, "it is required where the type is Queue", "queuing: {} will do"
            )
        if self.type == "Reject" and self.queuing is not None:
            yield Violation(("queuing",), as_written(self.queuing), "it must be absent where the type is Reject")


class _Limited(Model):
    lendable_percent: Percent = 0
    borrowing_limit_percent: Amount | None = None
    limit_response: _LimitResponse


class _LimitedNominal(_Limited):
    renamed: ClassVar[dict[str, str]] = {"assuredConcurrencyShares": "nominalConcurrencyShares, from v1beta3 on"}

    nominal_concurrency_shares: Amount | None = None


class _LimitedAssured(_Limited):
    renamed: ClassVar[dict[str, str]] = {"nominalConcurrencyShares": "assuredConcurrencyShares, before v1beta3"}

    assured_concurrency_shares: Amount | None = None


class _Exempt(Model):
    nominal_concurrency_shares: Amount = 0
    lendable_percent: Percent = 0


class _LevelSpec(Model):
    type: Literal["Exempt", "Limited"]
    limited: Any = None  # each version has its own
    exempt: _Exempt | None = None

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Violation]]]:
        return (self._limited_rules, self._exempt_rules)

    def _limited_rules(self) -> Iterator[Violation]:
        if self.type == "Exempt" and self.limited is not None:
            yield Violation(("limited",), as_written(self.limited), "it must be absent where the type is Exempt")
        if self.type == "Limited" and self.limited is None:
            yield Violation(("limited",), Absent.ABSENT, "it is required where the type is Limited")

    def _exempt_rules(self) -> Iterator[Violation]:
        if self.type == "Limited" and self.exempt is not None:
            yield Violation(("exempt",), as_written(self.exempt), "it must be absent where the type is Limited")


class _LevelSpecNominal(_LevelSpec):
    limited: _LimitedNominal | None = None


class _LevelSpecAssured(_LevelSpec):
    limited: _LimitedAssured | None = None


class _Level(Model):
    api_version: str
    kind: str
    metadata: _Metadata
    status: _Status | None = None


class _LevelNominal(_Level):
    spec: _LevelSpecNominal

    def built(self) -> Level:
        if self.spec.limited is None:
            return _exempt_level(self.metadata.name, self.spec.exempt)
        shares = self.spec.limited.nominal_concurrency_shares
        zero_stays = self.api_version.endswith("/v1") or ZERO_SHARES in self.metadata.annotations
        if shares is None or (shares == 0 and not zero_stays):
            shares = _DEFAULT_SHARES
        return _limited_level(self.metadata.name, shares, self.spec.limited)


class _LevelAssured(_Level):
    spec: _LevelSpecAssured

    def built(self) -> Level:
        if self.spec.limited is None:
            return _exempt_level(self.metadata.name, self.spec.exempt)
        shares = self.spec.limited.assured_concurrency_shares or _DEFAULT_SHARES
        return _limited_level(self.metadata.name, shares, self.spec.limited)


def _exempt_level(name: str, exempt: _Exempt | None) -> Level:
    given = exempt or _Exempt()
    return Level(name, LevelShares(given.nominal_concurrency_shares, given.lendable_percent, exempt=True))


def _limited_level(name: str, shares: int, limited: _Limited) -> Level:
    queuing = limited.limit_response.queuing
    return Level(
        name,
        LevelShares(shares, limited.lendable_percent, limited.borrowing_limit_percent),
        queuing.built() if queuing else None,
    )


def define(document: Document, problems: Problems) -> Definition | None:
    """Return the definition of a document whose apiVersion is of this group; None if it has errors."""
    data = without_nulls(document.root.plain())
    if not isinstance(data, dict):
        return None
    version = str(data["apiVersion"]).rpartition("/")[2]
    model: type[_FlowSchema | _LevelNominal | _LevelAssured]
    if data["kind"] == "FlowSchema":
        found = list(_schema_rules(data))
        model = _FlowSchema
    else:
        found = list(_level_rules(data, version))
        model = _LevelAssured if version in ASSURED else _LevelNominal
    for one in found:
        report(document, problems, one)
    read = parse(model, data, document, problems)
    return None if read is None or found else Definition(read.built(), document, FORMAT)


def _at(data: object, *path: str) -> Any:  # noqa: ANN401 (that's what isn't known yet)
    """Return the value there in a document that may have any shape."""
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data


def _schema_rules(data: Mapping[str, object]) -> Iterator[Violation]:
    """Yield the rules between name and spec, also when the rest isn't well-formed."""
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
    annotations = _at(data, "metadata", "annotations")
    if version == "v1" and isinstance(annotations, Mapping) and ZERO_SHARES in annotations:
        hint = "Remove it: in v1 zero shares mean zero"
        at = ("metadata", "annotations", ZERO_SHARES)
        yield Violation(at, annotations[ZERO_SHARES], "this annotation belongs to v1beta3", hint)
