"""Authentication by ``scope["user"]``, which an outer middleware may have set."""

from collections.abc import Hashable
from typing import Any

from starlette.types import Scope

from apf_middleware.asgi.identity.credential import is_plain
from apf_middleware.asgi.identity.verdict import AUTHENTICATED_GROUP, Authenticated, Facts
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import UserSettings

__all__ = ["UserAuthenticator", "user_facts"]


def user_facts(scope: Scope) -> Hashable | None:
    """Return the name and the scopes of an authenticated user; None if the scope has neither user nor auth."""
    user = scope.get("user")
    if user is None and scope.get("auth") is None:
        return None
    return ("user", _name(user), _scopes(scope))


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
    return (
        tuple(one for one in scopes if isinstance(one, str) and is_plain(one))
        if isinstance(scopes, list | tuple | set)
        else ()
    )


class UserAuthenticator:
    """An authenticator that trusts ``scope["user"]`` and optionally uses the scopes of ``scope["auth"]`` as groups.

    Scopes that begin with ``system:`` are ignored: groups of these names have special meanings, and an application
    that lets users choose their scopes doesn't expect this.
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
        """Return the user in the scope; None if there is none, or one that isn't authenticated."""
        user = scope.get("user")
        name = None if user is None else _name(user)
        if name is None:
            return None
        scopes = _scopes(scope) if self._scopes_as_groups else ()
        groups = [one for one in scopes if one and not one.startswith("system:")]
        return Authenticated(Identity(name, tuple(dict.fromkeys([*groups, AUTHENTICATED_GROUP]))))

    def refresh(self) -> bool:
        """Return False, because there is no state to refresh."""
        return False
