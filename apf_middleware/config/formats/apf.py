"""The format ``apf/v1``: what the other formats can express, in fewer words, and what web apps need besides.

Kinds: PriorityLevel, FlowSchema, and Server for settings of the whole server. The same settings read documents and
write them; keys with default values aren't written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, WithJsonSchema

from apf_middleware.classification import FlowSchema
from apf_middleware.classification.rules import (
    AnySubject,
    Conjunction,
    GroupSubject,
    Rule,
    ServiceAccountSubject,
    UserSubject,
)
from apf_middleware.config.criticality import CriticalityName
from apf_middleware.config.estimation import AnyEstimate, ComputedEstimate, EstimateSettings
from apf_middleware.config.flow_weights import Weight, WeightsByName, build_weights, weight_values, weights_violations
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.predicates import match_part, read_match
from apf_middleware.config.formats.queuing import LevelQueuingModel
from apf_middleware.config.formats.rules import (
    AnyNonResourceRule,
    AnyResourceRule,
    AnyServiceAccount,
    precedence_rules,
)
from apf_middleware.config.formats.versions import APF_VERSION
from apf_middleware.config.http_rules import AnyDistinguisher, AnyHttpRule
from apf_middleware.config.model import BuiltFrom, parse, report, without_nulls
from apf_middleware.config.objects import Level
from apf_middleware.config.problems import Absent, Place, Problems
from apf_middleware.config.server import OF_LEVEL, ServerSettings
from apf_middleware.config.settings import Rules, Settings, Violation, adapter_of, as_mapping, key_of, make_unchecked
from apf_middleware.config.streams import StreamSettings
from apf_middleware.config.values import (
    DEPENDS,
    MAX_INT32,
    Amount,
    Deadline,
    DnsSubdomain,
    Function,
    GateNames,
    Nanoseconds,
    NonEmpty,
    Part,
    Percent,
    callable_name,
)
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.sharing.hierarchy import MOST_PRIORITY
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.frozen import frozen

__all__ = [
    "DEFAULT_SHARES",
    "FlowSchemaModel",
    "PriorityLevelModel",
    "ServerModel",
    "define",
    "level_document",
    "level_spec",
    "read_level",
    "schema_document",
    "server_document",
]

DEFAULT_SHARES: Final = 30
"""The shares of a level that says nothing about them, as in Kubernetes."""

_SAME: Final = {"weight": "shares", "guarantee": "min_seats", "capability": "max_seats"}
_STATES: Final[dict[str, Literal["open", "paused", "closed"]]] = {
    "Open": "open",
    "Paused": "paused",
    "Closed": "closed",
}
_MatchPart = Annotated[Any, WithJsonSchema({"additionalProperties": True, "type": "object"})]
"""It is read by `read_match`, which also reports what isn't a mapping."""

_NAMELESS: Final = "only a callable that can be imported by its name can be written"
_NAME_IT: Final = "Define it at the top of a module"


