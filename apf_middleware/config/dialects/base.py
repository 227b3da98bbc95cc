"""What the dialects share: strict models that tell every broken rule, and definitions, which are what they read.

A model says what shape its part of a document has; `Model.rules` yields the rules that its fields break together.
Pydantic stops a model at its first complaint, so all of a model's own are carried in one. Rules are also checked where
some fields have errors of their own, as far as they don't read those fields: one problem must not hide another.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from apf_middleware.classification import FlowSchema
from apf_middleware.config.documents import Document
from apf_middleware.config.estimation import EstimateSettings
from apf_middleware.config.objects import Level, ServerSettings
from apf_middleware.config.problems import Absent, Path, Problems, dotted

__all__ = [
    "MOST_HINTS",
    "Broken",
    "Definition",
    "Model",
    "ModelType",
    "as_written",
    "broken",
    "document_path",
    "parse",
    "report",
    "without_nulls",
]


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a field breaks; ``path`` starts at the model that tells it."""

    path: Path
    value: object
    rule: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """An object and the document that defines it.

    ``catch_all`` is the KEP's mark of the level for whatever nothing else takes. ``told`` are
    the settings that a Server document gives.
    """

    thing: Level | FlowSchema | ServerSettings
    document: Document
    dialect: str
    catch_all: bool = False
    told: frozenset[str] = frozenset()
    estimate: EstimateSettings | None = None
    gates: tuple[str, ...] = ()


class Model(BaseModel):
    """Strict: no conversions, no unknown keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, regex_engine="python-re")

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of other dialects, and what they are called here, or in a few words what to write instead."""

    def rules(self) -> Iterator[Broken]:
        """Yield the rules that the fields break together."""
        yield from ()

    def rule_sets(self) -> Iterable[Callable[[], Iterator[Broken]]]:
        """Return generators like `rules` that read different fields, so that an unreadable one stops only its own."""
        return (self.rules,)

    @model_validator(mode="wrap")
    @classmethod
    def _keeps_its_rules(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            model = handler(data)
        except ValidationError as error:
            has_rules = cls.rules is not Model.rules or cls.rule_sets is not Model.rule_sets
            found = tuple(_rules_of_the_rest(cls, data, error)) if has_rules and isinstance(data, Mapping) else ()
            if not found:
                raise
            lines = [_line(details) for details in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, [*lines, _line_of_rules(found, data)]) from None
        found = tuple(one for rules in model.rule_sets() for one in rules())
        if found:
            raise _broken_rules(found)
        return model


ModelType = TypeVar("ModelType", bound=Model)


def _broken_rules(found: tuple[Broken, ...]) -> PydanticCustomError:
    return PydanticCustomError("rules", "rules are broken", {"found": found})


def _line_of_rules(found: tuple[Broken, ...], data: object) -> InitErrorDetails:
    return InitErrorDetails(type=_broken_rules(found), loc=(), input=data)


def _line(details: ErrorDetails) -> InitErrorDetails:
    """Return the error in the form in which pydantic takes it."""
    kind, context = details["type"], details.get("ctx", {})
    ours = PydanticCustomError(kind, details["msg"], context) if kind in ("rule", "rules") else kind
    return InitErrorDetails(type=ours, loc=details["loc"], input=details["input"], ctx=context)


def _rules_of_the_rest(model: type[Model], data: Mapping[str, object], error: ValidationError) -> Iterator[Broken]:
    """Yield the rules that are broken by fields which have no errors of their own."""
    wrong = {str(details["loc"][0]) for details in error.errors(include_url=False) if details["loc"]}
    wrong |= _misspelt(model, wrong)
    values: dict[str, object] = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key in wrong:
            continue
        if key in data:
            values[name] = _field_adapter(model, name).validate_python(data[key], strict=True)
        elif not field.is_required():
            values[name] = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]
    rest = model.model_construct(
        _fields_set={name for name in values if (model.model_fields[name].alias or name) in data}
    )
    object.__setattr__(rest, "__dict__", values)  # without the defaults of fields that have errors
    for rules in rest.rule_sets():
        try:
            yield from rules()
        except AttributeError as missing:
            if missing.name not in model.model_fields:
                raise


