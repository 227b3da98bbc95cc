"""Flow schemas: the requests that they match, their level, and the flows within it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.flow_weights import FlowWeights
from apf_middleware.classification.rules import Conjunction, Rule
from apf_middleware.classification.text import compile_regex, require_text
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["Classification", "Distinguisher", "FlowSchema", "Source"]


class Source(StrEnum):
    """The property that tells the flows of a schema apart."""

    USER = "user"
    NAMESPACE = "namespace"
    GROUP = "group"
    HEADER = "header"
    PATH_PARAMETER = "pathParameter"
    QUERY = "query"
    CLIENT_ADDRESS = "clientAddress"
    CALLABLE = "callable"


_NAMED = frozenset({Source.HEADER, Source.PATH_PARAMETER, Source.QUERY})


@dataclass(frozen=True, slots=True)
class Distinguisher(Value):
    """The rule that gives a request's flow: a source of a value, and an optional regex that selects a part of it.

    ``argument`` names the header, path parameter or query parameter. ``groups`` is a set of groups, of which the first
    one that the identity has is used as the tenant; an entry may end with ``*``. Addresses are cut to ``prefix_v4`` or
    ``prefix_v6`` bits. A regex in ``transform`` must match completely and have one capturing group. A value that
    doesn't match, or that the request doesn't have, is the empty string.
    """

    source: Source
    argument: str = ""
    groups: tuple[str, ...] = ()
    prefix_v4: int = 24
    prefix_v6: int = 56
    function: Callable[[RequestDigest], str] | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source):
            raise InvalidValueError("source", self.source, f"it must be one of {', '.join(Source)}")
        require_integer("prefix_v4", self.prefix_v4, least=0, most=32)
        require_integer("prefix_v6", self.prefix_v6, least=0, most=128)
        if self.source in _NAMED:
            require_text(f"argument of {self.source}", self.argument)
        elif self.argument:
            raise InvalidValueError("argument", self.argument, f"the source {self.source} takes none")
        self._check_groups()
        if (self.source is Source.CALLABLE) != callable(self.function):
            raise InvalidValueError("function", self.function, "the source callable, and no other, needs a callable")
        if self.transform is not None:
            groups = compile_regex("transform", self.transform).groups
            if groups != 1:
                raise InvalidValueError("transform", self.transform, f"it must have one capturing group, not {groups}")

    def _check_groups(self) -> None:
        if (self.source is Source.GROUP) != bool(self.groups):
            raise InvalidValueError("groups", self.groups, "the source group, and no other, needs at least one")
        for group in self.groups:
            require_text("group", group)
            if "*" in group[:-1]:
                raise InvalidValueError("group", group, "* can only be its end, as in tenant:*")


@dataclass(frozen=True, slots=True)
class FlowSchema(Value):
    """Requests that one of ``rules`` accepts go to ``level``.

    If several schemas accept a request, the one with the lowest precedence wins, then the first one by name. Without a
    distinguisher, all requests are one flow. A ``queue`` reads the name of the level from each request instead;
    ``level`` takes the requests without such a name. Without ``weights``, each flow has the weight 1. ``criticality``
    is the name of the most that its requests are passed on with. ``deadline_ns`` after their arrival, its requests are
    not worth an answer; without it, the deadline of the level holds.
    """

    name: str
    level: str
    precedence: int = 1000
    rules: tuple[Rule | Conjunction, ...] = ()
    distinguisher: Distinguisher | None = None
    queue: Distinguisher | None = None
    weights: FlowWeights | None = None
    criticality: str = ""
    deadline_ns: int | None = None

    def __post_init__(self) -> None:
        require_text("name of a schema", self.name)
        require_text(f"level of the schema {self.name!r}", self.level)
        require_integer(f"precedence of the schema {self.name!r}", self.precedence)
        if self.weights is not None and self.weights.flows and self.distinguisher is None:
            rule = "without a distinguisher, flows have no names"
            raise InvalidValueError(f"weights of the schema {self.name!r}", self.weights.flows, rule)


class Classification(NamedTuple):  # one is made for each new caller, and a frozen dataclass takes three times as long
    """The schema, level and flow of a request, the flow's 64 bits of entropy, and its weight against other flows."""

    schema: str
    level: str
    flow: str  # the value of the distinguisher
    entropy: int
    weight: float = 1
