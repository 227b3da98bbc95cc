"""The chain: who decides, who is asked next, what the answers depend on, and building one from a configuration."""

import asyncio
import logging
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.authentication import AuthCredentials, BaseUser, SimpleUser, UnauthenticatedUser

from apf_middleware.asgi.identity import (
    Authenticated,
    Chain,
    FunctionAuthenticator,
    Refused,
    TokenAuthenticator,
    TrustedProxies,
    Verdict,
    build_chain,
    refuse,
)
from apf_middleware.asgi.identity.certificate import CertificateAuthenticator
from apf_middleware.asgi.identity.chain import NOT_MINE, UserAuthenticator, user_facts
from apf_middleware.asgi.identity.jwt import JwtAuthenticator
from apf_middleware.asgi.identity.proxy import ProxyAuthenticator
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config import ServerSettings, load_text
from apf_middleware.config.authentication import (
    CertificateSettings,
    FunctionSettings,
    JwtSettings,
    ProxySettings,
    TokenSettings,
    TrustedProxySettings,
    UserSettings,
)
from apf_middleware.exceptions import InvalidValueError, MissingExtraError
from tests.support.authentication import group_of, identity_of, request, tls, verdict_of
from tests.support.examples import examples

Scope = dict[str, Any]


def who(scope: Any) -> Identity | None:  # noqa: ANN401
    """Authenticate by a function as a user may write it, found by its name."""
    return Identity(scope["asked"]) if "asked" in scope else None


NOT_CALLABLE = 7


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
        ((VAGUE, FINAL, A), FINAL, 2),
        ((None, VAGUE, FINAL), FINAL, 3),
        ((None, None, A), A, 3),
    ],
)
def test_the_first_who_knows_decides_whether_at_once_or_later(
    answers: tuple[Verdict | None, ...], expected: Verdict, asked: int, laters: tuple[int, ...]
) -> None:
    several = [Fixed(answer, later=place in laters) for place, answer in enumerate(answers)]

    assert settled(Chain(several), request()) == expected
    assert [one.asked for one in several] == [1] * asked + [0] * (3 - asked)


def test_what_nobody_has_to_wait_for_comes_at_once() -> None:
    assert Chain([Fixed(None), Fixed(A), Fixed(B, later=True)]).identify(request()) == A
    assert Chain([]).identify(request()) == Authenticated(ANONYMOUS)


def test_everybody_known_is_in_the_group_of_the_known() -> None:
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
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(logging.ERROR, True)]


def test_facts_are_all_that_is_read_and_no_more() -> None:
    tokens = TokenAuthenticator({"t": Identity("a")})
    proxies = TrustedProxies(TrustedProxySettings(("10.0.0.1",)))
    plain = Chain([tokens], trusted_proxies=proxies)
    everything = request(user=object(), auth=object(), extensions=tls("CN=a"))

    assert plain.headers == {b"authorization", b"x-forwarded-for"}
    assert (plain.memorable, plain.reads_user, plain.reads_certificate) == (True, False, False)
    assert plain.caller_facts(everything) == ()

    unknown = Chain([tokens, Fixed(None)])  # what doesn't tell may read all that an authenticator may
    assert (unknown.memorable, unknown.reads_user, unknown.reads_certificate) == (True, True, True)
    assert unknown.caller_facts(everything) == (("user", None, ()), ("certificate", "CN=a", None))
    assert unknown.caller_facts(request()) == ()

    assert not Chain([tokens, FunctionAuthenticator(who)]).memorable
    assert Chain([FunctionAuthenticator(who, ["X-Who"])]).headers == {b"x-who"}


def test_the_client_s_address_is_that_behind_the_proxies() -> None:
    chain = Chain([], trusted_proxies=TrustedProxies(TrustedProxySettings(("10.0.0.1",))))

    assert chain.client_address(request(("x-forwarded-for", "192.0.2.1"), peer="10.0.0.1")) == "192.0.2.1"
    assert Chain([]).client_address(request(("x-forwarded-for", "192.0.2.1"), peer="10.0.0.1")) == "10.0.0.1"


# The user's function


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, Authenticated(ANONYMOUS)),
        (Identity("a"), A),
        (Authenticated(Identity("a"), 7.0), Authenticated(Identity("a", group_of()), 7.0)),
        (Refused("X", "banned"), Refused("X", "banned")),
    ],
)
def test_a_function_may_answer_in_several_ways_at_once_or_later(answer: Any, expected: Verdict) -> None:  # noqa: ANN401
    async def later(_: Any) -> Any:  # noqa: ANN401
        return answer

    assert settled(Chain([FunctionAuthenticator(lambda _: answer)]), request()) == expected
    assert settled(Chain([FunctionAuthenticator(later)]), request()) == expected


def test_a_function_s_own_reasons_are_final() -> None:
    banned = FunctionAuthenticator(lambda _: Refused("X", "banned"))

    assert verdict_of([banned, Fixed(A)], request()) == Refused("X", "banned")


