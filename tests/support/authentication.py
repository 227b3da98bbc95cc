"""Scopes by hand, as a server would make them, and what comes of identifying them."""

import asyncio
from collections.abc import Awaitable
from functools import cache
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric import rsa

from apf_middleware.asgi.identity import (
    Authenticated,
    Authenticator,
    Chain,
    Refused,
    Verdict,
)
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.classification import Identity

__all__ = [
    "Fixed",
    "Header",
    "Scope",
    "group_of",
    "identity_of",
    "known",
    "reason_of",
    "request",
    "rsa_key",
    "settled",
    "tls",
    "verdict_of",
]

Header = tuple[str | bytes, str | bytes]


@cache
def rsa_key(name: Literal["one", "other"]) -> rsa.RSAPrivateKey:
    """Return one of the keys that all tests of a process share, because it takes 0.1 s to generate one."""
    return rsa.generate_private_key(65537, 2048)


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


Scope = dict[str, Any]


class Fixed:
    """Says the same to everybody, at once or later."""

    headers: frozenset[bytes] = frozenset()
    memorable = True

    def __init__(self, verdict: Verdict | None, *, later: bool = False) -> None:
        self.verdict = verdict
        self.later = later
        self.asked = 0
        self.refreshed = 0
        self.changed: bool | Exception = False

    def authenticate(self, _scope: Any) -> Verdict | Awaitable[Verdict | None] | None:  # noqa: ANN401
        self.asked += 1
        return self._later() if self.later else self.verdict

    async def _later(self) -> Verdict | None:
        await asyncio.sleep(0)
        return self.verdict

    def refresh(self) -> bool:
        self.refreshed += 1
        if isinstance(self.changed, Exception):
            raise self.changed
        return self.changed


def known(name: str) -> Authenticated:
    return Authenticated(Identity(name, group_of()))


def settled(chain: Chain, scope: Scope) -> Verdict:
    """Return the verdict, awaited if it has to be."""
    answer = chain.identify(scope)
    if isinstance(answer, Authenticated | Refused):
        return answer

    async def awaited() -> Verdict:
        return await answer

    return asyncio.run(awaited())
