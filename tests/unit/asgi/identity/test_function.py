"""Authentication by a function of the app."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.authentication import AuthCredentials, SimpleUser, UnauthenticatedUser

from apf_middleware import is_compiled
from apf_middleware.asgi.identity import (
    Authenticated,
    Chain,
    FunctionAuthenticator,
    Refused,
    TokenAuthenticator,
    TrustedProxies,
    Verdict,
)
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.authentication import (
    TrustedProxySettings,
)
from apf_middleware.exceptions import InvalidValueError
from tests.support.authentication import Fixed, group_of, known, request, settled, tls, verdict_of
from tests.support.builds import raises_for_wrong_type


def who(scope: Any) -> Identity | None:  # noqa: ANN401
    """Authenticate by a function as a user may write it, found by its name."""
    return Identity(scope["asked"]) if "asked" in scope else None


A, B = known("a"), known("b")


def test_facts_are_all_that_is_read_and_no_more() -> None:
    tokens = TokenAuthenticator({"t": Identity("a")})
    proxies = TrustedProxies(TrustedProxySettings(("10.0.0.1",)))
    plain = Chain([tokens], trusted_proxies=proxies)
    everything = request(user=SimpleUser("u"), auth=AuthCredentials(["s"]), extensions=tls("CN=a"))

    assert plain.headers == {b"authorization", b"x-forwarded-for"}
    assert (plain.memorable, plain.reads_user, plain.reads_certificate) == (True, False, False)
    assert plain.caller_facts(everything) == ()

    unknown = Chain([tokens, Fixed(None)])  # what doesn't tell may read all that an authenticator may
    assert (unknown.memorable, unknown.reads_more) == (True, True)
    assert unknown.caller_facts(everything) == (("user", "u", ("s",)), ("certificate", "CN=a", None))
    assert unknown.caller_facts(request()) == ()
    assert unknown.caller_facts(request(user=UnauthenticatedUser())) == (("user", None, ()),)

    assert not Chain([tokens, FunctionAuthenticator(who)]).memorable
    assert Chain([FunctionAuthenticator(who, ["X-Who"])]).headers == {b"x-who"}


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
def test_an_invalid_result_of_a_function_is_an_error_and_authenticates_no_caller(answer: Any) -> None:  # noqa: ANN401
    async def later(_: Any) -> Any:  # noqa: ANN401
        return answer

    for function in (lambda _: answer, later):
        with pytest.raises(InvalidValueError, match="must be an Identity, Authenticated, Refused or None"):
            settled(Chain([FunctionAuthenticator(function)]), request())


def test_an_exception_of_a_function_is_not_a_refusal() -> None:
    def broken(_: Any) -> None:  # noqa: ANN401
        raise LookupError("db")

    with pytest.raises(LookupError, match="db"):
        verdict_of(FunctionAuthenticator(broken), request())


@pytest.mark.parametrize(
    "headers", ["authorization", b"authorization", ["authorization "], [b"authorization"], [""], [1]]
)
def test_headers_that_no_request_has_would_make_all_callers_the_first_and_are_refused(headers: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=r"headers is .* name"):
        FunctionAuthenticator(who, headers=headers)


def test_the_names_of_headers_may_have_capitals() -> None:
    assert FunctionAuthenticator(who, headers=["Authorization"]).headers == {b"authorization"}


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_text_is_not_a_tuple_of_groups(wrapped: bool) -> None:  # noqa: FBT001
    def identify(_scope: object) -> Authenticated | Identity:
        identity = Identity("alice", "staff")  # type: ignore[arg-type]
        return Authenticated(identity) if wrapped else identity

    with raises_for_wrong_type("groups of an identity is 'staff', but it must be a tuple of names"):
        verdict_of(FunctionAuthenticator(identify), request())


@pytest.mark.parametrize(
    ("identity", "error"),
    [
        (lambda: Identity(7), "name of an identity is 7, but it must be text. Write str"),  # type: ignore[arg-type]
        (lambda: Identity(None), "name of an identity is None, but it must be text"),  # type: ignore[arg-type]
        (lambda: Identity("a", None), "groups of an identity is None, but it must be a tuple"),  # type: ignore[arg-type]
        (lambda: Identity("a", (), 7), "uid of an identity is 7, but it must be text. Write str"),  # type: ignore[arg-type]
    ],
)
def test_an_identity_of_wrong_types_is_an_error_that_names_the_part(
    identity: Callable[[], Identity], error: str
) -> None:
    with raises_for_wrong_type(error):
        verdict_of(FunctionAuthenticator(lambda _: identity()), request())


@pytest.mark.parametrize("until", ["1795911016", datetime(2027, 1, 1, tzinfo=UTC), math.nan, -math.inf])
def test_an_identity_must_be_valid_until_a_number_of_seconds(until: Any) -> None:  # noqa: ANN401
    with raises_for_wrong_type("valid_until of an identity is .*, but it must be a number of seconds since 1970"):
        verdict_of(FunctionAuthenticator(lambda _: Authenticated(Identity("a"), until)), request())


def test_a_group_that_is_no_text_is_an_error() -> None:
    with pytest.raises(InvalidValueError, match="groups of an identity is"):
        verdict_of(FunctionAuthenticator(lambda _: Identity("a", (7,))), request())  # type: ignore[arg-type]


@pytest.mark.skipif(is_compiled, reason="the compiled build takes no list for a tuple")
def test_a_list_of_groups_is_taken_for_a_tuple() -> None:
    groups: Any = ["staff", "system:authenticated"]

    assert verdict_of(FunctionAuthenticator(lambda _: Identity("a", groups)), request()) == Authenticated(
        Identity("a", group_of("staff"))
    )
