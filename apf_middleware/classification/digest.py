"""The facts of a request that rules may read: the caller, the operation, and the transport.

A digest is made once per request, before any decision, and never changed. Its facts can be trusted: the identity is
authenticated, and the client address is the one behind trusted proxies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Never

from apf_middleware.copying import Value

__all__ = [
    "ANONYMOUS",
    "AUTHENTICATED_GROUP",
    "NO_VALUES",
    "VERB_OF_METHOD",
    "Identity",
    "RequestDigest",
    "Resolution",
    "Resolver",
    "Resource",
    "authenticated_groups",
    "identity_of",
    "resolve_method",
]


class _NoValues(Mapping[str, str]):
    """An empty mapping that is hashable, as a dataclass needs it for a default."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Never:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and not other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NO_VALUES"


NO_VALUES: Final[Mapping[str, str]] = _NoValues()
"""A mapping without values."""


@dataclass(frozen=True, slots=True)
class Identity(Value):
    """The authenticated caller."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS: Final = Identity("system:anonymous", ("system:unauthenticated",))
"""The caller without credentials."""

AUTHENTICATED_GROUP: Final = "system:authenticated"
"""The group of all callers with valid credentials."""


def authenticated_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """Return these groups, each once, and that of all callers with valid credentials."""
    return tuple(dict.fromkeys((*groups, AUTHENTICATED_GROUP)))


def identity_of(user: str, groups: tuple[str, ...] = ()) -> Identity:
    """Return the identity of ``user`` with the groups that authentication adds; an empty name is the anonymous user."""
    if user in ("", ANONYMOUS.name):
        return Identity(ANONYMOUS.name, tuple(dict.fromkeys((*groups, *ANONYMOUS.groups)))) if groups else ANONYMOUS
    return Identity(user, authenticated_groups(groups))


@dataclass(frozen=True, slots=True)
class Resource(Value):
    """The resource of a request; an empty string means none, such as the namespace of a cluster-wide request."""

    resource: str
    api_group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Resolution(Value):
    """The verb and resource of method, path and query; ``resource`` is None for requests without one."""

    verb: str
    resource: Resource | None = None
    path_parameters: Mapping[str, str] = field(default=NO_VALUES, hash=False)


Resolver = Callable[[str, str, Mapping[str, str]], Resolution]
"""A function from method, path and query to verb and resource."""

VERB_OF_METHOD: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
"""The verbs of requests about one object."""


_OF_METHODS: Final = {
    method: Resolution(method.lower()) for method in ("POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS")
}


def resolve_method(method: str, path: str = "", query: Mapping[str, str] = NO_VALUES) -> Resolution:  # noqa: ARG001
    """Return the verb of a request without a resource; path and query are ignored."""
    return _OF_METHODS.get(method) or Resolution(method.lower())


# Not frozen, because that would double the cost of making one for each request. The decorator's constructor is a Python
# function in the compiled build, too, where it would take 8 % of the instructions of a request for a new path.
@dataclass(init=False, slots=True, unsafe_hash=True)
class RequestDigest(Value):
    """The facts of one request, which must not be changed.

    ``verb`` is the resource verb (get, list, watch…) or the HTTP method in lower case. Header names are in lower case;
    a repeated header or query parameter has its first value, but rules read all values of a parameter (`every_value`).
    ``resource`` is None for a request that isn't about a resource. ``body`` is the parsed JSON body, if it has been
    read. ``criticality`` is the name of the criticality that the request may claim, or empty if the server reads none.
    """

    identity: Identity
    verb: str
    path: str
    method: str
    resource: Resource | None
    host: str
    headers: Mapping[str, str] = field(hash=False)
    query: Mapping[str, str] = field(hash=False)
    path_parameters: Mapping[str, str] = field(hash=False)
    client_address: str
    body: Mapping[str, object] = field(hash=False)
    criticality: str

    def __init__(  # noqa: PLR0913, PLR0917 - one for each field
        self,
        identity: Identity,
        verb: str,
        path: str,
        method: str = "GET",
        resource: Resource | None = None,
        host: str = "",
        headers: Mapping[str, str] = NO_VALUES,
        query: Mapping[str, str] = NO_VALUES,
        path_parameters: Mapping[str, str] = NO_VALUES,
        client_address: str = "",
        body: Mapping[str, object] = NO_VALUES,
        criticality: str = "",
    ) -> None:
        self.identity = identity
        self.verb = verb
        self.path = path
        self.method = method
        self.resource = resource
        self.host = host
        self.headers = headers
        self.query = query
        self.path_parameters = path_parameters
        self.client_address = client_address
        self.body = body
        self.criticality = criticality
