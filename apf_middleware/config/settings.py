"""The base of settings: frozen dataclasses that are read from YAML, written to YAML and described by one declaration.

A settings class declares each field once: its Python name, its type including minimum and maximum, and its default.
Pydantic reads that declaration. The key in YAML is the name in camelCase without a unit (``leeway_ns`` is ``leeway``),
and types such as `Nanoseconds` convert between the form in YAML (``5s``) and the Python value. Rules that involve
several fields are generators of `Violation`. Creating an object in Python raises the first violation as an
InvalidValueError. Reading a document reports all violations; if some fields can't be read, the rules between the other
fields are still checked.
"""

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import annotated_types
from pydantic import ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from apf_middleware.config.problems import Path, dotted
from apf_middleware.config.values import rule_error
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen

__all__ = [
    "DeclaredField",
    "Rules",
    "Settings",
    "SettingsT",
    "Violation",
    "adapter_of",
    "as_mapping",
    "by_keys",
    "declared_fields",
    "key_of",
    "line_of",
    "make_unchecked",
    "number_or_word",
    "path_of",
    "rules_error",
    "without_tag",
]

Rules = Callable[[], Iterator["Violation"]]
"""A function that yields the violations of the rules between some fields of an object."""

SettingsT = TypeVar("SettingsT", bound="Settings")

_MOST_MISSPELT: Final = 5  # the number of unknown keys of one model that are compared with known ones
_BOUNDS: Final[Mapping[type, tuple[str, str, Callable[[Any, Any], bool]]]] = {
    annotated_types.Ge: ("ge", "be at least", operator.ge),
    annotated_types.Gt: ("gt", "be more than", operator.gt),
    annotated_types.Lt: ("lt", "be less than", operator.lt),
    annotated_types.Le: ("le", "be at most", operator.le),
}


@frozen
class Violation:
    """A field that breaks a rule; ``path`` is relative to the object that declares the rule.

    If the document's value ``is_secret``, only this ``value`` is shown.
    """

    path: Path
    value: object
    rule: str
    hint: str = ""
    is_secret: bool = False


class _ViolationsError(InvalidValueError):
    """All violations of one object; the message is that of the first one."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        first = violations[0]
        super().__init__(dotted(first.path), first.value, first.rule, first.hint)
        self.violations = violations


def key_of(name: str) -> str:
    """Return the YAML key of a field: its Python name in camelCase, without the unit."""
    return to_camel(re.sub(r"_n?s$", "", name))


class Settings:
    """The base of frozen dataclasses with fields that pydantic reads and writes."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, regex_engine="python-re", alias_generator=key_of
    )

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of other formats, each with the key to use here, or with a hint if there is no such key."""

    always_written: ClassVar[frozenset[str]] = frozenset()
    """Fields that are written even if they have their default, because that default depends on other documents."""

    def rules(self) -> Iterator[Violation]:
        """Yield the violations of rules that involve several fields."""
        yield from ()

    def rule_sets(self) -> Iterable[Rules]:
        """Return the rules as separate generators.

        If a field of a document can't be read, only the generators that use it end early.
        """
        return (self.rules,)

    def __post_init__(self) -> None:
        found = [*_out_of_bounds(self), *(one for rules in self.rule_sets() for one in rules())]
        if found:
            raise _ViolationsError(tuple(found))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        declared: Any = schema
        declared["strict"] = False  # accept a mapping, but check its values strictly
        writing = core_schema.wrap_serializer_function_ser_schema(_changed_fields, schema=schema)
        return core_schema.no_info_wrap_validator_function(cls._read, schema, serialization=writing)

    @classmethod
    def _read(cls, data: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(data)
        except ValidationError as error:
            raise _with_rules(cls, data, error) from None


@frozen
class DeclaredField:
    """A field of a model: its key, its type with constraints, a function that returns its default, and its bounds."""

    key: str
    annotation: Any
    default: Callable[[], object] | None
    bounds: tuple[tuple[str, Any, Callable[[Any, Any], bool]], ...] = ()

    @property
    def takes_null(self) -> bool:
        """Whether null is a value of its own; usually it means the default."""
        is_optional = NoneType in get_args(self.annotation)
        return is_optional and self.default is not None and self.default() is not None


_DECLARED: Final[dict[type, dict[str, DeclaredField]]] = {}
_ADAPTERS: Final[dict[Any, TypeAdapter[Any]]] = {}


def declared_fields(model: type) -> Mapping[str, DeclaredField]:
    """Return the fields of a settings class, by their Python names."""
    found = _DECLARED.get(model)
    if found is None:
        found = _DECLARED[model] = _read_declaration(model)
    return found


def _read_declaration(model: type[Any]) -> dict[str, DeclaredField]:
    found: dict[str, DeclaredField] = {}
    hints = get_type_hints(model, include_extras=True)
    for one in fields(model):
        infos = [info for info in getattr(hints[one.name], "__metadata__", ()) if isinstance(info, FieldInfo)]
        if any(info.init is False for info in infos):  # set when a document is read, but not from its keys
            continue
        alias = next((info.alias for info in infos if info.alias), None)
        made: Callable[[], object] | None = None
        if one.default_factory is not MISSING:
            made = one.default_factory
        elif one.default is not MISSING:
            made = partial(_same, one.default)
        hint = _without_names(hints[one.name])
        found[one.name] = DeclaredField(alias or key_of(one.name), hint, made, tuple(_bounds(hint)))
    return found


def _without_names(annotation: Any) -> Any:  # noqa: ANN401 (a type hint may be anything)
    """Return the type with constraints but without aliases, so that a value can be validated outside of the class."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = get_args(annotation)
    constraints = [one for each in metadata for one in (each.metadata if isinstance(each, FieldInfo) else (each,))]
    return Annotated[(inner, *constraints)] if constraints else inner


