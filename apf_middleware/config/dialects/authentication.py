"""Authentication in a Server document of ``apf/v1``: one model for each type of authenticator, and trusted proxies.

Only shapes are checked here; the rules between fields are those of the frozen objects, and files are opened when the
server starts. What is wrong is told by the model of the type that is named, so no other type's keys are suggested.
"""

import difflib
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from apf_middleware.config.authentication import (
    AuthenticatorSettings,
    CertificateSettings,
    FunctionSettings,
    JwtSettings,
    ProxySettings,
    TokenSettings,
    TrustedProxySettings,
    UserSettings,
)
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.problems import Absent
from apf_middleware.config.settings import Violation, path_of
from apf_middleware.config.values import Duration, NonEmpty, StringSet, duration_ns, rule_error
from apf_middleware.exceptions import InvalidValueError

__all__ = ["AnyAuthenticator", "AuthenticatorModel", "TrustedProxiesModel"]

_Algorithm = Literal[
    "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"
]


class _Settled(CamelModel):
    """Its rules are those of the object that it becomes."""

    def rules(self) -> Iterator[Violation]:
        try:
            self.built()
        except InvalidValueError as error:
            yield Violation(path_of(error.name), error.value, error.rule, error.hint)

    @abstractmethod
    def built(self) -> object:
        """The object; InvalidValueError if its rules are broken."""


class AuthenticatorModel(_Settled):
    """One authenticator."""

    @abstractmethod
    def built(self) -> AuthenticatorSettings: ...


class _User(AuthenticatorModel):
    type: Literal["user"]
    scopes_as_groups: bool = False

    def built(self) -> UserSettings:
        return UserSettings(self.scopes_as_groups)


class _Tokens(AuthenticatorModel):
    renamed: ClassVar[dict[str, str]] = {
        "path": "file",
        "tokenFile": "file",
        "tokens": "Put the tokens into a file and name it in file",
    }

    type: Literal["tokens"]
    file: NonEmpty
    header: NonEmpty = "authorization"
    scheme: str | None = Field(default=None, description="Bearer in authorization, otherwise none.")

    def built(self) -> TokenSettings:
        return TokenSettings(self.file, self.header.lower(), self.scheme)


class _Jwt(AuthenticatorModel):
    renamed: ClassVar[dict[str, str]] = {
        "audience": "audiences",
        "algorithm": "algorithms",
        "publicKey": "keyFile",
        "key": "keyFile",
        "jwksUri": "jwksUrl",
        "clockSkew": "leeway",
        "claims": "requiredClaims",
        "userClaim": "usernameClaim",
    }

    type: Literal["jwt"]
    algorithms: list[_Algorithm] = Field(json_schema_extra={"minItems": 1, "uniqueItems": True})
    issuer: str = ""
    audiences: StringSet = Field(default_factory=list)
    key_file: str = Field(default="", description="PEM, or the secret of HS algorithms.")
    jwks_file: str = ""
    jwks_url: str = ""
    jwks_interval: Duration = "5m"
    plain_http: bool = False
    leeway: Duration = "10s"
    require_expiry: bool = True
    username_claim: NonEmpty = "sub"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = ""
    required_claims: dict[str, str] = Field(default_factory=dict)
    system_names: bool = False
    header: NonEmpty = "authorization"
    scheme: str | None = None

    def built(self) -> JwtSettings:
        return JwtSettings(
            algorithms=tuple(self.algorithms),
            issuer=self.issuer,
            audiences=tuple(self.audiences),
            key_file=self.key_file,
            jwks_file=self.jwks_file,
            jwks_url=self.jwks_url,
            jwks_interval_ns=duration_ns(self.jwks_interval),
            plain_http=self.plain_http,
            leeway_ns=duration_ns(self.leeway),
            require_expiry=self.require_expiry,
            username_claim=self.username_claim,
            username_prefix=self.username_prefix,
            groups_claim=self.groups_claim,
            groups_prefix=self.groups_prefix,
            required_claims=dict(self.required_claims),
            system_names=self.system_names,
            header=self.header.lower(),
            scheme=self.scheme,
        )


