"""Whose address is it? Of proxies, and of the client behind them.

A header that tells addresses can be written by anybody, and each proxy adds at its right end whom it saw. So it is
walked from the right, from the peer outward, and only as far as each one passed is a proxy that is trusted. The first
that isn't is the client; whatever stands left of it is the client's own invention. What can't be read ends the walk at
the last one that could be believed.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from starlette.types import Scope

from apf_middleware.asgi.identity.credential import MAX_CREDENTIAL, header_values
from apf_middleware.config.authentication import TrustedProxySettings, network

__all__ = ["MAX_HOPS", "TrustedNetworks", "TrustedProxies", "peer_address"]

MAX_HOPS: Final = 64
"""More proxies than this are not walked."""

_MOST_REMEMBERED: Final = 4096
_MAX_ADDRESS: Final = 64
_HOST_PORT: Final = re.compile(
    r"\[([0-9A-Fa-f:.]+)\](?::(?:[0-9]{1,5}|_[\w.-]+))?|([0-9.]+)(?::(?:[0-9]{1,5}|_[\w.-]+))?"
)
_PAIR: Final = re.compile(
    r'[ \t]*([\w!#$%&\'*+.^`|~-]+)=(?:([\w!#$%&\'*+.^`|~-]+)|"((?:[^"\\]|\\.)*)")[ \t]*', re.ASCII
)
_ESCAPED: Final = re.compile(r"\\(.)")


def peer_address(scope: Scope) -> str:
    """The host of ``scope["client"]``; empty if there is none, as on a unix socket."""
    client = scope.get("client")
    host = client[0] if isinstance(client, list | tuple) and client else ""
    if not isinstance(host, str):
        return ""
    if host.startswith("::ffff:"):  # how a socket for both families tells an IPv4 peer
        return _address(host) or host
    return host


def _address(text: str) -> str | None:
    """An address as it is usually written, IPv4 as such wherever it can be; None if it is none."""
    if len(text) > _MAX_ADDRESS or "%" in text:  # a zone means something only on the machine that wrote it
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


class TrustedNetworks:
    """Networks, asked for an address. Answers are remembered, for peers are few."""

    __slots__ = ("_known", "_networks")

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [network(f"networks[{place}]", one) for place, one in enumerate(networks)]
        self._known: dict[str, bool] = {}

    def __repr__(self) -> str:
        return f"TrustedNetworks([{', '.join(map(str, self._networks))}])"

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        known = self._known.get(address)
        if known is None:
            known = self._looked_up(address)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[address] = known
        return known

    def _looked_up(self, address: str) -> bool:
        plain = _address(address.partition("%")[0])  # but the peer's is ours, and no part of the network
        if plain is None:
            return False
        found = ipaddress.ip_address(plain)
        return any(found in one for one in self._networks)


class TrustedProxies:
    """The proxies in front, and the one header that they write; the other one is never looked at."""

    __slots__ = ("_forwarded", "_header", "_networks", "_unix", "headers")

    def __init__(self, settings: TrustedProxySettings | None = None) -> None:
        told = TrustedProxySettings() if settings is None else settings
        self._networks = TrustedNetworks(told.networks)
        self._unix = told.unix
        self._forwarded = told.header == "forwarded"
        self._header = told.header.encode("ascii")
        self.headers: frozenset[bytes] = frozenset((self._header,)) if self._networks or self._unix else frozenset()

    def __repr__(self) -> str:
        return f"TrustedProxies({self._networks!r}, header={self._header.decode()!r}, unix={self._unix})"

    def is_peer(self, scope: Scope) -> bool:
        """Whether one of them is at the other end of the connection."""
        here = peer_address(scope)
        return bool(self.headers) and (here in self._networks if here else self._unix)

    def client_address(self, scope: Scope) -> str:
        """Whom the outermost trusted proxy saw; the peer if that is no trusted proxy, and empty if there is none."""
        here = peer_address(scope)
        if not self.headers or not (here in self._networks if here else self._unix):
            return here
        for hops, told in enumerate(self._told(scope)):
            if told is None or hops >= MAX_HOPS:
                break
            here = told
            if here not in self._networks:
                break
        return here

    def _told(self, scope: Scope) -> Iterator[str | None]:
        """The addresses that the header tells, the last first; None for what is no address."""
        for raw in reversed(header_values(scope, self._header)):
            if len(raw) > MAX_CREDENTIAL:
                yield None
                return
            line = raw.decode("latin-1")
            yield from _forwarded(line) if self._forwarded else map(_node, reversed(line.split(",")))


def _node(text: str) -> str | None:
    """The address in ``192.0.2.1:80``, ``[2001:db8::1]:80`` or, as many write it, ``2001:db8::1``."""
    text = text.strip(" \t")
    found = _HOST_PORT.fullmatch(text)
    return _address((found[1] or found[2]) if found else text)


def _forwarded(line: str) -> list[str | None]:
    """The addresses of one ``Forwarded`` header, the last first. One that doesn't parse as a whole tells nothing.

    Each header by itself: a quote that a client leaves open must not swallow what a proxy adds in a header of its own.
    """
    found: list[str | None] = []
    node: str | None = None
    told = False
    place = 0
    while True:
        pair = _PAIR.match(line, place)
        if pair is None:
            return [None]
        if pair[1].lower() == "for":
            if told:
                return [None]
            told, node = True, _strict_node(pair[2] if pair[3] is None else _ESCAPED.sub(r"\1", pair[3]))
        place = pair.end()
        delimiter = line[place : place + 1]
        if delimiter not in ("", ",", ";"):
            return [None]
        if delimiter != ";":
            found.append(node)
            node, told = None, False
        if not delimiter:
            return found[::-1]
        place += 1


def _strict_node(text: str) -> str | None:
    """As `_node`, but IPv6 stands in brackets; ``unknown`` and ``_hidden`` are no addresses."""
    found = _HOST_PORT.fullmatch(text)
    return _address(found[1] or found[2]) if found else None
