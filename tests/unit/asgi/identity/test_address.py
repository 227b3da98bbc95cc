"""The client's address: only trusted proxies are believed, and only about their own peers."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.asgi.identity import address as module
from apf_middleware.asgi.identity.address import MAX_HOPS, TrustedPeers, TrustedProxies
from apf_middleware.config.authentication import TrustedProxySettings
from tests.support.authentication import request

NETWORKS = ("10.0.0.0/8", "2001:db8::/32")
XFF = TrustedProxies(TrustedProxySettings(NETWORKS))
FORWARDED = TrustedProxies(TrustedProxySettings(NETWORKS, "forwarded"))


def seen(*values: str, peer: str | None = "10.0.0.1", header: str = "x-forwarded-for") -> str:
    proxies = XFF if header == "x-forwarded-for" else FORWARDED
    return proxies.client_address(request(*((header, value) for value in values), peer=peer))


def forwarded(*values: str, peer: str | None = "10.0.0.1") -> str:
    return seen(*values, peer=peer, header="forwarded")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1 ", "192.0.2.1"),
        ("192.0.2.1:8080", "192.0.2.1"),
        ("2001:DB9::0001", "2001:db9::1"),
        ("[2001:db9::1]", "2001:db9::1"),
        ("[2001:db9::1]:443", "2001:db9::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("6.6.6.6, 192.0.2.1", "192.0.2.1"),
        ("192.0.2.1, 10.0.0.2", "192.0.2.1"),
        ("192.0.2.1, 10.0.0.3, 2001:db8::1", "192.0.2.1"),
        ("6.6.6.6, 192.0.2.1, 10.0.0.2", "192.0.2.1"),
        ("10.0.0.2", "10.0.0.2"),
        ("garbage", "10.0.0.1"),
        ("192.0.2.1, garbage", "10.0.0.1"),
        ("192.0.2.1, garbage, 10.0.0.2", "10.0.0.2"),
        ("192.0.2.1,", "10.0.0.1"),
        ("", "10.0.0.1"),
        ("unknown", "10.0.0.1"),
        ("192.0.2.1:999999", "10.0.0.1"),
        ("192.0.2.01", "10.0.0.1"),
        ("fe80::1%eth0", "10.0.0.1"),
        ("192.0.2.1" + " " * 20_000, "10.0.0.1"),
        ("1" * 5000, "10.0.0.1"),
    ],
)
def test_x_forwarded_for_is_walked_from_the_right_as_far_as_hops_are_trusted(value: str, expected: str) -> None:
    assert seen(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("for=192.0.2.1", "192.0.2.1"),
        ("For=192.0.2.1;proto=https;by=10.0.0.1;host=a.example", "192.0.2.1"),
        ("proto=https ; for=192.0.2.1", "192.0.2.1"),
        ('for="192.0.2.1:8080"', "192.0.2.1"),
        ('for="[2001:db9::1]:443"', "2001:db9::1"),
        ('for="[2001:db9::1]:_port"', "2001:db9::1"),
        ('for="\\[2001:db9::1\\]"', "2001:db9::1"),
        ("for=192.0.2.1, for=10.0.0.2", "192.0.2.1"),
        ('for=6.6.6.6, for=192.0.2.1;by="a, for=7.7.7.7", for=10.0.0.2', "192.0.2.1"),
        ("for=_hidden", "10.0.0.1"),
        ("for=unknown", "10.0.0.1"),
        ("for=192.0.2.1, for=_hidden, for=10.0.0.2", "10.0.0.2"),
        ("proto=https", "10.0.0.1"),
        ("for=192.0.2.1;for=6.6.6.6", "10.0.0.1"),
        ("for=192.0.2.1 6.6.6.6", "10.0.0.1"),
        ("for=2001:db9::1", "10.0.0.1"),
        ('for="2001:db9::1"', "10.0.0.1"),
        ("192.0.2.1", "10.0.0.1"),
        ("for=192.0.2.1,", "10.0.0.1"),
        ("", "10.0.0.1"),
        # A quote left open by the client must not make the proxy's own part of the header a quoted string.
        ('for=6.6.6.6;x=", for=192.0.2.1', "10.0.0.1"),
        ('for=6.6.6.6;x=", for="[2001:db9::1]"', "10.0.0.1"),
    ],
)
def test_forwarded_is_read_as_rfc_7239_says_and_whole_or_not_at_all(value: str, expected: str) -> None:
    assert forwarded(value) == expected


def test_several_headers_are_joined_in_order() -> None:
    assert seen("6.6.6.6", "192.0.2.1", "10.0.0.2") == "192.0.2.1"
    assert forwarded("for=6.6.6.6", "for=192.0.2.1, for=10.0.0.2") == "192.0.2.1"


def test_an_open_quote_spoils_no_other_header() -> None:
    assert forwarded('for=6.6.6.6;x="', "for=192.0.2.1") == "192.0.2.1"


@pytest.mark.parametrize("peer", ["203.0.113.9", "11.0.0.1", "testclient", "::1", "", None])
def test_headers_of_an_untrusted_peer_are_ignored(peer: str | None) -> None:
    assert seen("6.6.6.6", peer=peer) == (peer or "")
    assert forwarded("for=6.6.6.6", peer=peer) == (peer or "")


def test_the_header_that_is_not_configured_is_never_looked_at() -> None:
    both = request(("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.2"), peer="10.0.0.1")
    other = request(("x-forwarded-for", "6.6.6.6"), ("x-real-ip", "6.6.6.6"), peer="10.0.0.1")

    assert XFF.client_address(both) == "192.0.2.1"
    assert FORWARDED.client_address(both) == "192.0.2.2"
    assert FORWARDED.client_address(other) == "10.0.0.1"
    assert XFF.headers == {b"x-forwarded-for"}
    assert FORWARDED.headers == {b"forwarded"}


@pytest.mark.parametrize("name", ["X-Forwarded-For", "x_forwarded_for", "x-forwarded-for "])
def test_a_header_of_a_similar_name_is_another(name: str) -> None:
    assert XFF.client_address(request((name, "6.6.6.6"), peer="10.0.0.1")) == "10.0.0.1"


def test_a_unix_socket_is_trusted_only_by_option() -> None:
    scope = request(("x-forwarded-for", "192.0.2.1"), peer=None)

    assert XFF.client_address(scope) == ""
    assert TrustedProxies(TrustedProxySettings(unix=True)).client_address(scope) == "192.0.2.1"
    assert TrustedProxies(TrustedProxySettings(unix=True)).client_address(request(peer=None)) == ""


def test_without_trusted_proxies_no_header_matters() -> None:
    alone = TrustedProxies()

    assert alone.headers == frozenset()
    assert alone.client_address(request(("x-forwarded-for", "6.6.6.6"), peer="127.0.0.1")) == "127.0.0.1"


def test_an_ipv4_peer_is_the_same_in_ipv6() -> None:
    assert seen("192.0.2.1", peer="::ffff:10.0.0.1") == "192.0.2.1"


def test_a_zone_is_no_part_of_a_network() -> None:
    assert "fe80::1%eth0" in TrustedPeers(["fe80::/10"])


def test_networks_of_mapped_addresses_are_those_of_ipv4() -> None:
    for one in ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", "::ffff:0:0/96"):
        networks = TrustedPeers([one])
        assert "10.1.2.3" in networks
        assert "::ffff:10.1.2.3" in networks
        assert "::1" not in networks
    assert "192.0.2.1" not in TrustedPeers(["::ffff:10.0.0.0/104", "::/8"])


def test_what_is_remembered_is_bounded() -> None:
    networks = TrustedPeers(["10.0.0.0/8"])
    for number in range(10_000):
        assert f"10.0.{number >> 8}.{number & 255}" in networks

    assert len(networks._known) <= 4096


def test_what_is_too_long_for_an_address_is_not_remembered() -> None:
    assert seen("") == "10.0.0.1"  # the peer's own address is known from now on
    before = module._parsed.cache_info().misses

    assert seen("9" * 5000) == "10.0.0.1"
    assert module._parsed.cache_info().misses == before


def test_endless_trusted_hops_are_not_walked() -> None:
    value = ", ".join(["192.0.2.1", *("10.0.0.2" for _ in range(MAX_HOPS + 5))])

    assert seen(value) == "10.0.0.2"


def test_only_the_addresses_that_are_walked_are_parsed() -> None:
    forwarded("for=192.0.2.77")
    before = module._parsed.cache_info().misses

    assert (
        forwarded(", ".join([*(f"for=198.51.100.{number}" for number in range(200)), "for=192.0.2.77"])) == "192.0.2.77"
    )
    assert forwarded('for="' + "\\1" * 5000 + '"') == "10.0.0.1"
    assert module._parsed.cache_info().misses == before


HEADERS: list[Literal["x-forwarded-for", "forwarded"]] = ["x-forwarded-for", "forwarded"]


@given(
    st.sampled_from(HEADERS),
    st.lists(st.binary(max_size=60) | st.text('for=";,[]:\\_ 10.2', max_size=60).map(str.encode), max_size=4),
    st.sampled_from(["10.0.0.1", "203.0.113.9", None]),
)
def test_any_bytes_give_an_address_without_an_exception(
    header: Literal["x-forwarded-for", "forwarded"], values: list[bytes], peer: str | None
) -> None:
    proxies = TrustedProxies(TrustedProxySettings(NETWORKS, header, unix=True))
    found = proxies.client_address(request(*((header, value) for value in values), peer=peer))

    assert set(found) <= set("0123456789abcdef.:")
    assert found or peer is None


@given(st.lists(st.ip_addresses(v=4).map(str), max_size=5), st.sampled_from(["192.0.2.1", "2001:db9::7"]))
def test_the_entry_of_the_proxy_wins_over_entries_of_the_client(invented: list[str], client: str) -> None:
    quoted = f'"[{client}]"' if ":" in client else client

    assert seen(", ".join([*invented, client])) == client
    assert forwarded(", ".join([*(f"for={one}" for one in invented), f"for={quoted}"])) == client
