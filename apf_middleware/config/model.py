"""Reading settings from documents: `parse`, and marks for fields that aren't simply of one settings class.

Problems of a document come from pydantic, one for each field, and from the rules of its settings. `parse` adds to each
problem its place in the document and, for a misspelt key, the one that may be meant.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Any, Final, Literal, get_args, get_type_hints

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticKnownError, core_schema

from apf_middleware.config.problems import HIDDEN, Absent, Path, Problems, brief, dotted, is_secret
from apf_middleware.config.settings import (
    Settings,
    SettingsT,
    Violation,
    adapter_of,
    as_mapping,
    by_keys,
    declared_fields,
    key_of,
    line_of,
    make_unchecked,
    rules_error,
)
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "MOST_HINTS",
    "BuiltFrom",
    "TaggedUnion",
    "parse",
    "report",
    "without_nulls",
]


class BuiltFrom:
    """Marks a dataclass of a package that may not import pydantic with the settings that read and write it.

    The settings have the fields of the dataclass under the same names, where None means the default. Errors that the
    dataclass itself raises are reported at the field's place in the document. Objects of another form are made by
    ``read`` and taken apart by ``write``.
    """

    __slots__ = ("_defaults", "_read_settings", "_target", "_write_settings", "model")

    def __init__(
        self,
        model: type[Settings],
        target: type[Any] | None = None,
        *,
        read: Callable[[Any], object] | None = None,
        write: Callable[[Any], Settings] | None = None,
    ) -> None:
        self.model: type[Any] = model
        self._target: type[Any] = target or object
        self._defaults = {one.name: one.default for one in (fields(target) if target else ())}
        self._read_settings = self._make_target if read is None else read
        self._write_settings = self._take_apart if write is None else write

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        writing = core_schema.plain_serializer_function_ser_schema(self._write)
        schema = handler.generate_schema(self.model)
        if schema["type"] == "definition-ref":  # to that of an earlier field, which lacks the model's own function
            schema = core_schema.no_info_wrap_validator_function(self.model._read, schema)  # noqa: SLF001 - as that does
        return core_schema.no_info_wrap_validator_function(self._read, schema, serialization=writing)

    def _read(self, data: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
        settings = handler(data)
        try:
            return self._read_settings(settings)
        except InvalidValueError as error:
            violation = Violation((error.name,), error.value, error.rule, error.hint)
            raise rules_error((by_keys(self.model, violation, data),)) from None

    def _write(self, built: object) -> dict[str, Any]:
        return as_mapping(self._write_settings(built))

    def _make_target(self, settings: object) -> object:
        given = {name: getattr(settings, name) for name in declared_fields(self.model)}
        return self._target(**{name: value for name, value in given.items() if value is not None})

    def _take_apart(self, built: object) -> Settings:
        values = {name: getattr(built, name) for name in declared_fields(self.model)}
        usual = {name for name, value in values.items() if value == self._defaults[name]}
        model: type[Settings] = self.model
        return make_unchecked(model, {name: value for name, value in values.items() if name not in usual})


class TaggedUnion:
    """Marks a union of settings classes, which documents write as one object with a ``tag`` that names the class.

    The JSON Schema has one ``model`` for it, with the fields of all classes. If a class requires a field or doesn't
    have it, the error names the tag of that class.
    """

    __slots__ = ("_default", "_kinds", "_model", "_name", "_tag")

    def __init__(self, name: str, tag: str, *kinds: type[Settings], default: str | None = None) -> None:
        self._name = name
        self._tag = tag
        self._default = default
        self._kinds = kinds
        self._model: type[Settings] | None = None

    @property
    def model(self) -> type[Settings]:
        """The class with all fields."""
        if self._model is None:
            found: dict[str, Any] = {}
            for kind in self._kinds:
                hints = get_type_hints(kind, include_extras=True)
                for name, one in declared_fields(kind).items():
                    made = None if one.default is None else one.default()
                    # A type with an alias can't be part of a union, and the key is the name here.
                    hint = hints[name] if one.key == key_of(name) else one.annotation
                    found.setdefault(one.key, (hint if one.default else hint | None, made))
            found[self._tag] = Literal[tuple(self._by_tag())], self._default
            columns = [(key, kind, field(default=made)) for key, (kind, made) in found.items()]
            renamed = {"renamed": {old: new for kind in self._kinds for old, new in kind.renamed.items()}}
            self._model = make_dataclass(self._name, columns, bases=(Settings,), namespace=renamed, frozen=True)
        return self._model

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        writing = core_schema.plain_serializer_function_ser_schema(as_mapping)
        return core_schema.no_info_plain_validator_function(self._read, serialization=writing)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(adapter_of(self.model).core_schema)

    def _by_tag(self) -> dict[str, type[Settings]]:
        return {tag: kind for kind in self._kinds for tag in get_args(declared_fields(kind)[self._tag].annotation)}

    def _read(self, data: object) -> object:
        if not isinstance(data, Mapping):
            raise PydanticKnownError("dataclass_type", {"class_name": self._name})
        kinds, tag = self._by_tag(), data.get(self._tag, self._default)
        kind = kinds.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise ValidationError.from_exception_data(self._name, [self._unknown(tag, data, list(kinds))])
        own = {declared.key for declared in declared_fields(kind).values()}
        others = {declared.key for declared in declared_fields(self.model).values()} - own
        taken = ", ".join(sorted(own - {self._tag})) or "no other key"
        found = [
            Violation((key,), data[key], f"the {self._tag} {tag} doesn't take it", f"It takes {taken}")
            for key in sorted(others & data.keys())
        ]
        lines = []
        settings: object = None
        try:
            settings = adapter_of(kind).validate_python({key: data[key] for key in data.keys() - others})
        except ValidationError as error:
            for details in error.errors(include_url=False):
                if details["type"] == "missing" and len(details["loc"]) == 1:
                    found.append(Violation(details["loc"], Absent.ABSENT, f"the {self._tag} {tag} requires it"))
                else:
                    lines.append(line_of(details))
        if found:
            lines.append(InitErrorDetails(type=rules_error(tuple(found)), loc=(), input=data))
        if lines:
            raise ValidationError.from_exception_data(self._name, lines)
        return settings

    def _unknown(self, tag: object, data: object, known: list[str]) -> InitErrorDetails:
        if tag is None:
            return InitErrorDetails(type="missing", loc=(self._tag,), input=data)
        *most, last = map(repr, known)
        expected = f"{', '.join(most)} or {last}"
        return InitErrorDetails(type="literal_error", loc=(self._tag,), input=tag, ctx={"expected": expected})


MOST_HINTS: Final = 200
"""The number of problems after which no key is suggested for a misspelt one, because that takes time."""

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

_MAPPINGS: Final = frozenset(kind for kind, rule in _WANTED.items() if rule == "it must be a mapping")

_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("be more than", "gt"),
    "greater_than_equal": ("be at least", "ge"),
    "less_than": ("be less than", "lt"),
    "less_than_equal": ("be at most", "le"),
    "too_short": ("have at least", "min_length"),
}


def without_nulls(model: type[Settings], data: object) -> object:
    """Return the data of a model without known keys that have no value, because these mean the same as missing keys.

    Unknown keys are kept, and keys of maps such as ``requiredClaims``: these are errors, with or without a value.
    """
    return _without_nulls([model], data)


def _without_nulls(models: Sequence[type[Settings]], data: object) -> object:
    if isinstance(data, list):
        return [_without_nulls(models, one) for one in data]
    if not models or not isinstance(data, Mapping):
        return data
    declared = {one.key: one for model in models for one in declared_fields(model).values()}
    found = {}
    for key, value in data.items():
        field_ = declared.get(key)
        if field_ is None:
            found[key] = value
        elif value is not None or field_.takes_null:
            found[key] = _without_nulls(list(_models_in(field_.annotation)), value)
    return found


def parse(
    model: type[SettingsT], data: object, document: Document, problems: Problems, root: Path = ()
) -> SettingsT | None:
    """Return the settings in this part of a document, or None if problems were found in it."""
    try:
        found: SettingsT = adapter_of(model).validate_python(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            hinting = len(problems) < MOST_HINTS
            for one in _explained(model, details, data, hinting=hinting):
                report(document, problems, Violation((*root, *one.path), one.value, one.rule, one.hint))
        return None
    return found


def report(document: Document, problems: Problems, one: Violation, *, warning: bool = False) -> None:
    """Report a violation with its file, document and line, unless its field could not even be read."""
    if not document.root.is_read(one.path):
        return
    tell = problems.warn if warning else problems.error
    tell(document.place(one.path), one.rule, field=dotted((*document.base, *one.path)), value=one.value, hint=one.hint)


def _explained(model: type[Settings], details: ErrorDetails, data: object, *, hinting: bool) -> Iterator[Violation]:
    context: Mapping[str, Any] = details.get("ctx", {})
    path, kind = _real(details["loc"], data), details["type"]
    if kind == "rules":
        for one in context["found"]:
            yield Violation((*path, *one.path), one.value, one.rule, one.hint)
    elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
        value = HIDDEN if is_secret(path[-1]) else details["input"]
        yield Violation(path, value, "there is no such key here", _nearest(model, path, data) if hinting else "")
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        known = sorted(str(_tag_of(one)) for one in _models_at(model, path, data))
        yield _unknown_tag(context["discriminator"].strip("'"), path, details["input"], known)
    elif kind == "too_short" and len(details["input"]) >= context["min_length"]:
        return  # pydantic counts only the valid items; the others have errors of their own
    else:
        value = Absent.ABSENT if kind == "missing" else details["input"]
        rule, hint = _rule(kind, context, value, details["msg"], path)
        yield Violation(path, value, rule, hint or (_keys_at(model, path, data) if kind in _MAPPINGS else ""))


def _unknown_tag(key: str, path: Path, given: object, known: list[str]) -> Violation:
    """Return the violation of the key that names the kind of object."""
    value = given.get(key, Absent.ABSENT) if isinstance(given, Mapping) else Absent.ABSENT
    return Violation((*path, key), value, f"it must be one of {', '.join(known)}", _close(value, known))


def _rule(kind: str, context: Mapping[str, Any], value: object, message: str, path: Path) -> tuple[str, str]:
    if kind == "rule":
        return context["rule"], context["hint"]
    if kind == "literal_error":
        return f"it must be {context['expected']}", _close(
            value, context["expected"].replace("'", "").replace(",", "").split()
        )
    if kind in _BOUNDS:
        said, key = _BOUNDS[kind]
        return f"it must {said} {context[key]}", ""
    return _WANTED.get(kind, message), _remedy(kind, value, path)


def _remedy(kind: str, value: object, path: Path) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "Put it in quotes"
    if kind == "int_type" and isinstance(value, str):
        return "Write it in decimal digits, without " + ("%" if value.endswith("%") else "quotes")
    if kind == "bool_type" and isinstance(value, str):
        return "yes, no, on and off are text in YAML 1.2"
    if kind in ("list_type", "tuple_type"):
        return _as_list(value, path)
    return ""


def _as_list(value: object, path: Path) -> str:
    """Return how to write a list with this value, or with the parts of a text that has commas."""
    if isinstance(value, Mapping):
        return "Begin it with '- ', or put it in brackets"
    items = [part for part in map(str.strip, value.split(",")) if part] if isinstance(value, str) else [value]
    key = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
    return f"Write {key}{brief(items)}"


def _real(loc: tuple[str | int, ...], data: object) -> Path:
    """Return the steps of pydantic's location that are in the data; the other ones are branches of unions."""
    path: list[str | int] = []
    last = len(loc) - 1
    for place, step in enumerate(loc):
        if isinstance(step, int):
            within = isinstance(data, list) and step < len(data)
            data = data[step] if isinstance(data, list) and within else data
        else:
            within = isinstance(data, Mapping) and (step in data or place == last)  # the last may be a missing key
            data = data.get(step) if isinstance(data, Mapping) and within else data
        if within:
            path.append(step)
    return tuple(path)


