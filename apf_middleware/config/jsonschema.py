"""The JSON Schema of ``apf/v1``, for editors: ``python -m apf_middleware.config.jsonschema`` writes it anew.

It is generated from the models, so it can't fall behind them; rules between fields stay with the models alone. What
fields mean stands in a file beside it, so that starting a server doesn't pay for prose.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core import core_schema

from apf_middleware.config.formats.apf import FlowSchemaModel, PriorityLevelModel, ServerModel

__all__ = ["DESCRIPTIONS", "FILE", "json_schema", "main", "model_of", "written"]

FILE: Final = Path(__file__).parent / "schema" / "apf-v1.json"
"""The shipped schema."""

DESCRIPTIONS: Final = FILE.with_name("descriptions.yaml")
"""What fields mean, by model and key."""

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Write defaults as documents do, durations and sizes as text; those that say nothing are left out."""

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
    _describe(schema["$defs"], yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8")))
    return {"$schema": _DRAFT, "title": "apf/v1"} | schema


def model_of(definition: str) -> str:
    """Return the name of the model; pydantic puts the module before it when two models have the same one."""
    return f"_{definition.rpartition('___')[2]}" if "___" in definition else definition


def _describe(definitions: Mapping[str, dict[str, Any]], descriptions: Mapping[str, Mapping[str, str]]) -> None:
    for definition, model in definitions.items():
        for key, text in descriptions.get(model_of(definition), {}).items():
            (model["properties"][key] if key else model)["description"] = text


def written() -> str:
    """Return the file's text."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    main()