class _Proxy(AuthenticatorModel):
    renamed: ClassVar[dict[str, str]] = {
        "userHeader": "userHeaders",
        "groupHeader": "groupHeaders",
        "trustedProxies": "networks",
    }

    type: Literal["proxy"]
    networks: StringSet = Field(default_factory=list)
    unix: bool = False
    common_names: StringSet = Field(default_factory=list)
    user_headers: StringSet = Field(default=["x-remote-user"])
    group_headers: StringSet = Field(default=["x-remote-group"])
    extra_prefixes: StringSet = Field(default=["x-remote-extra-"])

    def built(self) -> ProxySettings:
        return ProxySettings(
            networks=tuple(self.networks),
            unix=self.unix,
            common_names=tuple(self.common_names),
            user_headers=_lower(self.user_headers),
            group_headers=_lower(self.group_headers),
            extra_prefixes=_lower(self.extra_prefixes),
        )


def _lower(headers: list[str]) -> tuple[str, ...]:
    return tuple(header.lower() for header in headers)


class _Certificate(AuthenticatorModel):
    type: Literal["certificate"]

    def built(self) -> CertificateSettings:
        return CertificateSettings()


class _Function(AuthenticatorModel):
    renamed: ClassVar[dict[str, str]] = {"name": "callable", "path": "callable"}

    type: Literal["function"]
    callable: NonEmpty = Field(description="package.module:function")
    headers: StringSet | None = Field(default=None, description="All that its answer depends on; then it's remembered.")

    def built(self) -> FunctionSettings:
        return FunctionSettings(self.callable, None if self.headers is None else _lower(self.headers))


_MODELS: Final[dict[str, type[AuthenticatorModel]]] = {
    "certificate": _Certificate,
    "function": _Function,
    "jwt": _Jwt,
    "proxy": _Proxy,
    "tokens": _Tokens,
    "user": _User,
}


def _told_by_type(given: object, validate: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 (whatever is validated)
    """Errors as if only the named type existed: no step of the union in their paths, and hints of the right model."""
    try:
        return validate(given)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            error.title, [_told(details, given) for details in error.errors(include_url=False)]
        ) from None


def _told(details: ErrorDetails, given: object) -> InitErrorDetails:
    kind, value, path = details["type"], details["input"], details["loc"][1:]  # the first step is the union's
    if kind in ("union_tag_not_found", "union_tag_invalid") and isinstance(given, dict):
        name = given.get("type", Absent.ABSENT)
        path, value, complaint = ("type",), name, _unknown_type(name)
    elif kind == "extra_forbidden" and len(path) == 1 and isinstance(given, dict):
        complaint = rule_error("there is no such key here", _known_keys(_MODELS[given["type"]], str(path[0])))
    else:
        complaint = PydanticCustomError(kind, "{said}", {**details.get("ctx", {}), "said": details["msg"]})
    return InitErrorDetails(type=complaint, loc=path, input=value)


def _unknown_type(name: object) -> PydanticCustomError:
    if not isinstance(name, str) or not name:
        return rule_error("an authenticator must name its type", f"Known are {', '.join(_MODELS)}")
    close = difflib.get_close_matches(name[:60], _MODELS, 1)
    return rule_error(f"it must be one of {', '.join(_MODELS)}", f"Did you mean {close[0]}?" if close else "")


def _known_keys(model: type[AuthenticatorModel], key: str) -> str:
    if key in model.renamed:
        return model.renamed[key] if " " in model.renamed[key] else f"Here it is called {model.renamed[key]}"
    known = [to_camel(name) for name in model.model_fields]
    close = difflib.get_close_matches(key[:60], known, 1)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(sorted(known))}"


AnyAuthenticator = Annotated[
    _User | _Tokens | _Jwt | _Proxy | _Certificate | _Function,
    Field(discriminator="type"),
    WrapValidator(_told_by_type),
]
"""An item of ``authentication``."""


class TrustedProxiesModel(_Settled):
    """The proxies in front, and the header in which they tell the client's address."""

    renamed: ClassVar[dict[str, str]] = {
        "addresses": "networks",
        "hops": "Name the proxies' networks instead of counting them",
    }

    networks: StringSet = Field(default_factory=list)
    header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    unix: bool = False

    def built(self) -> TrustedProxySettings:
        return TrustedProxySettings(tuple(self.networks), self.header, self.unix)
