"""The chain of authenticators that identifies callers, and its default: ``scope["user"]`` of an outer middleware.

Authenticators run in order, and the first that recognizes the caller decides. A refusal is also final, except for the
reasons in `NOT_MINE`: the credentials may then be of another kind, because several kinds of bearer tokens share one
header. In that case the next authenticators run, and the caller is refused only if none of them recognizes it. A caller
without credentials is anonymous.
"""

import inspect
import logging
import traceback
from collections.abc import Awaitable, Hashable, Iterable
from dataclasses import replace
from typing import Any, Final

from starlette.types import Scope

from apf_middleware.asgi.identity.address import TrustedProxies
from apf_middleware.asgi.identity.authenticator import Authenticator
from apf_middleware.asgi.identity.certificate import certificate_facts, whole_certificate_facts
from apf_middleware.asgi.identity.credential import is_plain
from apf_middleware.asgi.identity.function import FunctionAuthenticator
from apf_middleware.asgi.identity.verdict import Authenticated, Facts, Refused, Verdict
from apf_middleware.asgi.scope import peer_address
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.classification.digest import AUTHENTICATED_GROUP, authenticated_groups
from apf_middleware.config.authentication import UserSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.log import log_event

__all__ = ["NOT_MINE", "Chain", "UserAuthenticator", "user_facts"]

NOT_MINE: Final = ("malformed", "unknown-token", "wrong-issuer", "unknown-key")
"""Reasons after which the next authenticator runs; all others are final. Those that say more come later."""

_NOBODY: Final = Authenticated(ANONYMOUS)
_SCOPES: Final = (list, tuple, set, frozenset)


def user_facts(scope: Scope) -> Hashable | None:
    """Return the name and the scopes of an authenticated user; None if the scope has neither user nor auth."""
    user = scope.get("user")
    if user is None and scope.get("auth") is None:
        return None
    return ("user", _name(user), _scopes(scope))


def _whole_user_facts(scope: Scope) -> Hashable | None:
    """Return `user_facts`, for authenticators of the app's own, which may read all of the user.

    Frameworks also set users without a name or ``is_authenticated``, and any object as ``auth``.

    Raises:
        TypeError: the facts wouldn't tell such users apart; the request is then served without caches.
    """
    user, auth = scope.get("user"), scope.get("auth")
    is_known = user is None or getattr(user, "is_authenticated", None) is False or _name(user) is not None
    scopes = () if auth is None else getattr(auth, "scopes", None)
    if not is_known or not isinstance(scopes, _SCOPES) or len(_scopes(scope)) < len(scopes):
        raise TypeError("users like this one can't be told apart")
    return user_facts(scope)


def _name(user: Any) -> str | None:  # noqa: ANN401 - applications may set any object
    """Return the name of the user; None if the user isn't authenticated or has no usable name."""
    if getattr(user, "is_authenticated", False) is not True:
        return None
    for attribute in ("identity", "display_name"):  # Starlette's BaseUser raises if a subclass doesn't define one
        try:
            name = getattr(user, attribute, None)
        except NotImplementedError:
            continue
        if isinstance(name, int) and not isinstance(name, bool):
            return str(name)
        if isinstance(name, str) and name and is_plain(name):
            return name
    return None


def _scopes(scope: Scope) -> tuple[str, ...]:
    scopes = getattr(scope.get("auth"), "scopes", None)
    return tuple(one for one in scopes if isinstance(one, str) and is_plain(one)) if isinstance(scopes, _SCOPES) else ()


class UserAuthenticator:
    """An authenticator that trusts ``scope["user"]`` and optionally uses the scopes of ``scope["auth"]`` as groups.

    Scopes that begin with ``system:`` are ignored, because groups with such names have special meanings, which an
    application doesn't expect if it lets users choose their scopes.
    """

    __slots__ = ("_scopes_as_groups",)

    headers: frozenset[bytes] = frozenset()
    memorable = True
    facts: tuple[Facts, ...] = (user_facts,)

    def __init__(self, settings: UserSettings | None = None) -> None:
        self._scopes_as_groups = settings is not None and settings.scopes_as_groups

    def __repr__(self) -> str:
        return f"UserAuthenticator(scopes_as_groups={self._scopes_as_groups})"

    def authenticate(self, scope: Scope) -> Authenticated | None:
        """Return the user in the scope; None if there is no user or the user isn't authenticated."""
        user = (scope if isinstance(scope, dict) else dict(scope)).get("user")
        name = None if user is None else _name(user)
        if name is None:
            return None
        scopes = _scopes(scope) if self._scopes_as_groups else ()
        groups = [one for one in scopes if one and not one.startswith("system:")]
        return Authenticated(Identity(name, authenticated_groups(groups)))

    def refresh(self) -> bool:
        """Return False, because there is no state to refresh."""
        return False


_ANY_FACTS: Final[tuple[Facts, ...]] = (_whole_user_facts, whole_certificate_facts)


