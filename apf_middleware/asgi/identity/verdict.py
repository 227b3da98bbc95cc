"""What an authenticator says: who it is, or that the credentials are bad, and the words in which a caller hears that.

A reason is a short fixed word, because it becomes a metric's label; what the client reads is a sentence for it. Neither
ever repeats anything that the client sent.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from apf_middleware.classification import Identity

__all__ = ["AUTHENTICATED_GROUP", "DESCRIPTIONS", "Authenticated", "Facts", "Refused", "Verdict", "refuse"]

AUTHENTICATED_GROUP: Final = "system:authenticated"
"""The group of everybody who has shown credentials."""

Facts = Callable[[Scope], Hashable | None]
"""Something beside headers and the peer's address that an answer depends on; None if it isn't there."""

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "bad-certificate": "the client certificate could not be verified",
    "bad-signature": "the token's signature is wrong",
    "duplicate-header": "the header with the credentials came more than once",
    "expired": "the token has expired",
    "keys-unavailable": "the keys to check tokens with are not there yet",
    "malformed": "the credentials are not well-formed",
    "missing-claim": "the token lacks a claim that is required here",
    "no-expiry": "the token has no time of expiry",
    "not-yet-valid": "the token is not valid yet",
    "reserved-name": "the token claims a name that it may not have",
    "too-long": "the credentials are too long",
    "unknown-key": "the token is signed with an unknown key",
    "unknown-token": "the token is not known",
    "unverified-email": "the token's mail address is not verified",
    "wrong-algorithm": "the token is signed in a way that is not allowed",
    "wrong-audience": "the token is meant for somebody else",
    "wrong-issuer": "the token comes from somebody else",
}
"""Every reason of the authenticators here, and what the client is told."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who asks. After ``valid_until``, in seconds of the wall clock, it must be asked anew; None is no end."""

    identity: Identity
    valid_until: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Credentials were shown, and are bad: 401. ``challenge`` is the value of WWW-Authenticate."""

    challenge: str
    reason: str


Verdict = Authenticated | Refused


def refuse(reason: str, scheme: str = "Bearer") -> Refused:
    """A refusal for one of the known reasons; ``scheme`` is how one authenticates here."""
    error = f'error="invalid_token", error_description="{DESCRIPTIONS[reason]}"'
    return Refused(f'{scheme} realm="apf", {error}', reason)
