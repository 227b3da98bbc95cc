"""The rules of flow schemas, as plain data. Several rules of a schema are alternatives.

There are two forms. A `Rule` is Kubernetes': one of its subjects matches the caller, and one of its resource,
non-resource or HTTP rules matches the operation. A `Conjunction` is the KEP's: all of its atomic tests hold, each of
which can be inverted. Kubernetes' lists are not checked, because the API defines their values; regexes and templates
are checked here.
"""

from dataclasses import dataclass
from enum import StrEnum

from apf_middleware.classification.paths import parse_template
from apf_middleware.classification.text import compile_regex, require_text
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "AnySubject",
    "AtomicTest",
    "Conjunction",
    "Field",
    "GroupSubject",
    "HttpRule",
    "NonResourceRule",
    "Operator",
    "ResourceRule",
    "Rule",
    "ServiceAccountSubject",
    "UserSubject",
    "ValueMatch",
]


@dataclass(frozen=True, slots=True)
class UserSubject(Value):
    """A user by name; ``*`` means all."""

    name: str


@dataclass(frozen=True, slots=True)
class GroupSubject(Value):
    """The members of a group; ``*`` means all callers, also those without any group."""

    name: str


@dataclass(frozen=True, slots=True)
class ServiceAccountSubject(Value):
    """A service account of a namespace; the name ``*`` means all of the namespace."""

    namespace: str
    name: str


AnySubject = UserSubject | GroupSubject | ServiceAccountSubject


@dataclass(frozen=True, slots=True)
class ResourceRule(Value):
    """Verbs on resources. Each list is ``("*",)``, which means all, or has exact names; a subresource is ``pods/log``.

    ``cluster_scope`` accepts requests without a namespace, ``namespaces`` those with one.
    """

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    cluster_scope: bool = False


@dataclass(frozen=True, slots=True)
class NonResourceRule(Value):
    """Verbs on paths without a resource."""

    verbs: tuple[str, ...]
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValueMatch(Value):
    """A header or query parameter that must have one of ``values``, match ``pattern``, or just be present.

    With both ``values`` and ``pattern`` one of them suffices. A pattern must match completely.
    """

    name: str
    values: tuple[str, ...] = ()
    pattern: str | None = None
    absent: bool = False  # it must be absent

    def __post_init__(self) -> None:
        require_text("name of a header or query parameter", self.name)
        if self.pattern is not None:
            compile_regex(f"pattern of {self.name!r}", self.pattern)
        if self.absent and (self.values or self.pattern is not None):
            raise InvalidValueError("absent", self.absent, f"{self.name!r} can't be absent and have a certain value")


@dataclass(frozen=True, slots=True)
class HttpRule(Value):
    """Methods, paths, hosts, headers and query parameters; an empty list accepts anything.

    GET includes HEAD, because most frameworks run the same code for it: a rule that keeps expensive requests in a worse
    level must not be evaded by the other method.

    A path is a template: ``{name}`` and ``*`` match one segment, and ``/*`` at the end matches everything below and the
    path itself. A host may begin with ``*.``. ``criticality`` has the names of those that are accepted.
    """

    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    headers: tuple[ValueMatch, ...] = ()
    query: tuple[ValueMatch, ...] = ()
    criticality: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for template in self.paths:
            parse_template(template)
        for method in self.methods:
            require_text("method", method)
        for host in self.hosts:
            require_text("host", host)
            if "*" in host.removeprefix("*."):
                raise InvalidValueError("host", host, "* can only be its beginning, as in *.example.com")

    @property
    def accepted_methods(self) -> tuple[str, ...]:
        """The methods in upper case, and HEAD if GET is one of them; none if ``*`` alone accepts any."""
        methods = () if self.methods == ("*",) else tuple(method.upper() for method in self.methods)
        return (*methods, "HEAD") if "GET" in methods and "HEAD" not in methods else methods


@dataclass(frozen=True, slots=True)
class Rule(Value):
    """One of ``subjects`` matches the caller, and one of the other rules matches the operation."""

    subjects: tuple[AnySubject, ...]
    resource_rules: tuple[ResourceRule, ...] = ()
    non_resource_rules: tuple[NonResourceRule, ...] = ()
    http_rules: tuple[HttpRule, ...] = ()


class Field(StrEnum):
    """The field that an atomic test reads."""

    USER = "user"
    UID = "uid"
    GROUPS = "groups"
    VERB = "verb"
    METHOD = "method"
    PATH = "path"
    HOST = "host"
    API_GROUP = "apiGroup"
    VERSION = "apiVersion"
    RESOURCE = "resource"
    SUBRESOURCE = "subresource"
    NAMESPACE = "namespace"
    NAME = "name"


class Operator(StrEnum):
    """The comparison of an atomic test."""

    EQUALS = "equals"
    IN_SET = "inSet"
    PATTERN_MATCH = "patternMatch"
    SUPER_SET = "superSet"


@dataclass(frozen=True, slots=True)
class AtomicTest(Value):
    """One atomic test, or its inverse.

    ``values`` is the one value of ``equals``, the set of ``inSet`` and ``superSet``, the one regex of ``patternMatch``,
    which must match completely. On a field with several values (groups), ``equals``, ``inSet`` and ``patternMatch``
    hold when they hold for one of them; ``superSet`` holds when all of the set is among them. A value that the request
    doesn't have, such as a namespace, is the empty string.
    """

    field: Field
    operator: Operator
    values: tuple[str, ...]
    inverted: bool = False

    def __post_init__(self) -> None:
        if self.operator in {Operator.EQUALS, Operator.PATTERN_MATCH}:
            if len(self.values) != 1:
                raise InvalidValueError(f"values of {self.operator}", self.values, "there must be exactly one")
        elif not self.values:
            raise InvalidValueError(f"values of {self.operator}", self.values, "there must be at least one")
        if self.operator is Operator.PATTERN_MATCH:
            compile_regex(f"pattern for {self.field}", self.values[0])


@dataclass(frozen=True, slots=True)
class Conjunction(Value):
    """A conjunction of ``tests``; without any it accepts everything."""

    tests: tuple[AtomicTest, ...] = ()
