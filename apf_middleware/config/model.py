"""What the formats share: strict models that tell every broken rule, and definitions, which are what they read.

A model says what shape its part of a document has; `Model.rules` yields the rules that its fields break together.
Pydantic stops a model at its first complaint, so all of a model's own are carried in one. Rules are also checked where
some fields have errors of their own, as far as they don't read those fields: one problem must not hide another.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from apf_middleware.config.documents import Document
from apf_middleware.config.problems import Absent, Path, Problems, dotted
from apf_middleware.config.settings import (
    Rules,
    Settings,
    Violation,
    adapter_of,
    declared_fields,
    rules_error,
    with_rules,
)

__all__ = [
    "MOST_HINTS",
    "BuiltFrom",
    "Model",
    "ModelType",
    "as_written",
    "parse",
    "report",
    "without_nulls",
]


class Model(BaseModel):
    """A part of a document, with keys in camelCase. Strict: no conversions, no unknown keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, regex_engine="python-re", alias_generator=to_camel
    )

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of other formats, and what they are called here, or in a few words what to write instead."""

    def rules(self) -> Iterator[Violation]:
        """Yield the rules that the fields break together."""
        yield from ()

    def rule_sets(self) -> Iterable[Rules]:
        """Return generators like `rules` that read different fields, so that an unreadable one stops only its own."""
        return (self.rules,)

    @model_validator(mode="wrap")
    @classmethod
    def _keeps_its_rules(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            model = handler(data)
        except ValidationError as error:
            if cls.rules is Model.rules and cls.rule_sets is Model.rule_sets:
                raise
            raise with_rules(cls, data, error) from None
        found = tuple(one for rules in model.rule_sets() for one in rules())
        if found:
            raise rules_error(found)
        return model


class BuiltFrom:
    """Marks the type of a domain object, as a field of settings, with the model that reads it and how it is written."""

    __slots__ = ("_build", "_write", "model")

    def __init__(self, model: type[Model], build: Callable[[Any], object], write: Callable[[Any], object]) -> None:
        self.model: type[Model] = model
        self._build = build
        self._write = write

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        writing = core_schema.plain_serializer_function_ser_schema(self._write)
        return core_schema.no_info_after_validator_function(
            self._build, handler.generate_schema(self.model), serialization=writing
        )


ModelType = TypeVar("ModelType", bound=Model | Settings)

MOST_HINTS: Final = 200
"""After so many problems nothing is guessed any more about what a misspelt key may have meant, for that takes time."""

_WANTED: Final[Mapping[str, str]] = {
    "string_type": "it must be text",
    "int_type": "it must be a whole number",
    "float_type": "it must be a number",
    "bool_type": "it must be true or false",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a mapping",
    "dataclass_type": "it must be a mapping",
    "model_type": "it must be a mapping",
    "model_attributes_type": "it must be a mapping",
    "missing": "it is required",
}

_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("be more than", "gt"),
    "greater_than_equal": ("be at least", "ge"),
    "less_than_equal": ("be at most", "le"),
    "too_short": ("have at least", "min_length"),
}


def without_nulls(data: object) -> object:
    """Return the data without keys that have no value, which mean as much as missing keys."""
    if isinstance(data, Mapping):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(one) for one in data] if isinstance(data, list) else data


def as_written(model: Model) -> dict[str, object]:
    """Return what the document says there, by its keys."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def parse(
    model: type[ModelType], data: object, document: Document, problems: Problems, root: Path = ()
) -> ModelType | None:
    """Return the model of this part of a document, or None when problems were found in it."""
    kind: Any = model  # mypy doesn't take a type variable of a union for the union of types
    try:
        found: ModelType = adapter_of(model).validate_python(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            hinting = len(problems) < MOST_HINTS
            for one in _explained(kind, details, data, hinting=hinting):
                report(document, problems, Violation((*root, *one.path), one.value, one.rule, one.hint))
        return None
    return found


def report(document: Document, problems: Problems, one: Violation, *, warning: bool = False) -> None:
    """Report a violation with its file, document and line."""
    tell = problems.warn if warning else problems.error
    tell(document.place(one.path), one.rule, field=dotted((*document.base, *one.path)), value=one.value, hint=one.hint)


def _explained(
    model: type[Model | Settings], details: ErrorDetails, data: object, *, hinting: bool
) -> Iterator[Violation]:
    context: Mapping[str, Any] = details.get("ctx", {})
    path, kind = _real(details["loc"], data), details["type"]
    if kind == "rules":
        for one in context["found"]:
            yield Violation((*path, *one.path), one.value, one.rule, one.hint)
    elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
        yield Violation(
            path, details["input"], "there is no such key here", _nearest(model, path, data) if hinting else ""
        )
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        known = sorted(str(_tag_of(one)) for one in _models_at(model, path, data))
        yield _unknown_tag(context["discriminator"].strip("'"), path, details["input"], known)
    else:
        value = Absent.ABSENT if kind == "missing" else details["input"]
        yield Violation(path, value, *_rule(kind, context, value, details["msg"]))


def _unknown_tag(key: str, path: Path, given: object, known: list[str]) -> Violation:
    """Return what is wrong with the key that says which kind of object it is."""
    value = given.get(key, Absent.ABSENT) if isinstance(given, Mapping) else Absent.ABSENT
    if not isinstance(value, str) or not value:
        return Violation((*path, key), value, f"it must name its {key}", f"Known are {', '.join(known)}")
    return Violation((*path, key), value, f"it must be one of {', '.join(known)}", _close(value, known))


def _rule(kind: str, context: Mapping[str, Any], value: object, message: str) -> tuple[str, str]:
    if kind == "rule":
        return context["rule"], context["hint"]
    if kind == "literal_error":
        return f"it must be {context['expected']}", _close(
            value, context["expected"].replace("'", "").replace(",", "").split()
        )
    if kind in _BOUNDS:
        said, key = _BOUNDS[kind]
        return f"it must {said} {context[key]}", ""
    return _WANTED.get(kind, message), _remedy(kind, value)


def _remedy(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "Put it in quotes"
    if kind == "int_type" and isinstance(value, str):
        return "Write it in decimal digits, without quotes"
    if kind == "bool_type" and isinstance(value, str):
        return "yes, no, on and off are text in YAML 1.2"
    return ""


def _real(loc: tuple[str | int, ...], data: object) -> Path:
    """Return the steps of a location that are fields; pydantic also names the branches of unions."""
    path: list[str | int] = []
    last = len(loc) - 1
    for place, step in enumerate(loc):
        if isinstance(step, int):
            within = isinstance(data, list) and step < len(data)
            data = data[step] if isinstance(data, list) and within else data
        else:
            within = isinstance(data, Mapping) and (step in data or place == last)  # the last may be what is missing
            data = data.get(step) if isinstance(data, Mapping) and within else data
        if within:
            path.append(step)
    return tuple(path)


def _nearest(model: type[Model | Settings], path: Path, data: object) -> str:
    """Return what a misspelt key may have meant, or which keys there are."""
    candidates = _models_at(model, path[:-1], data)
    if not candidates:
        return ""
    key, inner = str(path[-1]), candidates[0]
    if key in inner.renamed:
        return inner.renamed[key] if " " in inner.renamed[key] else f"Here it is called {inner.renamed[key]}"
    known = [declared.key for declared in declared_fields(inner).values()]
    return _close(key, known) or f"Known are {', '.join(sorted(known))}"


def _models_at(model: type[Model | Settings], path: Path, data: object) -> list[type[Model | Settings]]:
    """Return the models of the value there: several for a union in which no tag tells which one it is."""
    candidates: list[type[Model | Settings]] = [model]
    for step in path:
        if isinstance(step, str):
            candidates = [inner for one in candidates[:1] for inner in _models_of(one, step)]
        data = _item(data, step)
        if len(candidates) > 1 and isinstance(data, Mapping):
            tagged = [one for one in candidates if _tag_of(one) == data.get("type")]
            candidates = tagged or candidates
    return candidates


def _item(data: object, step: str | int) -> object:
    if isinstance(data, Mapping):
        return data.get(step)
    return data[step] if isinstance(data, list) and isinstance(step, int) and step < len(data) else None


def _tag_of(model: type[Model | Settings]) -> object:
    declared = declared_fields(model).get("type")
    return declared.default() if declared is not None and declared.default is not None else None


def _close(given: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(given)[:60], known, 1)
    return f"Did you mean {close[0]}?" if close else ""


def _models_of(model: type[Model | Settings], key: str) -> list[type[Model | Settings]]:
    """Return the models of a field, also those inside Optional, Annotated and lists."""
    found = next((declared for declared in declared_fields(model).values() if declared.key == key), None)
    return [] if found is None else list(_models_in(found.annotation))


def _models_in(annotation: Any) -> Iterator[type[Model | Settings]]:  # noqa: ANN401 (a type hint may be anything)
    if isinstance(annotation, type) and issubclass(annotation, Model | Settings):
        yield annotation
    for one in getattr(annotation, "__metadata__", ()):
        if isinstance(one, BuiltFrom):
            yield one.model
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
