"""Rules in Kubernetes' terms, which two formats share: what requests they cover, and the numbers of queues."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from apf_middleware.classification.rules import NonResourceRule, ResourceRule
from apf_middleware.config.model import BuiltFrom, Model
from apf_middleware.config.objects import Queuing
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import MAX_INT32, DnsSubdomain, TextSet, Verbs, WildcardSet, is_label
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.queueset_settings import MAX_QUEUES
from apf_middleware.fairqueuing.shuffle import Dealer

__all__ = [
    "FIRST_PRECEDENCE",
    "LAST_PRECEDENCE",
    "AnyNonResourceRule",
    "AnyResourceRule",
    "NameModel",
    "NonResourceRuleModel",
    "QueuingModel",
    "ResourceRuleModel",
    "precedence_rules",
    "queuing_rules",
]

FIRST_PRECEDENCE: Final = 1
"""Reserved for the schema ``exempt``."""

LAST_PRECEDENCE: Final = 10_000

_ELSEWHERE: Final = "Move it to a rule of {}"
_LABEL_RULE: Final = "each namespace must be a DNS label"


class NameModel(Model):
    """A reference by name."""

    name: DnsSubdomain


@dataclass(frozen=True, slots=True)
class ResourceRuleModel(Settings):
    """Verbs on resources."""

    renamed: ClassVar[Mapping[str, str]] = {"nonResourceURLs": _ELSEWHERE.format("nonResourceRules")}

    verbs: Verbs
    api_groups: WildcardSet
    resources: WildcardSet
    cluster_scope: bool = False
    namespaces: TextSet = ()

    def rules(self) -> Iterator[Violation]:
        path, namespaces = ("namespaces",), self.namespaces
        if not namespaces and not self.cluster_scope:
            hint = "Name namespaces, or write clusterScope: true"
            yield Violation(path, namespaces, "it must not be empty unless clusterScope is true", hint)
        if "*" in namespaces and len(namespaces) > 1:
            yield Violation(path, namespaces, "'*' must stand alone", "Remove either '*' or the others")
        for place, namespace in enumerate(namespaces):
            if namespace != "*" and not is_label(namespace):
                yield Violation((*path, place), namespace, _LABEL_RULE)


@dataclass(frozen=True, slots=True)
class NonResourceRuleModel(Settings):
    """Verbs on paths without a resource."""

    renamed: ClassVar[Mapping[str, str]] = {
        key: _ELSEWHERE.format("resourceRules") for key in ("apiGroups", "resources", "namespaces", "clusterScope")
    }

    verbs: Verbs
    urls: Annotated[WildcardSet, Field(alias="nonResourceURLs")]

    def rules(self) -> Iterator[Violation]:
        for place, url in enumerate(self.urls):
            rule = _url_rule(url)
            if rule:
                yield Violation(("urls", place), url, rule)


AnyResourceRule = Annotated[ResourceRule, BuiltFrom(ResourceRuleModel, ResourceRule)]
AnyNonResourceRule = Annotated[NonResourceRule, BuiltFrom(NonResourceRuleModel, NonResourceRule)]


def _url_rule(url: str) -> str:
    """Return the rule that this pattern breaks, or an empty text."""
    if url in ("*", "/"):
        return ""
    if not url.startswith("/"):
        return "it must start with '/'"
    if " " in url:
        return "it must not have a space"
    if "//" in url:
        return "it must not have '//'"
    if "*" in url and (url.count("*") > 1 or not url.endswith("/*")):
        return "'*' must be the whole last segment, and there can be only one"
    return ""


class QueuingModel(Model):
    """Numbers of queues; 0 means the default, as in the API."""

    renamed: ClassVar[dict[str, str]] = {"queueLength": "queueLengthLimit", "hand": "handSize", "numQueues": "queues"}

    queues: int = Field(default=64, le=MAX_INT32)
    hand_size: int = Field(default=8, le=MAX_INT32)
    queue_length_limit: int = Field(default=50, le=MAX_INT32)

    def rules(self) -> Iterator[Violation]:
        yield from queuing_rules(self.built())

    def built(self) -> Queuing:
        return Queuing(self.queues or 64, self.hand_size or 8, self.queue_length_limit or 50)


def queuing_rules(queuing: Queuing) -> Iterator[Violation]:
    """Yield the rules that the numbers break."""
    queues, hand = queuing.queues, queuing.hand_size
    if not 1 <= queues <= MAX_QUEUES:
        yield Violation(("queues",), queues, f"it must be from 1 to {MAX_QUEUES}")
    if hand < 1:
        yield Violation(("handSize",), hand, "it must be at least 1")
    elif queues >= 1 and hand > queues:
        yield Violation(("handSize",), hand, f"it must not exceed the {queues} queues")
    elif 1 <= queues <= MAX_QUEUES:
        try:
            Dealer(queues, hand)
        except InvalidValueError as error:
            yield Violation(("handSize",), hand, error.rule, error.hint)
    if queuing.queue_length_limit < 1:
        yield Violation(("queueLengthLimit",), queuing.queue_length_limit, "it must be at least 1")


def precedence_rules(path: tuple[str | int, ...], name: object, precedence: object) -> Iterator[Violation]:
    """Yield the rules of a schema's precedence; a wrong type is reported elsewhere."""
    if type(precedence) is not int:
        return
    if not FIRST_PRECEDENCE <= precedence <= LAST_PRECEDENCE:
        yield Violation(path, precedence, f"it must be from {FIRST_PRECEDENCE} to {LAST_PRECEDENCE}")
    elif precedence == FIRST_PRECEDENCE and name != "exempt":
        yield Violation(path, precedence, f"{FIRST_PRECEDENCE} is reserved for the schema 'exempt'", "Take 2 or more")