@frozen
class _Metadata(Settings):
    name: DnsSubdomain
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@frozen
class _LevelSpec(Settings):
    renamed: ClassVar[Mapping[str, str]] = {
        "nominalConcurrencyShares": "shares",
        "assuredConcurrencyShares": "shares",
        "limited": "Write its fields in spec itself",
        "limitResponse": "response",
        "maxWait": "waitLimit",
        "seats": "Write shares, or minSeats and maxSeats",
    }
    always_written: ClassVar[frozenset[str]] = frozenset({"shares"})

    type: Literal["Limited", "Exempt"] = "Limited"
    shares: Amount | None = None
    lendable_percent: Percent = 0
    borrowing_limit_percent: Amount | None = None
    min_seats: Amount | None = None
    max_seats: Amount | None = None
    response: Literal["Queue", "Reject"] = "Queue"
    queuing: LevelQueuingModel | None = None
    wait_limit_ns: Nanoseconds | None = None
    deadline_ns: Deadline | None = None
    gates: GateNames = ()
    streams: StreamSettings | None = None
    weight: Annotated[Annotated[int, Field(ge=1, le=MAX_INT32)] | None, Field(description="The same as shares.")] = None
    guarantee: Annotated[Amount | None, Field(description="The same as minSeats.")] = None
    capability: Annotated[Amount | None, Field(description="The same as maxSeats.")] = None
    parent: DnsSubdomain | None = None
    priority: Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    reclaimable: bool = True
    dequeue_strategy: Literal["traverse", "fifo"] = "traverse"
    state: Literal["Open", "Paused", "Closed"] = "Open"
    elastic: bool = False
    headroom: Part = 0

    @property
    def least(self) -> int | None:
        return self.guarantee if self.min_seats is None else self.min_seats

    @property
    def most(self) -> int | None:
        return self.capability if self.max_seats is None else self.max_seats

    def rule_sets(self) -> Iterable[Rules]:
        exempt: tuple[Rules, ...] = (self._exempt_queue_rules, self._exempt_rules)
        return (self._name_rules, *exempt, self._waiting_rules, self._size_rules)

    def _name_rules(self) -> Iterator[Violation]:
        """Yield fields that are given twice, by both of their names."""
        for name, other in _SAME.items():
            value, same = getattr(self, name), getattr(self, other)
            if value is not None and same is not None:
                key = key_of(other)
                yield Violation((name,), value, f"it means the same as {key}, which is {same}", "Keep one of them")

    def _exempt_queue_rules(self) -> Iterator[Violation]:
        state = None if self.state == "Open" else self.state
        yield from self._none_if_exempt(
            guarantee=self.guarantee, capability=self.capability, parent=self.parent, state=state
        )

    def _exempt_rules(self) -> Iterator[Violation]:
        yield from self._none_if_exempt(
            borrowing_limit_percent=self.borrowing_limit_percent,
            max_seats=self.max_seats,
            min_seats=self.min_seats,
            wait_limit_ns=self.wait_limit_ns,
            deadline_ns=self.deadline_ns,
            gates=self.gates or None,
            streams=self.streams,
            elastic=self.elastic or None,
            headroom=self.headroom or None,
        )

    def _none_if_exempt(self, **given: object) -> Iterator[Violation]:
        for name, value in given.items():
            if self.type == "Exempt" and value is not None:
                yield Violation((name,), value, "an exempt level must not have it")

    def _waiting_rules(self) -> Iterator[Violation]:
        if self.queuing is not None and (self.type == "Exempt" or self.response == "Reject"):
            yield Violation(("queuing",), self.queuing, "it must be absent where no request waits")
        if self.headroom and self.response == "Reject":
            yield Violation(("headroom",), self.headroom, "it must be absent where no request waits")
        if self.wait_limit_ns is not None and self.response == "Reject":
            yield Violation(("wait_limit_ns",), self.wait_limit_ns, "it must be absent where no request waits")

    def _size_rules(self) -> Iterator[Violation]:
        if self.least is not None and self.most is not None and self.least > self.most:
            least, most = ("guarantee", "capability") if self.min_seats is None else ("min_seats", "maxSeats")
            yield Violation((least,), self.least, f"it must not exceed {most}, which is {self.most}")


@frozen
class PriorityLevelModel(Settings):
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
        shares = DEFAULT_SHARES if shares is None else shares
        return Level(
            name,
            LevelShares(shares, spec.lendable_percent, spec.borrowing_limit_percent),
            (spec.queuing or LevelQueuingModel()).built() if spec.response == "Queue" else None,
            spec.least,
            spec.most,
            spec.wait_limit_ns,
            spec.deadline_ns,
            spec.gates,
            spec.streams or StreamSettings(),
            spec.parent,
            spec.priority,
            spec.reclaimable,
            spec.dequeue_strategy,
            _STATES[spec.state],
            spec.elastic,
            spec.headroom,
        )


def level_spec(level: Level) -> dict[str, Any]:
    """Return the spec of a PriorityLevel."""
    shares, queuing = level.shares, level.queuing
    values = {
        "type": "Exempt" if level.exempt else "Limited",
        "shares": shares.shares,
        "lendable_percent": shares.lendable_percent,
        "borrowing_limit_percent": shares.borrowing_percent,
        "min_seats": level.min_seats,
        "max_seats": level.max_seats,
        "response": "Queue" if level.exempt or queuing else "Reject",
        "queuing": None if level.exempt or queuing is None else LevelQueuingModel.of(queuing),
        "wait_limit_ns": level.wait_limit_ns,
        "deadline_ns": level.deadline_ns,
        "gates": level.gates,
        "streams": None if level.streams == StreamSettings() else level.streams,
        "parent": level.parent,
        "priority": level.priority,
        "reclaimable": level.reclaimable,
        "dequeue_strategy": level.dequeue_strategy,
        "state": level.state.capitalize(),
        "elastic": level.elastic,
        "headroom": level.headroom_percent,
    }
    return as_mapping(make_unchecked(_LevelSpec, values))


def read_level(found: Mapping[str, Any]) -> Level:
    """Return the level of a PriorityLevel that `level_document` has written; raise ValueError if it isn't one."""
    model: PriorityLevelModel = adapter_of(PriorityLevelModel).validate_python(found)
    return model.built()


def level_document(level: Level) -> dict[str, Any]:
    """Return a level as a PriorityLevel."""
    return _document("PriorityLevel", level.name, level_spec(level))


@frozen
class _ServerMetadata(Settings):
    name: DnsSubdomain = "server"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@frozen
class ServerModel(Settings):
    """The server's settings."""

    api_version: Literal["apf/v1"]
    kind: Literal["Server"]
    spec: ServerSettings
    metadata: _ServerMetadata = field(default_factory=_ServerMetadata)


