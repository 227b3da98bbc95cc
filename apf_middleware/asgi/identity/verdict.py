"""The results of authenticators: an identity, or a refusal with a reason.

A reason is a short fixed word, because metrics use it as a label; the client receives a sentence that describes it.
Neither contains anything that the client has sent.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from apf_middleware.classification import Identity
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError

__all__ = ["DESCRIPTIONS", "Authenticated", "Facts", "Refused", "Verdict", "refuse"]

Facts = Callable[[Scope], Hashable | None]
"""A function that returns a fact on which an answer depends, besides headers and the peer's address; None if absent."""

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "bad-certificate": "the client certificate could not be verified",
    "bad-signature": "the token's signature is wrong",
    "duplicate-header": "the header with the credentials occurs more than once",
    "expired": "the token has expired",
    "keys-unavailable": "the keys to verify tokens are not available yet",
    "malformed": "the credentials are not well-formed",
    "missing-claim": "the token lacks a claim that is required here",
    "no-expiry": "the token has no time of expiry",
    "not-yet-valid": "the token is not valid yet",
    "reserved-name": "the token claims a reserved name",
    "too-long": "the credentials are too long",
    "unknown-key": "the token is signed with an unknown key",
    "unknown-token": "the token is not known",
    "unverified-email": "the token's mail address is not verified",
    "wrong-algorithm": "the token is signed with an algorithm that is not allowed",
    "wrong-audience": "the token is meant for another audience",
    "wrong-issuer": "the token comes from another issuer",
}
"""The reasons of the built-in authenticators, with the descriptions that clients receive."""


@dataclass(frozen=True, slots=True)
class Authenticated(Value):
    """The caller's identity, valid until the time ``valid_until`` in wall-clock seconds; None means without a limit."""

    identity: Identity
    valid_until: float | None = None


@dataclass(frozen=True, slots=True)
class Refused(Value):
    """A refusal of bad credentials, answered with 401; ``challenge`` is the value of WWW-Authenticate."""

    challenge: str
    reason: str


Verdict = Authenticated | Refused


def refuse(reason: str, scheme: str = "Bearer") -> Refused:
    """Return a refusal for one of the known reasons, with a challenge for the authentication ``scheme``."""
    if reason not in DESCRIPTIONS:
        hint = "Return Refused(challenge, reason) for a reason of your own, which must be one of a few short words"
        raise InvalidValueError("reason", reason, f"it must be one of {', '.join(DESCRIPTIONS)}", hint)
    error = f'error="invalid_token", error_description="{DESCRIPTIONS[reason]}"'
    return Refused(f'{scheme} realm="apf", {error}', reason)
