"""Our own form, ``apf/v1``: what the other formats can say, in fewer words, and what web apps need beside it.

Kinds: PriorityLevel, FlowSchema, and Server for what isn't any level's or schema's. Server is in its own module.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from apf_middleware.classification import FlowSchema
from apf_middleware.classification.rules import AnySubject, GroupSubject, Rule, ServiceAccountSubject, UserSubject
from apf_middleware.config.estimation import AnyEstimate
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.predicates import read_match
from apf_middleware.config.formats.queuing import LevelQueuingModel
from apf_middleware.config.formats.rules import (
    AnyNonResourceRule,
    AnyResourceRule,
    precedence_rules,
)
from apf_middleware.config.http_rules import AnyDistinguisher, AnyHttpRule
from apf_middleware.config.model import Model, as_written, parse, report, without_nulls
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import Absent, Problems
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.settings import Violation, as_mapping
from apf_middleware.config.streams import StreamSettings
from apf_middleware.config.values import (
    MAX_INT32,
    Amount,
    DnsLabel,
    DnsSubdomain,
    Duration,
    NonEmpty,
    Percent,
    duration_ns,
    is_subdomain,
)
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.sharing.hierarchy import MOST_PRIORITY
from apf_middleware.fairqueuing.sharing.limits import LevelShares

__all__ = ["FORMAT", "KINDS", "VERSION", "FlowSchemaModel", "PriorityLevelModel", "ServerModel", "define"]

FORMAT: Final = "apf"
VERSION: Final = "apf/v1"
KINDS: Final = ("FlowSchema", "PriorityLevel", "Server")

_SAME: Final = {"weight": "shares", "guarantee": "minSeats", "capability": "maxSeats"}
_STATES: Final[dict[str, Literal["open", "paused", "closed"]]] = {
    "Open": "open",
    "Paused": "paused",
    "Closed": "closed",
}


class _Metadata(Model):
    name: DnsSubdomain
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class _LevelSpec(Model):
    renamed: ClassVar[dict[str, str]] = {
        "nominalConcurrencyShares": "shares",
        "assuredConcurrencyShares": "shares",
        "limited": "the fields of spec itself",
        "limitResponse": "response",
    }

    type: Literal["Limited", "Exempt"] = "Limited"
    shares: Amount | None = None
    lendable_percent: Percent = 0
    borrowing_limit_percent: Amount | None = None
    min_seats: Amount | None = None
    max_seats: Amount | None = None
    response: Literal["Queue", "Reject"] = "Queue"
    queuing: LevelQueuingModel | None = None
    wait_limit: Duration | None = None
    gates: list[NonEmpty] = Field(
        default_factory=list, description="What all its requests pass, after those of their schema and route."
    )
    streams: StreamSettings | None = None
    weight: int | None = Field(default=None, ge=1, le=MAX_INT32, description="The same as shares.")
    guarantee: Amount | None = Field(default=None, description="The same as minSeats.")
    capability: Amount | None = Field(default=None, description="The same as maxSeats.")
    parent: DnsSubdomain | None = None
    priority: int = Field(default=0, ge=-MOST_PRIORITY, le=MOST_PRIORITY)
    reclaimable: bool = True
    dequeue_strategy: Literal["traverse", "fifo"] = "traverse"
    state: Literal["Open", "Paused", "Closed"] = "Open"

    @property
    def least(self) -> int | None:
        return self.guarantee if self.min_seats is None else self.min_seats

    @property
    def most(self) -> int | None:
        return self.capability if self.max_seats is None else self.max_seats

    def _name_rules(self) -> Iterator[Violation]:
        """Yield what is said twice, by two names of one field."""
        pairs = {"weight": self.shares, "guarantee": self.min_seats, "capability": self.max_seats}
        for key, other in pairs.items():
            value = getattr(self, key)
            if value is not None and other is not None:
                yield Violation(
                    (key,), value, f"it says the same as {_SAME[key]}, which is {other}", "Keep one of them"
                )

    def _exempt_queue_rules(self) -> Iterator[Violation]:
        if self.type == "Exempt":
            said: dict[str, object] = {"guarantee": self.guarantee, "capability": self.capability}
            said |= {"parent": self.parent, "state": None if self.state == "Open" else self.state}
            for key, value in said.items():
                if value is not None:
                    yield Violation((key,), value, "an exempt level must not have it")

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Violation]]]:
        return (self._name_rules, self._exempt_queue_rules, self._exempt_rules, self._waiting_rules, self._size_rules)

    def _exempt_rules(self) -> Iterator[Violation]:
        if self.type == "Exempt":
            unlimited: dict[str, object] = {
                "borrowingLimitPercent": self.borrowing_limit_percent,
                "maxSeats": self.max_seats,
            }
            unlimited |= {"minSeats": self.min_seats, "waitLimit": self.wait_limit, "gates": self.gates or None}
            unlimited["streams"] = None if self.streams is None else as_mapping(self.streams)
            for key, value in unlimited.items():
                if value is not None:
                    yield Violation((key,), value, "an exempt level must not have it")

    def _waiting_rules(self) -> Iterator[Violation]:
        if self.queuing is not None and (self.type == "Exempt" or self.response == "Reject"):
            yield Violation(("queuing",), as_written(self.queuing), "it must be absent where nobody waits")
        if self.wait_limit is not None and self.response == "Reject":
            yield Violation(("waitLimit",), self.wait_limit, "it must be absent where nobody waits")

    def _size_rules(self) -> Iterator[Violation]:
        if self.least is not None and self.most is not None and self.least > self.most:
            least, most = ("guarantee", "capability") if self.min_seats is None else ("minSeats", "maxSeats")
            yield Violation((least,), self.least, f"it must not exceed {most}, which is {self.most}")


class PriorityLevelModel(Model):
    """A priority level."""

    api_version: Literal["apf/v1"]
    kind: Literal["PriorityLevel"]
    metadata: _Metadata
    spec: _LevelSpec

    def built(self) -> Level:
        """Return the level."""
        spec, name = self.spec, self.metadata.name
        shares = spec.weight if spec.shares is None else spec.shares
        if spec.type == "Exempt":
            return Level(name, LevelShares(shares or 0, spec.lendable_percent, exempt=True), priority=spec.priority)
        shares = 30 if shares is None else shares
        return Level(
            name,
            LevelShares(shares, spec.lendable_percent, spec.borrowing_limit_percent),
            (spec.queuing or LevelQueuingModel()).built() if spec.response == "Queue" else None,
            spec.least,
            spec.most,
            None if spec.wait_limit is None else duration_ns(spec.wait_limit),
            tuple(spec.gates),
            spec.streams or StreamSettings(),
            spec.parent,
            spec.priority,
            spec.reclaimable,
            spec.dequeue_strategy,
            _STATES[spec.state],
        )


class _ServerMetadata(_Metadata):
    name: DnsSubdomain = "server"


class ServerModel(Model):
    """The server's settings."""

    api_version: Literal["apf/v1"]
    kind: Literal["Server"]
    metadata: _ServerMetadata = Field(default_factory=_ServerMetadata)
    spec: ServerSettings


