"""The form of KEP-1040's first drafts: RequestPriority and FlowSchema with ``meta``, and predicates of atomic tests.

All numbers of a level are required: the KEP names no defaults for its shares, queues and lengths.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import Conjunction
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.predicates import read_match
from apf_middleware.config.formats.queuing import queuing_rules
from apf_middleware.config.formats.rules import NameModel, precedence_rules
from apf_middleware.config.model import parse, report, without_nulls
from apf_middleware.config.objects import Level, Queuing
from apf_middleware.config.problems import Absent, Problems
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Amount, Transform
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.frozen import frozen

__all__ = ["define"]


@frozen
class _PrioritySpec(Settings):
    renamed: ClassVar[Mapping[str, str]] = {
        "shares": "assuredConcurrencyShares",
        "nominalConcurrencyShares": "assuredConcurrencyShares",
    }

    exempt: bool = False
    catch_all: bool = False
    assured_concurrency_shares: Amount | None = None
    queues: int | None = None
    hand_size: int | None = None
    queue_length_limit: int | None = None

    def rules(self) -> Iterator[Violation]:
        names = ("assured_concurrency_shares", "queues", "hand_size", "queue_length_limit")
        numbers = {name: getattr(self, name) for name in names}
        if self.exempt:
            for name, value in numbers.items():
                if value is not None:
                    yield Violation((name,), value, "an exempt level must not have it")
            if self.catch_all:
                yield Violation(("catch_all",), self.catch_all, "an exempt level can't be the catch-all")
            return
        for name, value in numbers.items():
            if value is None and (name != "hand_size" or (self.queues or 0) > 1):
                more = " and has more than one queue" if name == "hand_size" else ""
                yield Violation((name,), Absent.ABSENT, f"it is required for a level that isn't exempt{more}")
        yield from queuing_rules(self.queuing())

    def queuing(self) -> Queuing:
        """Return the queues; a missing number, which is reported elsewhere, gets a value that breaks no rule."""
        queues = 1 if self.queues is None else self.queues
        hand = 1 if self.hand_size is None else self.hand_size
        return Queuing(queues, hand, 1 if self.queue_length_limit is None else self.queue_length_limit)


@frozen
class _Priority(Settings):
    renamed: ClassVar[Mapping[str, str]] = {"metadata": "meta"}

    kind: str
    meta: NameModel
    spec: _PrioritySpec

    def built(self) -> Level:
        if self.spec.exempt:
            return Level(self.meta.name, LevelShares(0, exempt=True))
        return Level(self.meta.name, LevelShares(self.spec.assured_concurrency_shares or 0), self.spec.queuing())


@frozen
class _FlowDistinguisher(Settings):
    renamed: ClassVar[Mapping[str, str]] = {"transformation": "transform", "regex": "transform"}

    source: Literal["user", "namespace"]
    transform: Transform | None = None


@frozen
class _SchemaSpec(Settings):
    renamed: ClassVar[Mapping[str, str]] = {
        "matchingPrecedence": "matchingPriority",
        "priorityLevelConfiguration": "requestPriority",
    }

    request_priority: NameModel
    match: list[Any]
    matching_priority: int = 1000
    flow_distinguisher: _FlowDistinguisher | None = None


@frozen
class _Schema(Settings):
    renamed: ClassVar[Mapping[str, str]] = {"metadata": "meta"}

    kind: str
    meta: NameModel
    spec: _SchemaSpec

    def built(self, rules: tuple[Conjunction, ...]) -> FlowSchema:
        spec, given = self.spec, self.spec.flow_distinguisher
        distinguisher = Distinguisher(Source(given.source), transform=given.transform) if given else None
        return FlowSchema(self.meta.name, spec.request_priority.name, spec.matching_priority, rules, distinguisher)


def define(document: Document, problems: Problems) -> Definition | None:
    """Return the definition of a document in the KEP's form; None if it has errors."""
    data = document.root.plain()
    if not isinstance(data, dict):
        return None
    if data.get("kind") == "RequestPriority":
        level = parse(_Priority, without_nulls(_Priority, data), document, problems)
        return Definition(level.built(), document, "kep", catch_all=level.spec.catch_all) if level else None
    spec, meta = data.get("spec"), data.get("meta")
    match = spec.get("match") if isinstance(spec, dict) else None
    rules = read_match(match, document, problems) if isinstance(match, list) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    precedence = spec.get("matchingPriority") if isinstance(spec, dict) else None
    found = list(precedence_rules(("spec", "matchingPriority"), name, precedence))
    for one in found:
        report(document, problems, one)
    schema = parse(_Schema, without_nulls(_Schema, data), document, problems)
    return None if schema is None or rules is None or found else Definition(schema.built(rules), document, "kep")
