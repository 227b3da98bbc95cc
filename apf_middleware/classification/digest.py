"""What a rule may look at: who asks, what for, and by which way.

A digest is made once per request, before anything is decided, and never changed. Whoever makes it has already settled
what may be believed: an identity is authenticated, a client address is the one behind trusted proxies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Never

__all__ = ["ANONYMOUS", "NO_VALUES", "Identity", "RequestDigest", "Resolution", "Resource"]


class _NoValues(Mapping[str, str]):
    """Empty for good, and hashable, without which a dataclass won't have it as a default."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Never:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NO_VALUES"


NO_VALUES: Mapping[str, str] = _NoValues()
"""Nothing by any name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, as authentication has established it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))
"""Who asks without credentials."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a resource request is about; an empty string is "none", as a cluster-wide request has no namespace."""

    resource: str
    api_group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a resolver makes of method, path and query; ``resource`` is None when they aren't about one."""

    verb: str
    resource: Resource | None = None
    path_parameters: Mapping[str, str] = field(default=NO_VALUES, hash=False)


@dataclass(slots=True, unsafe_hash=True)  # not frozen: that would double what it costs to make one, for each request
class RequestDigest:
    """One request; nobody changes it.

    ``verb`` is the resource verb (get, list, watch…) or the HTTP method in lower case. Header names are in lower case;
    a header or query parameter that comes more than once has its first value. ``resource`` is None for a request that
    isn't about a resource. ``body`` is what a body of JSON says, where it has been read.
    """

    identity: Identity
    verb: str
    path: str
    method: str = "GET"
    resource: Resource | None = None
    host: str = ""
    headers: Mapping[str, str] = field(default=NO_VALUES, hash=False)
    query: Mapping[str, str] = field(default=NO_VALUES, hash=False)
    path_parameters: Mapping[str, str] = field(default=NO_VALUES, hash=False)
    client_address: str = ""
    body: Mapping[str, object] = field(default=NO_VALUES, hash=False)
