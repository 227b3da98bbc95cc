"""Verification keys from PEM, from a secret or from a JWKS, each with the algorithms for which it may be used.

The algorithms follow from the type of the key, never from a token. This prevents a public key from being used as an
HMAC secret.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from apf_middleware.asgi.identity.watched import BrokenLineError

__all__ = ["Keys", "VerificationKey", "read_jwks", "read_key"]

_LEAST_RSA: Final = 2048
_MOST_KEYS: Final = 100
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA: Final = frozenset({"PS256", "PS384", "PS512", "RS256", "RS384", "RS512"})
_PUBLIC: Final = frozenset({"kty", "crv", "x", "y", "n", "e", "k"})


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key and the algorithms for which it may be used; a ``kid`` of None fits tokens with any key ID or none."""

    key: Any
    algorithms: frozenset[str]
    kid: str | None = None

    def fits(self, algorithm: str, kid: str | None) -> bool:
        """Return whether the key may have signed a token with this algorithm and key ID."""
        return algorithm in self.algorithms and (self.kid is None or not kid or kid == self.kid)


Keys = tuple[VerificationKey, ...]


def read_key(raw: bytes, algorithms: frozenset[str]) -> Keys:
    """Read the single key of a file: a secret for HS algorithms, otherwise a public key or certificate in PEM."""
    pem = b"-----BEGIN" in raw
    if algorithms & _SECRET_BYTES.keys():
        if pem:
            raise BrokenLineError(
                "it is PEM, but HS algorithms need a secret; for a public key allow RS256 or the like"
            )
        secret = raw.strip(b"\r\n")
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
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BrokenLineError(f"it must be JSON: {error}", getattr(error, "lineno", 0)) from None
    keys = told.get("keys") if isinstance(told, dict) else None
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
        fitting = _fitting(key) & algorithms
        if "alg" in one:
            fitting &= {one["alg"]} if isinstance(one["alg"], str) else frozenset()
        kid = one.get("kid", "")
        if fitting and isinstance(kid, str):
            yield VerificationKey(key, fitting, kid)


def _from_jwk(told: Mapping[str, object]) -> object:
    """Read the public part of a key only, so that a private key in the set is never loaded; None if that fails."""
    try:
        return jwt.PyJWK.from_dict({key: value for key, value in told.items() if key in _PUBLIC}).key
    except Exception:  # noqa: BLE001 - malformed keys raise exceptions of many types
        return None
