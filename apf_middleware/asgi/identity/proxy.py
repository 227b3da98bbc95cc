"""Authentication by a front proxy that sends X-Remote-User, X-Remote-Group and X-Remote-Extra-… headers.

Any client can send such headers, so they are used only if the direct peer of the connection is listed in the
configuration. From other peers they are ignored rather than refused.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.types import Scope

from apf_middleware.asgi.identity.address import TrustedPeers
from apf_middleware.asgi.identity.certificate import certificate_facts, common_name
from apf_middleware.asgi.identity.credential import MAX_CREDENTIAL, header_values, is_plain
from apf_middleware.asgi.identity.verdict import Authenticated, Refused, refuse
from apf_middleware.asgi.scope import headers_of, peer_address
from apf_middleware.classification import Identity
from apf_middleware.classification.digest import authenticated_groups
from apf_middleware.config.authentication import ProxySettings

if TYPE_CHECKING:
    from apf_middleware.asgi.identity.verdict import Facts

__all__ = ["ProxyAuthenticator"]

_SCHEME: Final = "Proxy"


class ProxyAuthenticator:
    """An authenticator that trusts the headers of the listed peers."""

    __slots__ = ("_groups", "_names", "_peers", "_prefixes", "_users", "facts", "headers")

    memorable = True

    def __init__(self, settings: ProxySettings) -> None:
        self._peers = TrustedPeers(settings.networks, unix=settings.unix)
        self._names = frozenset(settings.common_names)
        self._users = _encoded(settings.user_headers)
        self._groups = _encoded(settings.group_headers)
        self._prefixes = _encoded(settings.extra_prefixes)
        self.headers: frozenset[bytes] = frozenset((*self._users, *self._groups))
        # The headers with a prefix can't be listed by name in `headers`, so they are a separate fact.
        extra = (self._extra_facts,) if self._prefixes else ()
        self.facts: tuple[Facts, ...] = (certificate_facts, *extra) if self._names else extra

    def __repr__(self) -> str:
        return f"ProxyAuthenticator({self._peers!r}, common_names={sorted(self._names)})"

    def authenticate(self, scope: Scope) -> Authenticated | Refused | None:
        """Return the identity in the proxy's headers, or a refusal; None if the peer isn't listed or names no user."""
        if not self._believed(scope):
            return None
        user = None
        for name in self._users:
            values = header_values(scope, name)
            if len(values) > 1:  # the client may have sent one of them, if the proxy appends its own
                return refuse("duplicate-header", _SCHEME)
            if user is None and values and values[0].strip():
                user = values[0]
        if user is None:
            return None
        try:
            return self._named(scope, user)
        except _UnreadableError:
            return refuse("malformed", _SCHEME)

    def _believed(self, scope: Scope) -> bool:
        if self._peers and peer_address(scope) not in self._peers:
            return False
        return not self._names or common_name(scope) in self._names

    def _named(self, scope: Scope, user: bytes) -> Authenticated:
        groups = [_text(value) for name in self._groups for value in header_values(scope, name)]
        extra: dict[str, list[str]] = {}
        for prefix, key, value in self._extra_headers(scope):
            extra.setdefault(_extra_key(key[len(prefix) :]), []).append(_text(value))
        identity = Identity(
            _text(user),
            authenticated_groups(one for one in groups if one),
            extra={key: tuple(values) for key, values in extra.items()},
        )
        return Authenticated(identity)

    def _extra_headers(self, scope: Scope) -> list[tuple[bytes, bytes, bytes]]:
        return [
            (prefix, key, value)
            for key, value in headers_of(scope)
            for prefix in self._prefixes
            if key.startswith(prefix) and len(key) > len(prefix)
        ]

    def _extra_facts(self, scope: Scope) -> Hashable | None:
        if not self._believed(scope):
            return None
        found = tuple((key, value) for _, key, value in self._extra_headers(scope))
        return ("extra", found) if found else None

    def refresh(self) -> bool:
        """Return False, because there is no state to refresh."""
        return False


class _UnreadableError(Exception):
    """A header's value isn't valid text."""


def _encoded(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode("ascii") for name in names)


def _text(raw: bytes) -> str:
    """Decode a header's value, which must be UTF-8 without control characters."""
    if len(raw) > MAX_CREDENTIAL:
        raise _UnreadableError
    try:
        text = raw.strip(b" \t").decode("utf-8")
    except UnicodeDecodeError:
        raise _UnreadableError from None
    if not is_plain(text):
        raise _UnreadableError
    return text


def _extra_key(raw: bytes) -> str:
    """Decode a key, which is percent-encoded because header names allow few characters."""
    try:
        key = unquote(raw.decode("ascii"), errors="strict").lower()
    except UnicodeDecodeError:
        raise _UnreadableError from None
    if not is_plain(key):
        raise _UnreadableError
    return key
