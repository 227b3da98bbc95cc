"""Settings of authentication: the ``authentication`` and ``trustedProxies`` of a Server document.

Files are read and functions imported later, when the chain of authenticators is built.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, WrapValidator

from apf_middleware.config.problems import Path
from apf_middleware.config.settings import Rules, Settings, Violation, without_tag
from apf_middleware.config.values import (
    LowerCase,
    LowerCaseSet,
    Nanoseconds,
    NonEmpty,
    Texts,
    TextSet,
    is_header,
    network,
    require_known_function,
)
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen

__all__ = [
    "ALGORITHMS",
    "AnyAuthenticator",
    "AuthenticatorSettings",
    "CertificateSettings",
    "FunctionSettings",
    "JwtSettings",
    "ProxySettings",
    "TokenSettings",
    "TrustedProxySettings",
    "UserSettings",
    "credential_scheme",
    "network_rules",
]

ALGORITHMS: Final = (
    *("ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"),
    *("PS256", "PS384", "PS512", "RS256", "RS384", "RS512"),
)
"""The algorithms of signatures that can be allowed; ``none`` is not among them."""

_ALGORITHMS_SCHEMA: Final[dict[str, Any]] = {
    "items": {"type": "string", "enum": list(ALGORITHMS)},
    "minItems": 1,
    "uniqueItems": True,
}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_CALLABLE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SECOND: Final = 10**9


def credential_scheme(header: str, scheme: str | None) -> str:
    """Return the word before a credential; the default is Bearer in ``authorization``, and none in other headers."""
    if scheme is not None:
        return scheme
    return "Bearer" if header == "authorization" else ""


def network_rules(networks: Iterable[str]) -> Iterator[Violation]:
    """Yield the texts in the list ``networks`` of some settings that name no network."""
    for place, one in enumerate(networks):
        try:
            network("", one)
        except InvalidValueError as error:
            yield Violation(("networks", place), one, error.rule, error.hint)


def _header_rules(path: Path, header: str) -> Iterator[Violation]:
    if not is_header(header):
        yield Violation(path, header, "it must be a header's name in lower case", "Write it like x-api-key")


def _list_rules(field: str, headers: Iterable[str]) -> Iterator[Violation]:
    for place, header in enumerate(headers):
        yield from _header_rules((field, place), header)


def _credential_rules(header: str, scheme: str | None) -> Iterator[Violation]:
    yield from _header_rules(("header",), header)
    if scheme and not _SCHEME.fullmatch(scheme):
        hint = "Write it like Bearer, or '' for a header that has nothing but the token"
        yield Violation(("scheme",), scheme, "it must be one word", hint)


def _file_rules(field: str, file: str) -> Iterator[Violation]:
    if not file or "\0" in file:
        yield Violation((field,), file, "it must be the path of a file")


_TAG: Final = frozenset({"type"})


@frozen
class UserSettings(Settings):
    """The user in ``scope["user"]``, set by an authentication middleware around this one."""

    always_written: ClassVar[frozenset[str]] = _TAG

    type: Literal["user"] = field(default="user", kw_only=True)
    scopes_as_groups: bool = False


@frozen
class TokenSettings(Settings):
    """Static tokens in a file in Kubernetes' format."""

    always_written: ClassVar[frozenset[str]] = _TAG
    renamed: ClassVar[Mapping[str, str]] = {
        "path": "file",
        "tokenFile": "file",
        "tokens": "Put the tokens into a file and name it in file",
    }

    type: Literal["tokens"] = field(default="tokens", kw_only=True)
    file: NonEmpty
    header: LowerCase = "authorization"
    scheme: str | None = None

    def rules(self) -> Iterator[Violation]:
        yield from _file_rules("file", self.file)
        yield from _credential_rules(self.header, self.scheme)


