"""What a configuration says about authentication, as frozen objects that keep their own rules.

They are what YAML becomes and what a Python program writes by hand, so their rules stand here, once; the models of the
dialect ask them. Whether files can be read and functions imported is found out when the chain is built.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "ALGORITHMS",
    "AuthenticatorSettings",
    "CertificateSettings",
    "FunctionSettings",
    "JwtSettings",
    "ProxySettings",
    "TokenSettings",
    "TrustedProxySettings",
    "UserSettings",
    "credential_scheme",
    "network",
]

ALGORITHMS: Final = (
    *("ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"),
    *("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"),
)
"""The signatures that can be allowed; ``none`` is not among them."""

_TOKEN: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_CALLABLE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SECOND: Final = 10**9


def credential_scheme(header: str, scheme: str | None) -> str:
    """The scheme before a credential: Bearer where that is usual, none in a header of its own, if nothing is told."""
    if scheme is not None:
        return scheme
    return "Bearer" if header == "authorization" else ""


def network(name: str, text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The network that this text names; ``name`` is what an error calls it."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        rule = "it must be an address or a network in CIDR form, without bits behind its prefix"
        try:
            hint = f"Did you mean {ipaddress.ip_network(text, strict=False)}?"
        except ValueError:
            hint = "Write it like 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
        raise InvalidValueError(name, text, rule, hint) from None


def _require_header(name: str, header: str) -> None:
    if not _TOKEN.fullmatch(header):
        raise InvalidValueError(name, header, "it must be a header's name in lower case", "Write it like x-api-key")


def _require_scheme(scheme: str | None) -> None:
    if scheme and not _SCHEME.fullmatch(scheme):
        hint = "Write it like Bearer, or '' for a header that has nothing but the token"
        raise InvalidValueError("scheme", scheme, "it must be one word", hint)


def _require_file(name: str, file: str) -> None:
    if not file or "\0" in file:
        raise InvalidValueError(name, file, "it must be the path of a file")


@dataclass(frozen=True, slots=True)
class UserSettings:
    """``scope["user"]``, as an authentication middleware outside of ours has set it."""

    scopes_as_groups: bool = False


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Static tokens in a file of Kubernetes' form."""

    file: str
    header: str = "authorization"
    scheme: str | None = None

    def __post_init__(self) -> None:
        _require_file("file", self.file)
        _require_header("header", self.header)
        _require_scheme(self.scheme)


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Signed tokens: whose, for whom, how signed, where the keys are, and which claims say who it is.

    Keys come from exactly one of ``key_file`` (PEM, or the secret of HS algorithms), ``jwks_file`` and ``jwks_url``.
    An empty ``issuer`` isn't checked, which only a key file allows. Names that begin with ``system:`` have meanings of
    their own (system:masters is exempt), so tokens can't claim them unless ``system_names`` says so.
    """

    algorithms: tuple[str, ...]
    issuer: str = ""
    audiences: tuple[str, ...] = ()
    key_file: str = ""
    jwks_file: str = ""
    jwks_url: str = ""
    jwks_interval_ns: int = 300 * _SECOND
    plain_http: bool = False
    leeway_ns: int = 10 * _SECOND
    require_expiry: bool = True
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = field(default_factory=dict, hash=False)
    system_names: bool = False
    header: str = "authorization"
    scheme: str | None = None

    def __post_init__(self) -> None:
        _require_header("header", self.header)
        _require_scheme(self.scheme)
        self._check_algorithms()
        self._check_keys()
        if not self.username_claim:
            raise InvalidValueError("username_claim", "", "it must name a claim", "Take sub")
        if self.leeway_ns < 0:
            raise InvalidValueError("leeway_ns", self.leeway_ns, "it must be at least 0")
        if self.jwks_interval_ns < _SECOND:
            raise InvalidValueError("jwks_interval_ns", self.jwks_interval_ns, "it must be at least a second")

    @property
    def symmetric(self) -> bool:
        """Whether who can check a token could also have signed it."""
        return self.algorithms[0].startswith("HS")

    def _check_algorithms(self) -> None:
        if not self.algorithms:
            hint = "Name those that the issuer signs with, say [RS256]; a token doesn't choose by itself"
            raise InvalidValueError("algorithms", self.algorithms, "there must be at least one", hint)
        for place, one in enumerate(self.algorithms):
            if one not in ALGORITHMS:
                raise InvalidValueError(f"algorithms[{place}]", one, f"it must be one of {', '.join(ALGORITHMS)}")
        if len({one.startswith("HS") for one in self.algorithms}) > 1:
            rule = "HS algorithms must not be mixed with others: a public key would become a secret that everybody has"
            raise InvalidValueError("algorithms", self.algorithms, rule, "Write two authenticators")

    def _check_keys(self) -> None:
        given = {"keyFile": self.key_file, "jwksFile": self.jwks_file, "jwksUrl": self.jwks_url}
        named = [key for key, value in given.items() if value]
        if len(named) != 1:
            rule = "the keys must come from exactly one of keyFile, jwksFile and jwksUrl"
            raise InvalidValueError("key_file", ", ".join(named), rule)
        _require_file("key_file", self.key_file or self.jwks_file or self.jwks_url)
        if not self.issuer and not self.key_file:
            hint = "It is the iss claim of the issuer's tokens"
            raise InvalidValueError("issuer", self.issuer, "it must be told where keys come as a JWKS", hint)
        if self.jwks_url:
            self._check_url()

    def _check_url(self) -> None:
        if self.symmetric:
            rule = "HS algorithms need a secret, and what is fetched from a URL is none"
            raise InvalidValueError("algorithms", self.algorithms, rule, "Take keyFile or jwksFile")
        try:
            url = urlsplit(self.jwks_url)
            scheme, host = url.scheme, url.hostname
        except ValueError:
            scheme, host = "", None
        if scheme not in ("http", "https") or not host:
            raise InvalidValueError("jwks_url", self.jwks_url, "it must be a URL that begins with https://")
        if scheme == "http" and host not in _LOOPBACK and not self.plain_http:
            rule = "it must be https, or who stands between could put in keys of his own"
            hint = "On a network that you trust, write plainHttp: true"
            raise InvalidValueError("jwks_url", self.jwks_url, rule, hint)


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Headers of a front proxy that authenticates, believed from listed peers alone.

    ``networks`` are those of its address, ``unix`` means peers on a unix socket, ``common_names`` those of its verified
    TLS certificate. Address and certificate must both be right where both are told. They are told apart from the
    proxies that are trusted with client addresses: a content network may know those, and nothing of users.
    """

    networks: tuple[str, ...] = ()
    unix: bool = False
    common_names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)

    def __post_init__(self) -> None:
        if not (self.networks or self.unix or self.common_names):
            hint = "Write the proxy's address, say networks: [10.0.0.7]"
            raise InvalidValueError("networks", (), "it must be told which peers are believed", hint)
        for place, one in enumerate(self.networks):
            network(f"networks[{place}]", one)
        if not self.user_headers:
            raise InvalidValueError("user_headers", (), "there must be at least one")
        for name in ("user_headers", "group_headers", "extra_prefixes"):
            for place, header in enumerate(getattr(self, name)):
                _require_header(f"{name}[{place}]", header)
        if "" in self.common_names:
            raise InvalidValueError("common_names", self.common_names, "a common name must not be empty")


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """The client's verified TLS certificate: its common name is the user, its organizations are the groups."""


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """The user's own function, ``package.module:name``.

    ``headers`` are all that its answer depends on, beside ``scope["user"]``, ``scope["auth"]`` and the certificate; its
    answers are remembered by them. None: it may depend on anything, so it is asked each time.
    """

    callable: str
    headers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not _CALLABLE.fullmatch(self.callable):
            raise InvalidValueError("callable", self.callable, "it must be like package.module:function")
        for place, header in enumerate(self.headers or ()):
            _require_header(f"headers[{place}]", header)


AuthenticatorSettings = (
    UserSettings | TokenSettings | JwtSettings | ProxySettings | CertificateSettings | FunctionSettings
)
"""Any of them."""


@dataclass(frozen=True, slots=True)
class TrustedProxySettings:
    """The proxies in front, which are trusted to tell the client's address, and the one header in which they do."""

    networks: tuple[str, ...] = ()
    header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    unix: bool = False

    def __post_init__(self) -> None:
        for place, one in enumerate(self.networks):
            network(f"networks[{place}]", one)
        if self.header not in ("x-forwarded-for", "forwarded"):
            raise InvalidValueError("header", self.header, "it must be 'x-forwarded-for' or 'forwarded'")
