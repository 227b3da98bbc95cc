"""Authentication by signed tokens (JWT). PyJWT verifies signatures; claims are validated here.

A token can't influence its own verification: its algorithm must be allowed and fit the key, it can only name a key that
is known already, and the headers jku, x5u and jwk are never read. Times are checked here, so that tests can replace the
clock.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import jwt
from starlette.types import Scope

from apf_middleware.asgi.identity.credential import HeaderCredential, is_plain
from apf_middleware.asgi.identity.keys import FetchedKeys, Keys, VerificationKey, read_jwks, read_key
from apf_middleware.asgi.identity.verdict import Authenticated, Facts, Refused
from apf_middleware.asgi.identity.watched import WatchedFile
from apf_middleware.classification import Identity
from apf_middleware.classification.digest import authenticated_groups
from apf_middleware.config.authentication import JwtSettings, credential_scheme

__all__ = ["JwtAuthenticator", "claim_at"]

_MOST_TRIED: Final = 8  # the most keys that are tried for one token
_LATEST: Final = 2**53  # larger numbers are not valid times
_JWS: Final = jwt.PyJWS()
_UNVERIFIED: Final[Any] = {"verify_signature": False}
_Claims = Mapping[str, Any]


class _BadTokenError(Exception):
    """A token is invalid; the argument is the reason."""


def _as_text(claim: object) -> object:
    """Return a claim as a configuration writes it: ``true`` and ``5`` as text."""
    if isinstance(claim, bool):
        return "true" if claim else "false"
    return str(claim) if isinstance(claim, int) else claim


def claim_at(claims: _Claims, path: str) -> object:
    """Return a claim by its name or, if no claim has this name, by its path through nested claims: ``a.b.c``."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