@frozen
class _Subject(Settings):
    renamed: ClassVar[Mapping[str, str]] = {"kind": "Write 'user: name', 'group: name' or 'serviceAccount: {…}' alone"}

    user: NonEmpty | None = None
    group: NonEmpty | None = None
    service_account: AnyServiceAccount | None = None

    def rules(self) -> Iterator[Violation]:
        given = [one for one in (self.user, self.group, self.service_account) if one is not None]
        if len(given) != 1:
            value = as_mapping(self) or Absent.ABSENT
            yield Violation((), value, "a subject must be exactly one of user, group and serviceAccount")

    def built(self) -> AnySubject:
        if self.service_account is not None:
            return self.service_account
        return GroupSubject(self.group) if self.group is not None else UserSubject(self.user or "")

    @classmethod
    def of(cls, subject: AnySubject) -> "_Subject":
        if isinstance(subject, ServiceAccountSubject):
            return cls(service_account=subject)
        key = "user" if isinstance(subject, UserSubject) else "group"
        return make_unchecked(cls, {key: subject.name})


_AnySubject = Annotated[AnySubject, BuiltFrom(_Subject, read=_Subject.built, write=_Subject.of)]


@frozen
class _Rule(Settings):
    subjects: Annotated[
        tuple[_AnySubject, ...], Field(strict=False, description="Without it, all callers."), DEPENDS
    ] = (UserSubject("*"),)
    resource_rules: Annotated[tuple[AnyResourceRule, ...], Field(strict=False)] = ()
    non_resource_rules: Annotated[tuple[AnyNonResourceRule, ...], Field(strict=False)] = ()
    http_rules: Annotated[tuple[AnyHttpRule, ...], Field(strict=False)] = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._subject_rules, self._part_rules)

    def _subject_rules(self) -> Iterator[Violation]:
        if not self.subjects:
            hint = "Leave it out for all callers"
            yield Violation(("subjects",), [], "a rule must have at least one subject", hint)

    def _part_rules(self) -> Iterator[Violation]:
        if not (self.resource_rules or self.non_resource_rules or self.http_rules):
            rule = "a rule must have resourceRules, nonResourceRules or httpRules"
            yield Violation(("http_rules",), Absent.ABSENT, rule, "httpRules: [{}] covers every request")


@frozen
class _SchemaSpec(Settings):
    renamed: ClassVar[Mapping[str, str]] = {
        "matchingPrecedence": "precedence",
        "matchingPriority": "precedence",
        "priorityLevel": "level",
        "priorityLevelConfiguration": "level",
        "requestPriority": "level",
        "distinguisherMethod": "distinguisher",
        "flowDistinguisher": "distinguisher",
        "priority": "precedence",
        **dict.fromkeys(("shares", "queuing", "waitLimit"), OF_LEVEL),
    }
    always_written: ClassVar[frozenset[str]] = frozenset({"precedence"})

    level: DnsSubdomain
    precedence: Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": 10_000})] = 1000
    distinguisher: AnyDistinguisher | None = None
    queue: Annotated[
        AnyDistinguisher | None,
        Field(description="The property that names the level of each request; if it is empty, `level` is used."),
    ] = None
    weight: Weight = 1
    weights: WeightsByName = field(default_factory=dict)
    group_weights: WeightsByName = field(default_factory=dict)
    weight_function: Function | None = None
    criticality: CriticalityName | None = None
    deadline_ns: Deadline | None = None
    estimate: AnyEstimate | None = None
    gates: Annotated[
        GateNames, Field(description="The gates of its requests, in the order in which they are asked.")
    ] = ()
    rules_: Annotated[tuple[Annotated[Rule, BuiltFrom(_Rule, Rule)], ...], Field(strict=False, alias="rules")] = ()
    match: Annotated[
        tuple[_MatchPart, ...],
        Field(strict=False, description="Alternatives in KEP-1040's form: 'and:' with a list of atomic tests."),
    ] = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._flow_weight_rules, self._group_weight_rules)

    def _flow_weight_rules(self) -> Iterator[Violation]:
        if self.weights and self.distinguisher is None:
            hint = "Add a distinguisher, or write the weight of the whole schema as weight"
            yield Violation(("weights",), self.weights, "without a distinguisher, flows have no names", hint)
        yield from weights_violations("weights", self.weights)

    def _group_weight_rules(self) -> Iterator[Violation]:
        yield from weights_violations(
            "group_weights", self.group_weights, nameless="each key must be the name of a group"
        )


