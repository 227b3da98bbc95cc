"""Scopes by hand, as a server would make them, and what comes of identifying them."""

from typing import Any

from apf_middleware.asgi.identity import Authenticated, Authenticator, Chain, Refused
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.classification import Identity

__all__ = ["Header", "group_of", "identity_of", "reason_of", "request", "tls", "verdict_of"]

Header = tuple[str | bytes, str | bytes]


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def request(*headers: Header, peer: str | None = "203.0.113.9", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return an HTTP request's scope; names of headers are taken as they are."""
    return {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(_bytes(name), _bytes(value)) for name, value in headers],
        "client": None if peer is None else (peer, 50_000),
        "extensions": {},
        **more,
    }


def tls(name: str | None, error: str | None = None) -> dict[str, Any]:
    """Return the extensions of a connection with a client certificate."""
    return {"tls": {"server_cert": None, "client_cert_name": name, "client_cert_error": error}}


def verdict_of(authenticators: Authenticator | list[Authenticator], scope: dict[str, Any]) -> Authenticated | Refused:
    """Return the verdict of a chain of these authenticators, which all answer at once."""
    several = authenticators if isinstance(authenticators, list) else [authenticators]
    verdict = Chain(several).identify(scope)
    assert isinstance(verdict, Authenticated | Refused)
    return verdict


def identity_of(authenticators: Authenticator | list[Authenticator], scope: dict[str, Any]) -> Identity:
    """Who it is."""
    verdict = verdict_of(authenticators, scope)
    assert isinstance(verdict, Authenticated), verdict
    return verdict.identity


def reason_of(authenticators: Authenticator | list[Authenticator], scope: dict[str, Any]) -> str:
    """Why it is refused."""
    verdict = verdict_of(authenticators, scope)
    assert isinstance(verdict, Refused), verdict
    assert DESCRIPTIONS[verdict.reason] in verdict.challenge
    return verdict.reason


def group_of(*groups: str) -> tuple[str, ...]:
    """Return the groups of a known user."""
    return (*groups, "system:authenticated")
