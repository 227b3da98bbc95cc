"""The interface of authenticators."""

from collections.abc import Awaitable
from typing import Protocol

from starlette.types import Scope

from apf_middleware.asgi.identity.verdict import Verdict

__all__ = ["Authenticator"]


# This module isn't compiled: Python code couldn't inherit from a compiled protocol.
class Authenticator(Protocol):
    """An authenticator of one kind of credentials.

    ``headers`` are the lower-case names of the headers that it reads. If ``memorable`` is true, its answers may be
    cached: they depend only on these headers, the peer's address, the name of ``scope["user"]``, the scopes of
    ``scope["auth"]`` and the TLS certificate. Requests with a user that has no name, or an ``auth`` without scopes, are
    served without the caches. An authenticator that depends on fewer or on other facts lists them in ``facts``, a tuple
    of functions of the scope; one may raise TypeError to keep a request from being cached.
    """

    @property
    def headers(self) -> frozenset[bytes]: ...

    @property
    def memorable(self) -> bool: ...

    def authenticate(self, scope: Scope) -> Verdict | Awaitable[Verdict | None] | None:
        """Return the caller's identity or a refusal; None if there are no credentials of this kind."""
        ...

    def refresh(self) -> bool:
        """Re-read what has changed, and return whether answers may differ now.

        The chain calls this at most once a second: never during a call of `authenticate`, but possibly while its result
        is awaited.
        """
        ...
