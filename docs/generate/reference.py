"""The configuration reference, from the JSON Schema of `apf/v1`: `python -m docs.generate.reference` writes it anew."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from apf_middleware.config.jsonschema import json_schema

__all__ = ["FILE", "main", "written"]

FILE: Final = Path(__file__).parents[1] / "reference.md"

_KINDS: Final = ("PriorityLevel", "FlowSchema", "Server")
_REF: Final = "#/$defs/"
_HEAD: Final = """\
<!-- Written by python -m docs.generate.reference; what fields mean stands in config/descriptions.yaml. -->

# All keys of `apf/v1`

Every document has `apiVersion: apf/v1`, a `kind`, `metadata` with a `name`, and a `spec`.
[Configuration](configuration.md) tells how they work together.

A *duration* is written `1m30s`, with the units h, m, s, ms, us and ns, and is at most a year; a *size* `64KiB`, with
B, KiB, MiB and GiB, at most `1024GiB`. A *name* is a DNS name: lower-case letters, digits, `-` and `.`. A *regex* is
Python's. Unknown keys are errors, and a key without a value counts as missing.
"""

Node = Mapping[str, Any]


class _Reference:
    """One walk through the schema: a section for each kind, and behind it one for each object in it."""

    def __init__(self, schema: Node) -> None:
        self.definitions: Node = schema["$defs"]
        self.titles: dict[str, str] = {}
        self.open: list[str] = []

    def text(self) -> Iterator[str]:
        yield _HEAD
        for kind in _KINDS:
            model = self.definitions[f"{kind}Model"]
            yield f"## {kind}\n\n{model['description']}\n"
            metadata, spec = (_definition(model["properties"][key]) for key in ("metadata", "spec"))
            yield from self.table(kind, metadata, "metadata.")
            yield from self.rows(kind, spec, "spec.")
            yield ""
            yield from self.sections(kind)

    def sections(self, kind: str) -> Iterator[str]:
        while self.open:
            definition = self.open.pop(0)
            yield f"### {self.titles[definition]}\n"
            yield f"{self.definitions[definition].get('description', '')}\n"
            waiting, self.open = self.open, []
            yield from self.table(kind, definition, "", self.titles[definition].partition(": ")[2])
            yield ""
            self.open += waiting  # what belongs to this one comes next

    def table(self, kind: str, definition: str, before: str, path: str = "") -> Iterator[str]:
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        yield from self.rows(kind, definition, before, path)

    def rows(self, kind: str, definition: str, before: str, path: str = "") -> Iterator[str]:
        model = self.definitions[definition]
        for key, field in model["properties"].items():
            here = ".".join(filter(None, (path, key)))
            type_ = self.type(kind, here, field)
            default = "*required*" if key in model.get("required", ()) else _default(field)
            yield f"| `{before}{key}` | {type_} | {default} | {field.get('description', '')} |"

    def type(self, kind: str, path: str, field: Node) -> str:
        choices = _choices(field)
        if choices:
            return " or ".join(self.type(kind, path, one) for one in choices)
        if "$ref" in field:
            return self.link(kind, path, _definition(field))
        if field.get("type") == "array":
            return f"list: {self.type(kind, path, field['items'])}"
        if field.get("type") == "object":
            values = field.get("additionalProperties")
            return f"map to {self.type(kind, path, values)}" if isinstance(values, Mapping) else "map"
        return _scalar(field)

    def link(self, kind: str, path: str, definition: str) -> str:
        if definition not in self.titles:
            chosen = self.definitions[definition]["properties"].get("type", {}).get("const")
            self.titles[definition] = f"{kind}: {path}" + (f" {chosen}" if chosen else "")
            self.open.append(definition)
        title = self.titles[definition]
        shown = title.rpartition(" ")[2].rpartition(".")[2]
        return f"[{shown}](#{_anchor(title)})"


def _choices(field: Node) -> list[Node]:
    """Return what a value may be, except for null, which every optional key takes; nothing if there is no choice."""
    return [one for one in field.get("anyOf", field.get("oneOf", ())) if one.get("type") != "null"]


def _definition(field: Node) -> str:
    [found] = _choices(field) or [field]
    reference: str = found["$ref"]
    return reference.removeprefix(_REF)


def _scalar(field: Node) -> str:
    if "const" in field or "enum" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    if "examples" in field:
        example = str(field["examples"][0])
        return "size" if "KiB" in example else "percentage, 0% to 90%" if "%" in example else "duration"
    for mark, name in (("pattern", "name"), ("format", "regex")):
        if mark in field:
            return name
    least, most = field.get("minimum"), field.get("maximum")
    if most is not None and most < 2**31 - 1:
        begin = f"more than {field['exclusiveMinimum']:g}," if least is None else f"{least:,}"
        return f"{field['type']}, {begin} to {int(most):,}"
    name = {"string": "text", "boolean": "true or false"}.get(field["type"], str(field["type"]))
    return f"{name}, {least} or more" if least else name


def _default(field: Node) -> str:
    default = field.get("default")
    if default in (None, "", []):
        return ""
    if isinstance(default, list):
        return ", ".join(f"`{one}`" for one in default)
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"


def _anchor(title: str) -> str:
    """As GitHub and MkDocs make it of a heading."""
    return "".join(one for one in title.lower().replace(" ", "-") if one.isalnum() or one in "-_")


def written() -> str:
    """Return the text of the page."""
    return "\n".join(_Reference(json_schema()).text()).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    FILE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    main()