def _nearest(model: type[Settings], path: Path, data: object) -> str:
    """Return a hint for an unknown key: where it belongs, the key that it may stand for, or all keys."""
    candidates = _models_at(model, path[:-1], data)
    if not candidates:
        return ""
    key, inner = str(path[-1]), candidates[0]
    if key in inner.renamed:
        return inner.renamed[key] if " " in inner.renamed[key] else f"Here it is called {inner.renamed[key]}"
    known = [declared.key for declared in declared_fields(inner).values()]
    return _owner(inner, key) or _close(key, known) or _keys_at(model, path[:-1], data)


def _owner(model: type[Settings], key: str) -> str:
    """Return a hint with the only part of ``model``, or else the only part of its parts, that has this key."""
    parts = dict.fromkeys(_parts_of(model))
    for level in (parts, {(f"{name}.{below}", part): None for name, one in parts for below, part in _parts_of(one)}):
        owners = {name for name, part in level if any(one.key == key for one in declared_fields(part).values())}
        if owners:
            return f"Write it under {owners.pop()}" if len(owners) == 1 else ""
    return ""


def _parts_of(model: type[Settings]) -> Iterator[tuple[str, type[Settings]]]:
    for declared in declared_fields(model).values():
        yield from ((declared.key, part) for part in _models_in(declared.annotation))


