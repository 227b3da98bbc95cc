"""Authentication in a Server document: valid settings, the errors of invalid ones, and writing them again."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.config import ServerSettings, load_text, read_source
from apf_middleware.config.authentication import (
    ALGORITHMS,
    AuthenticatorSettings,
    CertificateSettings,
    FunctionSettings,
    JwtSettings,
    ProxySettings,
    TokenSettings,
    TrustedProxySettings,
    UserSettings,
    credential_scheme,
)
from apf_middleware.config.emit import emit
from apf_middleware.config.settings import key_of
from apf_middleware.exceptions import InvalidValueError

SECOND = 10**9
PAGE = Path(__file__).parents[3] / "docs" / "authentication.md"

JWT = """\
  - type: jwt
    issuer: https://issuer.example
    audiences: [shop]
    algorithms: [RS256, ES256]
    jwksUrl: https://issuer.example/keys
    jwksInterval: 1h
    plainHttp: true
    leeway: 30s
    requireExpiry: false
    usernameClaim: email
    usernamePrefix: "sso:"
    groupsClaim: realm_access.roles
    groupsPrefix: "sso:"
    requiredClaims: {tenant: acme}
    systemNames: true
    header: X-Token
    scheme: JWT
"""
PROXY = """\
  - type: proxy
    networks: [10.0.0.7]
    unix: true
    commonNames: [front]
    userHeaders: [X-User]
    groupHeaders: [X-Group]
    extraPrefixes: []