class _ServiceAccount(Model):
    namespace: DnsLabel
    name: NonEmpty

    def rules(self) -> Iterator[Violation]:
        if self.name != "*" and not is_subdomain(self.name):
            yield Violation(("name",), self.name, "it must be '*' or a service account's name, which is a DNS name")


class _Subject(Model):
    renamed: ClassVar[dict[str, str]] = {"kind": "Write 'user: name', 'group: name' or 'serviceAccount: {…}' alone"}

    user: NonEmpty | None = None
    group: NonEmpty | None = None
    service_account: _ServiceAccount | None = None

    def rules(self) -> Iterator[Violation]:
        given = [one for one in (self.user, self.group, self.service_account) if one is not None]
        if len(given) != 1:
            value = as_written(self) or Absent.ABSENT
            yield Violation((), value, "a subject must be exactly one of user, group and serviceAccount")

    def built(self) -> AnySubject:
        if self.service_account is not None:
            return ServiceAccountSubject(self.service_account.namespace, self.service_account.name)
        return GroupSubject(self.group) if self.group is not None else UserSubject(self.user or "")


class _Rule(Model):
    subjects: list[_Subject] | None = Field(default=None, description="Without it, everybody.")
    resource_rules: list[AnyResourceRule] = Field(default_factory=list)
    non_resource_rules: list[AnyNonResourceRule] = Field(default_factory=list)
    http_rules: list[AnyHttpRule] = Field(default_factory=list)

    def rules(self) -> Iterator[Violation]:
        if self.subjects is not None and not self.subjects:
            yield Violation(("subjects",), [], "a rule must have at least one subject", "Leave it out for everybody")

    def _part_rules(self) -> Iterator[Violation]:
        if not (self.resource_rules or self.non_resource_rules or self.http_rules):
            rule = "a rule must have resourceRules, nonResourceRules or httpRules"
            yield Violation(("httpRules",), Absent.ABSENT, rule, "httpRules: [{}] covers every request")

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Violation]]]:
        return (self.rules, self._part_rules)

    def built(self) -> Rule:
        subjects = (UserSubject("*"),) if self.subjects is None else tuple(one.built() for one in self.subjects)
        return Rule(
            subjects,
            tuple(self.resource_rules),
            tuple(self.non_resource_rules),
            tuple(self.http_rules),
        )


