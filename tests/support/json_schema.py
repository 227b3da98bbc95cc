"""What a JSON Schema accepts, by the keywords that the package writes."""

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["resolved", "wrong"]

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
# fmt: off
KNOWN = {
    "$ref", "$schema", "$defs", "type", "properties", "required", "additionalProperties", "items", "minItems",
    "uniqueItems", "minimum", "exclusiveMinimum", "maximum", "minLength", "maxLength", "pattern", "enum", "const",
    "anyOf", "oneOf", "discriminator", "format", "default", "description", "title", "examples",
}
# fmt: on


def wrong(value: object, schema: dict[str, Any], whole: dict[str, Any], place: str = "$") -> Iterator[str]:
    """Yield where a value violates a schema; only the keywords that are used are supported, others are errors."""
    assert set(schema) <= KNOWN, f"the test doesn't know all of {schema}"
    if "$ref" in schema:
        schema = resolved(schema["$ref"], whole)
    choices = schema.get("anyOf", schema.get("oneOf"))
    if choices is not None:
        if all(list(wrong(value, one, whole, place)) for one in choices):
            yield f"{place} is {value!r}, none of {choices}"
        return
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", list(TYPES))
    if not any(is_of(value, kind) for kind in kinds):
        yield f"{place} is {value!r}, not {kinds}"
    elif isinstance(value, dict):
        yield from (f"{place} lacks {name}" for name in schema.get("required", ()) if name not in value)
        more = schema.get("additionalProperties", {})
        more = {} if more is True else more
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, more)
            yield from [f"{place} has {name}"] if inner is False else wrong(one, inner, whole, f"{place}.{name}")
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0) or (schema.get("uniqueItems") and has_twins(value)):
            yield f"{place} is {value!r}"
        for number, one in enumerate(value):
            yield from wrong(one, schema.get("items", {}), whole, f"{place}[{number}]")
    else:
        yield from wrong_scalar(value, schema, place)


def wrong_scalar(value: object, schema: dict[str, Any], place: str) -> Iterator[str]:
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{place} is {value!r}"
    elif isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{place} is {value!r}"
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{place} has {len(value)} characters"
    elif isinstance(value, int | float):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{place} is {value!r}, out of bounds"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            yield f"{place} is {value!r}, not more than the minimum"


def has_twins(values: list[object]) -> bool:
    return any(one in values[:number] for number, one in enumerate(values))


def is_of(value: object, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def resolved(reference: str, whole: dict[str, Any]) -> dict[str, Any]:
    found = whole
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found