class Chain:
    """All authenticators, and the proxies that are trusted to report client addresses."""

    __slots__ = (
        *("_asked", "_authenticators", "_facts", "_proxies", "_trusts_proxies"),
        *("asks_functions", "headers", "memorable", "reads_certificate", "reads_more", "reads_user"),
    )

    def __init__(
        self, authenticators: Iterable[Authenticator], *, trusted_proxies: TrustedProxies | None = None
    ) -> None:
        self._authenticators = tuple(authenticators)
        self._asked = tuple(one.authenticate for one in self._authenticators)
        self._proxies = TrustedProxies() if trusted_proxies is None else trusted_proxies
        self._trusts_proxies = bool(self._proxies.headers)
        by_authenticator = [(one, getattr(one, "facts", _ANY_FACTS)) for one in self._authenticators]
        facts = [fact for _, facts in by_authenticator for fact in facts]
        self._facts: tuple[Facts, ...] = tuple(dict.fromkeys(facts))
        self.headers: frozenset[bytes] = self._proxies.headers.union(*(one.headers for one in self._authenticators))
        self.memorable: bool = all(one.memorable for one in self._authenticators)
        # A function can't tell when its answers change, such as that a key has been revoked.
        self.asks_functions: bool = any(isinstance(one, FunctionAuthenticator) for one in self._authenticators)
        self.reads_user: bool = user_facts in self._facts
        self.reads_certificate: bool = certificate_facts in self._facts
        # Whether an answer may depend on more than scope["user"] and scope["extensions"]: on headers with a prefix, or
        # on scope["auth"] without a user. Only `UserAuthenticator` is known not to read scope["auth"] without a user.
        self.reads_more: bool = any(
            fact is not certificate_facts and not (fact is user_facts and isinstance(one, UserAuthenticator))
            for one, facts in by_authenticator
            for fact in facts
        )

    def __repr__(self) -> str:
        return f"Chain({list(self._authenticators)!r}, trusted_proxies={self._proxies!r})"

    def identify(self, scope: Scope) -> Verdict | Awaitable[Verdict]:
        """Return the caller's identity or a refusal, as an awaitable only if an authenticator has to be awaited."""
        refused: Refused | None = None
        for place, ask in enumerate(self._asked):
            answer = ask(scope)
            if answer is None:
                continue
            if not isinstance(answer, (Authenticated, Refused)):
                return self._continued(scope, answer, place, refused)
            if isinstance(answer, Authenticated):
                return _with_group(answer)
            if answer.reason not in NOT_MINE:
                return answer
            refused = _more_telling(refused, answer)
        return refused or _NOBODY

    async def _continued(
        self, scope: Scope, pending: Awaitable[Verdict | None], place: int, refused: Refused | None
    ) -> Verdict:
        """Continue `identify` from the authenticator at ``place``, with the answer ``pending``."""
        answer = await self._settled(pending, place)
        for following in range(place + 1, len(self._asked) + 1):
            if isinstance(answer, Authenticated):
                return _with_group(answer)
            if isinstance(answer, Refused):
                if answer.reason not in NOT_MINE:
                    return answer
                refused = _more_telling(refused, answer)
            if following < len(self._asked):
                answer = await self._settled(self._asked[following](scope), following)
        return refused or _NOBODY

    async def _settled(self, answer: object, place: int) -> Verdict | None:
        """Await ``answer`` if the authenticator at ``place`` has returned an awaitable, and check it."""
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None or isinstance(answer, (Authenticated, Refused)):
            return answer
        rule = "it must be Authenticated, Refused or None"
        raise InvalidValueError(f"what {self._authenticators[place]!r} returned", answer, rule)

    def caller_facts(self, scope: Scope) -> tuple[Hashable, ...]:
        """Return the facts on which `identify` depends, besides headers and the peer's address; usually none."""
        if not self._facts:
            return ()
        return tuple(found for fact in self._facts if (found := fact(scope)) is not None)

    def client_address(self, scope: Scope) -> str:
        """Return the address of the client, also if it is behind trusted proxies; empty if there is no address."""
        return self._proxies.client_address(scope) if self._trusts_proxies else peer_address(scope)

    def comes_from_proxy(self, scope: Scope) -> bool:
        """Return whether the request has come through a trusted proxy."""
        return self._proxies.is_peer(scope)

    def failing_sources(self) -> dict[str, int]:
        """Return how many files and URLs of tokens or keys could not be read the last time, for each kind there is."""
        found: dict[str, int] = {}
        for one in self._authenticators:
            state: tuple[str, bool] | None = getattr(one, "source_state", None)
            if state is not None:
                kind, is_failing = state
                found[kind] = found.get(kind, 0) + is_failing
        return found

    def refresh(self) -> bool:
        """Refresh all authenticators, and return whether cached answers may be out of date."""
        changed = False
        for one in self._authenticators:
            try:
                changed = one.refresh() or changed
            except Exception as error:  # noqa: BLE001 - a failure of one must not keep the others from refreshing
                trace = "".join(traceback.format_exception(error))
                log_event(logging.ERROR, "apf.identity-refresh-failed", authenticator=repr(one), error=trace)
        return changed


def _more_telling(before: Refused | None, after: Refused) -> Refused:
    """Return the refusal that says more: of an API key, a check for JWTs only knows that it is none."""
    if before is not None and NOT_MINE.index(before.reason) >= NOT_MINE.index(after.reason):
        return before
    return after


def _with_group(answer: Authenticated) -> Authenticated:
    """Add the group ``system:authenticated`` to every identity that isn't anonymous."""
    identity = answer.identity
    groups = identity.groups
    if AUTHENTICATED_GROUP in groups or identity.name == ANONYMOUS.name or ANONYMOUS.groups[0] in groups:
        return answer
    return replace(answer, identity=replace(identity, groups=(*groups, AUTHENTICATED_GROUP)))