@pytest.mark.parametrize("answer", ["alice", True, {"name": "alice"}])
def test_a_function_s_odd_answer_is_an_error_and_lets_nobody_in(answer: Any) -> None:  # noqa: ANN401
    async def later(_: Any) -> Any:  # noqa: ANN401
        return answer

    for function in (lambda _: answer, later):
        with pytest.raises(InvalidValueError, match="must be an Identity, Authenticated, Refused or None"):
            settled(Chain([FunctionAuthenticator(function)]), request())


def test_what_a_function_raises_is_not_taken_for_bad_credentials() -> None:
    def broken(_: Any) -> None:  # noqa: ANN401
        raise LookupError("db")

    with pytest.raises(LookupError, match="db"):
        verdict_of(FunctionAuthenticator(broken), request())


# From a configuration


def test_without_a_configuration_the_user_of_the_scope_is_believed() -> None:
    chain = build_chain(ServerSettings())

    assert [type(one) for one in chain._authenticators] == [UserAuthenticator]
    assert chain.identify(request()) == Authenticated(ANONYMOUS)


def test_each_kind_is_built_and_those_of_python_come_first(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("t,a,1\n")
    (tmp_path / "secret").write_text("s" * 32)
    told = (
        UserSettings(),
        TokenSettings(str(tmp_path / "tokens.csv")),
        JwtSettings(("HS256",), key_file=str(tmp_path / "secret")),
        ProxySettings(("10.0.0.1",)),
        CertificateSettings(),
        FunctionSettings(f"{__name__}:who"),
    )
    extra = Fixed(None)
    server = ServerSettings(authentication=told, trusted_proxies=TrustedProxySettings(("10.0.0.1",)))
    chain = build_chain(server, [extra])

    assert chain._authenticators[0] is extra
    assert [type(one) for one in chain._authenticators[1:]] == [
        UserAuthenticator,
        TokenAuthenticator,
        JwtAuthenticator,
        ProxyAuthenticator,
        CertificateAuthenticator,
        FunctionAuthenticator,
    ]
    assert chain.identify(request(asked="x")) == Authenticated(Identity("x", group_of()))
    assert chain.client_address(request(("x-forwarded-for", "192.0.2.1"), peer="10.0.0.1")) == "192.0.2.1"
    assert "trusted_proxies=" in repr(chain)


def test_yaml_becomes_a_chain(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("t,a,1\n")
    text = f"""\
apiVersion: apf/v1
kind: Server
spec:
  authentication:
  - {{type: tokens, file: {tmp_path}/tokens.csv, header: X-API-Key}}
"""
    chain = build_chain(load_text(text).server)

    assert chain.identify(request(("x-api-key", "t"))) == Authenticated(Identity("a", group_of(), "1"))


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (TokenSettings("no-such.csv"), "file"),
        (JwtSettings(("RS256",), key_file="no-such.pem"), "key_file"),
        (JwtSettings(("RS256",), "i", jwks_file="no-such.json"), "jwks_file"),
        (FunctionSettings("no.such:who"), "callable"),
        (FunctionSettings("os:no_such"), "callable"),
        (FunctionSettings(f"{__name__}:NOT_CALLABLE"), "callable"),
    ],
)
def test_what_is_not_there_is_told_with_its_place_and_the_next_step(told: Any, name: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=rf"^authentication\[1\]\.{name} is .* but it must be") as error:
        build_chain(ServerSettings(authentication=(UserSettings(), told)))

    assert error.value.hint


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_without_the_extra_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.startswith("apf_middleware.asgi.identity.")]:
        if name.endswith((".jwt", ".keys", ".jwks")):
            monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    if package == "cryptography":
        monkeypatch.delitem(sys.modules, "jwt", raising=False)

    with pytest.raises(MissingExtraError, match=r"pip install 'apf-middleware\[jwt\]'"):
        build_chain(ServerSettings(authentication=(JwtSettings(("HS256",), key_file="k"),)))


# Anything at all


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tokens.csv").write_text("t,a,1\n")
    (folder / "secret").write_text("s" * 32)
    told = (
        TokenSettings(str(folder / "tokens.csv")),
        TokenSettings(str(folder / "tokens.csv"), "x-api-key"),
        JwtSettings(("HS256",), key_file=str(folder / "secret")),
        ProxySettings(("10.0.0.1",), unix=True),
        CertificateSettings(),
        UserSettings(scopes_as_groups=True),
    )
    return build_chain(ServerSettings(authentication=told, trusted_proxies=TrustedProxySettings(("10.0.0.1",))))


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
def test_whatever_comes_there_is_a_verdict_with_a_fixed_reason(
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


def test_reasons_that_are_not_final_are_among_the_known() -> None:
    assert DESCRIPTIONS.keys() >= NOT_MINE
    assert all(word.replace("-", "").isalpha() for word in DESCRIPTIONS)


# `UserAuthenticator`


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
