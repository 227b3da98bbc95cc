"""Authentication by static tokens: API keys and bearer tokens, from a file in Kubernetes' format or from Python.

Neither the memory nor the timing of a look-up reveals a token. Tokens are stored as SHA-256 digests and indexed by a
keyed BLAKE2b hash of the digest, with a random key for each process. The timing of the look-up depends on the keyed
hash only, which a client can't predict. The digest that is found is compared in constant time.
"""

import csv
import hashlib
import hmac
import io
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from starlette.types import Scope

from apf_middleware.asgi.identity.credential import HeaderCredential
from apf_middleware.asgi.identity.verdict import Authenticated, Facts, Refused
from apf_middleware.asgi.identity.watched import BrokenLineError, WatchedFile
from apf_middleware.classification import Identity
from apf_middleware.classification.digest import authenticated_groups
from apf_middleware.config.authentication import TokenSettings, credential_scheme
from apf_middleware.exceptions import InvalidValueError

__all__ = ["TokenAuthenticator", "read_tokens"]

_HASHED: Final = "sha256:"
_VISIBLE: Final = re.compile(r"[!-~]+")
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")

_Digests = Mapping[bytes, Identity]


def read_tokens(raw: bytes) -> _Digests:
    """Return identities by digest, from rows ``token,user,uid,"group1,group2"``; ``sha256:…`` in hex may be the token.

    Raises:
        BrokenLineError: a row is invalid.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenLineError("it must be UTF-8", raw.count(b"\n", 0, error.start) + 1) from None
    found: dict[bytes, Identity] = {}
    rows = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        for row in rows:
            if any(map(str.strip, row)):
                digest, identity = _row(row, rows.line_num)
                if digest in found:
                    raise BrokenLineError("a token must not occur twice", rows.line_num)
                found[digest] = identity
    except csv.Error as error:
        raise BrokenLineError(f"it must be CSV: {error}", rows.line_num) from None
    return found


def _row(row: list[str], line: int) -> tuple[bytes, Identity]:
    if len(row) not in (3, 4):
        rule = f'a row must be token,user,uid or token,user,uid,"group1,group2", not {len(row)} columns'
        raise BrokenLineError(rule, line)
    token, name, uid, groups = (one.strip() for one in (*row, "")[:4])
    if not name:
        raise BrokenLineError("the user must not be empty", line)
    if (token.lower(), name.lower()) == ("token", "user"):
        raise BrokenLineError("there must be no line of headings: everybody would know the token in it", line)
    try:
        return _digest(token), _identity(name, uid, map(str.strip, groups.split(",")))
    except ValueError as error:
        raise BrokenLineError(str(error), line) from None


def _identity(name: str, uid: str, groups: Iterable[str]) -> Identity:
    return Identity(name, authenticated_groups(one for one in groups if one), uid)


def _digest(token: str) -> bytes:
    """Return the digest of a token, which may be given as its digest: ``sha256:…``.

    Raises:
        ValueError: the token is malformed. The message doesn't contain the token.
    """
    if token.startswith(_HASHED):
        digits = token.removeprefix(_HASHED)
        if not _HEX.fullmatch(digits):
            raise ValueError("sha256: must be followed by 64 hexadecimal digits")
        return bytes.fromhex(digits)
    if not _VISIBLE.fullmatch(token):
        raise ValueError("a token must be visible ASCII characters without spaces")
    return hashlib.sha256(token.encode("ascii")).digest()


def _given(tokens: Mapping[str, Identity]) -> _Digests:
    found = {}
    for token, identity in tokens.items():
        try:
            found[_digest(token)] = replace(identity, groups=authenticated_groups(identity.groups))
        except ValueError as error:
            raise InvalidValueError("tokens", f"the token of {identity.name}", str(error)) from None
    return found


class TokenAuthenticator:
    """An authenticator with tokens from a file or from a mapping; the keys of a mapping may be ``sha256:…`` too."""

    __slots__ = ("_credential", "_file", "_key", "_known", "headers")

    memorable = True
    facts: tuple[Facts, ...] = ()

    def __init__(
        self,
        tokens: TokenSettings | Mapping[str, Identity],
        *,
        header: str = "authorization",
        scheme: str | None = None,
    ) -> None:
        # The settings check header and scheme, so they are made even if the tokens don't come from a file.
        checked = tokens if isinstance(tokens, TokenSettings) else TokenSettings("-", header, scheme)
        self._credential = HeaderCredential(checked.header, credential_scheme(checked.header, checked.scheme))
        self.headers: frozenset[bytes] = frozenset((checked.header.encode("ascii"),))
        self._key = secrets.token_bytes(32)
        self._file: WatchedFile[_Digests] | None = None
        if isinstance(tokens, TokenSettings):
            self._file = WatchedFile("file", tokens.file, read_tokens)
            self._learn(self._file.content)
        else:
            self._learn(_given(tokens))

    def __repr__(self) -> str:
        return f"TokenAuthenticator({len(self._known)} tokens, {self._credential!r}, {self._file!r})"

    def _learn(self, digests: _Digests) -> None:
        self._known = {self._blinded(digest): (digest, Authenticated(identity)) for digest, identity in digests.items()}

    def _blinded(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key, digest_size=32).digest()

    def authenticate(self, scope: Scope) -> Authenticated | Refused | None:
        """Return the owner of the token, or a refusal; None without a token."""
        token = self._credential.read(scope)
        if not isinstance(token, str):
            return token
        digest = hashlib.sha256(token.encode("ascii")).digest()
        known = self._known.get(self._blinded(digest))
        if known is None or not hmac.compare_digest(known[0], digest):
            return self._credential.refused("unknown-token")
        return known[1]

    @property
    def source_state(self) -> tuple[str, bool] | None:
        """The kind of the source of the tokens, and whether it could not be read the last time; None without a file."""
        return None if self._file is None else ("token-file", self._file.is_failing)

    def refresh(self) -> bool:
        """Read the file again if it has changed, and return whether its content is different."""
        if self._file is None or not self._file.refresh():
            return False
        self._learn(self._file.content)
        return True
