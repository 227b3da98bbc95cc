"""The JSON Schema of ``apf/v1``, for editors and for the reference of all keys.

It is generated from the models; rules between several fields are not part of it. The descriptions of the fields are in
a file of their own, so that a server doesn't load them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core import core_schema

from apf_middleware.config.formats.apf import FlowSchemaModel, PriorityLevelModel, ServerModel

__all__ = ["DESCRIPTIONS", "json_schema", "model_of"]

DESCRIPTIONS: Final = Path(__file__).with_name("descriptions.yaml")
"""The descriptions of the fields, by model and key."""

_NULL: Final = {"type": "null"}
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Write defaults as documents do, durations and sizes as text; empty ones are left out."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:  # noqa: ANN401 (of any field)
        default = super().get_default_value(schema)
        if default in ("", ()):
            return NoDefault
        writing = schema["schema"].get("serialization")
        if isinstance(default, int) and writing is not None and writing["type"] == "function-plain":
            return writing["function"](default)
        return default


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of one document of any kind."""
    kinds: TypeAdapter[Any] = TypeAdapter(
        Annotated[PriorityLevelModel | FlowSchemaModel | ServerModel, Field(discriminator="kind")]
    )
    schema = kinds.json_schema(by_alias=True, schema_generator=_Generator)
    for model in schema["$defs"].values():
        tag = model["properties"].get("type", {})
        if "const" in tag and tag.pop("default", None) is not None:  # documents have to name it
            model["required"] = ["type", *model.get("required", ())]
            model["properties"] = {"type": tag} | model["properties"]
        optional = model["properties"].keys() - set(model.get("required", ()))
        model["properties"] |= {key: _or_null(model["properties"][key]) for key in optional}
    _describe(schema["$defs"], yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8")))
    return {"$schema": _DRAFT, "title": "apf/v1"} | schema


def model_of(definition: str) -> str:
    """Return the name of a definition's model; if two models have the same name, pydantic adds the module to it."""
    return f"_{definition.rpartition('___')[2]}" if "___" in definition else definition


def _or_null(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field: null means that the key is missing, as in Kubernetes' manifests."""
    about = {key: field[key] for key in ("title", "description", "default") if key in field}
    value = {key: field[key] for key in field.keys() - about.keys()}
    choices = value["anyOf"] if value.keys() == {"anyOf"} else [value]
    return {"anyOf": [*(one for one in choices if one != _NULL), _NULL], **about}


def _describe(definitions: Mapping[str, dict[str, Any]], descriptions: Mapping[str, Mapping[str, str]]) -> None:
    for definition, model in definitions.items():
        for key, text in descriptions.get(model_of(definition), {}).items():
            (model["properties"][key] if key else model)["description"] = text
