"""Parts of rules in Kubernetes' terms, which several formats share: service accounts, operations, precedence."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field

from apf_middleware.classification.rules import NonResourceRule, ResourceRule, ServiceAccountSubject
from apf_middleware.config.model import BuiltFrom
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import (
    DnsLabel,
    DnsSubdomain,
    NonEmpty,
    TextSet,
    Verbs,
    WildcardSet,
    is_label,
    is_subdomain,
)
from apf_middleware.frozen import frozen

__all__ = [
    "FIRST_PRECEDENCE",
    "LAST_PRECEDENCE",
    "AnyNonResourceRule",
    "AnyResourceRule",
    "AnyServiceAccount",
    "NameModel",
    "NonResourceRuleModel",
    "ResourceRuleModel",
    "precedence_rules",
]

FIRST_PRECEDENCE: Final = 1
"""Reserved for the schema ``exempt``."""

LAST_PRECEDENCE: Final = 10_000

_ELSEWHERE: Final = "Move it to a rule of {}"
_LABEL_RULE: Final = "each namespace must be a DNS label"


@frozen
class NameModel(Settings):
    """A reference by name."""

    name: DnsSubdomain


@frozen
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


@frozen
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


@frozen
class _ServiceAccount(Settings):
    namespace: DnsLabel
    name: NonEmpty

    def rules(self) -> Iterator[Violation]:
        if self.name != "*" and not is_subdomain(self.name):
            yield Violation(("name",), self.name, "it must be '*' or a service account's name, which is a DNS name")


AnyServiceAccount = Annotated[ServiceAccountSubject, BuiltFrom(_ServiceAccount, ServiceAccountSubject)]
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


def precedence_rules(path: tuple[str | int, ...], name: object, precedence: object) -> Iterator[Violation]:
    """Yield the rule that a schema's precedence breaks; a wrong type is reported elsewhere."""
    if type(precedence) is not int:
        return
    if not FIRST_PRECEDENCE <= precedence <= LAST_PRECEDENCE:
        yield Violation(path, precedence, f"it must be from {FIRST_PRECEDENCE} to {LAST_PRECEDENCE}")
    elif precedence == FIRST_PRECEDENCE and name != "exempt":
        yield Violation(path, precedence, f"{FIRST_PRECEDENCE} is reserved for the schema 'exempt'", "Take 2 or more")