def _keys_at(model: type[Settings], path: Path, data: object) -> str:
    """Return a hint with all keys of the mapping at ``path``; none if there are several kinds of it."""
    candidates = _models_at(model, path, data)
    known = sorted(one.key for one in declared_fields(candidates[0]).values()) if len(candidates) == 1 else []
    return f"Known keys: {', '.join(known)}" if known else ""


def _models_at(model: type[Settings], path: Path, data: object) -> list[type[Settings]]:
    """Return the models of the value at ``path``; several for a union if the tag doesn't select one."""
    candidates: list[type[Settings]] = [model]
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


def _tag_of(model: type[Settings]) -> object:
    declared = declared_fields(model).get("type")
    return declared.default() if declared is not None and declared.default is not None else None


def _close(given: object, known: list[str]) -> str:
    """Return a hint with the most similar one of the ``known`` words, whatever the case."""
    lower = {one.lower(): one for one in reversed(known)}
    close = difflib.get_close_matches(str(given)[:60].lower(), lower, 1)
    return f"Did you mean {lower[close[0]]}?" if close else ""


def _models_of(model: type[Settings], key: str) -> list[type[Settings]]:
    """Return the models of a field, including those inside Optional, Annotated and lists."""
    found = next((declared for declared in declared_fields(model).values() if declared.key == key), None)
    return [] if found is None else list(_models_in(found.annotation))


def _models_in(annotation: Any) -> Iterator[type[Settings]]:  # noqa: ANN401 (a type hint may be anything)
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for one in getattr(annotation, "__metadata__", ()):
        if isinstance(one, BuiltFrom | TaggedUnion):
            yield one.model
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
