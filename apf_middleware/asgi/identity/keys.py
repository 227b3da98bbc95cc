"""Verification keys from PEM, from a secret or from a JWKS, each with the algorithms for which it may be used.

The algorithms follow from the type of the key, never from a token. This prevents a public key from being used as an
HMAC secret.

A JWKS may be fetched from a URL, in a background thread. Fetched keys stay in force while the issuer can't be reached.
The set is fetched again at an interval, and earlier when a token is signed with none of the known keys: it may name a
new key, or the issuer may have replaced one without another name. Any client can send such a token, so there are at
least ten seconds between two fetches. Failed fetches are repeated after ten seconds, then with a delay that doubles up
to the interval. All these times count from the end of the fetch before, because a fetch may take longer than the delay.
A thread ends with its fetch, so a server may fork its workers afterwards.
"""

import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Never

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from apf_middleware.asgi.identity.watched import BrokenLineError
from apf_middleware.runtime.log import log_event

__all__ = ["MAX_BYTES", "RETRY_SECONDS", "FetchedKeys", "Keys", "VerificationKey", "read_jwks", "read_key"]

MAX_BYTES: Final = 2**20
"""The maximum size of a JWKS, in bytes."""

RETRY_SECONDS: Final = 10.0
"""The minimum time between the end of a fetch and the next one."""

_TIMEOUT: Final = 5.0  # for each step of a fetch
_DEADLINE: Final = 30.0  # for the whole fetch, so that a slow server can't occupy the thread
_LEAST_RSA: Final = 2048
_MOST_KEYS: Final = 100
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA: Final = frozenset({"PS256", "PS384", "PS512", "RS256", "RS384", "RS512"})
_PUBLIC: Final = frozenset({"kty", "crv", "x", "y", "n", "e", "k"})


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key, the algorithms for which it may be used, and its ID; a key without an ID may have signed any token."""

    key: Any
    algorithms: frozenset[str]
    kid: str | None = None


Keys = tuple[VerificationKey, ...]


def read_key(raw: bytes, algorithms: frozenset[str]) -> Keys:
    """Read the single key of a file: a secret for HS algorithms, otherwise a public key or certificate in PEM."""
    pem = b"-----BEGIN" in raw
    if algorithms & _SECRET_BYTES.keys():
        if pem:
            raise BrokenLineError(
                "it is PEM, but HS algorithms need a secret; for a public key, allow another algorithm, such as RS256"
            )
        # Editors end a file with a line break. Other white space may belong to the secret.
        secret = raw.strip(b"\r\n")
        # RFC 7518, 3.2, requires that a secret is at least as long as the output of the hash.
        fitting = frozenset(one for one in algorithms if len(secret) >= _SECRET_BYTES[one])
        if fitting != algorithms:
            least = max(_SECRET_BYTES[one] for one in algorithms)
            rule = f"the secret must have at least {least} bytes for {', '.join(sorted(algorithms))}, not {len(secret)}"
            raise BrokenLineError(rule)
        return (VerificationKey(secret, algorithms),)
    if b"PRIVATE KEY" in raw:
        raise BrokenLineError("it is a private key, which only the issuer should have; use the public key")
    if not pem:
        raise BrokenLineError(f"it must be a public key or a certificate in PEM for {', '.join(sorted(algorithms))}")
    key = _public_key(raw)
    fitting = _fitting(key) & algorithms
    if not fitting:
        raise BrokenLineError(
            f"a {type(key).__name__} of this size or curve fits none of {', '.join(sorted(algorithms))}"
        )
    return (VerificationKey(key, fitting),)


def _public_key(raw: bytes) -> object:
    try:
        if b"-----BEGIN CERTIFICATE" in raw:
            return load_pem_x509_certificate(raw).public_key()
        return load_pem_public_key(raw)
    except Exception as error:  # noqa: BLE001 - the parsers of cryptography document no common base class
        raise BrokenLineError(f"it must be a public key or a certificate in PEM: {error}") from None


def _fitting(key: object) -> frozenset[str]:
    """Return the algorithms for which a key of this type can be used; none if it is too weak."""
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size >= _LEAST_RSA else frozenset()
    if isinstance(key, EllipticCurvePublicKey):
        return frozenset({_CURVES[key.curve.name]}) if key.curve.name in _CURVES else frozenset()
    if isinstance(key, Ed25519PublicKey | Ed448PublicKey):
        return frozenset({"EdDSA"})
    if isinstance(key, bytes):
        return frozenset(one for one, least in _SECRET_BYTES.items() if len(key) >= least)
    return frozenset()


def read_jwks(raw: bytes, algorithms: frozenset[str]) -> Keys:
    """Read the keys of a JWKS that fit the algorithms; others are skipped, as RFC 7517 recommends.

    A set without a fitting key is an error. A set from a URL can't provide secrets, because the configuration doesn't
    allow HS algorithms together with a URL.
    """
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BrokenLineError(f"it must be JSON: {error}", getattr(error, "lineno", 0)) from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise BrokenLineError('it must be a JWKS: {"keys": [...]}')
    found = tuple(_understood(keys[:_MOST_KEYS], algorithms))
    if not found:
        rule = f"none of its {len(keys)} keys fits {', '.join(sorted(algorithms))}"
        raise BrokenLineError(rule)
    return found


def _understood(keys: list[object], algorithms: frozenset[str]) -> Iterator[VerificationKey]:
    for one in keys:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        purposes = one.get("key_ops", ["verify"])
        if not isinstance(purposes, list) or "verify" not in purposes:
            continue
        key = _from_jwk(one)
        # The type of the key decides which algorithms fit; the issuer's ``alg`` can only exclude some of them.
        fitting = _fitting(key) & algorithms
        if "alg" in one:
            fitting &= {one["alg"]} if isinstance(one["alg"], str) else frozenset()
        kid = one.get("kid", "")
        if fitting and isinstance(kid, str):
            yield VerificationKey(key, fitting, kid or None)


def _from_jwk(jwk: Mapping[str, object]) -> object:
    """Read the public part of a key only, so that a private key in the set is never loaded; None if that fails."""
    try:
        public = {key: value for key, value in jwk.items() if key in _PUBLIC}
        # PyJWT derives the algorithm of Ed25519 from the key, and not that of Ed448.
        return jwt.PyJWK.from_dict(public, "EdDSA" if jwk.get("kty") == "OKP" else None).key
    except Exception:  # noqa: BLE001 - malformed keys raise exceptions of many types
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Reject redirects: only the configuration decides where keys come from."""

    def redirect_request(self, *_arguments: Any) -> Never:  # noqa: ANN401 (urllib's arguments)
        raise urllib.error.URLError("it must not redirect; configure the URL to which it redirects")


