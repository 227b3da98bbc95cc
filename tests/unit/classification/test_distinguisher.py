"""The flow of a request, by each source of a distinguisher."""

from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import (
    Distinguisher,
    FlowSchema,
    HttpRule,
    Identity,
    RequestDigest,
    Resource,
    Rule,
    Source,
    UserSubject,
)
from apf_middleware.classification.distinguisher import compile_distinguisher, network_of
from apf_middleware.exceptions import InvalidValueError

DIGEST = RequestDigest(
    Identity("ann", ("dev", "tenant:7", "tenant:8")),
    "get",
    "/shops/acme/orders/9",
    resource=Resource("orders", namespace="acme"),
    headers={"x-tenant": "eu-acme"},
    query={"key": "k1"},
    path_parameters={"which": "9"},
    client_address="192.0.2.77",
)


def flow(digest: RequestDigest = DIGEST, paths: tuple[str, ...] = (), **how: Any) -> str:  # noqa: ANN401
    rules = (Rule((UserSubject("*"),), http_rules=(HttpRule(paths=paths),)),)
    return compile_distinguisher(FlowSchema("s", "l", rules=rules, distinguisher=Distinguisher(**how)))(digest)


def test_without_a_distinguisher_there_is_one_flow() -> None:
    assert compile_distinguisher(FlowSchema("s", "l"))(DIGEST) == ""


def test_each_source_reads_its_part_of_the_request() -> None:
    assert flow(source=Source.USER) == "ann"
    assert flow(source=Source.NAMESPACE) == "acme"
    assert flow(source=Source.HEADER, argument="X-Tenant") == "eu-acme"
    assert flow(source=Source.QUERY, argument="key") == "k1"
    assert flow(source=Source.PATH_PARAMETER, argument="which") == "9"
    assert flow(source=Source.CALLABLE, function=lambda digest: digest.path) == "/shops/acme/orders/9"


@pytest.mark.parametrize(
    "how",
    [
        {"source": Source.NAMESPACE},
        {"source": Source.GROUP, "groups": ("dev",)},
        {"source": Source.HEADER, "argument": "x"},
        {"source": Source.QUERY, "argument": "x"},
        {"source": Source.PATH_PARAMETER, "argument": "x"},
        {"source": Source.CLIENT_ADDRESS},
    ],
)
def test_an_absent_value_is_the_empty_string(how: dict[str, Any]) -> None:
    assert flow(RequestDigest(Identity("ann"), "get", "/"), **how) == ""


def test_the_group_source_uses_the_first_matching_group() -> None:
    assert flow(source=Source.GROUP, groups=("tenant:*",)) == "tenant:7"
    assert flow(source=Source.GROUP, groups=("tenant:8", "tenant:7")) == "tenant:7"
    assert flow(source=Source.GROUP, groups=("tenant",)) == ""
    assert flow(source=Source.GROUP, groups=("*",)) == "dev"


def test_a_path_parameter_comes_from_the_route_or_the_templates_of_the_schema() -> None:
    paths = ("/x/{shop}", "/shops/{shop}/*", "/{shop}/*")

    assert flow(source=Source.PATH_PARAMETER, argument="shop", paths=paths) == "acme"
    assert flow(source=Source.PATH_PARAMETER, argument="which", paths=("/{which}/*",)) == "9"


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        ("(.*)-acme", "eu"),
        ("eu-(.*)", "acme"),
        ("(eu)", ""),  # it must match completely
        (".*(x)?", ""),  # the group takes no part
        ("()eu-acme", ""),
        (r"(?:eu|us)-(\w+)", "acme"),
    ],
)
def test_a_transformation_keeps_what_the_group_captures_of_a_complete_match(regex: str, expected: str) -> None:
    assert flow(source=Source.HEADER, argument="x-tenant", transform=regex) == expected


@pytest.mark.parametrize(
    ("address", "v4", "v6", "network"),
    [
        ("192.0.2.77", 24, 56, "192.0.2.0/24"),
        ("192.0.2.77", 32, 56, "192.0.2.77/32"),
        ("192.0.2.77", 0, 56, "0.0.0.0/0"),
        ("2001:db8:1:2ff:3::4", 24, 56, "2001:db8:1:200::/56"),
        ("2001:DB8::1", 24, 128, "2001:db8::1/128"),
        ("::ffff:192.0.2.77", 24, 56, "192.0.2.0/24"),
        ("fe80::1%eth0", 24, 64, "fe80::/64"),
        ("", 24, 56, ""),
        ("/run/socket", 24, 56, "/run/socket"),
        ("192.0.2.300", 24, 56, "192.0.2.300"),
    ],
)
def test_an_address_is_cut_to_its_network(address: str, v4: int, v6: int, network: str) -> None:
    digest = replace(DIGEST, client_address=address)

    assert network_of(address, v4, v6) == network
    assert flow(digest, source=Source.CLIENT_ADDRESS, prefix_v4=v4, prefix_v6=v6) == network


@given(
    st.one_of(st.ip_addresses(v=4).map(str), st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", fullmatch=True)),
    st.one_of(st.just(24), st.integers(0, 32)),
)
def test_the_fast_path_for_ipv4_agrees_with_ipaddress(address: str, prefix: int) -> None:
    try:
        expected = str(ip_network((address, prefix), strict=False))
    except ValueError:
        expected = address
    assert network_of(address, prefix, 56) == expected


def test_a_cached_address_gives_the_same_network() -> None:
    schema = FlowSchema("s", "l", distinguisher=Distinguisher(Source.CLIENT_ADDRESS))
    read = compile_distinguisher(schema)

    assert [read(DIGEST), read(DIGEST)] == ["192.0.2.0/24"] * 2


@pytest.mark.parametrize("bad", [None, 7, b"x"])
def test_a_callable_that_returns_no_string_is_an_error(bad: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=r"distinguisher of the schema 's' is .* must return a string"):
        flow(source=Source.CALLABLE, function=lambda _: bad)