class JwtAuthenticator:
    """An authenticator that accepts valid tokens for the configured audiences.

    Tokens of other issuers than the configured one are refused. With ``key_file`` the issuer may be left empty; then
    it isn't checked.
    """

    __slots__ = ("_algorithms", "_clock", "_credential", "_leeway", "_settings", "_source", "headers")

    memorable = True
    facts: tuple[Facts, ...] = ()

    def __init__(
        self,
        settings: JwtSettings,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._leeway = settings.leeway_ns / 10**9
        self._algorithms = frozenset(settings.algorithms)
        self._credential = HeaderCredential(settings.header, credential_scheme(settings.header, settings.scheme))
        self.headers: frozenset[bytes] = frozenset((settings.header.encode("ascii"),))
        self._source = self._opened(monotonic)

    def _opened(self, monotonic: Callable[[], float]) -> WatchedFile[Keys] | FetchedKeys:
        settings, algorithms = self._settings, self._algorithms
        if settings.key_file:
            return WatchedFile("key_file", settings.key_file, lambda raw: read_key(raw, algorithms))
        if settings.jwks_file:
            return WatchedFile("jwks_file", settings.jwks_file, lambda raw: read_jwks(raw, algorithms))
        interval = settings.jwks_interval_ns / 10**9
        return FetchedKeys(settings.jwks_url, lambda raw: read_jwks(raw, algorithms), interval, monotonic)

    def __repr__(self) -> str:
        return f"JwtAuthenticator(issuer={self._settings.issuer!r}, {self._source!r})"

    @property
    def source_state(self) -> tuple[str, bool]:
        """The kind of the source of the keys, and whether it could not be read the last time."""
        settings = self._settings
        kind = "key-file" if settings.key_file else "jwks-file" if settings.jwks_file else "jwks-url"
        return kind, self._source.is_failing

    def authenticate(self, scope: Scope) -> Authenticated | Refused | None:
        """Return the identity in a valid token, or a refusal; None without a token."""
        token = self._credential.read(scope)
        if not isinstance(token, str):
            return token
        try:
            claims = self._verified(token)
            until = self._valid_until(claims)
            self._check_claims(claims)
            return Authenticated(self._identity(claims), until)
        except _BadTokenError as error:
            return self._credential.refused(str(error))

    def refresh(self) -> bool:
        """Take over changed keys, and return whether there were any."""
        return self._source.refresh()

    def _verified(self, token: str) -> _Claims:
        """Return the claims of a token that is signed with one of the keys."""
        header, claims = _opened_unverified(token)
        if self._settings.issuer and claims.get("iss") != self._settings.issuer:
            raise _BadTokenError("wrong-issuer")
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _BadTokenError("wrong-algorithm")
        if kid is not None and not isinstance(kid, str):
            raise _BadTokenError("malformed")
        fitting = [key for key in self._keys() if algorithm in key.algorithms]
        named = [key for key in fitting if key.kid == kid] if kid else fitting
        tried = named or [key for key in fitting if key.kid is None]
        if any(_signed(token, key, algorithm) for key in tried[:_MOST_TRIED]):
            return claims
        if isinstance(self._source, FetchedKeys):
            self._source.want()
        raise _BadTokenError("bad-signature" if named else "unknown-key")

    def _keys(self) -> Keys:
        keys = self._source.keys if isinstance(self._source, FetchedKeys) else self._source.content
        if keys is None:
            raise _BadTokenError("keys-unavailable")
        return keys

    def _valid_until(self, claims: _Claims) -> float | None:
        """Check the times of a token, with leeway on both sides, and return when it expires; None if never."""
        now = self._clock()
        expiry = _time(claims, "exp")
        if expiry is None and self._settings.require_expiry:
            raise _BadTokenError("no-expiry")
        if expiry is not None and now >= expiry + self._leeway:
            raise _BadTokenError("expired")
        for name in ("nbf", "iat"):
            begin = _time(claims, name)
            if begin is not None and now < begin - self._leeway:
                raise _BadTokenError("not-yet-valid")
        return None if expiry is None else expiry + self._leeway

    def _check_claims(self, claims: _Claims) -> None:
        audience = claims.get("aud")
        meant = [audience] if isinstance(audience, str) else audience
        ours = isinstance(meant, list) and any(one in self._settings.audiences for one in meant)
        # A token with an audience is meant for that audience only, even if the configuration names no audience.
        if not ours and (self._settings.audiences or audience is not None):
            raise _BadTokenError("wrong-audience")
        for path, value in self._settings.required_claims.items():
            found = claim_at(claims, path)
            if value not in map(_as_text, found if isinstance(found, list) else [found]):
                raise _BadTokenError("missing-claim")

    def _identity(self, claims: _Claims) -> Identity:
        settings = self._settings
        name = claim_at(claims, settings.username_claim)
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str) or not name:
            raise _BadTokenError("missing-claim")
        if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise _BadTokenError("unverified-email")
        groups = claim_at(claims, settings.groups_claim) if settings.groups_claim else None
        listed = [groups] if isinstance(groups, str) else [] if groups is None else groups
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise _BadTokenError("malformed")
        if not all(map(is_plain, (name, *listed))):
            raise _BadTokenError("malformed")
        name = settings.username_prefix + name
        names = [settings.groups_prefix + one for one in listed if one]
        if not settings.system_names:
            if name.startswith("system:"):
                raise _BadTokenError("reserved-name")
            names = [one for one in names if not one.startswith("system:")]
        return Identity(name, authenticated_groups(names))


def _opened_unverified(token: str) -> tuple[_Claims, _Claims]:
    """Return header and claims, which are not verified yet."""
    try:
        whole = jwt.decode_complete(token, options=_UNVERIFIED)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):  # untrusted JSON can cause any of these
        raise _BadTokenError("malformed") from None
    header, claims = whole["header"], whole["payload"]
    if "crit" in header or "b64" in header:  # critical extensions; none is supported
        raise _BadTokenError("malformed")
    return header, claims


def _signed(token: str, key: VerificationKey, algorithm: str) -> bool:
    try:
        _JWS.decode(token, key.key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return False
    return True


def _time(claims: _Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # The last comparison refuses NaN, too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise _BadTokenError("malformed")
    return float(value)
