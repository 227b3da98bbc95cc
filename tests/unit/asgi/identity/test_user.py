"""``scope["user"]``, as Starlette's authentication middleware sets it, and as others do."""

from typing import Any

import pytest
from starlette.authentication import AuthCredentials, BaseUser, SimpleUser, UnauthenticatedUser

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.identity.user import UserAuthenticator, user_facts
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import UserSettings
from tests.support.authentication import group_of, identity_of, request


class Shown(BaseUser):
    """Has a name to show and no identity, which Starlette's class then raises for."""

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def display_name(self) -> str:
        return "shown"


class Odd:
    """Whatever an application may put there."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("user", "name"),
    [
        (SimpleUser("alice"), "alice"),
        (Shown(), "shown"),
        (Odd(is_authenticated=True, identity=7), "7"),
        (Odd(is_authenticated=True, identity="", display_name="b"), "b"),
        (UnauthenticatedUser(), "system:anonymous"),
        (None, "system:anonymous"),
        ({"name": "alice"}, "system:anonymous"),
        (Odd(identity="alice"), "system:anonymous"),
        (Odd(is_authenticated=True), "system:anonymous"),
        (Odd(is_authenticated="no", identity="alice"), "system:anonymous"),
        (Odd(is_authenticated=True, identity="a\nb"), "system:anonymous"),
        (Odd(is_authenticated=True, identity="\ud800"), "system:anonymous"),
        (Odd(is_authenticated=True, identity=["alice"]), "system:anonymous"),
    ],
)
def test_an_authenticated_user_is_known_by_identity_or_name(user: object, name: str) -> None:
    assert identity_of(UserAuthenticator(), request(user=user)).name == name


def test_scopes_are_groups_by_option_but_never_those_of_the_system() -> None:
    scopes = AuthCredentials(["read", "system:masters", "system:authenticated", "write", ""])
    scope = request(user=SimpleUser("alice"), auth=scopes)

    assert identity_of(UserAuthenticator(), scope) == Identity("alice", group_of())
    with_groups = UserAuthenticator(UserSettings(scopes_as_groups=True))
    assert identity_of(with_groups, scope).groups == group_of("read", "write")


@pytest.mark.parametrize("auth", [None, 7, Odd(), Odd(scopes=None), Odd(scopes="read"), Odd(scopes=[7])])
def test_odd_scopes_are_none(auth: object) -> None:
    with_groups = UserAuthenticator(UserSettings(scopes_as_groups=True))

    assert identity_of(with_groups, request(user=SimpleUser("a"), auth=auth)).groups == group_of()


def test_facts_tell_users_and_their_scopes_apart() -> None:
    chain = Chain([UserAuthenticator()])
    alice = request(user=SimpleUser("alice"), auth=AuthCredentials(["a"]))

    assert chain.reads_user
    assert chain.caller_facts(request()) == ()
    assert chain.caller_facts(request(user=None, auth=None)) == ()
    assert chain.caller_facts(alice) == (("user", "alice", ("a",)),)
    assert chain.caller_facts(alice) != chain.caller_facts(request(user=SimpleUser("bob"), auth=AuthCredentials(["a"])))
    assert chain.caller_facts(alice) != chain.caller_facts(request(user=SimpleUser("alice")))
    assert hash(chain.caller_facts(alice))
    assert user_facts(request(auth=AuthCredentials(["a"]))) == ("user", None, ("a",))
