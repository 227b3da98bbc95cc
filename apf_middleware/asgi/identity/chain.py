"""The chain of authenticators: who is this?

They are asked in order. The first that knows the caller decides. One that refuses decides too, unless it says no more
than that the credentials aren't of its kind: two kinds of bearer tokens come in one header, so then the next are asked,
and the caller is refused only if none of them knows it. Who shows no credentials at all is anonymous.
"""

import logging
from collections.abc import Awaitable, Hashable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from starlette.types import Scope

from apf_middleware.asgi.identity.address import TrustedProxies
from apf_middleware.asgi.identity.certificate import certificate_facts
from apf_middleware.asgi.identity.user import UserAuthenticator, user_facts
from apf_middleware.asgi.identity.verdict import AUTHENTICATED_GROUP, Authenticated, Facts, Refused, Verdict
from apf_middleware.classification import ANONYMOUS

__all__ = ["NOT_MINE", "Authenticator", "Chain", "Facts"]

NOT_MINE: Final = frozenset({"malformed", "unknown-key", "unknown-token", "wrong-issuer"})
"""Reasons after which the next authenticator is asked; all others are final."""

_ANY_FACTS: Final[tuple[Facts, ...]] = (user_facts, certificate_facts)
_NOBODY: Final = Authenticated(ANONYMOUS)
_log: Final = logging.getLogger(__name__)


class Authenticator(Protocol):
    """Knows one kind of credentials.

    ``headers`` are the names, in lower case, of those that it reads. ``memorable``: its answer depends on nothing but
    these, the peer's address, the name of ``scope["user"]``, the scopes of ``scope["auth"]`` and the TLS certificate,
    so it may be remembered. One that needs less than these, or something else, says so in ``facts``, a tuple of
    functions from the scope.
    """

    @property
    def headers(self) -> frozenset[bytes]: ...

    @property
    def memorable(self) -> bool: ...

    def authenticate(self, scope: Scope) -> Verdict | Awaitable[Verdict | None] | None:
        """Who it is, or that the credentials are bad; None if there are none of this kind."""
        ...

    def refresh(self) -> bool:
        """Called at most once a second, outside of decisions: re-read what has changed. True if answers may differ."""
        ...


class Chain:
    """All authenticators, and the proxies that are trusted with client addresses."""

    __slots__ = (
        *("_asked", "_authenticators", "_facts", "_proxies"),
        *("headers", "memorable", "reads_certificate", "reads_more", "reads_user"),
    )

    def __init__(
        self, authenticators: Iterable[Authenticator], *, trusted_proxies: TrustedProxies | None = None
    ) -> None:
        self._authenticators = tuple(authenticators)
        self._asked = tuple(one.authenticate for one in self._authenticators)
        self._proxies = TrustedProxies() if trusted_proxies is None else trusted_proxies
        told = [(one, getattr(one, "facts", _ANY_FACTS)) for one in self._authenticators]
        facts = [fact for _, facts in told for fact in facts]
        self._facts: tuple[Facts, ...] = tuple(dict.fromkeys(facts))
        self.headers: frozenset[bytes] = self._proxies.headers.union(*(one.headers for one in self._authenticators))
        self.memorable: bool = all(one.memorable for one in self._authenticators)
        self.reads_user: bool = user_facts in self._facts
        self.reads_certificate: bool = certificate_facts in self._facts
        # Whether an answer may depend on more than what stands under "user" and "extensions": on headers that begin
        # in some way, or on ``scope["auth"]`` alone, which only our own reader of users never looks at by itself.
        self.reads_more: bool = any(
            fact is not certificate_facts and not (fact is user_facts and isinstance(one, UserAuthenticator))
            for one, facts in told
            for fact in facts
        )

    def __repr__(self) -> str:
        return f"Chain({list(self._authenticators)!r}, trusted_proxies={self._proxies!r})"

    def identify(self, scope: Scope) -> Verdict | Awaitable[Verdict]:
        """Who asks. Only where an authenticator has to be awaited is the answer to be awaited."""
        refused: Refused | None = None
        for place, ask in enumerate(self._asked):
            answer = ask(scope)
            if answer is None:
                continue
            if not isinstance(answer, Authenticated | Refused):
                return self._continued(scope, answer, place, refused)
            if isinstance(answer, Authenticated):
                return _with_group(answer)
            if answer.reason not in NOT_MINE:
                return answer
            refused = refused or answer
        return refused or _NOBODY

    async def _continued(
        self, scope: Scope, pending: Awaitable[Verdict | None], place: int, refused: Refused | None
    ) -> Verdict:
        """The same from the one on who has to be awaited."""
        answer = await pending
        for ask in (*self._asked[place + 1 :], None):
            if isinstance(answer, Authenticated):
                return _with_group(answer)
            if isinstance(answer, Refused):
                if answer.reason not in NOT_MINE:
                    return answer
                refused = refused or answer
            if ask is not None:
                asked = ask(scope)
                answer = asked if asked is None or isinstance(asked, Authenticated | Refused) else await asked
        return refused or _NOBODY

    def caller_facts(self, scope: Scope) -> tuple[Hashable, ...]:
        """What beside headers and the peer's address `identify` depends on; empty in the common case."""
        if not self._facts:
            return ()
        return tuple(found for fact in self._facts if (found := fact(scope)) is not None)

    def client_address(self, scope: Scope) -> str:
        """The client's address, behind proxies that are trusted to tell it; empty if there is none."""
        return self._proxies.client_address(scope)

    def comes_from_proxy(self, scope: Scope) -> bool:
        """Whether a trusted proxy has passed a request on."""
        return self._proxies.is_peer(scope)

    def refresh(self) -> bool:
        """Ask each to re-read what has changed; True if what was answered before may be answered otherwise now."""
        changed = False
        for one in self._authenticators:
            try:
                changed = one.refresh() or changed
            except Exception:  # noqa: BLE001 (logged whole; what one of them can't do must not keep the others from it)
                _log.exception("%r could not refresh", one, extra={"event": "identity-refresh-failed"})
        return changed


def _with_group(answer: Authenticated) -> Authenticated:
    """Everybody who is known by name is in ``system:authenticated`` too."""
    identity = answer.identity
    groups = identity.groups
    if AUTHENTICATED_GROUP in groups or identity.name == ANONYMOUS.name or ANONYMOUS.groups[0] in groups:
        return answer
    return replace(answer, identity=replace(identity, groups=(*groups, AUTHENTICATED_GROUP)))
