"""The chain: which authenticator decides, and what its verdicts depend on."""

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.authentication import AuthCredentials, BaseUser, SimpleUser, UnauthenticatedUser

from apf_middleware.asgi.identity import (
    Authenticated,
    Chain,
    Refused,
    TokenAuthenticator,
    TrustedProxies,
    Verdict,
    build_chain,
    refuse,
)
from apf_middleware.asgi.identity.chain import UserAuthenticator, user_facts
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config import ServerSettings
from apf_middleware.config.authentication import (
    CertificateSettings,
    JwtSettings,
    ProxySettings,
    TokenSettings,
    TrustedProxySettings,
    UserSettings,
)
from apf_middleware.exceptions import InvalidValueError
from tests.support.authentication import Fixed, group_of, identity_of, known, request, settled, tls, verdict_of
from tests.support.examples import examples

A, B = known("a"), known("b")
VAGUE, VAGUE_TOO, FINAL = refuse("unknown-token"), refuse("malformed"), refuse("expired")


@pytest.mark.parametrize("laters", [(), (0,), (1,), (0, 1, 2)])
@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ((None, None, None), Authenticated(ANONYMOUS), 3),
        ((A, B, None), A, 1),
        ((None, B, A), B, 2),
        ((FINAL, A, None), FINAL, 1),
        ((VAGUE, A, None), A, 2),
        ((VAGUE, None, None), VAGUE, 3),
        ((VAGUE, VAGUE_TOO, None), VAGUE, 3),
        ((VAGUE_TOO, VAGUE, None), VAGUE, 3),
        ((VAGUE, refuse("wrong-issuer"), refuse("unknown-token", "ApiKey")), refuse("wrong-issuer"), 3),
        ((refuse("wrong-issuer"), refuse("unknown-key"), VAGUE), refuse("unknown-key"), 3),
        ((VAGUE, None, refuse("unknown-token", "ApiKey")), VAGUE, 3),
        ((VAGUE, FINAL, A), FINAL, 2),
        ((None, VAGUE, FINAL), FINAL, 3),
        ((None, None, A), A, 3),
    ],
)
def test_the_first_final_verdict_decides_also_if_it_is_awaited(
    answers: tuple[Verdict | None, ...], expected: Verdict, asked: int, laters: tuple[int, ...]
) -> None:
    several = [Fixed(answer, later=place in laters) for place, answer in enumerate(answers)]

    assert settled(Chain(several), request()) == expected
    assert [one.asked for one in several] == [1] * asked + [0] * (3 - asked)


def test_a_synchronous_verdict_is_not_awaited() -> None:
    assert Chain([Fixed(None), Fixed(A), Fixed(B, later=True)]).identify(request()) == A
    assert Chain([]).identify(request()) == Authenticated(ANONYMOUS)


@pytest.mark.parametrize("answer", ["alice", 0, Identity("alice")])
@pytest.mark.parametrize("laters", [(), (0,), (1,), (0, 1)])
def test_a_wrong_answer_is_an_error_that_names_the_authenticator(answer: object, laters: tuple[int, ...]) -> None:
    odd = Fixed(answer, later=1 in laters)  # type: ignore[arg-type]  # that it is wrong is the point
    chain = Chain([Fixed(None, later=0 in laters), odd])
    with pytest.raises(InvalidValueError) as caught:
        settled(chain, request())
    assert repr(odd) in str(caught.value)
    assert "it must be Authenticated, Refused or None" in str(caught.value)


def test_authenticated_callers_are_in_the_authenticated_group() -> None:
    def groups(*given: str, name: str = "a") -> tuple[str, ...]:
        return identity_of(Fixed(Authenticated(Identity(name, given))), request()).groups

    assert groups() == ("system:authenticated",)
    assert groups("x") == ("x", "system:authenticated")
    assert groups("system:authenticated", "x") == ("system:authenticated", "x")
    assert groups("system:unauthenticated") == ("system:unauthenticated",)
    assert groups(name="system:anonymous") == ()


def test_the_end_of_validity_survives_the_added_group() -> None:
    assert verdict_of(Fixed(Authenticated(Identity("a"), 5.0)), request()) == Authenticated(
        Identity("a", group_of()), 5.0
    )


