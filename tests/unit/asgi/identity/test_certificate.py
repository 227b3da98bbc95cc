"""TLS client certificates: names parsed strictly, and only what the server has verified."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.identity.certificate import CertificateAuthenticator, common_name, parse_name
from apf_middleware.classification import Identity
from tests.support.authentication import group_of, identity_of, reason_of, request, tls

CERTIFICATE = CertificateAuthenticator()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("CN=alice,O=staff", [("CN", "alice"), ("O", "staff")]),
        ("cn=alice + o=staff", [("CN", "alice"), ("O", "staff")]),
        ("CN=alice, O=staff, O=ops", [("CN", "alice"), ("O", "staff"), ("O", "ops")]),
        (r"CN=a\,O=system:masters", [("CN", "a,O=system:masters")]),
        (r"CN=a\2CO=x", [("CN", "a,O=x")]),
        (r"CN=Lu\C4\8Di\C4\87", [("CN", "Lučić")]),
        (r"CN=\ a\ ,O=b", [("CN", " a "), ("O", "b")]),
        ("CN=a\\\\\\ ,O=b", [("CN", "a\\ "), ("O", "b")]),
        ("CN=a\\\\ ,O=b", [("CN", "a\\"), ("O", "b")]),
        ("2.5.4.3=alice,OID.2.5.4.10=staff", [("CN", "alice"), ("O", "staff")]),
        ("CN=alice,1.2.3.4=#04024869", [("CN", "alice")]),
        ("CN=", [("CN", "")]),
        ("", []),
        ("CN", None),
        ("CN=a,", None),
        (",CN=a", None),
        ("CN=a;O=b", None),
        ('CN="a,b"', None),
        ("CN=a\\", None),
        ("CN=a\\q", None),
        (r"CN=\ff", None),
        ("/CN=alice/O=staff", None),
        ("CN=\ud800", None),
    ],
)
def test_names_are_read_as_rfc_4514_says(text: str, parts: list[tuple[str, str]] | None) -> None:
    assert parse_name(text) == parts


@given(st.text(alphabet='CNO=,+\\ "#a2\xe4\ud800', max_size=30))
def test_no_name_raises(text: str) -> None:
    parse_name(text)
    CERTIFICATE.authenticate(request(extensions=tls(text)))


def escaped(text: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in text.encode())


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), st.text("ab,+= O", max_size=10))
def test_what_is_escaped_stays_inside_its_value(one: str, other: str) -> None:
    assert parse_name(f"CN={escaped(one)},O={escaped(other)}") == [("CN", one), ("O", other)]


def test_common_name_and_organizations() -> None:
    scope = request(extensions=tls("CN=alice,O=staff,O=ops,OU=x,C=DE"))

    assert identity_of(CERTIFICATE, scope) == Identity("alice", group_of("staff", "ops"))
    assert identity_of(CERTIFICATE, request(extensions=tls("CN=alice,CN=bob"))).name == "alice"


@pytest.mark.parametrize(
    "extensions",
    [
        {},
        {"tls": None},
        {"tls": {}},
        {"tls": {"client_cert_name": 7}},
        tls(None),
        tls("O=staff"),
        tls("CN=,O=staff"),
        None,
    ],
)
def test_without_a_name_there_are_no_credentials(extensions: Any) -> None:  # noqa: ANN401
    assert identity_of(CERTIFICATE, request(extensions=extensions)).name == "system:anonymous"
    assert common_name(request(extensions=extensions)) in (None, "")


def test_a_certificate_that_was_not_verified_is_refused() -> None:
    scope = request(extensions=tls("CN=alice", "unable to get local issuer certificate"))

    assert reason_of(CERTIFICATE, scope) == "bad-certificate"
    assert reason_of(CERTIFICATE, request(extensions=tls(None, ""))) == "bad-certificate"
    assert common_name(scope) is None


@pytest.mark.parametrize("name", ["CN=alice;O=a", "CN=a\\00b", "CN=a\\0A", "CN=" + "a" * 20_000])
def test_names_that_cannot_be_read_are_refused(name: str) -> None:
    assert reason_of(CERTIFICATE, request(extensions=tls(name))) == "malformed"


def test_certificates_are_not_read_from_headers() -> None:
    forged = request(("x-client-cert", "CN=alice"), ("ssl-client-s-dn", "CN=alice"), ("x-ssl-client-verify", "SUCCESS"))

    assert identity_of(CERTIFICATE, forged).name == "system:anonymous"


def test_facts_tell_certificates_apart() -> None:
    chain = Chain([CERTIFICATE])

    assert chain.reads_certificate
    assert not chain.reads_user
    assert chain.caller_facts(request()) == ()
    assert chain.caller_facts(request(extensions=tls("CN=a"))) == (("certificate", "CN=a", None),)
    assert chain.caller_facts(request(extensions=tls("CN=a", "bad"))) == (("certificate", "CN=a", "bad"),)
