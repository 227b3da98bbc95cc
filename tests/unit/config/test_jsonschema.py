"""The JSON Schema, for editors."""

from collections.abc import Iterator

import yaml

from apf_middleware.config.jsonschema import DESCRIPTIONS, json_schema, model_of


def test_kinds_are_distinguished_and_unknown_keys_refused() -> None:
    schema = json_schema()

    assert sorted(schema["discriminator"]["mapping"]) == ["FlowSchema", "PriorityLevel", "Server"]
    assert all(
        model["additionalProperties"] is False for model in schema["$defs"].values() if model.get("type") == "object"
    )


def test_every_field_has_a_description() -> None:
    """In its model, or in the file of descriptions; nothing there is about a field that doesn't exist."""
    models = {model_of(name): model for name, model in json_schema()["$defs"].items()}
    described = yaml.safe_load(DESCRIPTIONS.read_text())

    fields = [(name, key, field) for name, model in models.items() for key, field in model["properties"].items()]
    assert [(name, key) for name, key, field in fields if not field.get("description")] == []
    assert [name for name in described if name not in models] == []


def test_two_models_of_one_name_are_described_as_one() -> None:
    assert model_of("apf_middleware__config__formats__server___Metadata") == "_Metadata"
    assert model_of("_Route") == "_Route"


def test_every_number_has_the_least_value_that_a_document_may_give() -> None:
    assert list(_boundless(json_schema()["$defs"], "")) == []


def _boundless(node: object, path: str) -> Iterator[str]:
    if isinstance(node, dict):
        is_number = node.get("type") in ("integer", "number") and not node.keys() & {"enum", "const"}
        if is_number and not node.keys() & {"minimum", "exclusiveMinimum"}:
            yield path
        for key, value in node.items():
            yield from _boundless(value, f"{path}/{key}")
    if isinstance(node, list):
        for value in node:
            yield from _boundless(value, path)
