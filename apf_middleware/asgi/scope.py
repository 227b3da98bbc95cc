"""A request's digest, from an ASGI scope.

Servers differ in what they put into a scope, so whatever the specification calls optional may be missing here. Text is
decoded so that nothing can fail: whoever sends bytes that are no text gets text that matches nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar, overload
from urllib.parse import parse_qsl

from starlette.types import Scope

from apf_middleware.classification import Identity, RequestDigest, Resolution
from apf_middleware.classification.digest import NO_VALUES

__all__ = ["HeaderView", "QueryView", "digest_request", "headers_of", "method_of", "path_of", "query_of"]

Resolver = Callable[[str, str, Mapping[str, str]], Resolution]

T = TypeVar("T")

_MOST_PARAMETERS = 256


def headers_of(scope: Scope) -> Iterable[tuple[bytes, bytes]]:
    """Return names and values, to be unpacked, as often as is needed.

    Headers that can be read once only are replaced by a list in the scope, for the app.
    """
    headers = scope.get("headers")
    if headers is None:
        return ()
    if not isinstance(headers, list | tuple):
        headers = scope["headers"] = [pair if isinstance(pair, list | tuple) else tuple(pair) for pair in headers]
    found: Iterable[tuple[bytes, bytes]] = headers
    return found


def method_of(scope: Scope) -> str:
    """The method; a WebSocket's handshake is a GET."""
    return str(scope.get("method") or "GET")


def path_of(scope: Scope) -> str:
    """The path as the app's own routes see it: without what a mount or a proxy has taken off."""
    path, root = str(scope.get("path") or "/"), str(scope.get("root_path") or "")
    if root and path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
        return path[len(root) :] or "/"
    return path


class HeaderView(Mapping[str, str]):
    """Headers by name, as servers send it in lower case; each decoded when asked for, and the first of its name."""

    __slots__ = ("_headers",)

    def __init__(self, scope: Scope) -> None:
        self._headers = headers_of(scope)

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | T) -> str | T: ...
    def get(self, name: str, /, default: object = None) -> object:
        wanted = name.encode("latin-1", "replace")
        for found, value in self._headers:
            if found == wanted:
                return str(value, "latin-1")
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


class QueryView(Mapping[str, str]):
    """Query parameters by name, parsed when first asked for; one that comes more than once has its first value."""

    __slots__ = ("_parsed", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._parsed: dict[str, str] | None = None

    def _values(self) -> dict[str, str]:
        if self._parsed is None:
            self._parsed = _parse(self._raw)
        return self._parsed

    def __getitem__(self, name: str) -> str:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())


def _parse(raw: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    try:
        pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:  # more of them than anybody means
        return values
    for name, value in pairs:
        values.setdefault(name, value)
    return values


def query_of(scope: Scope) -> Mapping[str, str]:
    """Query parameters by name."""
    raw = scope.get("query_string")
    return QueryView(raw) if raw else NO_VALUES


def digest_request(scope: Scope, identity: Identity, client_address: str, resolve: Resolver) -> RequestDigest:
    """Everything that a rule may look at."""
    method, path, query, headers = method_of(scope), path_of(scope), query_of(scope), HeaderView(scope)
    resolution = resolve(method, path, query)
    return RequestDigest(
        identity,
        resolution.verb,
        path,
        method,
        resolution.resource,
        headers.get("host", ""),
        headers,
        query,
        resolution.path_parameters,
        client_address,
    )
