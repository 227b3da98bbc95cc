"""Authentication by TLS client certificates, which the ASGI TLS extension describes.

As in Kubernetes, the common name is the user and the organizations are groups. A certificate counts only if the server
has verified it: a name that comes with an error is not used. Names are parsed strictly (RFC 4514), because the owner of
a certificate may have chosen parts of them: an escaped comma must not begin a new attribute.
"""

import hashlib
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final

from starlette.types import Scope

from apf_middleware.asgi.identity.credential import is_plain
from apf_middleware.asgi.identity.verdict import Authenticated, Facts, Refused, refuse
from apf_middleware.classification import Identity
from apf_middleware.classification.digest import authenticated_groups

__all__ = ["CertificateAuthenticator", "certificate_facts", "common_name", "parse_name", "whole_certificate_facts"]

_SCHEME: Final = "Certificate"
_MAX_NAME: Final = 16 * 1024
_OIDS: Final = {"2.5.4.3": "CN", "2.5.4.10": "O"}
_TYPE: Final = re.compile(r" *(?:OID\.)?([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*) *= *", re.IGNORECASE)
_VALUE: Final = re.compile(r'(?:[^\\,+"<>;\0]|\\[0-9A-Fa-f]{2}|\\[ "#+,;<=>\\])*')
_ESCAPED: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([ "#+,;<=>\\]))')
_ONLY_SPACES: Final = re.compile(r" *")


def certificate_facts(scope: Scope) -> Hashable | None:
    """Return the name and the error of the client's certificate, as text; None if there is neither."""
    connection = _connection(scope)
    name, error = connection.get("client_cert_name"), connection.get("client_cert_error")
    if name is None and error is None:
        return None
    return ("certificate", name if isinstance(name, str) else None, None if error is None else str(error))


def whole_certificate_facts(scope: Scope) -> Hashable | None:
    """Return `certificate_facts` and a digest of the chain, where authenticators of the app's own may find other names.

    Raises:
        TypeError: the chain isn't a list of texts; the request is then served without caches.
    """
    chain = _connection(scope).get("client_cert_chain") or ()
    if not isinstance(chain, list | tuple):
        raise TypeError("the chain of certificates must be a list")
    if not chain:
        return certificate_facts(scope)
    return (certificate_facts(scope), hashlib.blake2b("\n".join(chain).encode(), digest_size=32).digest())


def _connection(scope: Scope) -> Mapping[str, Any]:
    """Return the part of the scope that is about TLS, which is empty without TLS."""
    extensions = scope.get("extensions")
    found = extensions.get("tls") if isinstance(extensions, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _verified_name(scope: Scope) -> tuple[str | None, bool]:
    """Return the name in the certificate, and whether the certificate was verified."""
    facts = certificate_facts(scope)
    return (facts[1], facts[2] is None) if isinstance(facts, tuple) else (None, True)


def common_name(scope: Scope) -> str | None:
    """Return the common name of a verified certificate; None without one."""
    name, verified = _verified_name(scope)
    if name is None or not verified or len(name) > _MAX_NAME:
        return None
    return next((value for kind, value in parse_name(name) or () if kind == "CN"), None)


class CertificateAuthenticator:
    """An authenticator that uses the common name as the user and the organizations as the groups.

    If there are several common names, the first is used, which is the most specific one.
    """

    __slots__ = ()

    headers: frozenset[bytes] = frozenset()
    memorable = True
    facts: tuple[Facts, ...] = (certificate_facts,)

    def __repr__(self) -> str:
        return "CertificateAuthenticator()"

    def authenticate(self, scope: Scope) -> Authenticated | Refused | None:
        """Return the certificate's owner; None without a certificate or without a common name."""
        name, verified = _verified_name(scope)
        if not verified:
            return refuse("bad-certificate", _SCHEME)
        if name is None:
            return None
        parts = parse_name(name) if len(name) <= _MAX_NAME else None
        if parts is None or not all(is_plain(value) for _, value in parts):
            return refuse("malformed", _SCHEME)
        user = next((value for kind, value in parts if kind == "CN"), "")
        if not user:
            return None
        groups = [value for kind, value in parts if kind == "O" and value]
        return Authenticated(Identity(user, authenticated_groups(groups)))

    def refresh(self) -> bool:
        """Return False, because there is no state to refresh."""
        return False


def parse_name(text: str) -> list[tuple[str, str]] | None:
    """Return pairs of upper-case type and value, from a name like ``CN=alice,O=staff``; None if it is invalid."""
    found: list[tuple[str, str]] = []
    place = 0
    if _ONLY_SPACES.fullmatch(text):
        return found
    while True:
        kind = _TYPE.match(text, place)
        value = _VALUE.match(text, kind.end()) if kind else None
        if kind is None or value is None:
            return None
        name = _OIDS.get(kind[1], kind[1].upper())
        if not value[0].startswith("#"):  # otherwise hex-encoded, because the type has no text form; left out
            plain = _plain(value[0])
            if plain is None:
                return None
            found.append((name, plain))
        place = value.end()
        if place == len(text):
            return found
        if text[place] not in ",+":
            return None
        place += 1


def _plain(value: str) -> str | None:
    """Replace the escapes in a value and drop unescaped spaces at its end; None if the result isn't valid UTF-8."""
    end = len(value.rstrip(" "))
    if (end - len(value[:end].rstrip("\\"))) % 2:  # the last backslash escapes the space after it
        end += 1
    try:
        raw = value[:end].encode("utf-8")
        return _ESCAPED.sub(lambda one: bytes.fromhex(one[1].decode()) if one[1] else one[2], raw).decode("utf-8")
    except UnicodeError:
        return None
