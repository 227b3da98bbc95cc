"""The addresses of trusted proxies and of the client behind them.

Any client can send a header with addresses, and each proxy appends the address of its own peer at the right end. The
header is therefore read from right to left, starting at the peer, for as long as each address belongs to a trusted
proxy. The first address that doesn't is the client's; entries to the left of it may be forged and are ignored. An entry
that can't be parsed ends the walk at the last trustworthy address.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from starlette.types import Scope

from apf_middleware.asgi.identity.credential import MAX_CREDENTIAL, header_values
from apf_middleware.asgi.scope import peer_address
from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.config.authentication import TrustedProxySettings
from apf_middleware.config.values import network

__all__ = ["MAX_HOPS", "TrustedPeers", "TrustedProxies"]

MAX_HOPS: Final = 64
"""The maximum number of proxies that are followed."""

_MOST_REMEMBERED: Final = 4096
_MAX_ADDRESS: Final = 64
_LONGEST_NODE: Final = 512  # with a backslash before each character; a longer one has no address
_HOST_PORT: Final = re.compile(
    r"\[([0-9A-Fa-f:.]+)\](?::(?:[0-9]{1,5}|_[\w.-]+))?|([0-9.]+)(?::(?:[0-9]{1,5}|_[\w.-]+))?"
)
_PAIR: Final = re.compile(
    r'[ \t]*([\w!#$%&\'*+.^`|~-]+)=(?:([\w!#$%&\'*+.^`|~-]+)|"((?:[^"\\]|\\.)*)")[ \t]*', re.ASCII
)
_ESCAPED: Final = re.compile(r"\\(.)")


def _address(text: str) -> str | None:
    """Return an address in its canonical form, IPv4-mapped IPv6 as IPv4; None if the text isn't an address."""
    if len(text) > _MAX_ADDRESS or "%" in text:  # a zone is meaningful only on the machine that wrote it
        return None
    return _parsed(text)


@lru_cache(_MOST_REMEMBERED)
def _parsed(text: str) -> str | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


class TrustedPeers:
    """The addresses in these ``networks``, and with ``unix`` the empty one of a peer on a Unix socket.

    Results are cached, because most servers have few distinct peers.
    """

    __slots__ = ("_known", "_networks", "_unix")

    def __init__(self, networks: Iterable[str], *, unix: bool = False) -> None:
        self._networks = [network(f"networks[{place}]", one) for place, one in enumerate(networks)]
        self._unix = unix
        self._known: BoundedCache[str, bool] = BoundedCache(_MOST_REMEMBERED // 2)

    def __repr__(self) -> str:
        return f"TrustedPeers([{', '.join(map(str, self._networks))}], unix={self._unix})"

    def __bool__(self) -> bool:
        return bool(self._networks) or self._unix

    def __contains__(self, address: str) -> bool:
        if not address:
            return self._unix
        if not self._networks:
            return False
        known = self._known.get(address)
        if known is None:
            known = self._looked_up(address)
            self._known.put(address, known)
        return known

    def _looked_up(self, address: str) -> bool:
        plain = _address(address.partition("%")[0])  # the zone of a peer's address is local and not part of a network
        if plain is None:
            return False
        found = ipaddress.ip_address(plain)
        return any(found in one for one in self._networks)


class TrustedProxies:
    """The proxies in front of the server and the one header that they write; other headers are never read."""

    __slots__ = ("_forwarded", "_header", "_peers", "headers")

    def __init__(self, settings: TrustedProxySettings | None = None) -> None:
        settings = TrustedProxySettings() if settings is None else settings
        self._peers = TrustedPeers(settings.networks, unix=settings.unix)
        self._forwarded = settings.header == "forwarded"
        self._header = settings.header.encode("ascii")
        self.headers: frozenset[bytes] = frozenset((self._header,)) if self._peers else frozenset()

    def __repr__(self) -> str:
        return f"TrustedProxies({self._peers!r}, header={self._header.decode()!r})"

    def is_peer(self, scope: Scope) -> bool:
        """Return whether the peer of the connection is a trusted proxy."""
        return peer_address(scope) in self._peers

    def client_address(self, scope: Scope) -> str:
        """Return the client's address: that of the peer of the outermost trusted proxy.

        If the connection's own peer isn't a trusted proxy, its address is returned; empty if it has none.
        """
        here = peer_address(scope)
        if here not in self._peers:
            return here
        for hops, address in enumerate(self._addresses(scope)):
            if address is None or hops >= MAX_HOPS:
                break
            here = address
            if here not in self._peers:
                break
        return here

    def _addresses(self, scope: Scope) -> Iterator[str | None]:
        """Yield the addresses in the header, the last first; None for an entry that isn't an address."""
        for raw in reversed(header_values(scope, self._header)):
            if len(raw) > MAX_CREDENTIAL:
                yield None
                return
            line = raw.decode("latin-1")
            yield from _forwarded(line) if self._forwarded else map(_node, reversed(line.split(",")))


def _node(text: str) -> str | None:
    """Return the address in ``192.0.2.1:80``, ``[2001:db8::1]:80`` or the common bare form ``2001:db8::1``."""
    text = text.strip(" \t")
    found = _HOST_PORT.fullmatch(text)
    return _address((found[1] or found[2]) if found else text)


def _forwarded(line: str) -> Iterator[str | None]:
    """Yield the addresses of one ``Forwarded`` header, the last first; one None if the header doesn't parse.

    Each header line is parsed separately: a quote that a client doesn't close must not hide what a proxy adds in
    another line.
    """
    return map(_strict_node, reversed(_nodes(line) or [""]))


def _nodes(line: str) -> list[str] | None:
    """Return the ``for`` of each element, empty if it has none; None if the header doesn't parse."""
    found: list[str] = []
    node = ""
    has_node = False
    place = 0
    while True:
        pair = _PAIR.match(line, place)
        if pair is None:
            return None
        if pair[1].lower() == "for":
            if has_node:
                return None
            quoted = pair[3]
            has_node, node = True, pair[2] if quoted is None else _ESCAPED.sub(r"\1", quoted[:_LONGEST_NODE])
        place = pair.end()
        delimiter = line[place : place + 1]
        if delimiter not in ("", ",", ";"):
            return None
        if delimiter != ";":
            found.append(node)
            node, has_node = "", False
        if not delimiter:
            return found
        place += 1


def _strict_node(text: str) -> str | None:
    """Return the address as `_node` does, but require brackets for IPv6; ``unknown`` and ``_hidden`` give None."""
    found = _HOST_PORT.fullmatch(text)
    return _address(found[1] or found[2]) if found else None
