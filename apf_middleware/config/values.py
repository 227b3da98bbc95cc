"""The kinds of values that several formats share, and the rule of each."""

import importlib
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Annotated, Any, Final, TypeVar

from annotated_types import Ge
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from apf_middleware.durations import DURATION_PATTERN, duration_ns, written_duration
from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "DEPENDS",
    "MAX_INT32",
    "MAX_PATTERN",
    "SERVED_PATH",
    "VERBS",
    "Amount",
    "Deadline",
    "DnsLabel",
    "DnsSubdomain",
    "Function",
    "GateNames",
    "IpNetwork",
    "LowerCase",
    "LowerCaseSet",
    "Nanoseconds",
    "NetworkSet",
    "NonEmpty",
    "Part",
    "Pattern",
    "Percent",
    "Seconds",
    "Size",
    "TextSet",
    "Texts",
    "Transform",
    "TrustedGroups",
    "Verbs",
    "WildcardSet",
    "callable_name",
    "is_header",
    "is_label",
    "is_served_path",
    "is_subdomain",
    "is_token",
    "known_functions_only",
    "load_callable",
    "network",
    "require_known_function",
    "rule_error",
    "size_bytes",
    "written_size",
]

MAX_INT32: Final = 2**31 - 1
"""The largest integer in Kubernetes' API, where integers have 32 bits."""

MAX_PATTERN: Final = 1_000
"""The maximum length of a regex, in characters."""

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy")
"""The verbs that a rule can name; any other verb is matched only by ``*``."""

_Values = TypeVar("_Values", list[str], tuple[str, ...])

_SECOND: Final = 10**9
_MS: Final = 10**6
_MAPPED_PREFIX: Final = 96  # bits of an IPv6 address before the IPv4 address in it
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_RULE: Final = "it must be a DNS label: lower-case letters, digits and '-', at most 63, not '-' first or last"
_SUBDOMAIN_RULE: Final = (
    "it must be a DNS name: lower-case letters, digits, '-' and '.', at most 253, a letter or digit first and last"
)
_SIZES: Final = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_SIZE: Final = r"([0-9]{1,9})(GiB|MiB|KiB|B)"
_PART: Final = r"([0-9]|[1-8][0-9]|90)%"
_MAX_SIZE: Final = 2**40
_MAX_DURATION_NS: Final = 365 * 24 * 3600 * 10**9


def rule_error(rule: str, hint: str = "") -> PydanticCustomError:
    """Return the error of a single value that breaks a rule."""
    return PydanticCustomError("rule", "a rule is broken", {"rule": rule, "hint": hint})