"""
CASES: list[tuple[str, AuthenticatorSettings]] = [
    ("  - type: user\n", UserSettings()),
    ("  - {type: user, scopesAsGroups: true}\n", UserSettings(scopes_as_groups=True)),
    ("  - {type: tokens, file: t.csv}\n", TokenSettings("t.csv")),
    ("  - {type: tokens, file: t.csv, header: X-API-Key}\n", TokenSettings("t.csv", "x-api-key")),
    ("  - {type: tokens, file: t.csv, scheme: ''}\n", TokenSettings("t.csv", scheme="")),
    (
        JWT,
        JwtSettings(
            algorithms=("RS256", "ES256"),
            issuer="https://issuer.example",
            audiences=("shop",),
            jwks_url="https://issuer.example/keys",
            jwks_interval_ns=3600 * SECOND,
            plain_http=True,
            leeway_ns=30 * SECOND,
            require_expiry=False,
            username_claim="email",
            username_prefix="sso:",
            groups_claim="realm_access.roles",
            groups_prefix="sso:",
            required_claims={"tenant": "acme"},
            system_names=True,
            header="x-token",
            scheme="JWT",
        ),
    ),
    ("  - {type: jwt, algorithms: [HS256], keyFile: k}\n", JwtSettings(("HS256",), key_file="k")),
    ("  - {type: proxy, networks: [10.0.0.0/8]}\n", ProxySettings(("10.0.0.0/8",))),
    (
        PROXY,
        ProxySettings(
            ("10.0.0.7",),
            unix=True,
            common_names=("front",),
            user_headers=("x-user",),
            group_headers=("x-group",),
            extra_prefixes=(),
        ),
    ),
    ("  - type: certificate\n", CertificateSettings()),
    ("  - {type: function, callable: 'app.auth:who'}\n", FunctionSettings("app.auth:who")),
    (
        "  - {type: function, callable: 'app.auth:who', headers: [X-Who]}\n",
        FunctionSettings("app.auth:who", ("x-who",)),
    ),
    ("  - {type: function, callable: 'app.auth:who', headers: []}\n", FunctionSettings("app.auth:who", ())),
]


def server(authentication: str = "", more: str = "") -> str:
    items = f"  authentication:\n{authentication}" if authentication else ""
    return f"apiVersion: apf/v1\nkind: Server\nspec:\n  seats: 7\n{items}{more}"


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_each_type_is_read(text: str, expected: AuthenticatorSettings) -> None:
    assert load_text(server(text)).server.authentication == (expected,)


@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_what_is_written_is_read_again(text: str) -> None:
    configuration = load_text(server(text))

    assert load_text(emit(configuration)) == configuration


def test_several_keep_their_order() -> None:
    text = server("".join(text for text, _ in CASES))

    assert load_text(text).server.authentication == tuple(expected for _, expected in CASES)


def test_without_authentication_nothing_is_written() -> None:
    assert load_text(server()).server.authentication == ServerSettings().authentication == ()
    assert load_text(server()).server.trusted_proxies == TrustedProxySettings()


def test_settings_can_be_hashed_and_compared() -> None:
    assert len({expected for _, expected in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{networks: [10.0.0.0/8, '::1']}", TrustedProxySettings(("10.0.0.0/8", "::1"))),
        ("{networks: [10.0.0.1], header: forwarded}", TrustedProxySettings(("10.0.0.1",), "forwarded")),
        ("{unix: true}", TrustedProxySettings(unix=True)),
    ],
)
def test_trusted_proxies(text: str, expected: TrustedProxySettings) -> None:
    configuration = load_text(server(more=f"  trustedProxies: {text}\n"))

    assert configuration.server.trusted_proxies == expected
    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("item", "field", "rule"),
    [
        ("{}", ".type", "must be one of certificate, function"),
        ("{type: 7}", ".type", "must be one of certificate, function"),
        ("{type: [jwt]}", ".type", "must be one of certificate, function"),
        ("{type: token, file: a}", ".type", "must be one of certificate, function, jwt, proxy, tokens, user"),
        ("jwt", "", "must be a mapping"),
        ("{type: tokens}", ".file", "required"),
        ("{type: tokens, file: ''}", ".file", "not be empty"),
        ("{type: tokens, file: 7}", ".file", "must be text"),
        ('{type: tokens, file: "a\\0b"}', ".file", "path of a file"),
        ("{type: tokens, file: a, header: 'a b'}", ".header", "header's name"),
        ("{type: tokens, file: a, scheme: 'Bearer, x'}", ".scheme", "one word"),
        ("{type: user, user: alice}", ".user", "no such key"),
        ("{type: jwt, keyFile: k}", ".algorithms", "required"),
        ("{type: jwt, keyFile: k, algorithms: []}", ".algorithms", "at least one"),
        ("{type: jwt, keyFile: k, algorithms: [none]}", ".algorithms[0]", "must be"),
        ("{type: jwt, keyFile: k, algorithms: [HS256, RS256]}", ".algorithms", "cannot be combined"),
        ("{type: jwt, algorithms: [RS256]}", ".keyFile", "exactly one of"),
        ("{type: jwt, algorithms: [RS256], keyFile: a, jwksFile: b, issuer: i}", ".keyFile", "exactly one of"),
        ("{type: jwt, algorithms: [RS256], jwksFile: b}", ".issuer", "is required"),
        ("{type: jwt, algorithms: [HS256], jwksUrl: 'https://a', issuer: i}", ".algorithms", "need a secret"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'http://a/', issuer: i}", ".jwksUrl", "must be https"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'file:///a', issuer: i}", ".jwksUrl", "begins with https"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'https://[', issuer: i}", ".jwksUrl", "begins with https"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'https://a:b/', issuer: i}", ".jwksUrl", "a valid port"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'https://a:99999/', issuer: i}", ".jwksUrl", "a valid port"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'https://a/my keys', issuer: i}", ".jwksUrl", "without spaces"),
        ("{type: jwt, algorithms: [RS256], jwksUrl: 'https://u:p@a/', issuer: i}", ".jwksUrl", "no user name"),
        ("{type: jwt, algorithms: [RS256], keyFile: k, leeway: 5}", ".leeway", "must be a duration"),
        ("{type: jwt, algorithms: [RS256], keyFile: k, jwksInterval: 0s}", ".jwksInterval", "at least a second"),
        ("{type: jwt, algorithms: [RS256], keyFile: k, usernameClaim: ''}", ".usernameClaim", "not be empty"),
        ("{type: proxy}", ".networks", "must name the trusted peers"),
        ("{type: proxy, networks: [10.0.0.1/8]}", ".networks[0]", "CIDR"),
        ("{type: proxy, networks: [any]}", ".networks[0]", "CIDR"),
        ("{type: proxy, unix: true, userHeaders: []}", ".userHeaders", "at least one"),
        ("{type: proxy, unix: true, groupHeaders: ['a:b']}", ".groupHeaders[0]", "header's name"),
        ("{type: proxy, unix: true, extraPrefixes: ['']}", ".extraPrefixes[0]", "header's name"),
        ("{type: proxy, commonNames: ['']}", ".commonNames", "not be empty"),
        ("{type: certificate, ca: a}", ".ca", "no such key"),
        ("{type: function}", ".callable", "required"),
        ("{type: function, callable: app.who}", ".callable", "package.module:function"),
        ("{type: function, callable: 'a:b', headers: ['']}", ".headers[0]", "header's name"),
    ],
)
def test_what_is_wrong_with_an_authenticator_is_reported(item: str, field: str, rule: str) -> None:
    errors = read_source(server(f"  - type: user\n  - {item}\n")).errors

    assert [(one.place.line, one.field) for one in errors] == [(7, f"spec.authentication[1]{field}")], errors
    assert rule in errors[0].rule


@pytest.mark.parametrize(
    ("item", "hint"),
    [
        ("{type: tokns, file: a}", "Did you mean tokens?"),
        ("{type: tokens, file: a, path: b}", "Here it is called file"),
        ("{type: tokens, file: a, tokens: [b]}", "Put the tokens into a file and name it in file"),
        ("{type: jwt, algorithms: [RS256], keyFile: k, isuer: a}", "Did you mean issuer?"),
        ("{type: jwt, algorithms: [RS256], keyFile: k, audience: a}", "Here it is called audiences"),
        ("{type: certificate, issuer: a}", "Known keys: type"),
        ("{type: proxy, networks: [10.0.0.1/8]}", "Did you mean 10.0.0.0/8?"),
        ("{type: proxy, networks: [any]}", "Write it like 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"),
    ],
)
def test_the_hint_is_that_of_the_named_type(item: str, hint: str) -> None:
    assert [one.hint for one in read_source(server(f"  - {item}\n")).errors] == [hint]


def test_a_misspelt_key_is_reported_with_other_mistakes() -> None:
    errors = read_source(server("  - {type: jwt, algorithm: RS256, keyFile: 1}\n")).errors

    assert {one.field.rpartition(".")[2] for one in errors} == {"algorithm", "algorithms", "keyFile"}


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("{networks: [10.0.0.1/8]}", "trustedProxies.networks[0]", "CIDR"),
        ("{networks: 10.0.0.1}", "trustedProxies.networks", "must be a list"),
        ("{header: x-real-ip}", "trustedProxies.header", "'x-forwarded-for' or 'forwarded'"),
        ("{hops: 2}", "trustedProxies.hops", "no such key"),
    ],
)
def test_what_is_wrong_with_trusted_proxies_is_reported(text: str, field: str, rule: str) -> None:
    errors = read_source(server(more=f"  trustedProxies: {text}\n")).errors

    assert [(one.place.line, one.field) for one in errors] == [(5, f"spec.{field}")]
    assert rule in errors[0].rule


@pytest.mark.parametrize("item", [[], {}, None, 7, "user", {"type": {}}, {"type": "jwt", "jwt": {"a": [1]}}, [[]]])
def test_any_structure_is_read_or_reported(item: Any) -> None:  # noqa: ANN401
    document = {"apiVersion": "apf/v1", "kind": "Server", "spec": {"authentication": [item, item]}}

    for problem in read_source(json.dumps(document)).problems:
        assert str(problem)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: JwtSettings((), key_file="k"), "algorithms"),
        (lambda: JwtSettings(("none",), key_file="k"), r"algorithms\[0\]"),
        (lambda: JwtSettings(("RS256",), key_file="k", leeway_ns=-1), "leeway_ns"),
        (lambda: TokenSettings("t", "X-Key"), "header"),
        (lambda: TrustedProxySettings(("10.0.0.1/8",)), r"networks\[0\]"),
        (lambda: TrustedProxySettings(header="x-real-ip"), "header"),  # type: ignore[arg-type]
        (ProxySettings, "networks"),
        (lambda: FunctionSettings("a"), "callable"),
    ],
)
def test_the_rules_hold_for_python_too(build: Any, name: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=f"^{name} is "):
        build()


def test_a_plain_url_is_fine_on_the_loopback_or_by_option() -> None:
    for url in ("http://localhost:8080/keys", "http://127.0.0.1/keys", "http://[::1]/keys"):
        assert JwtSettings(("RS256",), "i", jwks_url=url).jwks_url == url
    assert JwtSettings(("RS256",), "i", jwks_url="http://keys/", plain_http=True).plain_http


def test_the_algorithm_none_is_refused() -> None:
    assert not any(one.lower() == "none" for one in ALGORITHMS)


def test_a_header_of_its_own_has_no_scheme_unless_one_is_configured() -> None:
    assert credential_scheme("authorization", None) == "Bearer"
    assert credential_scheme("x-api-key", None) == ""
    assert credential_scheme("x-api-key", "Key") == "Key"
    assert credential_scheme("authorization", "") == ""


def test_the_example_of_the_page_is_valid() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert [str(problem) for problem in read_source(text).problems] == []
    assert [type(one) for one in load_text(text).server.authentication] == [TokenSettings, JwtSettings]


@pytest.mark.parametrize(
    "settings_type", [*dict.fromkeys(type(one) for _, one in CASES), TrustedProxySettings], ids=lambda one: one.__name__
)
def test_the_page_documents_every_key(settings_type: type[AuthenticatorSettings]) -> None:
    page = PAGE.read_text()
    keys = [key_of(one.name) for one in fields(settings_type) if one.name != "type"]

    assert [key for key in keys if f"`{key}" not in page] == []


def test_the_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(InvalidValueError, match=r"^jwks_url is 'https://…@issuer', but") as caught:
        JwtSettings(("RS256",), "i", jwks_url="https://user:secret@issuer/keys")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://user:secret@issuer/keys", "https://user:secret@issuer:port/keys"])
def test_the_password_in_a_url_of_a_file_is_not_shown(url: str) -> None:
    errors = read_source(server(f"  - {{type: jwt, algorithms: [RS256], issuer: i, jwksUrl: '{url}'}}\n")).errors
    assert [one.field for one in errors] == ["spec.authentication[0].jwksUrl"]
    assert "issuer" in str(errors[0])
    assert "secret" not in str(errors[0])
    assert "secret" not in str(errors[0].as_dict())
