"""A front proxy's headers: believed from listed peers, and from nobody else, however they are forged."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.identity.proxy import ProxyAuthenticator
from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.config.authentication import ProxySettings
from tests.support.authentication import Header, group_of, identity_of, reason_of, request, tls

FRONT = "10.0.0.7"
PROXY = ProxyAuthenticator(ProxySettings((FRONT, "2001:db8::/64")))
ALICE: list[Header] = [
    ("x-remote-user", "alice"),
    ("x-remote-group", "staff"),
    ("x-remote-group", "a, b"),
    ("x-remote-extra-scopes", "read"),
    ("x-remote-extra-scopes", "write"),
    ("x-remote-extra-acme.com%2Fproject", "p\xc3\xb6"),
]


def test_headers_of_a_listed_proxy_count() -> None:
    identity = identity_of(PROXY, request(*ALICE, peer=FRONT))

    assert identity == Identity(
        "alice",
        group_of("staff", "a, b"),
        extra={"scopes": ("read", "write"), "acme.com/project": ("pö",)},
    )
    assert identity_of(PROXY, request(*ALICE, peer="2001:db8::5")).name == "alice"
    assert identity_of(PROXY, request(*ALICE, peer="::ffff:10.0.0.7")).name == "alice"


@pytest.mark.parametrize(
    "peer", ["10.0.0.8", "203.0.113.9", "127.0.0.1", "::1", "2001:db8:0:1::", "testclient", "", None]
)
@pytest.mark.parametrize(
    "more",
    [
        [],
        [("x-forwarded-for", FRONT)],
        [("forwarded", f"for={FRONT}")],
        [("x-real-ip", FRONT)],
        [("x-remote-user", FRONT)],
        [("authorization", "Bearer x")],
    ],
    ids=lambda more: more[0][0] if more else "nothing else",
)
def test_headers_of_other_peers_are_ignored(peer: str | None, more: list[Header]) -> None:
    assert identity_of(PROXY, request(*ALICE, *more, peer=peer)) == ANONYMOUS


@pytest.mark.parametrize(
    "name", ["X-Remote-User", "x_remote_user", "x-remote-users", "remote-user", "x-remote-user ", "x-webauth-user"]
)
def test_headers_of_similar_names_are_others(name: str) -> None:
    assert identity_of(PROXY, request((name, "alice"), ("x-remote-group", "system:masters"), peer=FRONT)) == ANONYMOUS


def test_groups_without_a_user_are_ignored() -> None:
    assert identity_of(PROXY, request(("x-remote-group", "system:masters"), peer=FRONT)) == ANONYMOUS
    assert identity_of(PROXY, request(("x-remote-user", " "), *ALICE[1:], peer=FRONT)) == ANONYMOUS


def test_two_user_headers_are_refused() -> None:
    assert reason_of(PROXY, request(("x-remote-user", "root"), *ALICE, peer=FRONT)) == "duplicate-header"


@pytest.mark.parametrize(
    "forged",
    [
        ("x-remote-user", b"\xff"),
        ("x-remote-user", "a\nb"),
        ("x-remote-user", "a" * 20_000),
    ],
)
def test_a_user_that_cannot_be_read_is_refused(forged: Header) -> None:
    assert reason_of(PROXY, request(forged, peer=FRONT)) == "malformed"


@pytest.mark.parametrize(
    "odd",
    [
        ("x-remote-group", b"\xff"),
        ("x-remote-group", "a\0"),
        ("x-remote-extra-a", b"\xc3"),
        ("x-remote-extra-%ff", "a"),
        ("x-remote-extra-%00", "a"),
        (b"x-remote-extra-\xe4", "a"),
    ],
)
def test_groups_and_extras_that_cannot_be_read_are_refused(odd: Header) -> None:
    assert reason_of(PROXY, request(("x-remote-user", "alice"), odd, peer=FRONT)) == "malformed"


def test_names_of_headers_can_be_chosen() -> None:
    settings = ProxySettings((FRONT,), user_headers=("x-a", "x-b"), group_headers=("x-g",), extra_prefixes=())
    chosen = ProxyAuthenticator(settings)

    assert chosen.headers == {b"x-a", b"x-b", b"x-g"}
    assert identity_of(chosen, request(*ALICE, peer=FRONT)) == ANONYMOUS
    scope = request(("x-a", ""), ("x-b", "bob"), ("x-g", "ops"), *ALICE, peer=FRONT)
    assert identity_of(chosen, scope) == Identity("bob", group_of("ops"))
    assert identity_of(chosen, request(("x-a", "ann"), ("x-b", "bob"), peer=FRONT)).name == "ann"
    assert Chain([chosen]).caller_facts(scope) == ()


@pytest.mark.parametrize(
    ("extensions", "peer", "name"),
    [
        (tls("CN=front,O=x"), FRONT, "alice"),
        (tls("CN=front"), "10.0.0.8", "system:anonymous"),
        (tls("CN=other"), FRONT, "system:anonymous"),
        (tls(r"CN=other\,CN\=front"), FRONT, "system:anonymous"),
        (tls("O=front"), FRONT, "system:anonymous"),
        (tls("CN=front", "self-signed certificate"), FRONT, "system:anonymous"),
        (tls(None), FRONT, "system:anonymous"),
        ({}, FRONT, "system:anonymous"),
    ],
)
def test_where_a_certificate_is_asked_for_it_must_be_right_too(
    extensions: dict[str, Any], peer: str, name: str
) -> None:
    both = ProxyAuthenticator(ProxySettings((FRONT,), common_names=("front",)))

    assert identity_of(both, request(*ALICE, peer=peer, extensions=extensions)).name == name


def test_a_certificate_alone_can_be_enough() -> None:
    certified = ProxyAuthenticator(ProxySettings(common_names=("front",)))

    assert identity_of(certified, request(*ALICE, extensions=tls("CN=front"))).name == "alice"
    assert identity_of(certified, request(*ALICE)) == ANONYMOUS
    assert Chain([certified]).reads_certificate


def test_a_unix_socket_is_trusted_as_a_proxy_only_by_option() -> None:
    assert identity_of(ProxyAuthenticator(ProxySettings(unix=True)), request(*ALICE, peer=None)).name == "alice"
    assert identity_of(ProxyAuthenticator(ProxySettings(unix=True)), request(*ALICE, peer=FRONT)) == ANONYMOUS
    assert identity_of(PROXY, request(*ALICE, peer=None)) == ANONYMOUS


def test_extras_are_facts_because_their_names_cannot_be_listed() -> None:
    chain = Chain([PROXY])
    one, other = (request(*ALICE[:1], ("x-remote-extra-a", value), peer=FRONT) for value in "ab")

    assert chain.memorable
    assert chain.caller_facts(one) != chain.caller_facts(other)
    assert chain.caller_facts(request(*ALICE[:3], peer=FRONT)) == ()
    assert chain.caller_facts(request(*ALICE)) == ()  # a stranger can't fill memories with them


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"x-remote-user", b"x-remote-group", b"x-remote-extra-", b"x-remote-extra-%e4"])
            | st.binary(max_size=20).map(lambda tail: b"x-remote-extra-" + tail),
            st.binary(max_size=20),
        ),
        max_size=5,
    )
)
def test_no_bytes_raise(headers: list[Header]) -> None:
    PROXY.authenticate(request(*headers, peer=FRONT))
    Chain([PROXY]).caller_facts(request(*headers, peer=FRONT))
