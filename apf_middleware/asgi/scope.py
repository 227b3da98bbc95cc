"""The headers, query and digest of a request, from an ASGI scope.

Servers differ in what they put into a scope, so everything that the specification calls optional may be missing. The
specification also allows any iterable of two-item iterables for headers: nearly all servers give a list of tuples, some
(Mangum) give lists of two. Decoding never fails: bytes that aren't text become text that matches nothing. A scope that
isn't a dict, as the specification says, is copied to one: the compiled build reads a dict in a fifth of the time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, TypeVar, overload

from starlette.types import Scope

from apf_middleware.classification import Identity, RequestDigest
from apf_middleware.classification.digest import NO_VALUES, Resolver
from apf_middleware.classification.paths import UNSEEN_END, visible_path
from apf_middleware.classification.query import QueryParameters

__all__ = [
    "HeaderView",
    "Headers",
    "asks_for",
    "complete_digest",
    "digest_request",
    "headers_of",
    "method_of",
    "path_of",
    "peer_address",
    "query_of",
]

Headers = list[tuple[bytes, bytes]]
"""Headers of a response."""

T = TypeVar("T")

_SEQUENCES: Final = (list, tuple)  # a constant, because `list | tuple` would create an object each time
_MOST_PEERS: Final = 4096


def headers_of(scope: Scope) -> Iterable[Sequence[bytes]]:
    """Return the names and values of headers, which may be read more than once.

    Headers that can be read once only are replaced by a list in the scope, for the app.
    """
    headers: Iterable[Sequence[bytes]] | None = (scope if isinstance(scope, dict) else dict(scope)).get("headers")
    if headers is None:
        return ()
    if not isinstance(headers, list) and not isinstance(headers, tuple):
        headers = scope["headers"] = [pair if isinstance(pair, _SEQUENCES) else tuple(pair) for pair in headers]
    return headers


def method_of(scope: Scope) -> str:
    """Return the method; a WebSocket's handshake is a GET."""
    return str((scope if isinstance(scope, dict) else dict(scope)).get("method") or "GET")


def peer_address(scope: Scope) -> str:
    """Return the host of ``scope["client"]``; empty if there is none, as on a Unix socket."""
    client = (scope if isinstance(scope, dict) else dict(scope)).get("client")
    if (not isinstance(client, tuple) and not isinstance(client, list)) or not client:
        return ""
    host = client[0]
    if not isinstance(host, str):
        return ""
    return _unmapped(host) if host.startswith("::ffff:") else host


@lru_cache(_MOST_PEERS)
def _unmapped(host: str) -> str:
    """Return an IPv4 address without the prefix that a dual-stack socket gives it."""
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


def path_of(scope: Scope) -> str:
    """Return the path as the app's own routes see it, without the prefix of a mount or a proxy."""
    known = scope if isinstance(scope, dict) else dict(scope)
    path, root = str(known.get("path") or "/"), str(known.get("root_path") or "")
    if path[0] != "/" or path[-1] == UNSEEN_END:
        path = visible_path(path)
    if root and path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
        return path[len(root) :] or "/"
    return path


def asks_for(scope: Scope, path: str | None) -> bool:
    """Return whether this is a request to read what is at ``path``."""
    return scope["type"] == "http" and path_of(scope) == path and method_of(scope) in {"GET", "HEAD"}


class HeaderView(Mapping[str, str]):
    """Headers by name in lower case, decoded on access; if several have the same name, the first counts."""

    __slots__ = ("_headers",)

    def __init__(self, scope: Scope) -> None:
        self._headers = headers_of(scope)

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | T) -> str | T: ...
    def get(self, name: str, /, default: object = None) -> object:
        return self.first(name.encode("latin-1", "replace"), default)

    def first(self, name: bytes, default: T) -> str | T:
        """Return the first header with this name."""
        for pair in self._headers:
            if pair[0] == name:
                return pair[1].decode("latin-1")
        return default

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(str(name, "latin-1") for name, _ in self._headers))

    def __len__(self) -> int:
        return len(list(iter(self)))


def query_of(scope: Scope) -> Mapping[str, str]:
    """Return query parameters by name."""
    raw = (scope if isinstance(scope, dict) else dict(scope)).get("query_string")
    return QueryParameters(raw) if raw else NO_VALUES


def digest_request(scope: Scope, identity: Identity, client_address: str, resolve: Resolver) -> RequestDigest:
    """Return everything that a rule may read."""
    method, path, query, headers = method_of(scope), path_of(scope), query_of(scope), HeaderView(scope)
    resolution = resolve(method, path, query)
    return RequestDigest(
        identity,
        resolution.verb,
        path,
        method,
        resolution.resource,
        headers.first(b"host", ""),
        headers,
        query,
        resolution.path_parameters,
        client_address,
    )


def complete_digest(common: RequestDigest, scope: Scope) -> RequestDigest:
    """Return a digest with the headers and the query of one request, and all that it has in common with others."""
    headers = HeaderView(scope)
    return RequestDigest(
        common.identity,
        common.verb,
        common.path,
        common.method,
        common.resource,
        headers.first(b"host", ""),
        headers,
        query_of(scope),
        common.path_parameters,
        common.client_address,
        common.body,
        common.criticality,
    )