@frozen
class FlowSchemaModel(Settings):
    """A flow schema. Its ``match`` is read by `read_match`, because there are two ways to write a test."""

    api_version: Literal["apf/v1"]
    kind: Literal["FlowSchema"]
    metadata: _Metadata
    spec: _SchemaSpec

    def built(self) -> FlowSchema:
        """Return the schema, without the rules of ``match``."""
        spec = self.spec
        weights = build_weights(spec.weight, spec.weights, spec.group_weights, spec.weight_function)
        return FlowSchema(
            self.metadata.name,
            spec.level,
            spec.precedence,
            spec.rules_,
            spec.distinguisher,
            spec.queue,
            weights,
            spec.criticality or "",
            spec.deadline_ns,
        )


def schema_document(
    schema: FlowSchema, problems: Problems, estimate: EstimateSettings | None, gates: Sequence[str]
) -> dict[str, Any]:
    """Return a schema as a FlowSchema; a callable that can't be imported by its name is left out and reported."""
    place = Place(f"<schema {schema.name}>")
    values = {
        "level": schema.level,
        "precedence": schema.precedence,
        "distinguisher": schema.distinguisher,
        "queue": schema.queue,
        **weight_values(schema.weights),
        "criticality": schema.criticality or None,
        "deadline_ns": schema.deadline_ns,
        "estimate": estimate if _is_named(estimate, problems, place, "estimate") else None,
        "gates": tuple(gates),
        "rules_": tuple(rule for rule in schema.rules if isinstance(rule, Rule)),
        "match": tuple(match_part(rule) for rule in schema.rules if isinstance(rule, Conjunction)),
    }
    spec = as_mapping(make_unchecked(_SchemaSpec, values))
    for key, distinguisher in (("distinguisher", schema.distinguisher), ("queue", schema.queue)):
        if distinguisher is not None and distinguisher.function is not None and spec[key]["callable"] is None:
            del spec[key]["callable"]
            _report_nameless(distinguisher.function, problems, place, f"{key}.callable")
    if schema.weights is not None and schema.weights.function is not None and spec["weightFunction"] is None:
        del spec["weightFunction"]
        _report_nameless(schema.weights.function, problems, place, "weightFunction")
    if not schema.rules:
        spec["rules"] = []
    return _document("FlowSchema", schema.name, spec)


def server_document(settings: ServerSettings, problems: Problems) -> dict[str, Any]:
    """Return the settings as a Server, including all defaults that would depend on other documents."""
    place = Place("<server>")
    spec = as_mapping(settings)
    for number, route in enumerate(settings.routes):
        if not _is_named(route.estimate, problems, place, f"routes[{number}].estimate"):
            del spec["routes"][number]["estimate"]
    if not _is_named(settings.estimation.default, problems, place, "estimation.default"):
        spec["estimation"].pop("default", None)
        if not spec["estimation"]:
            del spec["estimation"]
    return _document("Server", "server", spec)  # an empty mapping, as of deadlines, turns something on


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": APF_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _is_named(estimate: EstimateSettings | None, problems: Problems, place: Place, field: str) -> bool:
    """Return False, after reporting it, if the estimate has a function that can't be imported by its name."""
    if not isinstance(estimate, ComputedEstimate) or callable_name(estimate.function) is not None:
        return True
    _report_nameless(estimate.function, problems, place, f"{field}.callable")
    return False


def _report_nameless(function: object, problems: Problems, place: Place, field: str) -> None:
    problems.error(place, _NAMELESS, field=field, value=function, hint=_NAME_IT)


def define(document: Document, problems: Problems) -> Definition | None:
    """Return the definition of a document with apiVersion ``apf/v1``; None if the document has errors."""
    raw = document.root.plain()
    if not isinstance(raw, dict):
        return None
    if raw["kind"] == "PriorityLevel":
        level = parse(PriorityLevelModel, without_nulls(PriorityLevelModel, raw), document, problems)
        return Definition(level.built(), document, "apf") if level else None
    if raw["kind"] == "Server":
        server = parse(ServerModel, without_nulls(ServerModel, raw), document, problems)
        return Definition(server.spec, document, "apf", given=_given(raw)) if server else None
    return _define_schema(raw, document, problems)


def _given(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of the settings that a Server document gives; inner keys are like ``bodies.holdSeats``."""
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
    match = spec.get("match")
    alternatives = read_match(match, document, problems) if isinstance(match, list) else ()
    schema = parse(FlowSchemaModel, without_nulls(FlowSchemaModel, raw), document, problems)
    if schema is not None and spec.get("rules") is None and match is None:
        hint = "Write rules: [] for a schema that accepts nothing"
        found.append(Violation(("spec", "rules"), Absent.ABSENT, "a schema must have rules or match", hint))
    for one in found:
        report(document, problems, one)
    if schema is None or alternatives is None or found:
        return None
    built = schema.built()
    whole = replace(built, rules=(*built.rules, *alternatives))
    return Definition(whole, document, "apf", estimate=schema.spec.estimate, gates=schema.spec.gates)
