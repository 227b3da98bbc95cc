"""Extraction of credentials from request headers; no input from a client raises an exception here.

A duplicated header is refused: another server or proxy on the way might use the other value.
"""

import re
from typing import Final

from starlette.types import Scope

from apf_middleware.asgi.identity.verdict import Refused, refuse
from apf_middleware.asgi.scope import headers_of

__all__ = ["MAX_CREDENTIAL", "HeaderCredential", "header_values", "is_plain"]

MAX_CREDENTIAL: Final = 16 * 1024
"""The maximum length of a credential, in bytes."""

_MAX_SCHEME: Final = 64
_SCHEME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNPLAIN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VISIBLE: Final = re.compile(rb"[!-~]+")


def is_plain(text: str) -> bool:
    """Return whether the text has no control characters or lone surrogates, which are unsafe to log or to encode."""
    return _UNPLAIN.search(text) is None


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return all values of a header, in order."""
    return [value for key, value in headers_of(scope) if key == name]


class HeaderCredential:
    """A reader of the credential in one header, after a scheme if one is configured."""

    __slots__ = ("_header", "_scheme", "challenge", "header")

    def __init__(self, header: str, scheme: str) -> None:
        self.header: str = header
        self.challenge: str = scheme or "ApiKey"
        self._header = header.encode("ascii")
        self._scheme = scheme.lower().encode("ascii")

    def __repr__(self) -> str:
        return f"HeaderCredential({self.header!r}, {self._scheme.decode()!r})"

    def read(self, scope: Scope) -> str | Refused | None:
        """Return the credential or a refusal; None without a credential or with one of another scheme."""
        found = None
        for key, value in headers_of(scope):
            if key == self._header:
                if found is not None:
                    return self.refused("duplicate-header")
                found = value
        if found is None:
            return None
        if self._scheme:
            scheme, _, rest = found.partition(b" ")
            if scheme.lower() != self._scheme:
                # A long first word is probably a token without its scheme; a refusal makes this mistake visible.
                foreign = len(scheme) <= _MAX_SCHEME and _SCHEME.fullmatch(scheme)
                return None if foreign else self.refused("malformed")
            found = rest.strip(b" ")
        return self._checked(found)

    def _checked(self, found: bytes) -> str | Refused:
        if len(found) > MAX_CREDENTIAL:
            return self.refused("too-long")
        if not _VISIBLE.fullmatch(found):
            return self.refused("malformed")
        return found.decode("ascii")

    def refused(self, reason: str) -> Refused:
        """Return a refusal with a challenge that names the scheme."""
        return refuse(reason, self.challenge)