class FetchedKeys:
    """The keys at a URL; ``keys`` is None before the first successful fetch.

    They are ``is_failing`` while the last fetch has failed.
    """

    __slots__ = (
        *("_clock", "_due", "_fresh", "_interval", "_last", "_read", "_thread", "_wait", "_wanted"),
        *("failures", "fetches", "is_failing", "keys", "url"),
    )

    def __init__(
        self, url: str, read: Callable[[bytes], Keys], interval: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.url = url
        self.keys: Keys | None = None
        self.fetches: int = 0
        self.failures: int = 0
        self.is_failing: bool = False
        self._read = read
        self._interval = interval
        self._clock = clock
        self._wait = RETRY_SECONDS
        self._fresh: Keys | None = None  # written by the thread and taken over by `refresh`
        # at once, so that the keys are there when the first requests arrive
        self._start(clock())

    def __repr__(self) -> str:
        known = "no keys yet" if self.keys is None else f"{len(self.keys)} keys"
        return f"FetchedKeys({self.url!r}, {known}, fetches={self.fetches}, failures={self.failures})"

    def want(self) -> None:
        """Request an early fetch, because no known key has signed a token."""
        self._wanted = True

    def refresh(self) -> bool:
        """Take over fetched keys, start a fetch that is due, and return whether the keys have changed."""
        fresh, changed = self._fresh, False
        if fresh is not None:
            self._fresh = None  # not cleared if it was None: that could lose keys that the thread stores just now
            changed, self.keys = fresh != self.keys, fresh
        # At most one thread runs: of two, the later one could bring older keys. It sets the times at its end, so only
        # then are they read.
        if self._thread.is_alive():
            return changed
        now = self._clock()
        if now >= self._due or (self._wanted and now >= self._last + RETRY_SECONDS):
            self._start(now)
        return changed

    def _start(self, now: float) -> None:
        self._wanted = False
        # replaced when the fetch ends; these count only if its thread dies
        self._last, self._due = now, now + self._wait
        self._thread = threading.Thread(target=self._fetch, name="apf-jwks", daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        self.fetches += 1
        try:
            keys = self._read(_downloaded(self.url))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.failures += 1
            self.is_failing = True
            # before the wait is doubled, because the warning names the present one
            self._tell(error.rule if isinstance(error, BrokenLineError) else str(error))
            pause = self._wait
            self._wait = min(2 * self._wait, max(self._interval, RETRY_SECONDS))
        else:
            self.is_failing = False
            self._wait = RETRY_SECONDS
            pause = self._interval
            if self.keys is None:  # no token was accepted before, so no cached answer has to be cleared first
                self.keys = keys
            else:
                self._fresh = keys
        self._last = self._clock()
        self._due = self._last + pause

    def _tell(self, why: str) -> None:
        log_event(
            logging.WARNING,
            "apf.identity-keys-unavailable",
            url=self.url,
            error=why,
            failures=self.failures,
            hint=f"known keys stay in force, next try in {self._wait:.0f} s",
        )


def _downloaded(url: str) -> bytes:
    deadline = time.monotonic() + _DEADLINE
    request = urllib.request.Request(url, headers={"accept": "application/json"})  # noqa: S310 (checked: http or https)
    # Without TLS the way to the keys is trusted, which a proxy that the environment names isn't a part of.
    proxies = urllib.request.ProxyHandler({} if request.type == "http" else None)
    found = bytearray()
    with urllib.request.build_opener(_NoRedirect, proxies).open(request, timeout=_TIMEOUT) as response:
        # `read` would block until a whole part has arrived, so a slow server could delay the check of the deadline.
        while part := response.read1(65536):
            found += part
            if len(found) > MAX_BYTES:
                raise BrokenLineError(f"it must not be longer than {MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"it took longer than {_DEADLINE:.0f} s")
    return bytes(found)
