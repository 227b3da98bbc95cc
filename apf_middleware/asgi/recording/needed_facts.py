"""The facts that a configuration reads from requests, so that a recording can be classified again.

Everything else about a request isn't recorded. Names and values that the configuration itself contains are no secrets
of callers, and stay readable.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from apf_middleware.classification import Distinguisher, FlowSchema, HttpRule, Rule, Source
from apf_middleware.classification.matching import SERVICE_ACCOUNT
from apf_middleware.classification.rules import AtomicTest, Field, GroupSubject, Operator, UserSubject, ValueMatch
from apf_middleware.config import Configuration

__all__ = ["SELECTOR", "NeededFacts"]

SELECTOR: Final = "fieldSelector"
"""The query parameter of Kubernetes that may contain the name of an object."""

_SYSTEM: Final = "system:"
_SECRETS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_OF_KUBERNETES: Final = (ValueMatch("watch", ("true", "false", "1", "0")), ValueMatch(SELECTOR))


class NeededFacts:
    """The headers, query parameters, hosts, words of paths, users and groups that a configuration reads.

    ``credentials`` are headers that authenticate callers.
    """

    def __init__(self, configuration: Configuration, credentials: Iterable[bytes] = ()) -> None:
        self.users: set[str] = set()
        self.groups: set[str] = set()
        self.hosts: set[str] = set()
        self.words: set[str] = set()
        self.headers: dict[str, list[ValueMatch]] = {}
        self.query: dict[str, list[ValueMatch]] = {}
        self.reads_hosts: bool = False
        self._secrets: frozenset[str] = _SECRETS.union(str(name, "latin-1").lower() for name in credentials)
        self._identities: set[str] = set(self._secrets)
        self._open: set[str] = set()
        for schema in configuration.schemas:
            self._add_schema(schema)
        for route in configuration.server.routes:
            self._add_path(route.path)
        self._add_settings(configuration)

    def _add_settings(self, configuration: Configuration) -> None:
        server = configuration.server
        if server.resolver == "kubernetes":
            for match in _OF_KUBERNETES:
                self.query.setdefault(match.name, []).append(match)
        for names in (server.criticality and server.criticality.headers, server.deadlines and server.deadlines.headers):
            for name in names or ():
                self.headers.setdefault(name.lower(), [])
                self._open.add(name.lower())
        if server.queues.header:
            self.headers.setdefault(server.queues.header.lower(), [])
            self._open.add(server.queues.header.lower())

    def _add_schema(self, schema: FlowSchema) -> None:
        for rule in schema.rules:
            if isinstance(rule, Rule):
                self._add_rule(rule)
            else:
                for test in rule.tests:
                    self._add_test(test)
        if schema.distinguisher is not None:
            self._add_reader(schema.distinguisher, self._identities)
        if schema.queue is not None:
            self._add_reader(schema.queue, self._open)

    def _add_rule(self, rule: Rule) -> None:
        self.users.update(one.name for one in rule.subjects if isinstance(one, UserSubject))
        self.groups.update(one.name for one in rule.subjects if isinstance(one, GroupSubject))
        for http in rule.http_rules:
            self._add_http(http)
        for other in rule.non_resource_rules:
            for url in other.urls:
                self._add_path(url)

    def _add_reader(self, reader: Distinguisher, headers: set[str]) -> None:
        """Add what gives the name of a flow or of a queue; if it is a header, it is one of ``headers``."""
        if reader.source is Source.HEADER:
            name = reader.argument.lower()
            self.headers.setdefault(name, [])
            headers.add(name)
        elif reader.source is Source.QUERY:
            self.query.setdefault(reader.argument, [])
        elif reader.source is Source.GROUP:
            self.groups.update(reader.groups)

    def _add_http(self, rule: HttpRule) -> None:
        for match in rule.headers:
            self.headers.setdefault(match.name.lower(), []).append(match)
        for match in rule.query:
            self.query.setdefault(match.name, []).append(match)
        for path in rule.paths:
            self._add_path(path)
        self.hosts.update(rule.hosts)
        self.reads_hosts = self.reads_hosts or bool(rule.hosts)

    def _add_test(self, test: AtomicTest) -> None:
        found = {Field.USER: self.users, Field.GROUPS: self.groups, Field.HOST: self.hosts}.get(test.field)
        if found is not None and test.operator is not Operator.PATTERN_MATCH:
            found.update(test.values)
        if test.field is Field.PATH and test.operator is not Operator.PATTERN_MATCH:
            for path in test.values:
                self._add_path(path)
        self.reads_hosts = self.reads_hosts or test.field is Field.HOST

    def _add_path(self, path: str) -> None:
        self.words.update(_words_of(path))

    # What stays readable

    def names_user(self, name: str) -> bool:
        """Return whether a user is one that the configuration names, or that the system has made."""
        return name in self.users or (name.startswith(_SYSTEM) and not name.startswith(SERVICE_ACCOUNT))

    def names_group(self, name: str) -> bool:
        """Return whether a group is one that the configuration names, or that the system has made."""
        return name in self.groups or name.startswith(_SYSTEM)

    def shows_header(self, name: str, value: str) -> bool:
        """Return whether the value of a header says nothing about the caller, or is one that a rule names."""
        return name not in self._identities and _shows(self.headers, self._open, name, value)

    def is_secret(self, name: str) -> bool:
        """Return whether a header contains credentials, which are never shown."""
        return name in self._secrets

    def shows_parameter(self, name: str, value: str) -> bool:
        """Return whether the value of a query parameter is one that a rule names."""
        return _shows(self.query, self._open, name, value)


def _shows(matches: Mapping[str, Iterable[ValueMatch]], known: set[str], name: str, value: str) -> bool:
    # A pattern names no value: it may accept the names of all callers.
    return name in known or any(value in match.values for match in matches.get(name, ()))


def _words_of(path: str) -> Iterable[str]:
    """Return the literal segments of a template, and the literal beginning of a Kubernetes' URL pattern."""
    return (segment.rstrip("*") for segment in path.split("/") if segment.rstrip("*") and "{" not in segment)
