"""What web apps go by, in ``apf/v1``: rules about methods, paths, hosts, headers and query, and distinguishers."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from apf_middleware.classification import Distinguisher, Source
from apf_middleware.classification.paths import parse_template
from apf_middleware.classification.rules import HttpRule, ValueMatch
from apf_middleware.config.model import BuiltFrom, Model
from apf_middleware.config.problems import Absent
from apf_middleware.config.settings import Violation
from apf_middleware.config.values import NonEmpty, Pattern, StringSet, Transform, callable_name, load_callable
from apf_middleware.exceptions import InvalidValueError

__all__ = ["AnyDistinguisher", "DistinguisherModel", "HttpRuleModel", "distinguisher_part", "path_rule"]

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HOST: Final = re.compile(r"(\*\.)?[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?|\[[0-9a-f:.]+\]")

_WANTS: Final = {
    Source.HEADER: "name",
    Source.PATH_PARAMETER: "name",
    Source.QUERY: "name",
    Source.GROUP: "groups",
    Source.CALLABLE: "callable",
}
"""The key that a source requires."""


class _ValueMatch(Model):
    """With one of ``values`` or matching ``pattern``; without either it must be there anyhow, or not at all."""

    name: NonEmpty
    values: StringSet = Field(default_factory=list)
    pattern: Pattern | None = None
    absent: bool = False

    def rules(self) -> Iterator[Violation]:
        if self.absent and (self.values or self.pattern is not None):
            yield Violation(("absent",), self.absent, "what must be absent can't have values or a pattern")


class HttpRuleModel(Model):
    """All that is given must hold; what is left out accepts anything."""

    renamed: ClassVar[dict[str, str]] = {
        "verbs": "methods",
        "nonResourceURLs": "paths",
        "urls": "paths",
        "queries": "query",
    }

    methods: StringSet = Field(default_factory=list)
    paths: StringSet = Field(default_factory=list)
    hosts: StringSet = Field(default_factory=list)
    headers: list[_ValueMatch] = Field(default_factory=list)
    query: list[_ValueMatch] = Field(default_factory=list)

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Violation]]]:
        return (self._method_rules, self._path_rules, self._host_rules, self._header_rules)

    def _method_rules(self) -> Iterator[Violation]:
        for place, method in enumerate(self.methods):
            if not _TOKEN.fullmatch(method) or "*" in method or method != method.upper():
                hint = "Leave methods out for all of them" if method == "*" else ""
                yield Violation(("methods", place), method, "it must be an HTTP method in upper case", hint)

    def _path_rules(self) -> Iterator[Violation]:
        for place, path in enumerate(self.paths):
            rule = path_rule(path)
            if rule:
                yield Violation(("paths", place), path, rule)

    def _host_rules(self) -> Iterator[Violation]:
        for place, host in enumerate(self.hosts):
            if not _HOST.fullmatch(host):
                rule = "it must be a host name in lower case without a port, perhaps after '*.'"
                yield Violation(("hosts", place), host, rule)

    def _header_rules(self) -> Iterator[Violation]:
        for place, header in enumerate(self.headers):
            if not _TOKEN.fullmatch(header.name):
                yield Violation(("headers", place, "name"), header.name, "it must be a header's name")

    def built(self) -> HttpRule:
        """Return the rule of the classification; header names are in lower case there."""
        headers = tuple(
            ValueMatch(one.name.lower(), tuple(one.values), one.pattern, one.absent) for one in self.headers
        )
        query = tuple(ValueMatch(one.name, tuple(one.values), one.pattern, one.absent) for one in self.query)
        return HttpRule(tuple(self.methods), tuple(self.paths), tuple(self.hosts), headers, query)


def path_rule(path: str) -> str:
    """Return the rule that this template breaks, or an empty text."""
    try:
        parse_template(path)
    except InvalidValueError as error:
        return error.rule
    if any(character in path for character in " ?#"):
        return "it must not have a space, '?' or '#'"
    return "it must not have '//'" if "//" in path else ""


class DistinguisherModel(Model):
    """What tells a schema's flows apart."""

    renamed: ClassVar[dict[str, str]] = {
        "type": "source",
        "header": "name",
        "argument": "name",
        "transformation": "transform",
        "function": "callable",
    }

    source: Literal["user", "namespace", "group", "header", "pathParameter", "query", "clientAddress", "callable"]
    name: NonEmpty | None = Field(default=None, description="Of the header, path parameter or query parameter.")
    groups: StringSet | None = Field(default=None, description="The tenants' groups; each may end with '*'.")
    prefix_v4: int | None = Field(default=None, ge=0, le=32, alias="prefixV4")
    prefix_v6: int | None = Field(default=None, ge=0, le=128, alias="prefixV6")
    callable: NonEmpty | None = Field(default=None, description="package.module:function")
    transform: Transform | None = None

    def rules(self) -> Iterator[Violation]:
        source = Source(self.source)
        wanted = _WANTS.get(source)
        given = {"name": self.name, "groups": self.groups, "callable": self.callable}
        for key, value in given.items():
            if key == wanted and not value:
                yield Violation((key,), Absent.ABSENT, f"the source {source} requires it")
            elif key != wanted and value is not None:
                yield Violation((key,), value, f"the source {source} doesn't take it")
        for key, bits in (("prefixV4", self.prefix_v4), ("prefixV6", self.prefix_v6)):
            if bits is not None and source is not Source.CLIENT_ADDRESS:
                yield Violation((key,), bits, f"the source {source} doesn't take it")
        for place, group in enumerate(self.groups or ()):
            if not group or "*" in group[:-1]:
                yield Violation(("groups", place), group, "it must be a group's name, in which '*' can only be last")
        if source is Source.CALLABLE and self.callable:
            try:
                load_callable(self.callable)
            except ValueError as error:
                hint = "Write package.module:function"
                yield Violation(("callable",), self.callable, str(error), hint)

    def built(self) -> Distinguisher:
        """Return the distinguisher of the classification; a header's name is in lower case there."""
        source, argument = Source(self.source), self.name or ""
        return Distinguisher(
            source,
            argument.lower() if source is Source.HEADER else argument,
            tuple(self.groups or ()),
            24 if self.prefix_v4 is None else self.prefix_v4,
            56 if self.prefix_v6 is None else self.prefix_v6,
            load_callable(self.callable) if self.callable else None,
            self.transform,
        )


def distinguisher_part(distinguisher: Distinguisher) -> dict[str, Any]:
    """Return a distinguisher as documents have it; without its function, if that has no name to be imported by."""
    default = {one.name: one.default for one in fields(Distinguisher)}
    function = distinguisher.function
    part: dict[str, Any] = {
        "source": str(distinguisher.source),
        "name": distinguisher.argument,
        "groups": list(distinguisher.groups),
        "transform": distinguisher.transform,
        "prefixV4": distinguisher.prefix_v4 if distinguisher.prefix_v4 != default["prefix_v4"] else None,
        "prefixV6": distinguisher.prefix_v6 if distinguisher.prefix_v6 != default["prefix_v6"] else None,
        "callable": None if function is None else callable_name(function),
    }
    return {key: value for key, value in part.items() if value not in (None, "", [])}


AnyDistinguisher = Annotated[Distinguisher, BuiltFrom(DistinguisherModel, DistinguisherModel.built, distinguisher_part)]
"""A distinguisher as a field of settings."""