def _same(value: object) -> object:
    return value


def adapter_of(annotation: Any) -> TypeAdapter[Any]:  # noqa: ANN401 (a type hint may be anything)
    """Return the adapter of a type. Adapters are cached, because they are expensive to create."""
    found = _ADAPTERS.get(annotation)
    if found is None:
        kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
        has_config = isinstance(kind, type) and is_dataclass(kind)
        config = None if has_config else ConfigDict(strict=True)
        found = _ADAPTERS[annotation] = TypeAdapter(annotation, config=config)
    return found


def make_unchecked(model: type[SettingsT], values: Mapping[str, object]) -> SettingsT:
    """Create settings without checking their rules, in order to serialize an existing object.

    Fields that ``values`` lacks get their defaults.
    """
    made = object.__new__(model)
    for name, declared in declared_fields(model).items():
        value = declared.default() if declared.default is not None and name not in values else values[name]
        object.__setattr__(made, name, value)
    return made


def as_mapping(settings: object, annotation: Any = None) -> dict[str, Any]:  # noqa: ANN401 (a type hint)
    """Return settings as they are written in YAML: with YAML keys, and without defaults.

    Defaults of fields that are ``always_written`` are written, too.
    ``annotation`` is the type to serialize as, if it isn't the class of ``settings`` (for example a union).
    """
    written: dict[str, Any] = adapter_of(annotation or type(settings)).dump_python(settings, mode="json", by_alias=True)
    return written


def _changed_fields(settings: Settings, write: core_schema.SerializerFunctionWrapHandler) -> dict[str, Any]:
    written = write(settings)
    found = {}
    for name, declared in declared_fields(type(settings)).items():
        value = getattr(settings, name)
        is_usual = declared.default is not None and value == declared.default()
        is_absent = value is None and not declared.takes_null
        if not is_absent and (name in settings.always_written or not is_usual):
            found[declared.key] = written[declared.key]
    return found


# Bounds of single values. In documents pydantic checks them; this code checks objects that are created in Python.


def _is_one_of(value: object, choices: tuple[object, ...]) -> bool:
    return value in choices


def _out_of_bounds(settings: Settings) -> Iterator[Violation]:
    for name, declared in declared_fields(type(settings)).items():
        for words, bound, holds in declared.bounds:
            value = getattr(settings, name)
            if value is not None and not holds(value, bound):
                yield Violation((name,), value, f"it must {words} {bound}")