class _SchemaSpec(Model):
    renamed: ClassVar[dict[str, str]] = {
        "matchingPrecedence": "precedence",
        "matchingPriority": "precedence",
        "priorityLevelConfiguration": "level",
        "requestPriority": "level",
        "distinguisherMethod": "distinguisher",
        "flowDistinguisher": "distinguisher",
    }

    level: DnsSubdomain
    precedence: int = Field(default=1000, json_schema_extra={"minimum": 1, "maximum": 10_000})
    distinguisher: AnyDistinguisher | None = None
    queue: AnyDistinguisher | None = Field(
        default=None, description="What names the level of each request; where it names nothing, it is `level`."
    )
    estimate: AnyEstimate | None = None
    gates: list[NonEmpty] = Field(default_factory=list, description="Names, in the order in which they are asked.")
    rules_: list[_Rule] = Field(default_factory=list, alias="rules")
    match: list[dict[str, Any]] = Field(
        default_factory=list, description="Alternatives in KEP-1040's form: 'and:' with a list of atomic tests."
    )


class FlowSchemaModel(Model):
    """A flow schema. Its ``match`` is read by `read_match`, which knows both ways to write a test."""

    api_version: Literal["apf/v1"]
    kind: Literal["FlowSchema"]
    metadata: _Metadata
    spec: _SchemaSpec

    def rules(self) -> Iterator[Violation]:
        if self.spec.model_fields_set.isdisjoint({"rules_", "match"}):
            hint = "Write rules: [] if it shall take nothing"
            yield Violation(("spec", "rules"), Absent.ABSENT, "a schema must have rules or match", hint)

    def built(self) -> FlowSchema:
        """Return the schema, without what ``match`` says."""
        spec = self.spec
        rules = tuple(rule.built() for rule in spec.rules_)
        return FlowSchema(self.metadata.name, spec.level, spec.precedence, rules, spec.distinguisher, spec.queue)


def define(document: Document, problems: Problems) -> Definition | None:
    """Return the definition of a document whose apiVersion is ``apf/v1``; None if it has errors."""
    raw = document.root.plain()
    if not isinstance(raw, dict):
        return None
    if raw["kind"] == "PriorityLevel":
        level = parse(PriorityLevelModel, without_nulls(raw), document, problems)
        return Definition(level.built(), document, FORMAT) if level else None
    if raw["kind"] == "Server":
        server = parse(ServerModel, without_nulls(raw), document, problems)
        return Definition(server.spec, document, FORMAT, given=_given(raw)) if server else None
    return _define_schema(raw, document, problems)


def _given(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the settings that a Server document gives, by their keys; those within others by their full names."""
    spec = raw.get("spec")
    given = set()
    for key, value in spec.items() if isinstance(spec, Mapping) else ():
        if value is not None:
            given.add(key)
            if isinstance(value, Mapping):
                given |= {f"{key}.{inner}" for inner, one in value.items() if one is not None}
    return frozenset(given)


def _define_schema(raw: dict[str, Any], document: Document, problems: Problems) -> Definition | None:
    spec = raw["spec"] if isinstance(raw.get("spec"), dict) else {}
    name = raw["metadata"].get("name") if isinstance(raw.get("metadata"), dict) else None
    found = list(precedence_rules(("spec", "precedence"), name, spec.get("precedence")))
    for one in found:
        report(document, problems, one)
    match = spec.get("match")
    alternatives = read_match(match, ("spec", "match"), document, problems) if isinstance(match, list) else ()
    schema = parse(FlowSchemaModel, without_nulls(raw), document, problems)
    if schema is None or alternatives is None or found:
        return None
    built = schema.built()
    whole = replace(built, rules=(*built.rules, *alternatives))
    return Definition(whole, document, FORMAT, estimate=schema.spec.estimate, gates=tuple(schema.spec.gates))