def is_label(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def is_token(text: str) -> bool:
    """Return whether this is a token of HTTP, as the names of headers and methods are."""
    return re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", text) is not None


def is_header(name: str) -> bool:
    """Return whether this is the name of a header in lower case."""
    return is_token(name) and name == name.lower()


SERVED_PATH: Final = "it must be one path that begins with /, without a query"
"""The rule of a path at which the middleware itself answers."""


def is_served_path(path: str) -> bool:
    """Return whether a path obeys the rule `SERVED_PATH`."""
    return re.fullmatch(r"/[^\s?#*{}]*", path) is not None


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(_SUBDOMAIN, text) is not None


def _label(text: str) -> str:
    if not is_label(text):
        raise rule_error(_LABEL_RULE)
    return text


def _subdomain(text: str) -> str:
    if not is_subdomain(text):
        raise rule_error(_SUBDOMAIN_RULE)
    return text


def _non_empty(text: str) -> str:
    if not text:
        raise rule_error("it must not be empty")
    return text


def _set(values: _Values) -> _Values:
    twice = sorted(value for value, times in Counter(values).items() if times > 1)
    if twice:
        raise rule_error(f"it must not have {', '.join(map(repr, twice[:5]))} more than once")
    return values


def _distinct_texts(values: object) -> object:
    return _set(values) if isinstance(values, list) and all(isinstance(one, str) for one in values) else values


def _trusted_groups(groups: tuple[str, ...]) -> tuple[str, ...]:
    if "*" in groups:
        hint = "All callers that are authenticated are in the group system:authenticated"
        raise rule_error("'*' would be the name of a group here, and not mean all groups", hint)
    return groups


def _lower_case(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.lower() for text in texts)


def network(name: str, text: str) -> IPv4Network | IPv6Network:
    """Return the network that this text names; an error shows the text as the value of ``name``."""
    try:
        return _unmapped(ip_network(text))
    except ValueError:
        rule = "it must be an IP address, or a network in CIDR form with only zeros after its prefix"
        try:
            hint = f"Did you mean {ip_network(text, strict=False)}?"
        except ValueError:
            hint = "Write it like 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
        raise InvalidValueError(name, text, rule, hint) from None


def _unmapped(found: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """Return a network of IPv4 addresses that are written as IPv6 as what it is: addresses are compared that way."""
    first = found.network_address
    if isinstance(first, IPv6Address) and first.ipv4_mapped is not None and found.prefixlen >= _MAPPED_PREFIX:
        return IPv4Network((first.ipv4_mapped, found.prefixlen - _MAPPED_PREFIX))
    return found


def _read_network(text: object) -> IPv4Network | IPv6Network:
    if not isinstance(text, str):
        raise PydanticKnownError("string_type")
    try:
        return network("", text)
    except InvalidValueError as error:
        raise rule_error(error.rule, error.hint) from None


def _wildcard(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise rule_error("it must not be empty", "Write ['*'] for all")
    if "*" in values and len(values) > 1:
        raise rule_error("'*' must stand alone", "Remove either '*' or the others")
    return values


def _verbs(values: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [value for value in values if value != "*" and value not in VERBS]
    if unknown:
        hint = "Other HTTP methods are matched only by '*', or by an httpRule of apf/v1"
        raise rule_error(f"{', '.join(map(repr, unknown[:5]))} must be one of {', '.join(VERBS)}", hint)
    return values


def _pattern(text: str) -> str:
    if len(text) > MAX_PATTERN:
        raise rule_error(f"a regex must not be longer than {MAX_PATTERN}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError, RecursionError, ValueError, Warning) as error:
        raise rule_error(f"it must be a regex of Python's re: {error}") from None
    return text


def _transform(text: str) -> str:
    if re.compile(text).groups != 1:
        raise rule_error("it must have exactly one capturing group", "Write the others as (?:…)")
    return text


def _read_number(text: object, parse: Callable[[str], int], rule: str, hint: str) -> int:
    try:
        if isinstance(text, str):
            return parse(text)
    except ValueError:
        pass
    raise rule_error(rule, hint)


def _read_duration(text: object) -> int:
    duration = _read_number(text, duration_ns, "it must be a duration", "Write it like 15s, 1m30s or 250ms")
    if duration > _MAX_DURATION_NS:
        raise rule_error("it must be at most a year")
    return duration


def _deadline(duration: int) -> int:
    if duration < _MS:  # a request with less time is rejected on arrival (see `request_deadlines`)
        raise rule_error("it must be at least 1ms", "Write it like 15s, or remove it")
    return duration


def _read_seconds(text: object) -> int:
    duration = _read_duration(text)
    if duration < _SECOND or duration % _SECOND:
        raise rule_error("it must be whole seconds, at least one, because Retry-After has no fractions")
    return duration // _SECOND


def _written_seconds(seconds: int) -> str:
    return f"{seconds}s"


def size_bytes(text: str) -> int:
    """Convert a size such as ``64KiB`` or ``512B`` to bytes; any other text is a ValueError."""
    match = re.fullmatch(_SIZE, text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _SIZES[match[2]]


def written_size(size: int) -> str:
    """Write a size in bytes with one unit, the largest that gives a whole number."""
    unit = next(unit for unit, factor in _SIZES.items() if size % factor == 0) if size else "B"
    return f"{size // _SIZES[unit]}{unit}"


def _read_size(text: object) -> int:
    size = _read_number(text, size_bytes, "it must be a number of bytes", "Write it like 512B, 64KiB or 32MiB")
    if size > _MAX_SIZE:
        raise rule_error("it must be at most 1024GiB")
    return size


def _read_part(text: object) -> int:
    match = re.fullmatch(_PART, text) if isinstance(text, str) else None
    if match is None:
        raise rule_error("it must be a percentage from 0% to 90%", "Write it like 20%")
    return int(match[1])


def _written_part(percent: int) -> str:
    return f"{percent}%"


_named_before: Final[set[str]] = set()
_names_known_functions_only: Final[ContextVar[bool]] = ContextVar("names_known_functions_only", default=False)


@contextmanager
def known_functions_only() -> Iterator[None]:
    """Refuse functions that no configuration has named outside of this context, before anything is imported.

    The author of a configuration can run code, which is right for the server's own files, and not for a text that has
    come over the network.
    """
    token = _names_known_functions_only.set(True)
    try:
        yield
    finally:
        _names_known_functions_only.reset(token)


def require_known_function(name: str) -> None:
    """Raise ValueError in `known_functions_only` if the function is unknown; otherwise it is known from now on."""
    if not _names_known_functions_only.get():
        _named_before.add(name)
    elif name not in _named_before:
        raise ValueError("the server's own files must name a function before another configuration may name it, too")


def load_callable(text: str) -> Callable[..., Any]:
    """Return the function named ``package.module:function``; raise ValueError if it can't be imported or called."""
    require_known_function(text)
    module, _, names = text.partition(":")
    try:
        found = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except Exception as error:
        # Importing runs other people's code, which may raise anything.
        raise ValueError(f"it can't be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError("it isn't callable")  # noqa: TRY004 (one error for all that may be wrong)
    return found


def callable_name(function: Callable[..., object]) -> str | None:
    """Return ``package.module:function``; None if importing that name doesn't give the same function."""
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    try:
        return name if load_callable(name) == function else None
    except ValueError:
        return None


def _read_callable(text: object) -> Callable[..., Any]:
    if not isinstance(text, str):
        raise PydanticKnownError("string_type")
    try:
        return load_callable(_non_empty(text))
    except ValueError as error:
        hint = "Write package.module:function"
        if isinstance(error.__cause__, ModuleNotFoundError):
            hint += ". PYTHONPATH=. lets commands find modules of the working directory"
        raise rule_error(str(error), hint) from None


def _schema(**more: object) -> Any:  # noqa: ANN401 (what Field returns has no type of its own)
    return Field(json_schema_extra=dict(more))  # type: ignore[arg-type]


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


DEPENDS: Final = Field(json_schema_extra=_without_default)
"""Marks a field with a default that depends on other documents, so that the JSON Schema has none."""

DnsLabel = Annotated[str, AfterValidator(_label), _schema(pattern=f"^{_LABEL}$", maxLength=63)]
DnsSubdomain = Annotated[str, AfterValidator(_subdomain), _schema(pattern=f"^{_SUBDOMAIN}$", maxLength=253)]
NonEmpty = Annotated[str, AfterValidator(_non_empty), _schema(minLength=1)]
_DURATION_SCHEMA: Final = {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "examples": ["15s", "1m30s"]}
_SIZE_SCHEMA: Final = {"type": "string", "pattern": f"^{_SIZE}$", "examples": ["64KiB", "32MiB"]}

Nanoseconds = Annotated[
    int, Ge(0), PlainValidator(_read_duration), PlainSerializer(written_duration), WithJsonSchema(_DURATION_SCHEMA)
]
Deadline = Annotated[Nanoseconds, AfterValidator(_deadline)]
Seconds = Annotated[
    int, PlainValidator(_read_seconds), PlainSerializer(_written_seconds), WithJsonSchema(_DURATION_SCHEMA)
]
Size = Annotated[int, Ge(0), PlainValidator(_read_size), PlainSerializer(written_size), WithJsonSchema(_SIZE_SCHEMA)]
Part = Annotated[
    int,
    Field(ge=0, le=90),
    PlainValidator(_read_part),
    PlainSerializer(_written_part),
    WithJsonSchema({"type": "string", "pattern": f"^{_PART}$", "examples": ["20%"]}),
]
Pattern = Annotated[str, AfterValidator(_pattern), _schema(format="regex", maxLength=MAX_PATTERN)]
Transform = Annotated[Pattern, AfterValidator(_transform)]
GateNames = Annotated[tuple[NonEmpty, ...], Field(strict=False)]
LowerCase = Annotated[NonEmpty, AfterValidator(str.lower)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
TextSet = Annotated[Texts, AfterValidator(_set), _schema(uniqueItems=True)]
TrustedGroups = Annotated[TextSet, AfterValidator(_trusted_groups)]
LowerCaseSet = Annotated[TextSet, AfterValidator(_lower_case)]
IpNetwork = Annotated[
    IPv4Network | IPv6Network, PlainValidator(_read_network), PlainSerializer(str), WithJsonSchema({"type": "string"})
]
NetworkSet = Annotated[
    tuple[IpNetwork, ...], BeforeValidator(_distinct_texts), Field(strict=False), _schema(uniqueItems=True)
]
Function = Annotated[
    Callable[..., Any],
    PlainValidator(_read_callable),
    PlainSerializer(callable_name),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
Amount = Annotated[int, Field(ge=0, le=MAX_INT32)]
Percent = Annotated[int, Field(ge=0, le=100)]
WildcardSet = Annotated[TextSet, AfterValidator(_wildcard), _schema(uniqueItems=True, minItems=1)]
Verbs = Annotated[
    WildcardSet, AfterValidator(_verbs), _schema(items={"enum": ["*", *VERBS], "type": "string"}, minItems=1)
]