def _bounds(annotation: Any) -> Iterator[tuple[str, Any, Callable[[Any, Any], bool]]]:  # noqa: ANN401 (a type hint)
    """Yield the bounds of a field's value, also if the field is optional, but not the bounds of list items."""
    for one in getattr(annotation, "__metadata__", ()):
        if type(one) in _BOUNDS:
            attribute, words, holds = _BOUNDS[type(one)]
            yield words, getattr(one, attribute), holds
    if get_origin(annotation) is Literal:
        yield "be one of", get_args(annotation), _is_one_of
    if get_origin(annotation) is Annotated:
        yield from _bounds(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        plain = [kind for kind in map(_without_names, get_args(annotation)) if not _checks_itself(kind)]
        if len(plain) == 1:  # for a union of several types the bounds would depend on the type of the value
            for words, bound, holds in _bounds(plain[0]):
                yield words, bound, partial(_holds_for_plain, holds)


def _checks_itself(annotation: Any) -> bool:  # noqa: ANN401 (a type hint)
    """Return whether values of a type need no check: None, and settings."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return isinstance(kind, type) and issubclass(kind, NoneType | Settings)


def _holds_for_plain(holds: Callable[[Any, Any], bool], value: object, bound: object) -> bool:
    return isinstance(value, Settings) or holds(value, bound)


# Violations in documents: all of them are reported, with YAML keys instead of Python names.


def path_of(name: str) -> Path:
    """Convert the name of a field in an error, such as ``user_headers[0]``, to its path in the document.

    In this example that is ``("userHeaders", 0)``.
    """
    return tuple(int(step) if step.isdigit() else key_of(step) for step in re.findall(r"\w+", name))


def rules_error(found: tuple[Violation, ...]) -> PydanticCustomError:
    """Return one error with all violations of an object, because pydantic stops at the first error of a model."""
    return PydanticCustomError("rules", "rules are broken", {"found": found})


def _with_rules(model: type[Settings], data: object, error: ValidationError) -> ValidationError:
    """Return the errors of a model's fields, with the violations of rules between its other fields."""
    errors = error.errors(include_url=False)
    causes = [one["ctx"]["error"] for one in errors if _is_own(one)]
    found = [violation for cause in causes for violation in cause.violations]
    # If all fields could be read, `__post_init__` has reported the violations already.
    if not causes and isinstance(data, Mapping):
        found = list(_violations_of_the_rest(model, data, errors))
    if not found:
        return error
    lines = [line_of(one) for one in errors if not _is_own(one)]
    keyed = tuple(by_keys(model, one, data) for one in found)
    lines.append(InitErrorDetails(type=rules_error(keyed), loc=(), input=data))
    return ValidationError.from_exception_data(error.title, lines)


def _is_own(details: ErrorDetails) -> bool:
    return not details["loc"] and isinstance(details.get("ctx", {}).get("error"), _ViolationsError)


def without_tag(given: object, validate: core_schema.ValidatorFunctionWrapHandler) -> object:
    """Validate a tagged union, and remove the tag from the paths of errors, because no document contains it."""
    try:
        return validate(given)
    except ValidationError as error:
        lines = []
        for details in error.errors(include_url=False):
            if not details["type"].startswith("union_tag"):
                details["loc"] = details["loc"][1:]
            lines.append(line_of(details))
        raise ValidationError.from_exception_data(error.title, lines) from None


def number_or_word(given: object, validate: core_schema.ValidatorFunctionWrapHandler) -> object:
    """Validate a whole number or a word, with one error instead of one for each of the two."""
    try:
        return validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False)
        if isinstance(given, int) and not isinstance(given, bool):
            lines = [line_of({**details, "loc": ()}) for details in found if details["type"] != "literal_error"]
            raise ValidationError.from_exception_data(error.title, lines) from None
        word = next(details["ctx"]["expected"] for details in found if details["type"] == "literal_error")
        is_quoted = isinstance(given, str) and given.isdecimal()
        hint = "Write it in decimal digits, without quotes" if is_quoted else ""
        raise rule_error(f"it must be a whole number or {word}", hint) from None


def line_of(details: ErrorDetails) -> InitErrorDetails:
    """Return the error in the form that pydantic accepts."""
    kind, context = details["type"], details.get("ctx", {})
    ours = PydanticCustomError(kind, details["msg"], context) if kind in ("rule", "rules") else kind
    return InitErrorDetails(type=ours, loc=details["loc"], input=details["input"], ctx=context)


def _violations_of_the_rest(
    model: type[Settings], data: Mapping[str, object], errors: list[ErrorDetails]
) -> Iterator[Violation]:
    """Yield the violations of rules between fields that have no errors of their own."""
    wrong = {str(details["loc"][0]) for details in errors if details["loc"]}
    wrong |= _misspelt(model, wrong)
    # made without ``__init__``, which would need all fields
    rest: Any = object.__new__(model)
    values: dict[str, object] = {}
    for name, declared in declared_fields(model).items():
        if declared.key in wrong:
            continue
        if declared.key in data:
            values[name] = adapter_of(declared.annotation).validate_python(data[declared.key])
        elif declared.default is not None:
            values[name] = declared.default()
    for name, value in values.items():
        object.__setattr__(rest, name, value)
    for rules in rest.rule_sets():
        try:
            yield from rules()
        except AttributeError as missing:
            # A rule that reads a field with an error can't be checked. Any other missing attribute is a defect of the
            # rule.
            if missing.name not in declared_fields(model):
                raise


def _misspelt(model: type[Settings], wrong: set[str]) -> set[str]:
    """Return the keys that are probably misspelt in the document.

    The intended values of these keys are unknown, so rules that use them aren't checked.
    """
    known = {declared.key for declared in declared_fields(model).values()}
    # Number and length are bounded, as the keys are untrusted and the comparison is slow.
    unknown = sorted(wrong - known)[:_MOST_MISSPELT]
    return {close for key in unknown for close in difflib.get_close_matches(model.renamed.get(key, key)[:60], known, 1)}


def by_keys(model: type[Settings], violation: Violation, data: object) -> Violation:
    """Return a violation with YAML keys instead of Python names in its path.

    Its value is the one that the document has at that path.
    """
    if not violation.path:
        return violation
    first, *rest = violation.path
    declared = declared_fields(model).get(str(first))
    path: Path = (declared.key if declared else first, *rest)
    value: Any = data
    for step in () if violation.is_secret else path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            # the document leaves the field out, so the value is a default
            return replace(violation, path=path)
    return replace(violation, path=path, value=violation.value if violation.is_secret else value)
