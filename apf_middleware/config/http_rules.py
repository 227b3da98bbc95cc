"""Rules about HTTP in ``apf/v1``: methods, paths, hosts, headers and query parameters; and distinguishers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from apf_middleware.classification import Distinguisher, Source
from apf_middleware.classification.paths import parse_template
from apf_middleware.classification.rules import HttpRule, ValueMatch
from apf_middleware.config.criticality import CriticalityNames
from apf_middleware.config.model import BuiltFrom
from apf_middleware.config.problems import Absent
from apf_middleware.config.settings import Rules, Settings, Violation
from apf_middleware.config.values import Function, NonEmpty, Pattern, TextSet, Transform, is_token
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen

__all__ = ["AnyDistinguisher", "AnyHttpRule", "DistinguisherModel", "HttpRuleModel", "method_rules", "path_rule"]

_ENCODED: Final = re.compile("%[0-9A-Fa-f]{2}")
_HOST: Final = re.compile(r"(\*\.)?[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?|\[[0-9a-f:.]+\]")

_REQUIRED: Final = {
    Source.HEADER: "argument",
    Source.PATH_PARAMETER: "argument",
    Source.QUERY: "argument",
    Source.GROUP: "groups",
    Source.CALLABLE: "function",
}
"""The field that a source requires."""


@frozen
class _ValueMatch(Settings):
    """One of ``values``, or a match of ``pattern``; without both, any value, or no value if ``absent``."""

    name: NonEmpty
    values: TextSet = ()
    pattern: Pattern | None = None
    absent: bool = False


def _in_lower_case(matches: tuple[ValueMatch, ...]) -> tuple[ValueMatch, ...]:
    return tuple(replace(one, name=one.name.lower()) for one in matches)


_ValueMatches = Annotated[tuple[Annotated[ValueMatch, BuiltFrom(_ValueMatch, ValueMatch)], ...], Field(strict=False)]


@frozen
class HttpRuleModel(Settings):
    """All conditions must hold; a field that is left out accepts anything."""

    renamed: ClassVar[Mapping[str, str]] = {
        "verbs": "methods",
        "nonResourceURLs": "paths",
        "urls": "paths",
        "queries": "query",
    }

    methods: TextSet = ()
    paths: TextSet = ()
    hosts: TextSet = ()
    headers: Annotated[_ValueMatches, AfterValidator(_in_lower_case)] = ()
    query: _ValueMatches = ()
    criticality: CriticalityNames = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._method_rules, self._path_rules, self._host_rules, self._header_rules)

    def _method_rules(self) -> Iterator[Violation]:
        yield from method_rules(self.methods)

    def _path_rules(self) -> Iterator[Violation]:
        for place, path in enumerate(self.paths):
            rule = path_rule(path)
            if rule:
                yield Violation(("paths", place), path, rule)

    def _host_rules(self) -> Iterator[Violation]:
        for place, host in enumerate(self.hosts):
            if not _HOST.fullmatch(host):
                rule = "it must be a host name in lower case without a port; it may begin with '*.'"
                yield Violation(("hosts", place), host, rule)

    def _header_rules(self) -> Iterator[Violation]:
        for place, header in enumerate(self.headers):
            if not is_token(header.name):
                yield Violation(("headers", place, "name"), header.name, "it must be a header's name")


AnyHttpRule = Annotated[HttpRule, BuiltFrom(HttpRuleModel, HttpRule)]
"""A rule about HTTP as a field of settings."""


def method_rules(methods: Iterable[str]) -> Iterator[Violation]:
    """Yield what is wrong with the ``methods`` of a rule or route."""
    for place, method in enumerate(methods):
        if not is_token(method) or "*" in method or method != method.upper():
            hint = "Leave methods out for all of them" if method == "*" else ""
            yield Violation(("methods", place), method, "it must be an HTTP method in upper case", hint)


def path_rule(path: str) -> str:
    """Return the rule that this template breaks, or an empty text."""
    try:
        parse_template(path)
    except InvalidValueError as error:
        return error.rule
    if any(character in path for character in " ?#"):
        return "it must not have a space, '?' or '#'"
    if _ENCODED.search(path):
        return "it must not be percent-encoded, because it is compared with paths that the server has decoded"
    return "it must not have '//'" if "//" in path else ""


@frozen
class DistinguisherModel(Settings):
    """The property that tells a schema's flows apart."""

    renamed: ClassVar[Mapping[str, str]] = {
        "type": "source",
        "header": "name",
        "argument": "name",
        "transformation": "transform",
        "function": "callable",
    }

    source: Annotated[
        Literal["user", "namespace", "group", "header", "pathParameter", "query", "clientAddress", "callable"],
        AfterValidator(lambda name: Source(name)),  # noqa: PLW0108 - from Python 3.12 on, an Enum has no such signature
        PlainSerializer(str),
    ]
    argument: Annotated[NonEmpty | None, Field(alias="name")] = None
    groups: TextSet | None = None
    transform: Transform | None = None
    prefix_v4: Annotated[int, Field(ge=0, le=32)] | None = None
    prefix_v6: Annotated[int, Field(ge=0, le=128)] | None = None
    function: Annotated[Function | None, Field(alias="callable")] = None

    def __post_init__(self) -> None:
        if self.source == "header" and self.argument:
            object.__setattr__(self, "argument", self.argument.lower())
        Settings.__post_init__(self)

    def rules(self) -> Iterator[Violation]:
        required = _REQUIRED.get(Source(self.source))
        for name in ("argument", "groups", "function"):
            value = getattr(self, name)
            if name == required and not value:
                yield Violation((name,), Absent.ABSENT, f"the source {self.source} requires it")
            elif name != required and value is not None:
                yield Violation((name,), value, f"the source {self.source} doesn't take it")
        for name in ("prefix_v4", "prefix_v6"):
            if getattr(self, name) is not None and self.source != "clientAddress":
                yield Violation((name,), getattr(self, name), f"the source {self.source} doesn't take it")
        if self.source == "header" and self.argument and not is_token(self.argument):
            yield Violation(("argument",), self.argument, "it must be a header's name", "Write it like X-Tenant")
        for place, group in enumerate(self.groups or ()):
            if not group or "*" in group[:-1]:
                yield Violation(("groups", place), group, "it must be a group's name, in which '*' can only be last")


AnyDistinguisher = Annotated[Distinguisher, BuiltFrom(DistinguisherModel, Distinguisher)]
"""A distinguisher as a field of settings."""
