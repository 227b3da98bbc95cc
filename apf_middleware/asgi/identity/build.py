"""Construction of authenticator chains: files are opened, functions imported and optional packages checked here."""

from collections.abc import Iterable
from typing import assert_never

from apf_middleware.asgi.identity.address import TrustedProxies
from apf_middleware.asgi.identity.authenticator import Authenticator
from apf_middleware.asgi.identity.certificate import CertificateAuthenticator
from apf_middleware.asgi.identity.chain import Chain, UserAuthenticator
from apf_middleware.asgi.identity.function import FunctionAuthenticator
from apf_middleware.asgi.identity.proxy import ProxyAuthenticator
from apf_middleware.asgi.identity.tokens import TokenAuthenticator
from apf_middleware.config import ServerSettings
from apf_middleware.config.authentication import (
    AuthenticatorSettings,
    CertificateSettings,
    FunctionSettings,
    JwtSettings,
    ProxySettings,
    TokenSettings,
    UserSettings,
)
from apf_middleware.config.problems import dotted
from apf_middleware.config.settings import path_of
from apf_middleware.exceptions import InvalidValueError, MissingExtraError

__all__ = ["build_chain"]


def build_chain(settings: ServerSettings, extra: Iterable[Authenticator] = ()) -> Chain:
    """Build the chain of a configuration, with the authenticators in ``extra`` before its own.

    A configuration without authenticators uses ``scope["user"]``.
    """
    chain = list(extra)
    for place, one in enumerate(settings.authentication or (UserSettings(),)):
        try:
            chain.append(_build_authenticator(one))
        except InvalidValueError as error:
            name = f"authentication[{place}].{dotted(path_of(error.name))}"
            raise InvalidValueError(name, error.value, error.rule, error.hint) from error
    return Chain(chain, trusted_proxies=TrustedProxies(settings.trusted_proxies))


def _build_authenticator(settings: AuthenticatorSettings) -> Authenticator:
    """Build one authenticator.

    Raises:
        InvalidValueError: a file or a function is missing or unusable.
        MissingExtraError: PyJWT is not installed.
    """
    match settings:
        case UserSettings():
            return UserAuthenticator(settings)
        case TokenSettings():
            return TokenAuthenticator(settings)
        case JwtSettings():
            return _jwt(settings)
        case ProxySettings():
            return ProxyAuthenticator(settings)
        case CertificateSettings():
            return CertificateAuthenticator()
        case FunctionSettings():
            return FunctionAuthenticator.of(settings)
        case _:
            assert_never(settings)


def _jwt(settings: JwtSettings) -> Authenticator:
    try:
        from apf_middleware.asgi.identity.jwt import JwtAuthenticator  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"jwt", "cryptography"}:
            raise
        raise MissingExtraError(package, "jwt") from error
    return JwtAuthenticator(settings)