def test_refreshing_asks_all_and_survives_each(caplog: pytest.LogCaptureFixture) -> None:
    several = [Fixed(None), Fixed(None), Fixed(None)]
    chain = Chain(several)

    assert not chain.refresh()
    several[2].changed = True
    assert chain.refresh()
    several[1].changed = True
    assert chain.refresh()
    several[0].changed = RuntimeError("no")
    assert chain.refresh()
    assert [one.refreshed for one in several] == [4, 4, 4]
    [record] = caplog.records
    assert (record.levelno, record.__dict__["event"]) == (logging.ERROR, "apf.identity-refresh-failed")
    assert "RuntimeError: no" in record.__dict__["apf"]["error"]


def test_sources_that_fail_are_counted_by_kind(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.csv", "two.csv")]
    for path in paths:
        path.write_text("secret,alice,1\n")
    several = [TokenAuthenticator(TokenSettings(str(path))) for path in paths]
    chain = Chain([Fixed(None), *several, TokenAuthenticator({})])
    assert chain.failing_sources() == {"token-file": 0}

    paths[1].write_text("secret\n")
    chain.refresh()
    assert chain.failing_sources() == {"token-file": 1}
    paths[1].write_text("secret,alice,1\n")
    chain.refresh()
    assert chain.failing_sources() == {"token-file": 0}


def test_the_client_s_address_is_that_behind_the_proxies() -> None:
    chain = Chain([], trusted_proxies=TrustedProxies(TrustedProxySettings(("10.0.0.1",))))

    assert chain.client_address(request(("x-forwarded-for", "192.0.2.1"), peer="10.0.0.1")) == "192.0.2.1"
    assert Chain([]).client_address(request(("x-forwarded-for", "192.0.2.1"), peer="10.0.0.1")) == "10.0.0.1"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tokens.csv").write_text("t,a,1\n")
    (folder / "secret").write_text("s" * 32)
    settings = (
        TokenSettings(str(folder / "tokens.csv")),
        TokenSettings(str(folder / "tokens.csv"), "x-api-key"),
        JwtSettings(("HS256",), key_file=str(folder / "secret")),
        ProxySettings(("10.0.0.1",), unix=True),
        CertificateSettings(),
        UserSettings(scopes_as_groups=True),
    )
    return build_chain(ServerSettings(authentication=settings, trusted_proxies=TrustedProxySettings(("10.0.0.1",))))


NAMES = st.sampled_from(
    [b"authorization", b"x-api-key", b"x-remote-user", b"x-remote-group", b"x-remote-extra-a", b"x-forwarded-for"]
)

VALUES = (
    st.binary(max_size=40)
    | st.sampled_from([b"Bearer t", b"Bearer e30.e30.", b"Bearer eyJhbGciOiJub25lIn0.e30.", b"t", b"Bearer a.b.c.d.e"])
    | st.binary(max_size=30).map(lambda tail: b"Bearer " + tail)
    | st.text("eyJhbGci.OiJ0=-_", max_size=60).map(lambda text: f"Bearer {text}".encode())
)


@given(
    st.lists(st.tuples(NAMES | st.binary(max_size=20), VALUES), max_size=6),
    st.sampled_from([None, ("10.0.0.1", 1), ("203.0.113.9", 1), ("", 0), [], ("testclient", 5)]),
    st.none() | st.text(max_size=20),
)
@examples(50)
def test_any_credentials_get_a_verdict_with_a_fixed_reason(
    whole: Chain,
    headers: list[tuple[bytes, bytes]],
    client: object,
    name: str | None,
) -> None:
    scope = request(*headers, client=client, extensions=tls(name))
    verdict = whole.identify(scope)

    assert isinstance(verdict, Authenticated | Refused)
    if isinstance(verdict, Refused):
        assert verdict.reason in DESCRIPTIONS
        assert verdict.challenge.isascii()
        assert verdict.challenge.isprintable()
    else:
        assert hash(verdict.identity.name.encode())
    assert hash(whole.caller_facts(scope)) is not None
    assert isinstance(whole.client_address(scope), str)


def test_a_scope_without_anything_is_anonymous(whole: Chain) -> None:
    for scope in ({}, {"headers": None, "client": None, "extensions": None}, {"type": "websocket", "headers": []}):
        assert whole.identify(scope) == Authenticated(ANONYMOUS)
        assert whole.client_address(scope) == ""


class Shown(BaseUser):
    """A user with a display name but without an identity: Starlette's ``identity`` raises."""

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def display_name(self) -> str:
        return "shown"


class Odd:
    """Any object that an application may store in the scope."""

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
