"""The cache of resolved requests. A key consists of exactly the parts of a scope that the result depends on.

The values are what `resolver.RequestResolver` has found out about a request: its identity, classification and cost. For
requests that are not in this cache, `classification.classifier.Classifier` has a cache of its decisions.

Method, path and peer are always part of a key. Headers, the query, the user and the client certificate are part of it
only if an authenticator, rule or distinguisher reads them. If a header is read only by rules for OPTIONS, it isn't part
of the keys for GET.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

from starlette.types import Scope

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.scope import headers_of
from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.classification import Distinguisher, FlowSchema, HttpRule, Rule, Source
from apf_middleware.config import Configuration
from apf_middleware.estimation.base import STEADY, Dependence

__all__ = ["LONGEST_KEY", "REMEMBERED", "CacheKeys", "Key", "RequestCache", "length_of"]

Key = tuple[object, ...]

LONGEST_KEY: Final = 2560
"""The longest key in bytes. Longer keys aren't cached: clients choose the parts, so the cache must bound their size.

JWTs are often longer, and take a hundred times as long to verify as to look up. So a caller with a longer key is cached
under a key with a digest of its headers, if the identity isn't long, too.
"""

REMEMBERED: Final = 4096
"""The number of recent requests, and of callers, that are certainly cached; up to twice as many may be."""

V = TypeVar("V")

_MOST_METHODS: Final = 32  # with remembered header names; bounded, because clients may invent methods
_HOST: Final = b"host"
_OBJECT_BYTES: Final = 56  # of a part besides its characters, with its place in the key
_WIDEST_CHARACTER: Final = 4  # bytes; Python stores all characters of a text in the width of the widest one


class CacheKeys:
    """Compute the keys of scopes.

    The ``chain``, the schemas of the configuration and the estimates (``costs``) decide which parts of a scope are in a
    key. The keys of the ``plain_methods`` consist of method, path and peer only, unless the scope has a root path or a
    ``user``.
    """

    __slots__ = (
        "_always",
        "_asks_always",
        "_by_method",
        "_by_rule",
        "_certificate",
        "_chain",
        "_credentials",
        "_query",
        "is_memorable",
        "plain_methods",
        "user",
    )

    def __init__(self, configuration: Configuration, chain: Chain, costs: Dependence = STEADY) -> None:
        self._chain = chain
        self._credentials = chain.headers
        # The name of the scope's entry that holds the caller; "", which no scope has, if no authenticator reads it.
        self.user: str = "user" if chain.reads_user else ""
        self._certificate = "extensions" if chain.reads_certificate else ""
        self._asks_always = chain.reads_more
        facts = _Facts(configuration.schemas)
        facts.always |= {name.encode("latin-1", "replace") for name in costs.headers}
        if configuration.server.criticality is not None:
            facts.always |= {_bytes(name) for name in configuration.server.criticality.headers}
        if configuration.server.queues.header:
            facts.always.add(_bytes(configuration.server.queues.header))
        self._query = facts.query or costs.query or configuration.server.resolver == "kubernetes"
        self.is_memorable: bool = chain.memorable and facts.are_known
        self._always = frozenset(facts.always | chain.headers)
        self._by_rule = facts.by_methods
        self._by_method: dict[str, bytes | frozenset[bytes]] = {}
        # A dictionary, because its code is in the processor's cache already when a request comes; that of a set isn't.
        self.plain_methods: dict[str, None] = {}

    def cover(self, other: "CacheKeys") -> bool:
        """Return whether requests with equal keys here have equal keys in ``other``, for the same chain."""
        if not other.is_memorable or (other._query and not self._query):  # noqa: SLF001 - of the same class
            return False
        rules = [names for methods, names in other._by_rule if (methods, names) not in self._by_rule]  # noqa: SLF001
        return self._always >= other._always.union(*rules)  # noqa: SLF001

    def of_request(self, scope: Scope) -> Key:
        """Return the key of a request; raise KeyError or TypeError if the server left out a part of the scope."""
        if not isinstance(scope, dict):
            raise TypeError("the specification says that a scope is a dict, on which the compiled build works faster")
        method, path, client, root = scope["method"], scope["path"], scope["client"], scope.get("root_path")
        host = client[0] if client else None
        wanted = self._by_method.get(method)
        if wanted is None:
            wanted = self._headers_for(method)
        key: Key
        if wanted:
            headers = scope.get("headers")
            key = (method, path, host, _values_of(headers if isinstance(headers, list) else headers_of(scope), wanted))
        else:
            key = (method, path, host)
        if root:
            key += (root,)
        if self._query:
            key += (scope["query_string"],)
        if self._asks_always or self.user in scope or self._certificate in scope:
            key += self._chain.caller_facts(scope)
        return key

    def of_caller(self, scope: Scope) -> Key:
        """Return the key of the caller."""
        known = scope if isinstance(scope, dict) else dict(scope)
        client, credentials = known.get("client"), self._credentials
        key: Key = (client[0] if client else None,)
        if credentials:
            key += (_values_of(headers_of(scope), credentials),)
        if self._asks_always or self.user in known or self._certificate in known:
            key += self._chain.caller_facts(scope)
        return key

    def shortened(self, key: Key) -> Key | None:
        """Return the key of a caller with a digest of its headers instead of them; None if that is too long, too."""
        if not self._credentials:
            return None
        client, headers, *facts = key
        # `repr` tells all tuples of bytes apart, and takes a fraction of the time of a loop over thousands of headers.
        short = (client, blake2b(repr(headers).encode(), digest_size=32).digest(), *facts)
        return short if length_of(short) <= LONGEST_KEY else None

    def _headers_for(self, method: str) -> bytes | frozenset[bytes]:
        """Return the names of the headers that are in the keys of this method; without a set if there is only one.

        They are remembered for at most `_MOST_METHODS` methods. Then all are forgotten, because those that a client has
        invented must not keep out the usual ones.
        """
        by_rule = [names for methods, names in self._by_rule if not methods or method.upper() in methods]
        names = self._always.union(*by_rule)
        wanted: bytes | frozenset[bytes] = next(iter(names)) if len(names) == 1 else names
        if len(self._by_method) >= _MOST_METHODS:
            self._by_method.clear()
            self.plain_methods.clear()
        self._by_method[method] = wanted
        if not (wanted or self._query or self._certificate or self._asks_always):
            self.plain_methods[method] = None
        return wanted


def _values_of(given: Iterable[Sequence[bytes]], wanted: bytes | frozenset[bytes]) -> Key:
    """Return the ``wanted`` headers: the values of a single name, or names and values in turns.

    A single name is compared with those of the request, because a name that the server has just parsed has no hash yet.
    """
    headers: list[tuple[bytes, bytes]]
    if isinstance(given, list) and given and isinstance(given[0], tuple):
        headers = given
    else:  # some servers have lists of lists; the compiled build works faster on tuples
        headers = [(name, value) for name, value in given]
    found: list[bytes] = []
    if isinstance(wanted, bytes):
        for name, value in headers:
            if name == wanted:
                found.append(value)
    else:
        for name, value in headers:
            if name in wanted:
                found += (name, value)
    return tuple(found)


def length_of(key: Key) -> int:
    """Return about the memory that a key takes, in bytes.

    A header that is repeated a thousand times has few characters, but a thousand objects.
    """
    # `sys.getsizeof` would take an eighth of the time of a request of a new caller.
    total = _OBJECT_BYTES
    for part in key:
        if isinstance(part, tuple):
            total += length_of(part)
            continue
        total += _OBJECT_BYTES
        if isinstance(part, str):
            total += len(part) if part.isascii() else _WIDEST_CHARACTER * len(part)
        elif isinstance(part, bytes):
            total += len(part)
    return total


class RequestCache(BoundedCache[Key, V]):
    """A cache of resolved requests, under the keys that ``keys`` makes."""

    __slots__ = ("_keys", "_plain_methods", "_user")

    def __init__(self, keys: CacheKeys) -> None:
        super().__init__(REMEMBERED)
        self._keys = keys
        self._plain_methods, self._user = keys.plain_methods, keys.user

    def recall(self, scope: Scope) -> V | None:
        """Return the result for a request if it is in the young generation; None otherwise.

        `RequestResolver.resolve` then looks in both generations. The result is None also if the scope lacks a part of
        the key, or isn't a dict, as the specification says; the compiled build works faster on dicts.

        Most keys are method, path and peer. Those are built here: a call of `CacheKeys.of_request` would take 4 % of
        the time of a request that is alone in the pure build, and 2 % in the compiled one.
        """
        if not isinstance(scope, dict):
            return None
        try:
            method = scope["method"]
            is_plain = method in self._plain_methods and not (self._user and self._user in scope)
            if is_plain and not scope.get("root_path"):
                found = scope["client"]
                # Some servers have lists; the compiled build works faster on tuples.
                client: tuple[Any, ...] | None = tuple(found) if isinstance(found, list) else found
                return self.young.get((method, scope["path"], client[0] if client else None))
            return self.young.get(self._keys.of_request(scope))
        except (KeyError, TypeError):
            return None

    def find(self, scope: Scope) -> tuple[Key | None, V | None]:
        """Return the key of a request, None if it must not be cached, and the result in either generation.

        Parts of the key come from the server and from the app's own authenticators, and may be of any type. If the key
        can't be made or hashed, the request is served without the cache.
        """
        if not self._keys.is_memorable:
            return None, None
        try:
            key = self._keys.of_request(scope)
            known = self.get(key)
        except (KeyError, TypeError):
            return None, None
        return (key if length_of(key) <= LONGEST_KEY else None), known


class _Facts:
    """The facts that schemas read besides method, path and peer.

    ``are_known`` is False if a distinguisher or the weight of a flow is a callable, which may read anything.
    """

    def __init__(self, schemas: Sequence[FlowSchema]) -> None:
        self.always: set[bytes] = set()
        self.by_methods: list[tuple[frozenset[str], set[bytes]]] = []
        self.query = False
        self.are_known = True
        for schema in schemas:
            for rule in schema.rules:
                if isinstance(rule, Rule):
                    for http in rule.http_rules:
                        self._add(http)
                else:
                    self.always.add(_HOST)  # a conjunction may test the host
            self._add_distinguisher(schema.distinguisher)
            self._add_distinguisher(schema.queue)
            if schema.weights is not None and schema.weights.function is not None:
                self.are_known = False

    def _add(self, rule: HttpRule) -> None:
        names = {_bytes(match.name) for match in rule.headers}
        if rule.hosts:
            names.add(_HOST)
        self.query = self.query or bool(rule.query)
        self.by_methods.append((frozenset(rule.accepted_methods), names))

    def _add_distinguisher(self, distinguisher: Distinguisher | None) -> None:
        if distinguisher is None:
            return
        if distinguisher.source is Source.HEADER:
            self.always.add(_bytes(distinguisher.argument))
        self.query = self.query or distinguisher.source is Source.QUERY
        self.are_known = self.are_known and distinguisher.source is not Source.CALLABLE


def _bytes(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")