def _misspelt(model: type[Model], wrong: set[str]) -> set[str]:
    """Return the fields that unknown keys seem to mean: what such a field would say is not known."""
    known = {field.alias or name for name, field in model.model_fields.items()}
    unknown = sorted(wrong - known)[:_MOST_MISSPELT]
    return {close for key in unknown for close in difflib.get_close_matches(model.renamed.get(key, key)[:60], known, 1)}


@cache
def _field_adapter(model: type[Model], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(annotation)


_MOST_MISSPELT: Final = 5  # of one model

MOST_HINTS: Final = 200
"""After so many problems nothing is guessed any more about what a misspelt key may have meant, for that takes time."""

_WANTED: Final[Mapping[str, str]] = {
    "string_type": "it must be text",
    "int_type": "it must be a whole number",
    "float_type": "it must be a number",
    "bool_type": "it must be true or false",
    "list_type": "it must be a list",
    "dict_type": "it must be a mapping",
    "model_type": "it must be a mapping",
    "missing": "it is required",
}

_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("be more than", "gt"),
    "greater_than_equal": ("be at least", "ge"),
    "less_than_equal": ("be at most", "le"),
    "too_short": ("have at least", "min_length"),
}


def broken(rule: str, hint: str = "") -> PydanticCustomError:
    """The complaint of a single field's validator."""
    return PydanticCustomError("rule", "a rule is broken", {"rule": rule, "hint": hint})


def without_nulls(data: object) -> object:
    """A key without a value says as much as no key."""
    if isinstance(data, Mapping):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(one) for one in data] if isinstance(data, list) else data


def document_path(name: str) -> Path:
    """Return ``user_headers[0]``, a field of the domain, as the way to the key ``userHeaders``, without a unit."""
    steps = re.findall(r"\w+", name)
    return tuple(int(step) if step.isdigit() else to_camel(step.removesuffix("_ns")) for step in steps)


def as_written(model: Model) -> dict[str, object]:
    """Return what the document says there, by its keys."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def parse(
    model: type[ModelType], data: object, document: Document, problems: Problems, root: Path = ()
) -> ModelType | None:
    """The model of this part of a document, or None when problems were found in it."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            hinting = len(problems) < MOST_HINTS
            for one in _explained(model, details, data, hinting=hinting):
                report(document, problems, Broken((*root, *one.path), one.value, one.rule, one.hint))
    return None


def report(document: Document, problems: Problems, one: Broken, *, warning: bool = False) -> None:
    """Adds file, document and line to a broken rule."""
    tell = problems.warn if warning else problems.error
    tell(document.place(one.path), one.rule, field=dotted((*document.base, *one.path)), value=one.value, hint=one.hint)


def _explained(model: type[Model], details: ErrorDetails, data: object, *, hinting: bool) -> Iterator[Broken]:
    context: Mapping[str, Any] = details.get("ctx", {})
    path, kind = _real(details["loc"], data), details["type"]
    if kind == "rules":
        for one in context["found"]:
            yield Broken((*path, *one.path), one.value, one.rule, one.hint)
    elif kind == "extra_forbidden":
        yield Broken(path, details["input"], "there is no such key here", _nearest(model, path) if hinting else "")
    else:
        value = Absent.ABSENT if kind == "missing" else details["input"]
        yield Broken(path, value, *_rule(kind, context, value, details["msg"]))


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
    """The steps that are fields: pydantic also names the branch of a union and the like."""
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


def _nearest(model: type[Model], path: Path) -> str:
    """What a misspelt key may have meant."""
    inner: type[Model] | None = model
    for step in path[:-1]:
        if inner is not None and isinstance(step, str):
            inner = _inside(inner, step)
    if inner is None:
        return ""
    key = str(path[-1])
    if key in inner.renamed:
        return inner.renamed[key] if " " in inner.renamed[key] else f"Here it is called {inner.renamed[key]}"
    known = [field.alias or name for name, field in inner.model_fields.items()]
    return _close(key, known) or f"Known are {', '.join(sorted(known))}"


def _close(given: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(given)[:60], known, 1)
    return f"Did you mean {close[0]}?" if close else ""


def _inside(model: type[Model], key: str) -> type[Model] | None:
    """The model of a field, if it has one: also inside Optional, Annotated and lists."""
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return _first_model(field.annotation)
    return None


def _first_model(annotation: Any) -> type[Model] | None:  # noqa: ANN401 (a type hint may be anything)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _first_model(argument)
        if found is not None:
            return found
    return None
