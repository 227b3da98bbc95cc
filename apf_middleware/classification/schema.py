"""Flow schemas: which requests, to which level, and which of them belong to one flow."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.rules import Conjunction, Rule

__all__ = ["Classification", "Distinguisher", "FlowSchema", "Source"]


class Source(StrEnum):
    """What tells the flows of a schema apart."""

    USER = "user"
    NAMESPACE = "namespace"
    GROUP = "group"
    HEADER = "header"
    PATH_PARAMETER = "pathParameter"
    QUERY = "query"
    CLIENT_ADDRESS = "clientAddress"
    CALLABLE = "callable"


@dataclass(frozen=True, slots=True)
class Distinguisher:
    """How a request's flow is found: a source, and perhaps a regex that picks a part of it.

    ``argument`` names the header, path parameter or query parameter. ``groups`` is the configured set of which the
    identity's first one tells the tenant; an entry may end with ``*``. Addresses are cut to ``prefix_v4`` or
    ``prefix_v6`` bits. A regex in ``transform`` must match completely and have one capturing group; what doesn't match
    is the empty string, and so is a source that a request doesn't have.
    """

    source: Source
    argument: str = ""
    groups: tuple[str, ...] = ()
    prefix_v4: int = 24
    prefix_v6: int = 56
    function: Callable[[RequestDigest], str] | None = None
    transform: str | None = None


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """Requests that one of ``rules`` accepts go to ``level``; the lowest precedence wins, then the name.

    Without a distinguisher all of them are one flow.
    """

    name: str
    level: str
    precedence: int = 1000
    rules: tuple[Rule | Conjunction, ...] = ()
    distinguisher: Distinguisher | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """Where a request belongs: its schema, level and flow, and the flow's 64 bits of entropy."""

    schema: str
    level: str
    flow: str  # the distinguisher
    entropy: int