@frozen
class JwtSettings(Settings):
    """JSON Web Tokens: their issuer, audiences, algorithms and keys, and the claims that name user and groups.

    Keys come from exactly one of ``key_file`` (PEM, or the secret of HS algorithms), ``jwks_file`` and ``jwks_url``.
    An empty ``issuer`` isn't checked; it is only allowed with ``key_file``. Names that begin with ``system:`` have a
    fixed meaning (``system:masters`` is exempt), so a token that claims one is rejected unless ``system_names`` is set.
    """

    always_written: ClassVar[frozenset[str]] = _TAG
    renamed: ClassVar[Mapping[str, str]] = {
        "audience": "audiences",
        "algorithm": "algorithms",
        "publicKey": "keyFile",
        "key": "keyFile",
        "jwksUri": "jwksUrl",
        "clockSkew": "leeway",
        "claims": "requiredClaims",
        "userClaim": "usernameClaim",
    }

    type: Literal["jwt"] = field(default="jwt", kw_only=True)
    algorithms: Annotated[Texts, Field(json_schema_extra=_ALGORITHMS_SCHEMA)]
    issuer: str = ""
    audiences: TextSet = ()
    key_file: Annotated[str, Field(description="PEM, or the secret of HS algorithms.")] = ""
    jwks_file: str = ""
    jwks_url: str = ""
    jwks_interval_ns: Nanoseconds = 300 * _SECOND
    plain_http: bool = False
    leeway_ns: Nanoseconds = 10 * _SECOND
    require_expiry: bool = True
    username_claim: NonEmpty = "sub"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = field(default_factory=dict, hash=False)
    system_names: bool = False
    header: LowerCase = "authorization"
    scheme: str | None = None

    @property
    def symmetric(self) -> bool:
        """True if the key that verifies tokens can also sign them."""
        return self.algorithms[0].startswith("HS")

    def rule_sets(self) -> Iterable[Rules]:
        return (self.rules, self._algorithm_rules, self._key_rules, self._url_rules)

    def rules(self) -> Iterator[Violation]:
        yield from _credential_rules(self.header, self.scheme)
        if self.jwks_interval_ns < _SECOND:
            yield Violation(("jwks_interval_ns",), self.jwks_interval_ns, "it must be at least a second")

    def _algorithm_rules(self) -> Iterator[Violation]:
        if not self.algorithms:
            hint = "Name those that the issuer signs with, for example [RS256]; a token must not choose its own"
            yield Violation(("algorithms",), self.algorithms, "there must be at least one", hint)
        for place, one in enumerate(self.algorithms):
            if one not in ALGORITHMS:
                close = difflib.get_close_matches(one[:60], ALGORITHMS, 1)
                hint = f"Did you mean {close[0]}?" if close else ""
                yield Violation(("algorithms", place), one, f"it must be one of {', '.join(ALGORITHMS)}", hint)
        if len({one.startswith("HS") for one in self.algorithms}) > 1:
            rule = "HS algorithms cannot be combined with others, because a public key could then be used as a secret"
            yield Violation(("algorithms",), self.algorithms, rule, "Write two authenticators")

    def _key_rules(self) -> Iterator[Violation]:
        given = {"keyFile": self.key_file, "jwksFile": self.jwks_file, "jwksUrl": self.jwks_url}
        named = [key for key, value in given.items() if value]
        if len(named) != 1:
            rule = "the keys must come from exactly one of keyFile, jwksFile and jwksUrl"
            yield Violation(("key_file",), ", ".join(named), rule)
            return
        yield from _file_rules("key_file", self.key_file or self.jwks_file or self.jwks_url)
        if not self.issuer and not self.key_file:
            hint = "It is the iss claim of the issuer's tokens"
            yield Violation(("issuer",), self.issuer, "it is required if the keys come as a JWKS", hint)

    def _url_rules(self) -> Iterator[Violation]:
        if not self.jwks_url:
            return
        if self.algorithms and self.symmetric:
            rule = "HS algorithms need a secret, and a key that is fetched from a URL isn't secret"
            yield Violation(("algorithms",), self.algorithms, rule, "Take keyFile or jwksFile")
        try:
            url = urlsplit(self.jwks_url)
            scheme, host, _, user = url.scheme, url.hostname, url.port, url.username
        except ValueError:
            scheme, host, user = "", None, None
        if scheme not in ("http", "https") or not host or not self.jwks_url.isprintable() or " " in self.jwks_url:
            rule = "it must be a URL that begins with https://, without spaces and with a valid port if it has one"
            # Only what is behind a password, which errors would show to all who read the log.
            yield Violation(("jwks_url",), self.jwks_url.rpartition("@")[2], rule, is_secret="@" in self.jwks_url)
        elif user is not None:
            hint = "Keys that verify tokens are public, so publish them without a password"
            rule = "it must have no user name and password, which the log would have, too"
            yield Violation(("jwks_url",), f"{scheme}://…@{host}", rule, hint, is_secret=True)
        elif scheme == "http" and host not in _LOOPBACK and not self.plain_http:
            rule = "it must be https, because otherwise the keys could be replaced on the way"
            hint = "On a network that you trust, write plainHttp: true"
            yield Violation(("jwks_url",), self.jwks_url, rule, hint)


