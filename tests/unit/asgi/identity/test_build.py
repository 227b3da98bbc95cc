"""Building a chain of authenticators from a configuration."""

import sys
from pathlib import Path
from typing import Any

import pytest

from apf_middleware.asgi.identity import (
    Authenticated,
    FunctionAuthenticator,
    TokenAuthenticator,
    build_chain,
)
from apf_middleware.asgi.identity.certificate import CertificateAuthenticator
from apf_middleware.asgi.identity.chain import UserAuthenticator
from apf_middleware.asgi.identity.jwt import JwtAuthenticator
from apf_middleware.asgi.identity.proxy import ProxyAuthenticator
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
from tests.support.authentication import Fixed, group_of, request


def who(scope: Any) -> Identity | None:  # noqa: ANN401
    """Authenticate a request as a user's own function does, which is found by its name."""
    return Identity(scope["asked"]) if "asked" in scope else None


NOT_CALLABLE = 7


def test_without_a_configuration_the_user_of_the_scope_is_believed() -> None:
    chain = build_chain(ServerSettings())

    assert [type(one) for one in chain._authenticators] == [UserAuthenticator]
    assert chain.identify(request()) == Authenticated(ANONYMOUS)


def test_each_type_is_built_after_the_authenticators_of_python(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("t,a,1\n")
    (tmp_path / "secret").write_text("s" * 32)
    settings = (
        UserSettings(),
        TokenSettings(str(tmp_path / "tokens.csv")),
        JwtSettings(("HS256",), key_file=str(tmp_path / "secret")),
        ProxySettings(("10.0.0.1",)),
        CertificateSettings(),
        FunctionSettings(f"{__name__}:who"),
    )
    extra = Fixed(None)
    server = ServerSettings(authentication=settings, trusted_proxies=TrustedProxySettings(("10.0.0.1",)))
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
    ("settings", "name"),
    [
        (TokenSettings("no-such.csv"), "file"),
        (JwtSettings(("RS256",), key_file="no-such.pem"), "keyFile"),
        (JwtSettings(("RS256",), "i", jwks_file="no-such.json"), "jwksFile"),
        (FunctionSettings("no.such:who"), "callable"),
        (FunctionSettings("os:no_such"), "callable"),
        (FunctionSettings(f"{__name__}:NOT_CALLABLE"), "callable"),
    ],
)
def test_missing_files_and_functions_are_reported_with_place_and_hint(settings: Any, name: str) -> None:  # noqa: ANN401
    rule = "it (must be|can't be imported|isn't callable)"
    with pytest.raises(InvalidValueError, match=rf"^authentication\[1\]\.{name} is .* but {rule}") as error:
        build_chain(ServerSettings(authentication=(UserSettings(), settings)))

    assert error.value.hint


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
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


def test_an_unusable_file_is_named_by_its_key_in_the_document(tmp_path: Path) -> None:
    settings = ServerSettings(authentication=(JwtSettings(("HS256",), key_file=str(tmp_path / "none")),))

    with pytest.raises(InvalidValueError, match=r"^authentication\[0\]\.keyFile is "):
        build_chain(settings)