@frozen
class ProxySettings(Settings):
    """Headers of a front proxy that authenticates, trusted only from the listed peers.

    A peer is recognized by its address (``networks``), a unix socket (``unix``) or the common name of its verified TLS
    certificate (``common_names``). If both address and certificate are given, both must match. The proxies that are
    trusted with client addresses are listed separately, because a content delivery network, for example, knows
    addresses but not users.
    """

    always_written: ClassVar[frozenset[str]] = _TAG
    renamed: ClassVar[Mapping[str, str]] = {
        "userHeader": "userHeaders",
        "groupHeader": "groupHeaders",
        "trustedProxies": "networks",
    }

    type: Literal["proxy"] = field(default="proxy", kw_only=True)
    networks: TextSet = ()
    unix: bool = False
    common_names: TextSet = ()
    user_headers: LowerCaseSet = ("x-remote-user",)
    group_headers: LowerCaseSet = ("x-remote-group",)
    extra_prefixes: LowerCaseSet = ("x-remote-extra-",)

    def rule_sets(self) -> Iterable[Rules]:
        return (self.rules, self._name_rules)

    def rules(self) -> Iterator[Violation]:
        if not (self.networks or self.unix or self.common_names):
            hint = "Write the proxy's address, for example networks: [10.0.0.7]"
            rule = "at least one of networks, unix and commonNames must name the trusted peers"
            yield Violation(("networks",), self.networks, rule, hint)
        yield from network_rules(self.networks)
        if "" in self.common_names:
            yield Violation(("common_names",), self.common_names, "a common name must not be empty")

    def _name_rules(self) -> Iterator[Violation]:
        if not self.user_headers:
            yield Violation(("user_headers",), (), "there must be at least one")
        for name in ("user_headers", "group_headers", "extra_prefixes"):
            yield from _list_rules(name, getattr(self, name))


@frozen
class CertificateSettings(Settings):
    """The client's verified TLS certificate: its common name is the user, its organizations are the groups."""

    always_written: ClassVar[frozenset[str]] = _TAG

    type: Literal["certificate"] = field(default="certificate", kw_only=True)


@frozen
class FunctionSettings(Settings):
    """A function of the app, ``package.module:name``.

    With ``headers`` its results are cached; they may then depend only on these headers, the name of ``scope["user"]``,
    the scopes of ``scope["auth"]`` and the certificate. With None they may depend on anything, so the function is
    called for each request.
    """

    always_written: ClassVar[frozenset[str]] = _TAG
    renamed: ClassVar[Mapping[str, str]] = {"name": "callable", "path": "callable"}

    type: Literal["function"] = field(default="function", kw_only=True)
    callable: Annotated[NonEmpty, Field(description="package.module:function")]
    headers: Annotated[
        LowerCaseSet | None, Field(description="The headers on which its result depends, so that results are cached.")
    ] = None

    def rules(self) -> Iterator[Violation]:
        if not _CALLABLE.fullmatch(self.callable):
            yield Violation(("callable",), self.callable, "it must be like package.module:function")
        try:
            require_known_function(self.callable)
        except ValueError as error:
            yield Violation(("callable",), self.callable, str(error))
        yield from _list_rules("headers", self.headers or ())


AuthenticatorSettings = (
    UserSettings | TokenSettings | JwtSettings | ProxySettings | CertificateSettings | FunctionSettings
)
"""The settings of any authenticator."""

AnyAuthenticator = Annotated[AuthenticatorSettings, Field(discriminator="type"), WrapValidator(without_tag)]
"""An item of ``authentication``, told apart by its ``type``."""


@frozen
class TrustedProxySettings(Settings):
    """The proxies that are trusted with the client's address, and the header that carries it."""

    renamed: ClassVar[Mapping[str, str]] = {
        "addresses": "networks",
        "hops": "Name the proxies' networks instead of counting them",
    }

    networks: TextSet = ()
    header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    unix: bool = False

    @property
    def trust_any(self) -> bool:
        """Whether there is any proxy that is trusted."""
        return bool(self.networks) or self.unix

    def rules(self) -> Iterator[Violation]:
        yield from network_rules(self.networks)
